//! Both ends of a stdio connection, for tests, which cargo builds it with: the supervisor of a command, and a scripted MCP Server.
//!
//! ```text
//! stdio_peer [legacy|modern|both] [FAULT]…      such as breaks-off=tools/call; see `testkit::mcp::stdio::script`
//! ```

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

fn main() -> ExitCode {
    if let Some(code) = reaper::child_main() {
        return code;
    }
    match testkit::mcp::stdio::run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Its test reads it; when nobody does, nothing is lost.
            writeln!(io::stderr(), "{error}").unwrap_or_default();
            ExitCode::FAILURE
        }
    }
}
