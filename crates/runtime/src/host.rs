//! A listener for gRPC: one or more services on one address, with health and reflection.

mod connection;
mod dispatch;
mod preface;

use std::{net::SocketAddr, sync::Arc};

use serde::Deserialize;
use tokio::net::TcpListener;

use crate::{GrpcService, Lifecycle, exposure};
use dispatch::Dispatch;

/// The section `grpc`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrpcSettings {
    /// address:port; port 0 picks a free one.
    pub listen: String,
    /// Whether to describe the contracts. Always off beyond loopback.
    pub reflection: bool,
    /// The longest that one call may take, in seconds.
    pub longest_call_seconds: u64,
    /// Connections at the same time.
    pub connections: usize,
    /// Calls at the same time on one connection.
    pub calls_per_connection: u32,
    /// How long calls that run may still take after a stop was asked for, in seconds.
    pub drain_seconds: u64,
}

/// A listener that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The setting is not an address.
    #[error("{setting} is {value:?}, which is not address:port, such as 127.0.0.1:7070")]
    InvalidAddress {
        /// The setting.
        setting: String,
        /// Its value.
        value: String,
    },
    /// The address is taken, or not this machine's.
    #[error("{what} cannot listen on {address}: {source}")]
    Bind {
        /// The listener.
        what: String,
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Others could reach it, and nothing protects it.
    #[error(transparent)]
    Exposed(#[from] exposure::ExposureError),
    /// Keys were made at the start, and others could reach the listener.
    #[error(
        "gRPC would listen on {address}, which others can reach, and no keys are set; set keys.private and keys.trust (`agentsville keys` prints them), or listen on 127.0.0.1"
    )]
    KeysNotSet {
        /// Where.
        address: SocketAddr,
    },
    /// The descriptors of a service are broken.
    #[error("reflection cannot be set up: {0}")]
    Reflection(String),
}

/// Where the keys of caller tokens come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// The Operator set them.
    Set,
    /// This process made them at its start.
    MadeAtStart,
}

/// Whether the contracts are described to tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reflection {
    /// On loopback.
    OnLoopback,
    /// Never.
    Off,
}

/// Reads `address:port` of a listener.
pub fn parse_listen(setting: &str, value: &str) -> Result<SocketAddr, HostError> {
    value.parse().map_err(|_error| HostError::InvalidAddress {
        setting: setting.to_owned(),
        value: value.chars().take(128).collect(),
    })
}

/// Binds a listener, for a sentence when that fails.
pub async fn bind(what: &str, address: SocketAddr) -> Result<TcpListener, HostError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| HostError::Bind {
            what: what.to_owned(),
            address,
            source,
        })
}

/// The services of one listener.
#[derive(Debug, Clone)]
pub struct Host {
    lifecycle: Lifecycle,
    services: Vec<GrpcService>,
    keys: Keys,
    reflection: Reflection,
    tls: Option<Arc<rustls::ServerConfig>>,
    connections: usize,
    calls_per_connection: u32,
}

impl Host {
    /// No services yet. `keys` decides whether it may listen beyond loopback.
    pub fn new(lifecycle: Lifecycle, keys: Keys) -> Self {
        Self {
            lifecycle,
            services: Vec::new(),
            keys,
            reflection: Reflection::OnLoopback,
            tls: None,
            connections: 1_024,
            calls_per_connection: 512,
        }
    }

    /// Takes bounds and reflection from settings.
    #[must_use]
    pub fn with_settings(mut self, settings: &GrpcSettings) -> Self {
        self.reflection = if settings.reflection {
            Reflection::OnLoopback
        } else {
            Reflection::Off
        };
        self.connections = settings.connections.max(1);
        self.calls_per_connection = settings.calls_per_connection.max(1);
        self
    }

    /// Never describes the contracts.
    #[must_use]
    pub fn without_reflection(mut self) -> Self {
        self.reflection = Reflection::Off;
        self
    }

    /// Listens with TLS, if there is any.
    #[must_use]
    pub fn with_tls(mut self, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        self.tls = tls;
        self
    }

    /// Adds a service.
    #[must_use]
    #[expect(
        clippy::should_implement_trait,
        reason = "a host is added to, not summed"
    )]
    pub fn add(mut self, service: GrpcService) -> Self {
        self.services.push(service);
        self
    }

    /// Listens until the lifecycle's soft step, then drains. Gives the actual address, also when port 0 was asked for.
    pub async fn listen(self, address: SocketAddr) -> Result<SocketAddr, HostError> {
        if self.keys == Keys::MadeAtStart && !exposure::is_loopback(address) {
            return Err(HostError::KeysNotSet { address });
        }
        let listener = bind("gRPC", address).await?;
        let address = listener.local_addr().map_err(|source| HostError::Bind {
            what: "gRPC".to_owned(),
            address,
            source,
        })?;
        self.lifecycle.listens_on(address);
        let services: Vec<&str> = self.services.iter().map(|s| s.name().as_str()).collect();
        tracing::info!(%address, tls = self.tls.is_some(), services = services.join(","), "gRPC is listening");
        let dispatch = Dispatch::new(&self, address).await?;
        let lifecycle = self.lifecycle.clone();
        lifecycle.spawn(
            "grpc listener",
            connection::accept(self, listener, dispatch),
        );
        Ok(address)
    }
}
