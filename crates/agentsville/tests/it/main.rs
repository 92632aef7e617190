//! The command line as people and scripts meet it: as a process.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helpers fail like the test does"
)]

mod alone;
mod demo;
mod guard;
mod mcp;
mod served;
mod split;
mod support;
mod wire;
