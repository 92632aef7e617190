//! NPCs, Grants, MCP Servers, Players and the audit log.
//!
//! - Every verb asks [`kernel::decide`]. What a caller may not see does not exist for it: the sentence is the same.
//! - Every change writes its audit row in the same transaction.
//! - A Tool an NPC was not granted does not exist for it; there is no default set. A Grant never points at what is gone: a
//!   target is locked while it is granted, and its Grants are deleted with it.
//! - Secrets of MCP Servers are sealed before they are stored, and no read returns them: this service seals, mcp-gateway unseals.
//! - Names are unique in a Village as slugs; arguments take a name or an id.
//!
//! **Architecture invariant:** the registry calls no other service, and is not on the path of a Tool call.

mod audit;
mod config;
mod error;
mod grant;
mod grpc;
mod hosts;
mod mcp_server;
mod name;
mod npc;
mod page;
mod pin;
mod player;
mod resolve;
mod secrets_status;
mod store;
mod suggest;

use std::sync::Arc;

use ::store::{Store, check_schema};
use coordination::Signals;
use kernel::Clock;
use outbound::Connector;
use runtime::{GrpcServer, Lifecycle};
use vault::Vault;

pub use config::{Config, OPERATOR_TOKEN_FILE, check_operator_token, operator_token};
pub use error::Error;
pub use secrets_status::{SecretsStatus, count_sealed};

/// What the service works with.
#[derive(Debug, Clone)]
pub struct Deps {
    /// The database, migrated.
    pub store: Store,
    /// For ids and times.
    pub clock: Arc<dyn Clock>,
    /// Seals the secrets of MCP Servers.
    pub vault: Arc<Vault>,
    /// Judges the URLs of MCP Servers when they are saved. Nothing connects there from here.
    pub connector: Connector,
    /// Announces changes of MCP Servers to every gateway.
    pub signals: Arc<dyn Signals>,
}

/// The registry itself: what the gRPC face calls. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    store: Store,
    clock: Arc<dyn Clock>,
    vault: Arc<Vault>,
    connector: Connector,
    signals: Arc<dyn Signals>,
    lifecycle: Lifecycle,
    config: Arc<Config>,
}

/// The service. It checks the schema and makes sure of the Operator, whose token may have been changed in the settings.
///
/// # Errors
/// The schema does not fit this release, the Operator's token is too short, or the database does not answer.
pub async fn build(config: Config, deps: Deps, lifecycle: &Lifecycle) -> Result<GrpcServer, Error> {
    let starting = lifecycle.readiness().task("tool-registry");
    check_schema(&deps.store, migrations::SCHEMA).await?;
    let registry = Registry {
        store: deps.store,
        clock: deps.clock,
        vault: deps.vault,
        connector: deps.connector,
        signals: deps.signals,
        lifecycle: lifecycle.clone(),
        config: Arc::new(config),
    };
    registry.ensure_operator().await?;
    drop(starting);
    Ok(grpc::server(&registry))
}
