//! `agentsville`: a Village in one process, and the command line that people use.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = reader::child_main() {
        return code;
    }
    agentsville::run(std::env::args_os(), std::env::vars_os())
}
