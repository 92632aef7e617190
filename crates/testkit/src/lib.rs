//! Scripted peers and per-test databases.

pub mod dns;
pub mod events;
pub mod mcp;
pub mod netns;
pub mod origin;
pub mod port;
pub mod provider;

pub mod clock;
#[cfg(feature = "database")]
pub mod database;
pub mod redis;
mod shared_server;
