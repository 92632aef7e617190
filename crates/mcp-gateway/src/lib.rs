//! Clients of MCP Servers: connections, their pool, lists of Tools, calls, and tests before anything is granted.
//!
//! What a server does wrong is an answer in words, which costs its own Tools and nothing else; an error is only what is wrong with a
//! request. Whatever a server says is bounded, and data.
//!
//! **Architecture invariants:** the registry is not on the path of a call: what is known of the servers is kept, and announcements keep it true.
//! Credentials stay sealed but for the request or start that needs them. Nothing is connected to that the guard did not approve.

mod clients;
mod config;
mod connect;
mod content;
mod endpoint;
mod error;
mod failure;
mod grpc;
mod listing;
mod names;
mod peers;
mod report;
mod servers;
mod service;
mod test_server;
pub mod transport;
mod validate;

use std::{path::PathBuf, sync::Arc, time::Duration};

use coordination::Signals;
use kernel::Clock;
use outbound::{Connector, Mode};
use runtime::{BoxError, GrpcServer, Lifecycle, Peer, Settings, listeners};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use vault::Vault;

pub use clients::{
    Call, Clients, Deps as ClientDeps, Era, Facts, Listed, Progress, Target, Tested,
};
pub use config::Config;
pub use connect::Handling;
pub use content::{CallEnd, Given, Media, MediaKind, Piece};
pub use endpoint::{Endpoint, RemoteEndpoint, SealedMap, StdioEndpoint};
pub use error::Error;
pub use failure::{Failure, FailureCode, Reached};
pub use listing::{Listing, Tool, Withheld};

/// How often it is looked whether anything else still runs, once the process is to end.
const LOOK_AROUND: Duration = Duration::from_millis(50);
/// For how long nothing may have run before clients are let go of while others of the process still work.
const QUIET: Duration = Duration::from_secs(2);
/// How long the clients may take to close at the hard stop: less than tasks are given then.
const LAST_GOODBYES: Duration = Duration::from_millis(1_500);

/// What the service works with.
#[derive(Debug, Clone)]
pub struct Deps {
    /// The tool-registry, which knows how servers are reached.
    pub registry: Peer,
    /// The way out, guarded.
    pub connector: Connector,
    /// Opens what the registry sealed: of the same root secret.
    pub vault: Arc<Vault>,
    /// Where the registry announces changes.
    pub signals: Arc<dyn Signals>,
    /// For the times of tests.
    pub clock: Arc<dyn Clock>,
    /// The program that starts commands: one whose `main` begins with [`reaper::child_main`], usually this very one.
    pub program: PathBuf,
}

/// The way out as the settings have it, with every listener of the Village protected.
///
/// # Errors
/// A setting cannot be used.
pub fn connector(settings: &Settings, lifecycle: &Lifecycle) -> Result<Connector, BoxError> {
    let config: outbound::Config = settings.section("outbound")?;
    let connector = Connector::new(&config, lifecycle.tracker().clone())?;
    let guarded = connector.clone();
    listeners::of_the_village(settings, lifecycle, move |address| {
        guarded.guard().protect_listener(address);
    })?;
    Ok(connector)
}

/// The service. It listens to the registry's announcements from now on; `/readyz` warns while the guard only reports.
///
/// # Errors
/// A setting is out of range.
pub async fn build(config: Config, deps: Deps, lifecycle: &Lifecycle) -> Result<GrpcServer, Error> {
    config.check()?;
    let starting = lifecycle.readiness().task("mcp-gateway");
    if deps.connector.guard().mode() == Mode::Report {
        lifecycle.readiness().warn(
            "outbound.mode is \"report\": addresses that the guard would refuse are connected to and logged",
        );
    }
    let config = Arc::new(config);
    // Not those of the process: its end waits for them, and they for its end.
    let tasks = TaskTracker::new();
    let ended = CancellationToken::new();
    let clients = Clients::new(
        Arc::clone(&config),
        ClientDeps {
            connector: deps.connector,
            program: deps.program,
            tracker: tasks.clone(),
            ended: ended.clone(),
            handling: Handling::Decline,
        },
    );
    let registry = peers::Registry::new(deps.registry, Arc::clone(&deps.vault));
    let servers = servers::Servers::new(registry.clone(), clients.clone(), lifecycle.clone());
    let announcements = deps.signals.subscribe(servers::TOPIC).await;
    lifecycle.spawn_background(
        "announcements of MCP Servers",
        servers.clone().listen(announcements),
    );
    let running = TaskTracker::new();
    let ending = Ending {
        servers: servers.clone(),
        clients: clients.clone(),
        running: running.clone(),
        tasks,
        ended,
    };
    lifecycle
        .tracker()
        .spawn(ending.close_at_the_end(lifecycle.clone()));
    let gateway = service::Gateway {
        config,
        clients,
        servers,
        registry,
        vault: deps.vault,
        clock: deps.clock,
        tests: test_server::Tests::default(),
        running,
    };
    drop(starting);
    Ok(grpc::server(Arc::new(gateway)))
}

/// What is closed at the end.
struct Ending {
    servers: servers::Servers,
    clients: Clients,
    /// The requests that run.
    running: TaskTracker,
    /// The clients' tasks.
    tasks: TaskTracker,
    /// Ends them.
    ended: CancellationToken,
}

impl Ending {
    /// Closes the clients when nobody needs them any more: turns that run at a stop are finished first, their calls included.
    async fn close_at_the_end(self, lifecycle: Lifecycle) {
        let (soft, hard) = (lifecycle.soft(), lifecycle.hard());
        soft.cancelled().await;
        let mut quiet_since = Instant::now();
        // This task is one that the process waits for.
        while lifecycle.tracker().len() > 1 || !self.running.is_empty() {
            tokio::select! {
                () = tokio::time::sleep(LOOK_AROUND) => {}
                () = hard.cancelled() => break,
            }
            if !self.running.is_empty() {
                quiet_since = Instant::now();
            } else if quiet_since.elapsed() >= QUIET && self.clients.count() > 0 {
                // Connections that are kept open are tasks, too, which the process waits for. A call that still comes opens its own.
                self.servers.let_go();
            }
        }
        let goodbyes = async {
            self.clients.close().await;
            self.ended.cancel();
            self.tasks.close();
            self.tasks.wait().await;
        };
        if tokio::time::timeout(LAST_GOODBYES, goodbyes).await.is_err() {
            tracing::warn!("some MCP Servers did not take their leave in time");
        }
    }
}
