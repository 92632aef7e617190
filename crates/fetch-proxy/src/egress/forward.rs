//! Absolute form: a request that is passed on, and its answer, both as streams.
//!
//! **Architecture invariant:** what belongs to the client's connection ends here, above all its identity; the answer says nothing in
//! our name.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode, header};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use outbound::{RequestBody, Target};
use runtime::BoxError;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{
    denial::{Denial, REFUSAL},
    exchange::{Client, Reply, deny},
    identity::Pass,
    places::Place,
    pulse::Cut,
    report::{End, Record, Traffic},
};

/// What belongs to one connection (RFC 9110 section 7.6.1), and what would ask for another protocol on it.
const OF_THE_CONNECTION: [HeaderName; 9] = [
    header::CONNECTION,
    header::EXPECT,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("http2-settings"),
    HeaderName::from_static("keep-alive"),
    REFUSAL,
];
/// What headers for proxies, and only for proxies, begin with.
const FOR_PROXIES: &str = "proxy-";

/// Passes a request on and gives the answer.
pub(super) async fn pass_on(
    client: &Arc<Client>,
    request: Request<Incoming>,
    target: Target,
    pass: &Pass,
    place: Place,
    mut record: Record,
) -> Response<Reply> {
    let config = &client.shared().config;
    let limit = config.tunnel_bytes;
    if request.body().size_hint().lower() > limit {
        let denial = Denial::too_many_bytes(StatusCode::PAYLOAD_TOO_LARGE).at(&target);
        return deny(record, &denial);
    }
    let now = Instant::now();
    let (connected_by, old) = (now + config.connect, now + config.lifetime);
    let traffic = record.traffic();
    let request = onward(request, &traffic, limit, old);
    let lane = client.lane(pass.whose);
    let answer = lane.request_within(&target, request, connected_by, old);
    let answered = tokio::select! {
        answered = answer => answered.map_err(|error| {
            if traffic.is_too_much.load(Ordering::Relaxed) {
                Denial::too_many_bytes(StatusCode::PAYLOAD_TOO_LARGE).at(&target)
            } else {
                Denial::of(&error, &target)
            }
        }),
        _cut = client.pulse().stops(config.idle, old) => Err(Denial::new(
            StatusCode::GATEWAY_TIMEOUT,
            "timeout",
            "it took too long to answer",
        )
        .at(&target)),
    };
    let response = match answered.and_then(|response| judge(response, &target, limit)) {
        Ok(response) => response,
        Err(denial) => return deny(record, &denial),
    };
    record.allowed();
    record.status(response.status());
    let (mut head, body) = response.into_parts();
    strip(&mut head.headers);
    head.version = http::Version::HTTP_11;
    head.extensions = http::Extensions::new();
    let relayed = Relayed {
        body,
        traffic,
        record: Some(record),
        limit,
        old: Box::pin(sleep_until(old)),
        _place: place,
    };
    Response::from_parts(head, relayed.boxed_unsync())
}

/// The request as it goes on. Its URI gives path and query; the connector says the host.
fn onward(
    request: Request<Incoming>,
    traffic: &Arc<Traffic>,
    limit: u64,
    old: Instant,
) -> Request<RequestBody> {
    let (mut head, body) = request.into_parts();
    strip(&mut head.headers);
    head.extensions = http::Extensions::new();
    let body = if body.is_end_stream() {
        // What is certainly empty can be sent again over a fresh connection.
        RequestBody::from(Bytes::new())
    } else {
        RequestBody::streamed(Uploaded {
            body,
            traffic: Arc::clone(traffic),
            limit,
            old: Box::pin(sleep_until(old)),
        })
    };
    Request::from_parts(head, body)
}

