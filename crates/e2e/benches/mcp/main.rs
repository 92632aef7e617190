//! What a Tool call costs through the MCP gateway.
//!
//! One upstream, lean and in a process of its own, is called in the same run and in turns: directly by an `rmcp` client, through the
//! gateway as turns do it (gRPC, a tool-registry beside it), and through two proxies that others run. Then what a call does not show:
//! the first contact, lists, a session that expired, twenty servers of which some fail, and memory.
//! Absolute times on a shared machine are noise; what is measured beside them in the same run is not.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a benchmark prints, and ends at the first thing that goes wrong"
)]

mod calls;
mod client;
mod crowd;
mod house;
mod peers;
mod process;
mod single;
mod upstream;
mod village;

use std::time::Duration;

use house::House;
use upstream::Upstream;

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    drop(rustls::crypto::ring::default_provider().install_default());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match arguments.first().map(String::as_str) {
        Some("upstream") => runtime.block_on(upstream::run()),
        Some("client") => runtime.block_on(client::run()),
        _ => {
            let is_quick = arguments.iter().any(|word| word == "--quick");
            runtime.block_on(bench(if is_quick { 1 } else { 5 }));
        }
    }
}

async fn bench(rounds: usize) {
    let upstream = Upstream::start();
    let house = House::start(&upstream).await;
    calls::bench(&upstream, &house, rounds).await;
    single::bench(&upstream, &house).await;
    crowd::bench(&upstream, &house).await;
    drop(house);
    village::bench(&upstream).await;
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

fn megabytes(bytes: usize) -> f64 {
    count(bytes) / 1_000_000.0
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a benchmark are small"
)]
fn count(number: usize) -> f64 {
    number as f64
}
