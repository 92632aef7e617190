//! What every request passes before its handler: Host, Origin, size of its head; and what every response carries.

mod host;
mod limiter;
mod origin;

use std::{net::IpAddr, panic::AssertUnwindSafe};

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use futures::FutureExt as _;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD,
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, ORIGIN, REFERRER_POLICY, VARY,
        X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
    },
};
use kernel::ErrorCode;
use opentelemetry::{propagation::TextMapPropagator as _, trace::TraceContextExt as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Instrument as _;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::{body::quoted, config::Config, error::Error, problem::Problem, routes::App};

pub(crate) use limiter::Limiter;

use host::{Hosts, authority};
use origin::{Origin, Origins};

/// Bytes of a request's line and headers. hyper bounds what it buffers; this names the bound.
pub(crate) const HEAD_BYTES: usize = 16 * 1_024;
/// How long a browser may keep the answer to a preflight, in seconds.
const PREFLIGHT_SECONDS: u32 = 600;
/// Nothing that the edge sends is a page with anything in it.
const POLICY: &str =
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Where a request came from: the other end of its connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

/// The rules on Host and Origin.
#[derive(Debug)]
pub(crate) struct Rules {
    hosts: Hosts,
    origins: Origins,
}

impl Rules {
    /// Reads the rules. An entry that is none is refused by name.
    pub(crate) fn of(config: &Config) -> Result<Self, Error> {
        Ok(Self {
            hosts: Hosts::read(config.listen, &config.allowed_hosts)?,
            origins: Origins::read(&config.cors_origins)?,
        })
    }

    /// Refuses a request that did not mean this Village, and says which foreign origin may read the answer.
    fn admit(&self, request: &Request) -> Result<Option<HeaderValue>, Problem> {
        let size = head_bytes(request);
        if size > HEAD_BYTES {
            return Err(Problem::new(
                ErrorCode::ResourceExhausted,
                format!(
                    "the request's line and headers are {size} bytes; at most {HEAD_BYTES} are read"
                ),
            )
            .with_status(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
        }
        let host = self.host(request)?;
        let Some(value) = single(request.headers(), &ORIGIN)? else {
            return Ok(None);
        };
        let text = value.to_str().unwrap_or("");
        match Origin::parse(text) {
            Some(origin) if origin.is_of(&host) => Ok(None),
            Some(origin) if self.origins.allow(&origin) => Ok(Some(value.clone())),
            // `null`, which sandboxed frames and files send, lands here too.
            Some(_) | None => Err(Problem {
                field: Some("origin".to_owned()),
                ..Problem::new(
                    ErrorCode::PermissionDenied,
                    format!(
                        "pages of the origin {} may not call this Village; its Operator can add it to edge.cors_origins",
                        quoted(text)
                    ),
                )
            }),
        }
    }

    /// The Host of a request, which must be one of ours: a name that was made to resolve to our address is not.
    fn host(&self, request: &Request) -> Result<host::Authority, Problem> {
        let header = single(request.headers(), &HOST)?.and_then(|value| value.to_str().ok());
        // RFC 9112 §3.2.2: with an absolute target, its authority counts. Both must be ours.
        let target = request.uri().authority().map(http::uri::Authority::as_str);
        let Some(text) = target.or(header) else {
            return Err(Problem::field(
                "host",
                "the request has no Host header; send the name that it was meant for",
            ));
        };
        for text in [target, header].into_iter().flatten() {
            if !authority(text).is_some_and(|host| self.hosts.allow(&host)) {
                return Err(Problem {
                    field: Some("host".to_owned()),
                    ..Problem::new(
                        ErrorCode::PermissionDenied,
                        format!(
                            "this Village does not answer to the host {}; its Operator can add it to edge.allowed_hosts",
                            quoted(text)
                        ),
                    )
                    .with_status(StatusCode::MISDIRECTED_REQUEST)
                });
            }
        }
        authority(text).ok_or_else(|| {
            Problem::field("host", format!("the host {} cannot be read", quoted(text)))
        })
    }
}

/// The middleware around every route and every fallback.
pub(crate) async fn around(State(app): State<App>, request: Request, next: Next) -> Response {
    let span = span(&request);
    let (method, route) = (method(&request), route(&request).to_owned());
    let started = std::time::Instant::now();
    async move {
        let admitted = app.rules.admit(&request);
        let (mut response, origin) = match admitted {
            Err(problem) => (problem.into_response(), None),
            Ok(origin) if is_preflight(&request) => (preflight(origin.is_some()), origin),
            Ok(origin) => (handle(request, next).await, origin),
        };
        finish(response.headers_mut(), origin);
        let status = response.status().as_u16();
        let span = tracing::Span::current();
        span.record("http.response.status_code", status);
        let milliseconds = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            target: "agentsville.http",
            method,
            route,
            status,
            duration_ms = milliseconds,
            "request answered"
        );
        response
    }
    .instrument(span)
    .await
}

/// Runs the handler; its panic is a failure of this request alone.
async fn handle(request: Request, next: Next) -> Response {
    AssertUnwindSafe(next.run(request))
        .catch_unwind()
        .await
        .unwrap_or_else(|_panic| {
            tracing::error!("a handler panicked");
            Problem::new(
                ErrorCode::Internal,
                "internal error; the Village's log has the reason",
            )
            .into_response()
        })
}

/// The method, as OpenTelemetry names it: one that HTTP does not know is text of a client's.
fn method(request: &Request) -> &'static str {
    match *request.method() {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "_OTHER",
    }
}

/// The route's pattern, never the path: that holds what a client wrote.
fn route(request: &Request) -> &str {
    request
        .extensions()
        .get::<MatchedPath>()
        .map_or("(none)", MatchedPath::as_str)
}

/// A trace of our own: what a stranger sends as `traceparent` is linked, and never continued.
fn span(request: &Request) -> tracing::Span {
    let span = tracing::info_span!(
        target: "agentsville.http",
        "http",
        otel.kind = "server",
        http.request.method = method(request),
        http.route = route(request),
        http.response.status_code = tracing::field::Empty,
    );
    let theirs = TraceContextPropagator::new().extract(&Headers(request.headers()));
    let theirs = theirs.span().span_context().clone();
    if theirs.is_valid() {
        span.add_link(theirs);
    }
    span
}

struct Headers<'h>(&'h HeaderMap);

impl opentelemetry::propagation::Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

fn head_bytes(request: &Request) -> usize {
    let target = request.uri();
    let line = target.path().len() + target.query().map_or(0, str::len);
    let headers: usize = request
        .headers()
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len())
        .sum();
    line + headers
}

/// A header that may stand once: two of them are read differently by different programs.
fn single<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'h HeaderValue>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(Problem::field(
            name.as_str(),
            format!("the header {name} stands twice; send it once"),
        )),
    }
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && request
            .headers()
            .contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight(foreign: bool) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if foreign {
        let headers = response.headers_mut();
        headers.insert(
            ACCESS_CONTROL_ALLOW_METHODS,
            HeaderValue::from_static("GET, POST, PATCH, DELETE"),
        );
        headers.insert(
            ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static("authorization, content-type, user-agent"),
        );
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from(PREFLIGHT_SECONDS));
    }
    response
}

/// What every response carries. How it may be kept and shown is the handler's to say; unless it does, it is not kept and shows nothing.
fn finish(headers: &mut HeaderMap, origin: Option<HeaderValue>) {
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (VARY, "origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in [
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
    ] {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    if let Some(origin) = origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("retry-after, x-vercel-ai-ui-message-stream"),
        );
    }
}
