//! The edge over real sockets: its defences, its streams, and what the real `ai` package makes of them.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helpers fail like the test does"
)]

mod client;
mod real;
mod scripted;
mod village;

mod ai;
mod alone;
mod defences;
mod logins;
mod mcp;
mod resources;
mod streams;
