//! A scripted MCP Server over stdio, in a process of its own.
//!
//! ```text
//! scripted-mcp [legacy|modern|both] [FAULT]…      such as breaks-off=tools/call; see `testkit::mcp::stdio::script`
//! ```

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    testkit::mcp::stdio::run(std::env::args().skip(1))
}
