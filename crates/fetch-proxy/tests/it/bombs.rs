//! Answers that are meant to hurt, against the binary: each ends in a page or a reason, and the memory of it is printed.

use std::{fs, io::Write as _, sync::Arc, time::Duration};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::future::join_all;
use kernel::SystemClock;
use proto::fetch::v1::{RefusalReason, fetch_response::Outcome};
use testkit::{
    dns::{Answer, Family},
    origin::{Act, Authority, RawOrigin, Reply},
};

use crate::{
    shape::Shape,
    support::{Setup, npc, of},
};

/// What a fetch may cost at the most.
const GROWTH_KIB: u64 = 64 * 1_024;
/// What sixteen at the same time may cost: large bodies wait for each other's memory.
const MANY_GROWTH_KIB: u64 = 2 * GROWTH_KIB;
/// 512 MiB of zeros: what `brotli -w 22` makes of them.
const BROTLI: &[u8] = include_bytes!("bomb-512-mib.br");

fn gzip() -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let zeros = vec![b' '; 1_024 * 1_024];
    for _ in 0..512 {
        encoder.write_all(&zeros).expect("memory");
    }
    encoder.finish().expect("memory").into()
}

/// The most that a process has had in memory, in KiB.
fn peak(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1))
        .and_then(|number| number.parse().ok())
        .expect("a number")
}

fn describe(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Page(page) => format!(
            "a page: {} of {} characters, {} bytes sent, {} decoded; {:?}",
            page.text.chars().count(),
            page.total_characters,
            page.wire_bytes,
            page.body_bytes,
            page.left_out
        ),
        Outcome::Refusal(refusal) => format!("{:?}: {}", refusal.reason(), refusal.sentence),
    }
}

/// Fetches each by itself, and then many of each at the same time.
async fn detonate(setup: &Setup, urls: &[(&str, String)]) {
    let process = setup.running.process.as_ref().expect("a process").id();
    setup.site.serve("/warm", Reply::text("warm"));
    setup.page(&setup.url("/warm")).await;
    let before = peak(process);
    for (name, url) in urls {
        let outcome = setup.ask(&npc(), of(url)).await.expect("an answer");
        let grown = peak(process) - before;
        println!(
            "{name}: peak {grown} KiB above {before} KiB; {}",
            describe(&outcome)
        );
        assert!(grown < GROWTH_KIB, "{name}: {grown} KiB");
    }
    for (name, url) in urls {
        let callers: Vec<_> = (0..16).map(|_| npc()).collect();
        let outcomes = join_all(callers.iter().map(|npc| setup.ask(npc, of(url)))).await;
        for outcome in &outcomes {
            if let Err(status) = outcome {
                assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status:?}");
            }
        }
        let pages = outcomes
            .iter()
            .filter(|o| matches!(o, Ok(Outcome::Page(_))))
            .count();
        let grown = peak(process) - before;
        println!("16 at once, {name}: peak {grown} KiB above {before} KiB; {pages} pages");
        assert!(grown < MANY_GROWTH_KIB, "{name}: {grown} KiB");
    }
    assert_eq!(setup.page(&setup.url("/warm")).await.text, "warm");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bombs_of_compression_and_size_end_within_their_bounds() {
    let setup = Setup::with(Shape::AsBinary, &[("at_once_per_host", "64")]).await;
    let html =
        |body: Bytes, coding: &str| Reply::ok("text/html", body).header("content-encoding", coding);
    setup.site.serve("/gzip", html(gzip(), "gzip"));
    setup
        .site
        .serve("/brotli", html(Bytes::from_static(BROTLI), "br"));
    let twenty = format!(
        "<html><body>{}",
        "<p>a paragraph of words that goes on</p>\n".repeat(500_000)
    );
    setup.site.serve("/large", Reply::ok("text/html", twenty));
    let nested = format!("<html><body>{}deep", "<div>".repeat(100_000));
    setup.site.serve("/nested", Reply::ok("text/html", nested));
    let urls = ["/gzip", "/brotli", "/large", "/nested"].map(|path| (path, setup.url(path)));
    detonate(&setup, &urls).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bombs_of_time_end_within_the_deadline() {
    let authority = Authority::new();
    // A script is played again for every further connection.
    let serve = |act: fn() -> Vec<Act>| vec![act()];
    let tls = async |scripts: Vec<Vec<Act>>| {
        RawOrigin::tls(&authority, &["site.test"], "http/1.1", scripts).await
    };
    let flood = tls(serve(|| {
        vec![
            Act::hear("\r\n\r\n"),
            Act::say("HTTP/1.1 200 OK\r\n"),
            Act::babble("x-a: b\r\n"),
        ]
    }))
    .await;
    let endless = tls(serve(|| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n";
        vec![
            Act::hear("\r\n\r\n"),
            Act::say(head),
            Act::babble("<p>more and more of it</p>\n"),
        ]
    }))
    .await;
    let silent_tls = RawOrigin::plain(serve(|| vec![Act::Pause(Duration::from_hours(1))])).await;
    let ports = [flood.port(), endless.port(), silent_tls.port()];
    let setup = Setup::of(
        Shape::AsBinary,
        &[("deadline_seconds", "3"), ("at_once_per_host", "64")],
        &ports,
        authority,
        Arc::new(SystemClock),
    )
    .await;
    let at = |port: u16| format!("https://site.test:{port}/");
    let mut drip = Reply::ok("text/html", "<p>");
    for _ in 0..60 {
        drip = drip.pause(Duration::from_secs(1)).piece("x");
    }
    setup.site.serve("/drip", drip);
    setup.site.serve("/circle", Reply::redirect(302, "/circle"));
    setup.site.serve(
        "/silent",
        Reply::text("late").after(Duration::from_hours(1)),
    );
    setup.dns.script("slow.test", Family::V4, [Answer::Silence]);
    let urls = [
        ("a byte a second", setup.url("/drip")),
        ("an endless redirect", setup.url("/circle")),
        ("no answer", setup.url("/silent")),
        ("slow DNS", "https://slow.test/".to_owned()),
        ("slow TLS", at(silent_tls.port())),
        ("headers without end", at(flood.port())),
        ("a body without end", at(endless.port())),
    ];
    detonate(&setup, &urls).await;
    let outcome = setup.fetch(of(&setup.url("/drip"))).await;
    assert!(
        matches!(&outcome, Outcome::Page(page) if page.body_short),
        "{outcome:?}"
    );
    let refusal = setup.refusal(&setup.url("/circle")).await;
    assert_eq!(refusal.reason(), RefusalReason::Redirect);
}
