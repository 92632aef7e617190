//! MCP Servers: registered, tested, granted, called.

mod real;
mod rebinding;
mod replicas;
mod scale;
