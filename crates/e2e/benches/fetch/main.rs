//! What a guarded fetch costs.
//!
//! Three questions, each beside a peer in the same run and in turns: a GET through the connector against a plain `reqwest` client
//! without pooling; the judgement of one address; and a page through the fetch-proxy as people run it against `mcp-server-fetch`.
//! Absolute times on a shared machine are noise; the ratios are not.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a benchmark prints, and ends at the first thing that goes wrong"
)]

mod client;
mod judging;
mod memory;
mod pages;
mod process;
mod server;

use std::time::Duration;

use client::{Client, Protocol};
use server::Server;

/// What one comparison measures with: requests, and how many of them at the same time.
const LOADS: [(usize, usize); 2] = [(300, 1), (1_500, 32)];

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match arguments.first().map(String::as_str) {
        Some("server") => runtime.block_on(server::run()),
        Some("client") => runtime.block_on(client::run(&arguments[1..])),
        Some("memory") => runtime.block_on(memory::run(&arguments[1..])),
        _ => {
            let is_quick = arguments.iter().any(|word| word == "--quick");
            runtime.block_on(bench(if is_quick { 1 } else { 5 }));
        }
    }
}

async fn bench(rounds: usize) {
    let server = Server::start();
    judging::bench();
    println!(
        "\nguarded GET of 2 kB over HTTPS, beside reqwest without pooling: same server, roots, resolver and DNS\n{rounds} rounds in turns; medians"
    );
    for protocol in [Protocol::Http1, Protocol::Http2] {
        for (requests, at_once) in LOADS {
            transport(&server, protocol, rounds, requests, at_once);
        }
    }
    memory::bench(&server);
    pages::bench(&server, rounds).await;
}

/// One side of a comparison.
#[derive(Default)]
struct Side {
    millis: Vec<f64>,
    cpu_millis: Vec<f64>,
    per_second: Vec<f64>,
    memory: Vec<f64>,
}

impl Side {
    fn record(&mut self, requests: usize, measured: &client::Measured) {
        let wall = measured.wall.as_secs_f64();
        self.millis.push(wall * 1_000.0 / count(requests));
        self.cpu_millis
            .push(measured.cpu.as_secs_f64() * 1_000.0 / count(requests));
        self.per_second.push(count(requests) / wall);
        self.memory.push(count(measured.memory) / 1_000.0);
    }
}

fn transport(server: &Server, protocol: Protocol, rounds: usize, requests: usize, at_once: usize) {
    let clients = [
        Client::Guarded,
        Client::Plain,
        Client::PlainWithoutResumption,
    ];
    let mut sides = clients.map(|_client| Side::default());
    for round in 0..rounds {
        for turn in 0..clients.len() {
            // Whoever is first meets a machine that has cooled down; it is another each time.
            let place = (turn + round) % clients.len();
            let measured = client::measure(server, clients[place], protocol, requests, at_once);
            sides[place].record(requests, &measured);
        }
    }
    let [guarded, plain, full] = &mut sides;
    println!("\n{protocol}, {at_once} at a time");
    println!(
        "  {:<22}{:>12}{:>12}{:>9}{:>20}{:>9}",
        "", "guarded", "reqwest", "ratio", "without resumption", "ratio"
    );
    row(
        "requests per second",
        [
            &mut guarded.per_second,
            &mut plain.per_second,
            &mut full.per_second,
        ]
        .map(|side| median(side)),
    );
    row(
        "ms per request",
        [&mut guarded.millis, &mut plain.millis, &mut full.millis]
            .map(|side| median(side) * count(at_once)),
    );
    row(
        "CPU-ms per request",
        [
            &mut guarded.cpu_millis,
            &mut plain.cpu_millis,
            &mut full.cpu_millis,
        ]
        .map(|side| median(side)),
    );
    row(
        "peak memory growth, kB",
        [&mut guarded.memory, &mut plain.memory, &mut full.memory].map(|side| median(side)),
    );
}

fn row(what: &str, [guarded, plain, full]: [f64; 3]) {
    println!(
        "  {what:<22}{guarded:>12.2}{plain:>12.2}{:>8.2}x{full:>20.2}{:>8.2}x",
        guarded / plain,
        guarded / full
    );
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a benchmark are small"
)]
fn count(number: usize) -> f64 {
    number as f64
}
