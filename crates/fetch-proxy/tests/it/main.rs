//! The service through its contract, against scripted DNS and web servers on loopback; and its binary.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of a test fails the test"
)]

mod chain;
mod content;
mod egress;
mod process;
mod settings;
mod shape;
mod support;
