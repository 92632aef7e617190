//! MCP Servers: registered, tested, granted, called.

mod real;
mod replicas;
mod scale;
