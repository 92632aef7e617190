//! `agentsville`: a Village in one process, and the command line that people use.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The children that this program is started as: what reads hostile pages, and what keeps a command's processes together.
    if let Some(code) = reader::child_main().or_else(reaper::child_main) {
        return code;
    }
    agentsville::run(std::env::args_os(), std::env::vars_os())
}
