//! The turn: a Player's Message, the steps that answer it, the Tool calls in them, and what is kept of it all.
//!
//! A turn belongs to the process that started it, by a lease in the database, and to no connection: who watches may come and go.
//! Its loop (`turn`) streams a Provider into Parts (`parts`), judges and runs the calls in it (`step`, `tool`), and goes on until
//! there is an answer or a ceiling is met (`limits`). What an NPC may call is built from its Grants at the start of every turn (`toolset`).
//!
//! **Invariants.** Parts in the database are the truth, the log only delivers: a stored Part knows the last event that it contains. Every
//! Tool call is recorded before it runs, and gets exactly one result on every path. A turn ends in one transaction with all its Parts settled.
//! NPC, Player and Conversation come from the turn, never from a model's arguments.
//!
//! **Architecture invariant:** no Tool with effects of its own runs in this process: it asks the services that may.

mod config;
mod conversations;
mod error;
mod grpc;
mod history;
mod journal;
mod limits;
mod open;
mod parts;
mod peers;
mod prompt;
mod running;
mod schema;
mod service;
mod step;
mod store;
mod tool;
mod toolset;
mod turn;
mod watch;

use std::sync::Arc;

use coordination::Coordination;
use kernel::Clock;
use llm::Providers;
use runtime::{GrpcServer, Lifecycle, Peer};

pub use config::Config;
pub use error::Error;

/// What the service works with.
#[derive(Debug, Clone)]
pub struct Deps {
    /// The database, migrated. It must outlive the hard stop: turns settle then.
    pub store: ::store::Store,
    /// The event log and the signals. They must outlive the hard stop too.
    pub coordination: Coordination,
    /// The LLM APIs.
    pub providers: Providers,
    /// NPCs and Grants.
    pub registry: Peer,
    /// Outbound fetch; none in a Village that runs no fetch-proxy.
    pub fetch: Option<Peer>,
    /// MCP Servers; none in a Village that runs no mcp-gateway.
    pub gateway: Option<Peer>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// The service. Turns run on the lifecycle's tracker: they go on through the soft step, and are settled as interrupted at the hard one.
///
/// # Errors
/// [`Error::Setting`] when a setting is out of range.
pub fn build(config: Config, deps: Deps, lifecycle: &Lifecycle) -> Result<GrpcServer, Error> {
    let service = Arc::new(service::Service::new(config, deps, lifecycle)?);
    service.attend();
    Ok(grpc::server(service))
}
