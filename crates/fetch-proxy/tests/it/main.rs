//! The service through its contract, against scripted DNS and web servers on loopback; and its binary.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a helper of a test fails the test, and bombs say what they cost"
)]

mod bombs;
mod chain;
mod content;
mod egress;
mod pieces;
mod process;
mod robots;
mod settings;
mod shape;
mod support;
