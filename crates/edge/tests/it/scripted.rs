//! Scripted peers: a registry that knows tokens, an orchestrator whose turns a test writes, and MCP Servers as it writes them.

mod mcp;
mod registry;
mod turns;

pub(crate) use mcp::{Mcp, definition, tool};
pub(crate) use registry::{Registry, Somebody};
pub(crate) use turns::{Script, Turns, say};
