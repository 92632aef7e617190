//! The whole system, as the people who use it meet it: processes, sockets, the command line.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod architecture;
mod guarded;
mod process;
mod real_mcp;
mod scenarios;
mod village;
