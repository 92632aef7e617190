//! The gateway through its contract, with a real registry and scripted MCP Servers on loopback; in this process, and as a binary.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of a test fails the test"
)]

mod conformance;
mod faults;
mod service;
