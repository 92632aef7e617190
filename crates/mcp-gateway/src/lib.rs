//! Clients of MCP Servers: connections, their pool, lists of Tools, and calls.

mod config;
mod endpoint;
mod error;
mod failure;
pub mod transport;

pub use config::Config;
pub use endpoint::{Endpoint, RemoteEndpoint, SealedMap, StdioEndpoint};
pub use error::Error;
pub use failure::{Failure, FailureCode, Reached};
