//! The event log and the signals: one contract for both implementations, and what each has besides.

#![expect(
    clippy::expect_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod contract;
mod in_process;
mod redis;
mod village;
