//! `demo-mcp`: the MCP Server of the demo. Only the demo's own gateway starts it.

use std::io;

use crate::{demo::ledger, failure::Failure};

pub(crate) fn run() -> Result<(), Failure> {
    Ok(ledger::serve(io::stdin().lock(), io::stdout().lock())?)
}
