//! The host, the transport and the telemetry over real sockets, and the same without.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test fails the test"
)]

mod host;
mod layers;
mod process;
mod remote;
mod support;
mod telemetry;
mod tls;
