//! The registry through its gRPC face, on both databases.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod audit;
mod authorization;
mod grant;
mod mcp_abuse;
mod mcp_authorization;
mod mcp_resolution;
mod mcp_server;
mod npc;
mod pin;
mod player;
mod process;
mod resolution;
mod start;
mod support;
