//! Guarded outbound fetch: `fetch_url`.
//!
//! A model aims it, and pages aim the model, so this is the most carefully bounded call of the house: `https:` only, every hop of a
//! chain judged and connected by [`outbound`], one deadline over all of it, bounds on bytes as they are sent and decoded, on what
//! runs and waits at the same time, and on text; what is hostile to parse is read by [`mod@reader`]'s children.
//!
//! What the guard refuses and what the network does is an answer with a sentence for the model, and the turn goes on; an error is
//! only what is wrong with the call itself.
//!
//! **Architecture invariants:** this service holds no secret but its own key, and links neither a database nor a Provider. Nothing
//! is sent to a host that could be of use to another: no cookies, no referrer, no credentials.

mod admission;
mod body;
mod chain;
mod coding;
mod config;
pub mod egress;
mod error;
mod fetch;
mod grpc;
mod hosts;
mod page;
mod refusal;
mod report;
mod robots;
mod snapshots;

use std::{io, sync::Arc};

use kernel::Clock;
use outbound::{Connector, Mode};
use reader::Reader;
use runtime::{BoxError, GrpcServer, Lifecycle, Settings, listeners};

pub use config::{Config, InvalidUserAgent, Robots, UserAgent};
pub use error::Error;
pub use hosts::{HostList, InvalidHost};

/// What the service works with.
#[derive(Debug, Clone)]
pub struct Deps {
    /// The way out.
    pub connector: Connector,
    /// Reads what arrives.
    pub reader: Arc<Reader>,
    /// For the time at which a page was fetched.
    pub clock: Arc<dyn Clock>,
}

/// The way out as the settings have it, with every listener protected that they give a port, here or elsewhere, and every one that
/// this process binds.
pub fn connector(settings: &Settings, lifecycle: &Lifecycle) -> Result<Connector, BoxError> {
    let config: outbound::Config = settings.section("outbound")?;
    let connector = Connector::new(&config, lifecycle.tracker().clone())?;
    let guarded = connector.clone();
    listeners::of_the_village(settings, lifecycle, move |address| {
        guarded.guard().protect_listener(address);
    })?;
    Ok(connector)
}

/// Reads pages in children that run this very program, whose `main` begins with [`reader::child_main`].
pub fn reader() -> io::Result<Arc<Reader>> {
    let program = std::env::current_exe()?;
    Ok(Arc::new(Reader::new(reader::Config::default(), program)))
}

/// The service. Between requests it holds nothing but the texts of pages that were just read, for their next pieces, and it starts
/// no task of its own; `/readyz` warns while the guard only reports.
pub fn build(config: Config, deps: Deps, lifecycle: &Lifecycle) -> GrpcServer {
    if deps.connector.guard().mode() == Mode::Report {
        lifecycle.readiness().warn(
            "outbound.mode is \"report\": addresses that the guard would refuse are fetched and logged",
        );
    }
    grpc::server(fetch::Fetcher::new(config, deps))
}
