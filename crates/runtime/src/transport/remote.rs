//! Calls balanced over all addresses of a name.
//!
//! One HTTP/2 connection sticks to one replica, so that a name with several addresses needs several connections. Calls go round; an
//! address that could not be connected to is passed over for a while, and a call that never left this process is given to the next.

#[cfg(test)]
mod tests;

use std::{
    error::Error,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Uri;
use http_body::{Frame, SizeHint};
use kernel::ErrorCode;
use tokio::time::Instant;
use tonic::{
    ConnectError, Status, TimeoutExpired,
    body::Body,
    transport::{Channel, Endpoint},
};
use tower::{Service, ServiceExt as _};

use crate::{server::deadline_exceeded, status, tls::ClientTls};

/// HTTP/2 connections to one address: one serialises at high load.
const CONNECTIONS: usize = 2;
/// How long the addresses of a name are believed.
const RESOLVED_FOR: Duration = Duration::from_secs(10);
/// The longest wait for the addresses of a name.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an address is passed over after it could not be connected to.
const PASSED_OVER: Duration = Duration::from_secs(1);
/// Addresses of one name that are used.
const ADDRESSES: usize = 32;
/// Addresses that one call tries.
const ATTEMPTS: usize = 4;
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// Why an address of a peer cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// Not a URL of a peer.
    #[error("{0:?} is not the address of a service; write http://name:port or https://name:port")]
    InvalidUrl(String),
    /// https without certificate authorities.
    #[error("{0} needs tls.ca, the certificate authority of that service")]
    NoCa(String),
    /// TLS settings that do not fit.
    #[error("TLS to {url} cannot be set up: {reason}")]
    Tls {
        /// The peer.
        url: String,
        /// Why.
        reason: String,
    },
    /// No address at all.
    #[error("no address of the service is given")]
    Empty,
}

/// A peer as its URL names it.
#[derive(Debug, Clone)]
struct Target {
    url: String,
    host: String,
    port: u16,
    origin: Uri,
    tls: Option<ClientTls>,
}

impl Target {
    fn parse(url: &str, tls: Option<&ClientTls>) -> Result<Self, RemoteError> {
        let invalid = || RemoteError::InvalidUrl(url.chars().take(256).collect());
        let origin: Uri = url.parse().map_err(|_error| invalid())?;
        let plain = origin.query().is_none()
            && matches!(origin.path(), "" | "/")
            && origin
                .authority()
                .is_some_and(|authority| !authority.as_str().contains('@'));
        let (Some(host), true) = (origin.host(), plain) else {
            return Err(invalid());
        };
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let (tls, default_port) = match origin.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => (
                Some(
                    tls.ok_or_else(|| RemoteError::NoCa(url.to_owned()))?
                        .clone(),
                ),
                443,
            ),
            _ => return Err(invalid()),
        };
        let target = Self {
            url: url.to_owned(),
            host,
            port: origin.port_u16().unwrap_or(default_port),
            origin,
            tls,
        };
        // Faults of the TLS settings show at the start, not at the first call.
        target.channel(SocketAddr::from(([127, 0, 0, 1], target.port)))?;
        Ok(target)
    }

    fn channel(&self, address: SocketAddr) -> Result<Channel, RemoteError> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
            .map_err(|_error| RemoteError::InvalidUrl(self.url.clone()))?
            .origin(self.origin.clone())
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        if let Some(tls) = &self.tls {
            endpoint = endpoint
                .tls_config(tls.config(&self.host))
                .map_err(|error| RemoteError::Tls {
                    url: self.url.clone(),
                    reason: status::chain(&error),
                })?;
        }
        Ok(endpoint.connect_lazy())
    }

    async fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
        let lookup = tokio::net::lookup_host((self.host.as_str(), self.port));
        let mut addresses: Vec<SocketAddr> = tokio::time::timeout(RESOLVE_TIMEOUT, lookup)
            .await
            .map_err(|_elapsed| "its name takes too long to look up".to_owned())?
            .map_err(|error| format!("its name cannot be looked up: {error}"))?
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses.truncate(ADDRESSES);
        if addresses.is_empty() {
            return Err("its name has no address".to_owned());
        }
        Ok(addresses)
    }
}

#[derive(Debug, Clone)]
struct Slot {
    address: SocketAddr,
    channel: Channel,
}

#[derive(Debug, Default)]
struct State {
    slots: Vec<Slot>,
    resolved: Option<Instant>,
    passed_over: Vec<(SocketAddr, Instant)>,
}

#[derive(Debug)]
struct Shared {
    targets: Vec<Target>,
    state: Mutex<State>,
    resolving: tokio::sync::Mutex<()>,
    next: AtomicUsize,
}

/// A service that is balanced over addresses. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Balanced(Arc<Shared>);

impl Balanced {
    pub(super) fn to_name(url: &str, tls: Option<&ClientTls>) -> Result<Self, RemoteError> {
        Self::to_targets(vec![Target::parse(url, tls)?])
    }

    pub(super) fn to_urls(urls: &[String], tls: Option<&ClientTls>) -> Result<Self, RemoteError> {
        let targets = urls.iter().map(|url| Target::parse(url, tls));
        Self::to_targets(targets.collect::<Result<_, _>>()?)
    }

