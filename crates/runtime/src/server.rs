//! One service's gRPC, with the layers that hold wherever it runs: on a host's socket or inside the caller's process.
//!
//! From the outside in: trace (span, metrics), panic, deadline, caller, message size.
//!
//! Authors of services: give generated servers and clients `max_decoding_message_size(kernel::limits::RPC_MESSAGE_BYTES)`, as tonic's own
//! default is 4 MiB; the layer here refuses longer messages in either direction before they are read.

mod body;
mod layers;
mod message_size;
pub(crate) mod timeout;

use std::{
    convert::Infallible,
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use kernel::{Caller, ServiceName};
use tokio::time::Instant;
use tonic::{Request, Status, body::Body, server::NamedService, service::Routes};
use tower::{Service, util::BoxCloneSyncService};

use crate::{Trust, status};

pub(crate) use body::deadline_exceeded;
pub use layers::RPC_TARGET;

/// Longer than any process runs.
const NEVER: Duration = Duration::from_hours(24 * 365 * 30);

/// A service whose errors are statuses in its responses.
pub(crate) type Erased = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, Infallible>;

/// The gRPC services of one service of the house, without layers. `build` of every service crate returns one.
#[derive(Clone)]
pub struct GrpcServer {
    name: ServiceName,
    routes: Routes,
    names: Vec<&'static str>,
    descriptors: Vec<&'static [u8]>,
}

impl fmt::Debug for GrpcServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcServer")
            .field("name", &self.name)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl GrpcServer {
    /// No services yet.
    pub fn new(name: ServiceName) -> Self {
        Self {
            name,
            routes: Routes::default(),
            names: Vec::new(),
            descriptors: Vec::new(),
        }
    }

    /// Adds a generated `…Server`.
    #[must_use]
    #[expect(
        clippy::should_implement_trait,
        reason = "a server is added to, not summed"
    )]
    pub fn add<S>(mut self, server: S) -> Self
    where
        S: Service<http::Request<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Response: axum::response::IntoResponse,
        S::Future: Send + 'static,
    {
        self.names.push(S::NAME);
        self.routes = self.routes.add_service(server);
        self
    }

    /// Adds an encoded `FileDescriptorSet`, so that reflection can describe the services.
    #[must_use]
    pub fn describe(mut self, descriptors: &'static [u8]) -> Self {
        self.descriptors.push(descriptors);
        self
    }

    /// Which service of the house this is.
    pub fn name(&self) -> ServiceName {
        self.name
    }

    /// Puts the layers around it.
    pub fn layered(self, layers: ServerLayers) -> GrpcService {
        let layered = layers::Layered::new(self.name, self.routes.prepare(), layers);
        GrpcService {
            name: self.name,
            names: self.names.into(),
            descriptors: self.descriptors.into(),
            service: Erased::new(layered),
        }
    }
}

/// What the layers need to know.
#[derive(Debug, Clone)]
pub struct ServerLayers {
    /// Whose tokens are believed.
    pub trust: Arc<Trust>,
    /// The longest that a call may take, whatever its `grpc-timeout` says; also for calls that have none.
    pub longest_call: Duration,
}

/// A service with its layers. Cheap to clone; both [`crate::Host`] and [`crate::Transport::in_process`] take it.
#[derive(Clone)]
pub struct GrpcService {
    name: ServiceName,
    names: Arc<[&'static str]>,
    descriptors: Arc<[&'static [u8]]>,
    service: Erased,
}

impl fmt::Debug for GrpcService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcService")
            .field("name", &self.name)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl GrpcService {
    /// Which service of the house this is.
    pub fn name(&self) -> ServiceName {
        self.name
    }

    /// The full names of its gRPC services: `agentsville.fetch.v1.FetchService`.
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    pub(crate) fn descriptors(&self) -> &[&'static [u8]] {
        &self.descriptors
    }

    pub(crate) fn erased(&self) -> Erased {
        self.service.clone()
    }
}

impl Service<http::Request<Body>> for GrpcService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        self.service.call(request)
    }
}

/// When a call must be answered. In the extensions of every request that came through the layers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(pub(crate) Instant);

/// The time after `duration` from now. One that no clock can say is as good as never.
pub(crate) fn deadline_after(duration: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(duration).unwrap_or_else(|| now + NEVER)
}

/// Who is calling. Fails only for a request that did not come through the layers.
pub fn caller<T>(request: &Request<T>) -> Result<Caller, Status> {
    request
        .extensions()
        .get::<Caller>()
        .cloned()
        .ok_or_else(|| {
            status::internal("the request has no caller: the server runs without its layers")
        })
}

/// How much time is left to answer. Zero when it is over, or for a request that did not come through the layers.
pub fn remaining<T>(request: &Request<T>) -> Duration {
    request
        .extensions()
        .get::<Deadline>()
        .map_or(Duration::ZERO, |deadline| {
            deadline.0.saturating_duration_since(Instant::now())
        })
}
