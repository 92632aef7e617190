//! The layers around a service, as one `tower` service.

use std::{
    convert::Infallible,
    panic::AssertUnwindSafe,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{FutureExt as _, future::BoxFuture};
use http::{HeaderMap, header::AUTHORIZATION};
use kernel::{Caller, ErrorCode, ServiceName};
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Status, body::Body, service::Routes};
use tower::Service;
use tracing::{Instrument as _, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::{
    Deadline, ServerLayers,
    body::{RequestBody, ResponseBody, code_of, deadline_exceeded},
    deadline_after, timeout,
};
use crate::{lifecycle::panic_message, status};

/// The target of the events that count calls.
pub const RPC_TARGET: &str = "agentsville.rpc";

/// What stands for a method that is not to be named.
const UNKNOWN: &str = "unknown";

/// A service inside its layers.
#[derive(Clone)]
pub(super) struct Layered {
    name: ServiceName,
    routes: Routes,
    layers: Arc<ServerLayers>,
}

impl Layered {
    pub(super) fn new(name: ServiceName, routes: Routes, layers: ServerLayers) -> Self {
        Self {
            name,
            routes,
            layers: Arc::new(layers),
        }
    }

    /// Reads the deadline and the caller, and puts both into the request.
    fn admit(&self, request: &mut http::Request<Body>) -> Result<(Instant, Caller), Status> {
        let asked = timeout::read(request.headers())
            .map_err(|error| status::from_error(&error, ErrorCode::InvalidArgument, None))?;
        let longest = self.layers.longest_call;
        let deadline = deadline_after(asked.unwrap_or(longest).min(longest));
        let caller = self.verify(request.headers())?;
        // What the token said is known now; nothing behind this needs it.
        request.headers_mut().remove(AUTHORIZATION);
        request.extensions_mut().insert(Deadline(deadline));
        request.extensions_mut().insert(caller.clone());
        Ok((deadline, caller))
    }

    /// The caller gets one sentence for every refusal, so that it cannot probe; the log has the reason.
    fn verify(&self, headers: &HeaderMap) -> Result<Caller, Status> {
        let token = headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.strip_prefix("Bearer "))
            .ok_or_else(|| {
                status::new(
                    ErrorCode::Unauthenticated,
                    "the call carries no caller token; send \"authorization: Bearer …\"",
                )
            })?;
        self.layers.trust.verify(token, self.name).map_err(|error| {
            tracing::warn!(%error, "caller token refused");
            status::new(
                ErrorCode::Unauthenticated,
                "the caller token is not accepted; this service's log has the reason",
            )
        })
    }
}

impl Service<http::Request<Body>> for Layered {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let mut this = self.clone();
        Box::pin(async move {
            let (service, method) = names_of(request.uri().path());
            let span = tracing::info_span!(
                target: "agentsville::rpc",
                "rpc",
                otel.name = format!("{service}/{method}"),
                otel.kind = "server",
                otel.status_code = tracing::field::Empty,
                rpc.system = "grpc",
                rpc.service = service.as_str(),
                rpc.method = method.as_str(),
                rpc.grpc.status_code = tracing::field::Empty,
                agentsville.caller = tracing::field::Empty,
            );
            let parent = TraceContextPropagator::new().extract(&RequestHeaders(request.headers()));
            // Without the OpenTelemetry layer there is nothing to continue.
            let _continued = span.set_parent(parent);
            let mut meter = Meter::new(service, span.clone());

            let (deadline, caller) = match span.in_scope(|| this.admit(&mut request)) {
                Ok(admitted) => admitted,
                Err(refusal) => {
                    meter.end(refusal.code());
                    return Ok(refusal.into_http());
                }
            };
            span.record("agentsville.caller", caller.label());
            meter.method = method;
            let request = request.map(|body| Body::new(RequestBody::new(body)));
            let answer = AssertUnwindSafe(async move { this.routes.call(request).await })
                .catch_unwind()
                .instrument(span.clone());
            let status = match timeout_at(deadline, answer).await {
                Ok(Ok(Ok(response))) => {
                    // An answer without a body has its status among the headers.
                    if let Some(code) = code_of(response.headers()) {
                        meter.end(code);
                        return Ok(response);
                    }
                    return Ok(response
                        .map(|body| Body::new(ResponseBody::new(body, deadline, span, meter))));
                }
                Ok(Ok(Err(never))) => match never {},
                Ok(Err(panic)) => span
                    .in_scope(|| status::internal(&format!("panic: {}", panic_message(&*panic)))),
                Err(_elapsed) => deadline_exceeded(),
            };
            meter.end(status.code());
            Ok(status.into_http())
        })
    }
}

/// `/package.Service/Method` → service and method. Both are bounded: they come from outside.
fn names_of(path: &str) -> (String, String) {
    let (service, method) = path
        .trim_start_matches('/')
        .split_once('/')
        .unwrap_or((UNKNOWN, UNKNOWN));
    let bounded = |text: &str| text.chars().take(128).collect();
    (bounded(service), bounded(method))
}

/// Counts one call when it ends on whichever path: a call that is dropped was cancelled.
pub(super) struct Meter {
    service: String,
    method: String,
    started: Instant,
    span: Span,
    code: Option<Code>,
}

impl Meter {
    fn new(service: String, span: Span) -> Self {
        Self {
            service,
            method: UNKNOWN.to_owned(),
            started: Instant::now(),
            span,
            code: None,
        }
    }

    /// The call ended with a code. The first counts.
    pub(super) fn end(&mut self, code: Code) {
        self.code.get_or_insert(code);
    }

    /// The body ended without trailers.
    pub(super) fn finish(&mut self) {
        self.end(Code::Unknown);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let code = self.code.unwrap_or(Code::Cancelled);
        self.span.record("rpc.grpc.status_code", i32::from(code));
        if matches!(
            code,
            Code::Unknown
                | Code::DeadlineExceeded
                | Code::Unimplemented
                | Code::Internal
                | Code::Unavailable
                | Code::DataLoss
        ) {
            // Which codes are a server's errors: OpenTelemetry's conventions for gRPC.
            self.span.record("otel.status_code", "ERROR");
        }
        // Nobody may make up time series: the method counts only for callers with a token, and only if it exists.
        let method = if code == Code::Unimplemented {
            UNKNOWN
        } else {
            &self.method
        };
        let _inside = self.span.enter();
        tracing::debug!(
            target: RPC_TARGET,
            service = self.service.as_str(),
            method,
            code = code_name(code),
            duration_seconds = self.started.elapsed().as_secs_f64(),
        );
    }
}

/// The name of a code as gRPC's documentation has it.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// Trace context in headers (W3C Trace Context).
struct RequestHeaders<'h>(&'h HeaderMap);

impl Extractor for RequestHeaders<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}
