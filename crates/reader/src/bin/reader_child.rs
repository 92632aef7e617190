//! A program that is nothing but the reader's child: for this crate's own tests and measurements.

use std::process::ExitCode;

fn main() -> ExitCode {
    reader::child_main().unwrap_or(ExitCode::FAILURE)
}
