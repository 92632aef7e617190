//! The store on both databases.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod columns;
mod directory;
mod grouping;
mod migration;
mod table;
mod write;
