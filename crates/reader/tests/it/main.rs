//! Bodies read through children, as a service reads them.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a helper of a test fails the test, and says what a bomb cost"
)]

mod bounds;
mod hostile;
mod pages;
mod properties;
mod support;
