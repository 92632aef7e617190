//! The turn through its contract: the gRPC service in process, on both databases, with a Provider behind a socket.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod abort;
mod abuse;
mod alone;
mod calls;
mod conversations;
mod death;
mod gateway;
mod limits;
mod mcp;
mod media;
mod providers;
mod redis;
mod replay;
mod starting;
mod tools;
mod turns;
mod village;
mod watching;
