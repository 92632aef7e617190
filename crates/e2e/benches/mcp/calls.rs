//! The same call on every way, one at a time and many.

use std::time::Duration;

use crate::{
    client::{Measured, Way, measure},
    count,
    house::House,
    median, megabytes,
    peers::{FastMcp, mcp_proxy},
    upstream::{Era, Upstream},
};

/// Calls at the same time.
const AT_ONCE: [usize; 3] = [1, 16, 64];
/// Milliseconds that a Tool takes which does something.
const WORK: u64 = 5;
/// How long one load lasts.
const TIME: Duration = Duration::from_secs(2);

/// One way, and what it came to.
struct Side {
    name: &'static str,
    way: Way,
    proxy: Proxy,
    rows: Vec<Row>,
}

/// Who stands between client and upstream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proxy {
    Nobody,
    Gateway,
    FastMcp,
    /// One that the client starts.
    Clients,
}

#[derive(Clone, Copy)]
struct Row {
    p50: f64,
    p99: f64,
    per_second: f64,
    /// Processor time of who stands between, in milliseconds a call.
    cpu: f64,
    /// Its memory; where there is nobody, the client's.
    resident: f64,
}

pub(crate) async fn bench(upstream: &Upstream, house: &House, rounds: usize) {
    let fast_mcp = FastMcp::start(upstream).await;
    let targets = [
        (Era::Modern, upstream.url(Era::Modern, 1)),
        (Era::Legacy, upstream.url(Era::Legacy, 1)),
        (Era::Modern, upstream.busy_url(Era::Modern, WORK)),
    ];
    let mut ways = Vec::new();
    for (era, url) in targets {
        let gateway = Way::Gateway(house.register(&url).await);
        ways.extend([Way::Http { url, era }, gateway]);
    }
    let mut ways = ways.into_iter();
    let mut next = || ways.next().unwrap();
    let side = |name, way, proxy| Side {
        name,
        way,
        proxy,
        rows: Vec::new(),
    };
    let mut sides = [
        side("direct, modern", next(), Proxy::Nobody),
        side("gateway, modern", next(), Proxy::Gateway),
        side("direct, legacy", next(), Proxy::Nobody),
        side("gateway, legacy", next(), Proxy::Gateway),
        side("direct, 5 ms of work", next(), Proxy::Nobody),
        side("gateway, 5 ms of work", next(), Proxy::Gateway),
        side("FastMCP create_proxy", fast_mcp.way(), Proxy::FastMcp),
        side("mcp-proxy", mcp_proxy(upstream), Proxy::Clients),
    ];
    let before = upstream.resident();
    println!(
        "a call of echo and its result, {} s of it a round, {rounds} rounds in turns; medians",
        TIME.as_secs()
    );
    for at_once in AT_ONCE {
        for round in 0..rounds {
            for turn in 0..sides.len() {
                // Whoever is first meets a machine that has cooled down; it is another each time.
                let side = (turn + round) % sides.len();
                let side = &mut sides[side];
                let row = load(side, at_once, house, &fast_mcp);
                side.rows.push(row);
            }
        }
        report(&mut sides, at_once);
    }
    let usage = house.usage();
    println!(
        "\nmemory of the gateway after all calls: {:.1} MB, at most {:.1} MB (aim: at most 43); the upstream grew by {:.1} MB",
        megabytes(usage.resident),
        megabytes(usage.peak),
        megabytes(upstream.resident().saturating_sub(before))
    );
}

fn load(side: &Side, at_once: usize, house: &House, fast_mcp: &FastMcp) -> Row {
    let usage = || match side.proxy {
        Proxy::Gateway => Some(house.usage()),
        Proxy::FastMcp => Some(fast_mcp.usage()),
        Proxy::Nobody | Proxy::Clients => None,
    };
    let before = usage();
    let measured = measure(&side.way, at_once, TIME);
    let (resident, cpu) = match (before, usage()) {
        (Some(before), Some(after)) => (after.resident, after.cpu.saturating_sub(before.cpu)),
        _ => measured
            .proxy
            .unwrap_or((measured.resident, Duration::ZERO)),
    };
    let Measured {
        p50,
        p99,
        per_second,
        calls,
        ..
    } = measured;
    Row {
        p50,
        p99,
        per_second,
        cpu: cpu.as_secs_f64() * 1_000.0 / count(calls),
        resident: megabytes(resident),
    }
}

fn report(sides: &mut [Side], at_once: usize) {
    println!("\n{at_once} at a time");
    println!(
        "  {:<22}{:>10}{:>10}{:>12}{:>14}{:>10}",
        "", "p50 ms", "p99 ms", "calls/s", "CPU-ms/call", "MB"
    );
    let rows: Vec<Row> = sides.iter_mut().map(medians).collect();
    for (side, row) in sides.iter().zip(&rows) {
        println!(
            "  {:<22}{:>10.3}{:>10.3}{:>12.0}{:>14.3}{:>10.1}",
            side.name, row.p50, row.p99, row.per_second, row.cpu, row.resident
        );
    }
    let pairs = ["modern", "legacy", "5 ms of work"];
    for (name, pair) in pairs.into_iter().zip(rows.chunks_exact(2)) {
        let [direct, gateway] = pair else {
            continue;
        };
        println!(
            "  {name}: the gateway adds {:.3} ms at p50 (aim with one at a time: at most 0.15) and {:.3} ms at p99, which is {:.2}x \
             (aim at 64: at most 2); {:.2}x the calls a second (aim at 16: at least 0.8)",
            gateway.p50 - direct.p50,
            gateway.p99 - direct.p99,
            gateway.p99 / direct.p99,
            gateway.per_second / direct.per_second
        );
    }
}

fn medians(side: &mut Side) -> Row {
    let rows = std::mem::take(&mut side.rows);
    let of = |pick: fn(&Row) -> f64| median(&mut rows.iter().map(pick).collect::<Vec<_>>());
    Row {
        p50: of(|row| row.p50),
        p99: of(|row| row.p99),
        per_second: of(|row| row.per_second),
        cpu: of(|row| row.cpu),
        resident: of(|row| row.resident),
    }
}
