//! The way out for Sandboxes: an HTTP proxy, with `CONNECT` and the absolute form.
//!
//! Whoever asks shows a pass in `Proxy-Authorization`, which sandbox-broker mints for each connection and a Sandbox never sees. Where
//! it leads is judged by the pass's own list of hosts first, and then by the same guard that judges a fetch, for the consumer
//! `egress`.
//!
//! **Architecture invariants:** no request is served without a pass that holds, on every request of a connection; the pass is in no
//! record and goes nowhere; every tunnel and request is bounded in time, silence and bytes, and leaves one wide event, on every path.

mod config;
mod connection;
mod denial;
mod destination;
mod exchange;
mod forward;
mod framing;
mod head;
mod hello;
mod identity;
mod places;
mod pulse;
mod report;
mod stream;
mod tunnel;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use outbound::Connector;
use runtime::{
    Lifecycle, Trust,
    exposure::{self, ExposureError},
    host::{HostError, Keys, bind, parse_listen},
};
use rustls::ServerConfig;
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_rustls::TlsAcceptor;

pub use config::Config;
use places::Places;

/// What the listener is called where it is talked about.
const NAME: &str = "egress";
/// What clients speak, by its name in TLS.
const PROTOCOL: &[u8] = b"http/1.1";
/// The pause after accepting failed, for example for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the listener works with.
#[derive(Debug)]
pub struct Deps {
    /// The way out. The listener's own address is protected in its guard.
    pub connector: Connector,
    /// Whose passes are believed.
    pub trust: Arc<Trust>,
    /// Where keys come from: with keys that were made at the start it listens on loopback only.
    pub keys: Keys,
    /// The gRPC listener's TLS, if there is any.
    pub tls: Option<Arc<ServerConfig>>,
}

/// What all connections share.
#[derive(Debug)]
struct Shared {
    config: Config,
    connector: Connector,
    trust: Arc<Trust>,
    places: Arc<Places>,
    lifecycle: Lifecycle,
}

impl Config {
    /// Where it listens; None when there is to be no listener.
    pub fn address(&self) -> Result<Option<SocketAddr>, HostError> {
        if self.listen.is_empty() {
            return Ok(None);
        }
        parse_listen("egress.listen", &self.listen).map(Some)
    }

    /// Refuses an address that others reach while keys are made at the start.
    pub fn refuse_exposed(&self, keys: Keys) -> Result<(), HostError> {
        match (self.address()?, keys) {
            (Some(address), Keys::MadeAtStart) if !exposure::is_loopback(address) => {
                Err(HostError::Exposed(ExposureError::NotSet {
                    what: NAME.to_owned(),
                    address,
                    setting: "keys.private".to_owned(),
                }))
            }
            (Some(_) | None, Keys::Set | Keys::MadeAtStart) => Ok(()),
        }
    }
}

/// Listens until the lifecycle's soft step; tunnels then go on until they end or the hard step. Gives the actual address, also when
/// port 0 was asked for; None when there is to be no listener.
pub async fn listen(
    config: Config,
    deps: Deps,
    lifecycle: &Lifecycle,
) -> Result<Option<SocketAddr>, HostError> {
    let guard = deps.connector.guard();
    guard.set_egress_ports(&config.ports);
    config.refuse_exposed(deps.keys)?;
    let Some(address) = config.address()? else {
        return Ok(None);
    };
    let listener = bind(NAME, address).await?;
    let address = listener.local_addr().map_err(|source| HostError::Bind {
        what: NAME.to_owned(),
        address,
        source,
    })?;
    guard.protect_listener(address);
    lifecycle.listens_on(address);
    tracing::info!(%address, tls = deps.tls.is_some(), "egress is listening");
    let tls = deps.tls.map(|tls| {
        let mut tls = ServerConfig::clone(&tls);
        tls.alpn_protocols = vec![PROTOCOL.to_vec()];
        TlsAcceptor::from(Arc::new(tls))
    });
    let shared = Arc::new(Shared {
        connector: deps.connector,
        trust: deps.trust,
        places: Places::new(config.tunnels, config.tunnels_per_npc),
        lifecycle: lifecycle.clone(),
        config,
    });
    lifecycle.spawn("egress listener", accept(shared, listener, tls));
    Ok(Some(address))
}

async fn accept(shared: Arc<Shared>, listener: TcpListener, tls: Option<TlsAcceptor>) {
    let soft = shared.lifecycle.soft();
    let places = Arc::new(Semaphore::new(shared.config.connections));
    loop {
        let accepted = tokio::select! {
            () = soft.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _peer)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::warn!(
                connections = shared.config.connections,
                "a connection was closed: egress.connections are in use"
            );
            continue;
        };
        let connection = connection::serve(Arc::clone(&shared), stream, tls.clone(), place);
        // The handle is not needed: the lifecycle keeps the task.
        drop(
            shared
                .lifecycle
                .spawn_request("egress connection", connection),
        );
    }
}
