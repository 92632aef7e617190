//! What a turn costs: eleven steps with one trivial Tool each, and the answer.
//!
//! The Village runs as people run it, a process of its own with Parts written to SQLite, and is asked over HTTP. The Provider is another
//! process. Beside it, in the same run and in turns, a bare client makes the same twelve Provider requests and keeps nothing: the floor.
//! Absolute times on a shared machine are noise; the ratio to the floor is not.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a benchmark prints, and ends at the first thing that goes wrong"
)]

mod client;
mod floor;
mod process;

use std::time::Duration;

use client::Player;
use process::{Provider, Village};

/// Eleven steps of one call, then an answer of twenty words.
const MODEL: &str = "scripted-11x1";
/// The same with ten milliseconds before every chunk: about what a real model's pace is to a server.
const PACED_MODEL: &str = "scripted-11x1-delay10";
/// Turns in flight when memory is measured.
const CROWD: usize = 200;

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if arguments.first().is_some_and(|word| word == "floor") {
        runtime.block_on(floor::run(&arguments[1..]));
        return;
    }
    let rounds = if arguments.iter().any(|word| word == "--quick") {
        1
    } else {
        5
    };
    runtime.block_on(bench(rounds));
}

async fn bench(rounds: usize) {
    let provider = Provider::start();
    one_and_many(&provider, rounds).await;
    memory(&provider).await;
}

/// One side of a comparison.
#[derive(Default)]
struct Side {
    millis: Vec<f64>,
    cpu_millis: Vec<f64>,
    per_second: Vec<f64>,
}

impl Side {
    fn record(&mut self, turns: usize, wall: Duration, cpu: Duration) {
        let turns = count(turns);
        self.millis.push(wall.as_secs_f64() * 1_000.0 / turns);
        self.cpu_millis.push(cpu.as_secs_f64() * 1_000.0 / turns);
        self.per_second.push(turns / wall.as_secs_f64());
    }
}

async fn one_and_many(provider: &Provider, rounds: usize) {
    let village = Village::start(provider);
    let player = Player::of(&village, MODEL).await;
    player.turns(20, 1).await;
    floor::measure(provider, MODEL, 20, 1);
    println!("{rounds} rounds, the Village and the floor in turns; medians");
    for (turns, at_once) in [(60, 1), (320, 32)] {
        let (mut ours, mut floor) = (Side::default(), Side::default());
        for _ in 0..rounds {
            let before = village.cpu();
            let wall = player.turns(turns, at_once).await;
            ours.record(turns, wall, village.cpu().saturating_sub(before));
            let (wall, cpu) = floor::measure(provider, MODEL, turns, at_once);
            floor.record(turns, wall, cpu);
        }
        println!("\n{at_once} at a time");
        println!(
            "  {:<22}{:>12}{:>12}{:>12}",
            "", "village", "floor", "ratio"
        );
        row(
            "ms per turn",
            median(&mut ours.millis) * count(at_once),
            median(&mut floor.millis) * count(at_once),
        );
        row(
            "CPU-ms per turn",
            median(&mut ours.cpu_millis),
            median(&mut floor.cpu_millis),
        );
        row(
            "turns per second",
            median(&mut ours.per_second),
            median(&mut floor.per_second),
        );
    }
}

async fn memory(provider: &Provider) {
    let village = Village::start(provider);
    let player = Player::of(&village, PACED_MODEL).await;
    player.turns(1, 1).await;
    let one = village.peak_memory();
    player.turns(CROWD, CROWD).await;
    let crowd = village.peak_memory();
    println!("\nmemory, {CROWD} paced turns at once");
    println!(
        "  peak at 1: {} kB, at {CROWD}: {} kB",
        one / 1_000,
        crowd / 1_000
    );
    println!(
        "  per turn in flight: {:.0} kB",
        count(crowd.saturating_sub(one)) / count(CROWD - 1) / 1_000.0
    );
}

fn row(what: &str, ours: f64, floor: f64) {
    println!(
        "  {what:<22}{ours:>12.2}{floor:>12.2}{:>11.2}x",
        ours / floor
    );
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a benchmark are small"
)]
fn count(number: usize) -> f64 {
    number as f64
}
