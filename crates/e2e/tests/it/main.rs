//! The whole system, as the people who use it meet it: processes, sockets, the command line.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod architecture;
