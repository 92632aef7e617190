//! `agentsville`: a Village in one process, and the command line that people use.

use std::process::ExitCode;

fn main() -> ExitCode {
    agentsville::run(std::env::args_os(), std::env::vars_os())
}
