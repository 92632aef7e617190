//! Clients of MCP Servers: connections, their pool, lists of Tools, and calls.

mod config;
mod content;
mod endpoint;
mod error;
mod failure;
mod listing;
mod names;
pub mod transport;

pub use config::Config;
pub use content::{CallEnd, Given, Media, MediaKind, Piece};
pub use endpoint::{Endpoint, RemoteEndpoint, SealedMap, StdioEndpoint};
pub use error::Error;
pub use failure::{Failure, FailureCode, Reached};
pub use listing::{Listing, Tool, Withheld};
