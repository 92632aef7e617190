//! How services reach each other: the same client, whether the peer is in another process or in this one.

mod peer;
mod remote;

use std::{
    convert::Infallible,
    fmt,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use tonic::{Status, body::Body};
use tower::{Service, ServiceExt as _, util::BoxCloneSyncService};

use crate::{GrpcService, tls::ClientTls};

pub use peer::{CallerChannel, DEFAULT_DEADLINE, Peer};
pub use remote::RemoteError;

/// An erased way to a peer, without deadline and caller: see [`Peer`] for those. Cheap to clone.
#[derive(Clone)]
pub struct Transport(BoxCloneSyncService<http::Request<Body>, http::Response<Body>, Status>);

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transport")
    }
}

impl Transport {
    /// To another process, at `http://name:port` (or https, with TLS settings). Calls are balanced over all addresses of the name, which is
    /// looked up again now and then. Nothing is connected yet, so that the order in which services start does not matter.
    pub fn remote(url: &str, tls: Option<&ClientTls>) -> Result<Self, RemoteError> {
        let balanced = remote::Balanced::to_name(url, tls)?;
        Ok(Self(BoxCloneSyncService::new(balanced)))
    }

    /// To other processes at these fixed addresses, balanced over all of them.
    pub fn remote_all(urls: &[String], tls: Option<&ClientTls>) -> Result<Self, RemoteError> {
        let balanced = remote::Balanced::to_urls(urls, tls)?;
        Ok(Self(BoxCloneSyncService::new(balanced)))
    }

    /// To a service in this process: same encoding, same layers, same statuses.
    pub fn in_process(service: &GrpcService) -> Self {
        let service = service.erased().map_err(|never: Infallible| match never {});
        Self(BoxCloneSyncService::new(service))
    }
}

impl Service<http::Request<Body>> for Transport {
    type Response = http::Response<Body>;
    type Error = Status;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Status>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        self.0.call(request)
    }
}
