//! A peer with a caller: token, deadline and trace context on every call.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION};
use http_body::{Frame, SizeHint};
use kernel::{Caller, ServiceName};
use opentelemetry::propagation::{Injector, TextMapPropagator as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tonic::{Status, body::Body};
use tower::Service;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::Transport;
use crate::{
    Issuer,
    server::{deadline_after, deadline_exceeded, timeout},
    status,
};

/// The deadline of a call that is given none.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);

/// A service that this one calls. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Peer {
    transport: Transport,
    issuer: Arc<Issuer>,
    audience: ServiceName,
}

impl Peer {
    /// Calls go over `transport` to `audience`, with tokens of `issuer`.
    pub fn new(transport: Transport, issuer: Arc<Issuer>, audience: ServiceName) -> Self {
        Self {
            transport,
            issuer,
            audience,
        }
    }

    /// For a tonic client: `NpcServiceClient::new(peer.as_caller(&caller))`. Each call has [`DEFAULT_DEADLINE`] unless its request sets a
    /// shorter timeout.
    pub fn as_caller(&self, caller: &Caller) -> CallerChannel {
        self.channel(caller, DEFAULT_DEADLINE)
    }

    /// The same with a deadline of its own, which counts from each call, and for a stream until its end.
    pub fn channel(&self, caller: &Caller, deadline: Duration) -> CallerChannel {
        CallerChannel {
            transport: self.transport.clone(),
            issuer: Arc::clone(&self.issuer),
            audience: self.audience,
            caller: Arc::new(caller.clone()),
            deadline,
        }
    }

    /// Which service this is.
    pub fn audience(&self) -> ServiceName {
        self.audience
    }
}

/// What a tonic client is made of. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CallerChannel {
    transport: Transport,
    issuer: Arc<Issuer>,
    audience: ServiceName,
    caller: Arc<Caller>,
    deadline: Duration,
}

impl CallerChannel {
    /// Puts token, timeout and trace context on a request, and gives the time by which it must be answered.
    fn prepare(&self, headers: &mut HeaderMap) -> Result<Instant, Status> {
        let token = self
            .issuer
            .mint(&self.caller, self.audience)
            .map_err(|error| status::internal(&status::chain(&error)))?;
        let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|error| status::internal(&status::chain(&error)))?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
        let asked = timeout::read(headers).ok().flatten();
        let deadline = asked.unwrap_or(self.deadline).min(self.deadline);
        headers.insert(timeout::GRPC_TIMEOUT, timeout::write(deadline));
        let context = tracing::Span::current().context();
        TraceContextPropagator::new().inject_context(&context, &mut RequestHeaders(headers));
        Ok(deadline_after(deadline))
    }
}

impl Service<http::Request<Body>> for CallerChannel {
    type Response = http::Response<Body>;
    type Error = Status;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Status>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.transport.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let deadline = match self.prepare(request.headers_mut()) {
            Ok(deadline) => deadline,
            Err(status) => return Box::pin(std::future::ready(Err(status))),
        };
        let answer = self.transport.call(request);
        Box::pin(async move {
            match timeout_at(deadline, answer).await {
                Ok(answer) => Ok(answer?.map(|body| Body::new(TimedBody::new(body, deadline)))),
                Err(_elapsed) => Err(deadline_exceeded()),
            }
        })
    }
}

/// A response's body that ends with an error when the deadline passes, whatever the peer does.
struct TimedBody {
    inner: Body,
    deadline: Pin<Box<Sleep>>,
}

impl TimedBody {
    fn new(inner: Body, deadline: Instant) -> Self {
        Self {
            inner,
            deadline: Box::pin(sleep_until(deadline)),
        }
    }
}

impl http_body::Body for TimedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Pending => match self.deadline.as_mut().poll(context) {
                Poll::Ready(()) => {
                    self.inner = Body::empty();
                    Poll::Ready(Some(Err(deadline_exceeded())))
                }
                Poll::Pending => Poll::Pending,
            },
            ready @ Poll::Ready(_) => ready,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

struct RequestHeaders<'h>(&'h mut HeaderMap);

impl Injector for RequestHeaders<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(key), HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}
