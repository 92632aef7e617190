//! Commands under supervisors, as real processes.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test fails the test"
)]

mod ends;
mod starts;
mod support;