    fn to_targets(targets: Vec<Target>) -> Result<Self, RemoteError> {
        if targets.is_empty() {
            return Err(RemoteError::Empty);
        }
        Ok(Self(Arc::new(Shared {
            targets,
            state: Mutex::default(),
            resolving: tokio::sync::Mutex::default(),
            next: AtomicUsize::new(0),
        })))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> String {
        let urls: Vec<&str> = self
            .targets
            .iter()
            .map(|target| target.url.as_str())
            .collect();
        urls.join(", ")
    }

    fn unreachable(&self, reason: &str) -> Status {
        status::new(
            ErrorCode::Unavailable,
            &format!(
                "the service at {} cannot be reached: {reason}",
                self.names()
            ),
        )
    }

    /// Looks the names up when that is due. Only one call at a time does; others go on with what is known, and wait when nothing is.
    async fn refresh(&self) -> Result<(), String> {
        let (due, known) = {
            let state = self.lock();
            let due = state
                .resolved
                .is_none_or(|resolved| resolved.elapsed() >= RESOLVED_FOR);
            (due, !state.slots.is_empty())
        };
        if !due {
            return Ok(());
        }
        let _turn = match self.resolving.try_lock() {
            Ok(turn) => turn,
            Err(_busy) if known => return Ok(()),
            Err(_busy) => {
                let turn = self.resolving.lock().await;
                if !self.lock().slots.is_empty() {
                    return Ok(());
                }
                turn
            }
        };
        let mut found = Vec::new();
        let mut failure = None;
        for target in &self.targets {
            match target.resolve().await {
                Ok(addresses) => found.extend(addresses.into_iter().map(|at| (target, at))),
                Err(reason) => failure = Some(reason),
            }
        }
        let mut state = self.lock();
        state.resolved = Some(Instant::now());
        match failure {
            // A name server that is away does not take away what is known.
            Some(_) if found.is_empty() && known => return Ok(()),
            Some(reason) if found.is_empty() => {
                state.resolved = None;
                return Err(reason);
            }
            _ => {}
        }
        let mut slots = Vec::with_capacity(found.len() * CONNECTIONS);
        for round in 0..CONNECTIONS {
            for (target, address) in &found {
                let kept = state
                    .slots
                    .iter()
                    .filter(|slot| slot.address == *address)
                    .nth(round);
                slots.push(match kept {
                    Some(slot) => slot.clone(),
                    None => Slot {
                        address: *address,
                        channel: target
                            .channel(*address)
                            .map_err(|error| error.to_string())?,
                    },
                });
            }
        }
        state.slots = slots;
        Ok(())
    }

    /// One connection of each address, in the order in which this call should try them.
    fn candidates(&self) -> Vec<Slot> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let mut state = self.lock();
        let now = Instant::now();
        state.passed_over.retain(|(_, until)| *until > now);
        let count = state.slots.len().max(1);
        let mut chosen: Vec<Slot> = Vec::with_capacity(count / CONNECTIONS + 1);
        for step in 0..state.slots.len() {
            let slot = &state.slots[(turn + step) % count];
            if !chosen.iter().any(|known| known.address == slot.address) {
                chosen.push(slot.clone());
            }
        }
        // Those that failed a moment ago come last, and are still better than none.
        chosen.sort_by_key(|slot| {
            state
                .passed_over
                .iter()
                .any(|(address, _)| *address == slot.address)
        });
        chosen.truncate(ATTEMPTS);
        chosen
    }

    fn pass_over(&self, address: SocketAddr) {
        let mut state = self.lock();
        state.passed_over.retain(|(known, _)| *known != address);
        state
            .passed_over
            .push((address, Instant::now() + PASSED_OVER));
    }

    async fn call(&self, request: http::Request<Body>) -> Result<http::Response<Body>, Status> {
        self.refresh()
            .await
            .map_err(|reason| self.unreachable(&reason))?;
        let (parts, body) = request.into_parts();
        let held = Held::new(body);
        let mut last = "it has no address".to_owned();
        for slot in self.candidates() {
            let request = http::Request::from_parts(parts.clone(), Body::new(held.clone()));
            let mut channel = slot.channel;
            let answer = match channel.ready().await {
                Ok(ready) => ready.call(request).await,
                Err(error) => Err(error),
            };
            let error = match answer {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            if has_cause::<TimeoutExpired>(&error) {
                return Err(deadline_exceeded());
            }
            self.pass_over(slot.address);
            last = status::chain(&error);
            if !never_sent(&error) || held.was_read() {
                break;
            }
        }
        // The name may have other addresses by now.
        self.lock().resolved = None;
        Err(self.unreachable(&last))
    }
}

/// Whether a request that failed with this cannot have reached the peer.
fn never_sent(error: &tonic::transport::Error) -> bool {
    has_cause::<ConnectError>(error)
        || causes(error)
            .filter_map(<dyn Error>::downcast_ref::<hyper::Error>)
            .any(hyper::Error::is_canceled)
}

fn has_cause<E: Error + 'static>(error: &tonic::transport::Error) -> bool {
    causes(error).any(<dyn Error>::is::<E>)
}

fn causes<'e>(
    error: &'e tonic::transport::Error,
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    let first: &'e (dyn Error + 'static) = error;
    std::iter::successors(Some(first), |error| {
        let error: &'e (dyn Error + 'static) = *error;
        error.source()
    })
}

impl Service<http::Request<Body>> for Balanced {
    type Response = http::Response<Body>;
    type Error = Status;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Status>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(async move { shared.call(request).await })
    }
}

/// A request's body that can be given to another connection while nothing of it was read.
#[derive(Debug, Clone)]
struct Held(Arc<Mutex<(Body, Read)>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    NotYet,
    Begun,
}

impl Held {
    fn new(body: Body) -> Self {
        Self(Arc::new(Mutex::new((body, Read::NotYet))))
    }

    fn lock(&self) -> MutexGuard<'_, (Body, Read)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn was_read(&self) -> bool {
        self.lock().1 == Read::Begun
    }
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut held = self.lock();
        held.1 = Read::Begun;
        Pin::new(&mut held.0).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.lock().0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.lock().0.size_hint()
    }
}
