//! A listener for gRPC: one or more services on one address, with health and reflection.

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use http::Response;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use kernel::ErrorCode;
use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;
use tonic::{body::Body, server::NamedService};
use tonic_health::{ServingStatus, server::HealthReporter};
use tower::{ServiceExt as _, service_fn};

use crate::{GrpcService, Lifecycle, exposure, server::Erased, status};

/// The longest wait for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How often an idle connection is asked whether it lives, and how long for an answer.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Bytes of the headers of one call.
const HEADER_BYTES: u32 = 32 * 1_024;
/// The pause after accepting failed, for example for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
pub enum Reflection {
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

    /// Listens with TLS, if there is any.
    #[must_use]
    pub fn with_tls(mut self, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        self.tls = tls;
        self
    }

    /// Adds a service.
    #[must_use]
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
        let services: Vec<&str> = self.services.iter().map(|s| s.name().as_str()).collect();
        tracing::info!(%address, tls = self.tls.is_some(), services = services.join(","), "gRPC is listening");
        let dispatch = Dispatch::new(&self, address).await?;
        let lifecycle = self.lifecycle.clone();
        lifecycle.spawn("grpc listener", accept(self, listener, dispatch));
        Ok(address)
    }
}

/// Which service a path belongs to.
#[derive(Clone)]
struct Dispatch(Arc<HashMap<String, Erased>>);

impl Dispatch {
    async fn new(host: &Host, address: SocketAddr) -> Result<Self, HostError> {
        let mut by_name = HashMap::new();
        for service in &host.services {
            for name in service.names() {
                by_name.insert((*name).to_owned(), service.erased());
            }
        }
        let (reporter, health) = tonic_health::server::health_reporter();
        let names: Vec<String> = by_name.keys().cloned().collect();
        report(&reporter, &names, ServingStatus::NotServing).await;
        host.lifecycle.spawn_background(
            "grpc health",
            follow_readiness(reporter, names, host.lifecycle.clone()),
        );
        by_name.insert(name_of(&health).to_owned(), erase(health));
        if host.reflection == Reflection::OnLoopback && exposure::is_loopback(address) {
            let reflection =
                reflection(host).map_err(|error| HostError::Reflection(error.to_string()))?;
            by_name.insert(name_of(&reflection).to_owned(), erase(reflection));
        }
        Ok(Self(Arc::new(by_name)))
    }

    async fn call(self, request: http::Request<Body>) -> Result<Response<Body>, Infallible> {
        let name = request
            .uri()
            .path()
            .trim_start_matches('/')
            .split('/')
            .next()
            .unwrap_or_default();
        match self.0.get(name) {
            Some(service) => service.clone().oneshot(request).await,
            None => {
                let sentence = "this process has no such gRPC service";
                Ok(tonic::Status::unimplemented(sentence).into_http())
            }
        }
    }
}

fn name_of<S: NamedService>(_service: &S) -> &'static str {
    S::NAME
}

fn erase<S>(service: S) -> Erased
where
    S: tower::Service<http::Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    Erased::new(service)
}

fn reflection(
    host: &Host,
) -> Result<
    tonic_reflection::server::v1::ServerReflectionServer<
        impl tonic_reflection::server::v1::ServerReflection,
    >,
    tonic_reflection::server::Error,
> {
    let mut builder = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
    let mut known = HashSet::new();
    for service in &host.services {
        for descriptors in service.descriptors() {
            // Services of one process share one set.
            if known.insert(descriptors.as_ptr()) {
                builder = builder.register_encoded_file_descriptor_set(descriptors);
            }
        }
        for name in service.names() {
            builder = builder.with_service_name(*name);
        }
    }
    builder
        .with_service_name("grpc.health.v1.Health")
        .build_v1()
}

/// Tells the health service what the lifecycle's readiness says.
async fn follow_readiness(reporter: HealthReporter, names: Vec<String>, lifecycle: Lifecycle) {
    let mut changes = lifecycle.readiness().watch();
    loop {
        let status = if changes.borrow_and_update().is_ready() {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        report(&reporter, &names, status).await;
        if changes.changed().await.is_err() {
            return;
        }
    }
}

async fn report(reporter: &HealthReporter, names: &[String], status: ServingStatus) {
    reporter.set_service_status("", status).await;
    for name in names {
        reporter.set_service_status(name, status).await;
    }
}

async fn accept(host: Host, listener: TcpListener, dispatch: Dispatch) {
    let lifecycle = host.lifecycle;
    let soft = lifecycle.soft();
    let places = Arc::new(Semaphore::new(host.connections));
    let tls = host.tls.map(TlsAcceptor::from);
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
                connections = host.connections,
                "a connection was closed: grpc.connections are in use"
            );
            continue;
        };
        let connection = Connection {
            dispatch: dispatch.clone(),
            lifecycle: lifecycle.clone(),
            calls: host.calls_per_connection,
        };
        let tls = tls.clone();
        lifecycle.spawn_request("grpc connection", async move {
            connection.open(stream, tls).await;
            drop(place);
        });
    }
}

struct Connection {
    dispatch: Dispatch,
    lifecycle: Lifecycle,
    calls: u32,
}

impl Connection {
    async fn open(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let Some(tls) = tls else {
            return self.serve(stream).await;
        };
        match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.serve(stream).await,
            Ok(Err(error)) => tracing::info!(%error, "a TLS handshake failed"),
            Err(_elapsed) => tracing::info!("a TLS handshake took too long"),
        }
    }

    async fn serve<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let dispatch = self.dispatch;
        let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
            dispatch.clone().call(request.map(Body::new))
        });
        let connection =
            hyper::server::conn::http2::Builder::new(CallTasks(self.lifecycle.clone()))
                .timer(TokioTimer::new())
                .keep_alive_interval(KEEP_ALIVE)
                .keep_alive_timeout(KEEP_ALIVE)
                .max_concurrent_streams(self.calls)
                .max_header_list_size(HEADER_BYTES)
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let mut connection = std::pin::pin!(connection);
        let soft = self.lifecycle.soft();
        let outcome = tokio::select! {
            outcome = connection.as_mut() => outcome,
            () = soft.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = outcome {
            tracing::debug!(
                error = status::chain(&error),
                "a gRPC connection ended with an error"
            );
        }
    }
}

/// Runs each call as a task of the lifecycle, so that the end waits for it and can cut it off.
#[derive(Clone)]
struct CallTasks(Lifecycle);

impl<F> hyper::rt::Executor<F> for CallTasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, call: F) {
        // The handle is not needed: the lifecycle keeps the task.
        drop(self.0.spawn_request("grpc call", call));
    }
}

/// The class of [`HostError`], for those who report it.
impl HostError {
    /// Its class.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::InvalidAddress { .. } => ErrorCode::InvalidArgument,
            Self::Bind { .. } | Self::Exposed(_) | Self::KeysNotSet { .. } => {
                ErrorCode::FailedPrecondition
            }
            Self::Reflection(_) => ErrorCode::Internal,
        }
    }
}
