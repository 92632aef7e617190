//! HTTP for web clients: REST under `/v1`, and turns as the UI message stream of the npm package `ai` over server-sent events.
//!
//! Who may do what is decided by the services behind it: the edge authenticates, bounds, translates, and passes the caller on.
//!
//! **Architecture invariants:** the edge keeps no state but caches and counters, so any number of them may run. It never logs
//! a token, a body or a query. A client that goes away stops nothing: only `POST /v1/turns/{id}/abort` does. Every handler
//! that is not public takes [`auth::Authenticated`].

mod auth;
mod body;
mod chat;
mod config;
mod error;
mod guard;
mod listener;
mod openapi;
mod peers;
mod problem;
mod rest;
mod routes;
pub mod ui;

pub use config::{Config, Timeouts};
pub use error::Error;
pub use openapi::openapi_json;
pub use routes::{Deps, Edge, build};
