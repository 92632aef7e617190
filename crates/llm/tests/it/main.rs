//! Providers over real sockets: recorded streams in, whole outcomes out.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    clippy::type_complexity,
    reason = "helpers of tests fail by panicking, and are not tests to clippy"
)]

mod anthropic;
mod bounds;
mod chat_completions;
mod failures;
mod requests;
mod retries;
mod support;
