//! Long trials of the guard.
//!
//! - `guard exhaustive [IPV6-ADDRESSES]`: all IPv4 addresses in three spellings, and 100,000,000 IPv6 addresses unless told
//!   otherwise, against an oracle that shares no code with the guard.
//! - `guard speed`: how long a judgement takes, which `exhaustive` says as well.
//! - `guard fuzz [SECONDS]`: URL texts against what must hold for all of them; 600 seconds unless told otherwise.
//!
//! The trials take a seed as a second number, print what they tried and found, and exit with 1 if anything was wrong.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::expect_used,
    clippy::panic,
    reason = "a program for developers, which prints what it found and stops when it cannot go on"
)]

mod addresses;
mod exhaustive;
mod fuzz;
mod oracle;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use self::{addresses::Random, oracle::Oracle};

/// IPv6 addresses that `exhaustive` tries.
const RANDOM_V6: u64 = 100_000_000;
/// Seconds that `fuzz` takes.
const FUZZ_SECONDS: u64 = 600;
/// Executions between two looks at the clock.
const BATCH: u64 = 4_096;
/// A seed like any other.
const SEED: u64 = 20_251_009;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next();
    let numbers: Result<Vec<u64>, _> = arguments.map(|argument| argument.parse()).collect();
    let (Some(what), Ok(numbers)) = (what, numbers) else {
        return usage();
    };
    let amount = numbers.first().copied();
    let seed = numbers.get(1).copied().unwrap_or(SEED);
    let all_held = match what.as_str() {
        "exhaustive" => exhaustive::run(seed, amount.unwrap_or(RANDOM_V6)),
        "speed" => {
            exhaustive::speed(seed);
            true
        }
        "fuzz" => fuzz_for(seed, Duration::from_secs(amount.unwrap_or(FUZZ_SECONDS))),
        _ => return usage(),
    };
    if all_held {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Tries texts for this long and prints what came of it. True if everything held.
fn fuzz_for(seed: u64, time: Duration) -> bool {
    println!("fuzz guard: {} seconds, seed {seed}", time.as_secs());
    let oracle = Oracle::new();
    let mut random = Random::new(seed);
    let mut outcome = fuzz::Outcome::default();
    let started = Instant::now();
    while started.elapsed() < time {
        for _ in 0..BATCH {
            if let Err(broken) = fuzz::execute(&mut random, &oracle, &mut outcome) {
                println!("{broken:.4000}");
                println!("after {} executions of seed {seed}", outcome.executions);
                return false;
            }
        }
    }
    println!("{outcome}");
    true
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: guard exhaustive [IPV6-ADDRESSES [SEED]] | guard speed | guard fuzz [SECONDS [SEED]]"
    );
    ExitCode::from(2)
}