/// Refuses answers that would be understood as ours, or that are longer than may go through.
fn judge(
    response: Response<outbound::Body>,
    target: &Target,
    limit: u64,
) -> Result<Response<outbound::Body>, Denial> {
    if response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
        return Err(Denial::new(
            StatusCode::BAD_GATEWAY,
            "bad-response",
            "it answered as if it were the proxy (status 407)",
        )
        .at(target));
    }
    if response.body().size_hint().lower() > limit {
        return Err(Denial::too_many_bytes(StatusCode::BAD_GATEWAY).at(target));
    }
    Ok(response)
}

/// Leaves out what is between neighbours only: the named headers, those that `Connection` names, and those for proxies.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let for_proxies: Vec<HeaderName> = headers
        .keys()
        .filter(|name| name.as_str().starts_with(FOR_PROXIES))
        .cloned()
        .collect();
    for name in named.iter().chain(&for_proxies).chain(&OF_THE_CONNECTION) {
        headers.remove(name);
    }
}

/// Counts a piece, unless it would be too much.
fn count(frame: &Frame<Bytes>, total: &AtomicU64, limit: u64) -> bool {
    let length = frame.data_ref().map_or(0, Bytes::len);
    let length = u64::try_from(length).unwrap_or(u64::MAX);
    if total.load(Ordering::Relaxed).saturating_add(length) > limit {
        return false;
    }
    total.fetch_add(length, Ordering::Relaxed);
    true
}

/// The body of a request, counted and bounded.
struct Uploaded {
    body: Incoming,
    traffic: Arc<Traffic>,
    limit: u64,
    old: Pin<Box<Sleep>>,
}

impl http_body::Body for Uploaded {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if this.old.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(BoxError::from("it took too long to send"))));
        }
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| {
            let frame = frame?;
            if count(&frame, &this.traffic.up, this.limit) {
                return Ok(frame);
            }
            this.traffic.is_too_much.store(true, Ordering::Relaxed);
            Err(BoxError::from("the body is longer than may go through"))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer, counted and bounded. What is recorded ends with it.
struct Relayed {
    body: outbound::Body,
    traffic: Arc<Traffic>,
    record: Option<Record>,
    limit: u64,
    old: Pin<Box<Sleep>>,
    _place: Place,
}

impl Relayed {
    fn ended(&mut self, end: End) {
        if let Some(mut record) = self.record.take() {
            record.ended(end);
        }
    }
}

impl http_body::Body for Relayed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if this.old.as_mut().poll(cx).is_ready() {
            this.ended(End::Cut(Cut::Lifetime));
            return Poll::Ready(Some(Err(BoxError::from("it took too long to read"))));
        }
        match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
            None => {
                this.ended(End::Complete);
                Poll::Ready(None)
            }
            Some(Err(error)) => {
                this.ended(End::Broken);
                Poll::Ready(Some(Err(error.into())))
            }
            Some(Ok(frame)) => {
                if !count(&frame, &this.traffic.down, this.limit) {
                    this.ended(End::TooManyBytes);
                    return Poll::Ready(Some(Err(BoxError::from(
                        "the body is longer than may go through",
                    ))));
                }
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Relayed {
    fn drop(&mut self) {
        // A body that is known to be at its end is not asked for it.
        if self.body.is_end_stream() {
            self.ended(End::Complete);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_between_neighbours_is_left_out_and_nothing_else() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Secret ,, bad name"),
            ("connection", "Keep-Alive"),
            ("keep-alive", "timeout=5"),
            ("x-secret", "1"),
            ("proxy-authorization", "Bearer t"),
            ("proxy-connection", "keep-alive"),
            ("proxy-anything", "1"),
            ("te", "trailers"),
            ("upgrade", "websocket"),
            ("http2-settings", "AAA"),
            ("expect", "100-continue"),
            ("x-agentsville-refusal", "private"),
            ("authorization", "Bearer own"),
            ("range", "bytes=0-"),
            ("content-length", "3"),
        ] {
            headers.append(
                HeaderName::from_static(name),
                value.parse().expect("a value"),
            );
        }
        strip(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["authorization", "content-length", "range"]);
    }
}
