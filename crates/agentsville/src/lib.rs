//! All services in one process, and the command line.
//!
//! **Architecture invariants:** commands that speak to a Village do so over HTTP alone, as anybody else would; what a service does is
//! the service's, and nothing of it is written here.

pub mod cli;
pub mod client;
pub mod failure;
pub mod render;
