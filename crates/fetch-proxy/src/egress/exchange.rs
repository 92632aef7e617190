//! One request of a client: who asks, where to, whether there is a place, and then a tunnel or a request that is passed on.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body as _, Incoming};
use outbound::{Consumer, Lane, LaneBounds, Target};
use runtime::BoxError;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    Shared,
    denial::{Denial, REFUSAL},
    destination::{self, Form},
    forward,
    identity::{Pass, Whose},
    places::Place,
    pulse::Pulse,
    report::Record,
    tunnel,
};

/// The only expectation that there is (RFC 9110 section 10.1.1).
const CONTINUE: &[u8] = b"100-continue";

/// The body of an answer.
pub(super) type Reply = UnsyncBoxBody<Bytes, BoxError>;

/// A connection of a client, for as long as it or its tunnel lives.
#[derive(Debug)]
pub(super) struct Client {
    shared: Arc<Shared>,
    pulse: Arc<Pulse>,
    requests: AtomicUsize,
    /// Connections to servers that its last requests left, and whose they were.
    lane: Mutex<Option<(Whose, Arc<Lane>)>>,
    _connection: OwnedSemaphorePermit,
}

impl Client {
    /// A connection that holds one of the places for connections.
    pub(super) fn new(
        shared: Arc<Shared>,
        pulse: Arc<Pulse>,
        connection: OwnedSemaphorePermit,
    ) -> Arc<Self> {
        Arc::new(Self {
            shared,
            pulse,
            requests: AtomicUsize::new(0),
            lane: Mutex::default(),
            _connection: connection,
        })
    }

    /// What all connections share.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// When it last moved.
    pub(super) fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    /// The lane of this NPC and Player. Another's is closed: connections are not handed on.
    pub(super) fn lane(&self, whose: Whose) -> Arc<Lane> {
        let mut lane = self.lane.lock().unwrap_or_else(PoisonError::into_inner);
        match &*lane {
            Some((owner, lane)) if *owner == whose => Arc::clone(lane),
            _ => {
                let connector = &self.shared.connector;
                let fresh = Arc::new(connector.lane(Consumer::Egress, LaneBounds::default()));
                *lane = Some((whose, Arc::clone(&fresh)));
                fresh
            }
        }
    }

    /// Serves one request.
    pub(super) async fn serve(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Reply>, Infallible> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let is_connect = *request.method() == Method::CONNECT;
        let has_body = !request.body().is_end_stream();
        let mut response = self.answer(request).await;
        // After a tunnel that was refused may come what was meant for the tunnel: it is never read as a request. And a body that
        // nobody takes is not read to its end.
        let is_refused = response.headers().contains_key(REFUSAL);
        if (is_refused && (is_connect || has_body))
            || number >= self.shared.config.requests_per_connection
        {
            response
                .headers_mut()
                .insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Response<Reply> {
        let form = Form::of(request.method(), request.uri());
        let mut record = Record::begin(form, Some(request.method()), Arc::clone(&self.pulse));
        let (target, pass, place) = match self.admit(&request, &mut record) {
            Ok(admitted) => admitted,
            Err(denial) => return deny(record, &denial),
        };
        match form {
            Form::Connect => tunnel::open(self, request, target, &pass, place, record).await,
            Form::Absolute | Form::Other => {
                forward::pass_on(self, request, target, &pass, place, record).await
            }
        }
    }

    /// Everything that can be said without connecting. A text that cannot be read is that to everybody; where it leads is judged
    /// only for those who may ask.
    fn admit(
        &self,
        request: &Request<Incoming>,
        record: &mut Record,
    ) -> Result<(Target, Pass, Place), Denial> {
        let target = destination::target(request.method(), request.uri());
        if let Err(denial) = &target
            && denial.status == StatusCode::BAD_REQUEST
        {
            return Err(denial.clone());
        }
        if request.headers().get_all(header::HOST).iter().count() > 1 {
            return Err(Denial::malformed("there is more than one Host"));
        }
        let expected = request.headers().get(header::EXPECT);
        if expected.is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(CONTINUE)) {
            return Err(Denial::new(
                StatusCode::EXPECTATION_FAILED,
                "expect",
                "nothing can be expected but 100-continue",
            ));
        }
        let pass = Pass::of(request.headers(), &self.shared.trust)?;
        record.whose(pass.whose);
        let target = target?;
        record.target(&target);
        pass.admit(&target)?;
        let place = self
            .shared
            .places
            .take(pass.whose)
            .map_err(|denial| denial.at(&target))?;
        Ok((target, pass, place))
    }
}

/// Records that something is not served, and says so.
pub(super) fn deny(mut record: Record, denial: &Denial) -> Response<Reply> {
    record.denied(denial);
    denial.response()
}
