//! All services in one process, and the command line.
//!
//! [`compose`] is the one place where a Village is put together; everything else here is what people use: [`run`] reads a command
//! line, does it, and says how it went.
//!
//! **Architecture invariants:** commands that speak to a Village do so over HTTP alone, as anybody else would; the environment and
//! the arguments come in through [`run`]; what a service does is the service's, and nothing of it is written here.

mod app;
pub mod cli;
pub mod client;
mod commands;
pub mod compose;
mod data_dir;
mod demo;
mod environment;
pub mod failure;
mod output;
pub mod render;

pub use app::run;
