//! The registry through its gRPC face, on both databases.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod audit;
mod authorization;
mod grant;
mod npc;
mod player;
mod process;
mod resolution;
mod start;
mod support;
