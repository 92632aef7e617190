//! Streamable HTTP: `rmcp` keeps sessions and streams, and every request of its own goes through the [`Door`].
//!
//! **Invariants:** every request is judged immediately before its socket is used; credentials are open for one request; every body,
//! event, stream and wait has a bound; no stream is opened for ever.

mod client;
mod gets;
mod rest;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rmcp::{
    RoleClient,
    model::JsonRpcMessage,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{
        StreamableHttpClientTransport, Transport,
        streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
    },
};
use tokio_util::task::TaskTracker;

use super::{Trouble, door::Door, inbound::Inbound};
use crate::{Config, Failure};
use client::HttpClient;
use gets::{Again, Gets};

/// How long a cancellation, a reply or the end of a session may take.
const CONTROL_TIME: Duration = Duration::from_secs(5);
/// Requests that may wait for the head of their answer besides calls: lists, pings, subscriptions.
const BESIDES_CALLS: usize = 8;
/// Messages that wait to be read.
const QUEUED: usize = 64;

/// What the parts of one connection share.
#[derive(Debug)]
pub(super) struct Shared {
    door: Arc<Door>,
    inbound: Inbound,
    trouble: Trouble,
    gets: Arc<Gets>,
    has_session: AtomicBool,
    tracker: TaskTracker,
    answer_bytes: usize,
    time_to_connect: Duration,
    time_to_answer: Duration,
}

/// One connection over streamable HTTP.
pub(crate) struct HttpTransport {
    shared: Arc<Shared>,
    inner: StreamableHttpClientTransport<HttpClient>,
}

impl HttpTransport {
    /// Nothing is sent before the first message.
    pub(crate) fn start(
        door: &Arc<Door>,
        inbound: &Inbound,
        trouble: &Trouble,
        config: &Config,
        tracker: &TaskTracker,
    ) -> Self {
        let gets = Arc::new(Gets::default());
        let shared = Arc::new(Shared {
            door: Arc::clone(door),
            inbound: inbound.clone(),
            trouble: trouble.clone(),
            gets: Arc::clone(&gets),
            has_session: AtomicBool::new(false),
            tracker: tracker.clone(),
            answer_bytes: config.answer_bytes,
            time_to_connect: config.connect(),
            time_to_answer: Duration::from_secs(config.call_total_seconds),
        });
        // The URL is opened for each request; this one only stands where `rmcp` wants one.
        let mut settings = StreamableHttpClientTransportConfig::with_uri("sealed:")
            .max_concurrent_requests(config.calls_per_client + BESIDES_CALLS)
            .control_request_timeout(CONTROL_TIME)
            .session_recovery_timeout(config.connect())
            .max_sse_event_size(config.answer_bytes)
            .max_json_response_size(config.answer_bytes);
        settings.channel_buffer_capacity = QUEUED;
        settings.retry_config = Arc::new(Again::new(&gets));
        let client = HttpClient(Arc::clone(&shared));
        Self {
            shared,
            inner: StreamableHttpClientTransport::with_client(client, settings),
        }
    }

    /// Whether the server gave a session, and so keeps a state.
    pub(crate) fn has_session(&self) -> bool {
        self.shared.has_session.load(Ordering::Acquire)
    }
}

impl Transport<RoleClient> for HttpTransport {
    type Error = Failure;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Failure>> + Send + 'static {
        let answers = self.shared.inbound.answers().clone();
        let id = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            JsonRpcMessage::Response(_)
            | JsonRpcMessage::Notification(_)
            | JsonRpcMessage::Error(_) => None,
        };
        let trouble = self.shared.trouble.clone();
        answers.sent(&message);
        let sending = self.inner.send(message);
        async move {
            let sent = sending.await;
            sent.map_err(|error| {
                if let Some(id) = &id {
                    answers.forget(id);
                }
                failure_of(error, &trouble)
            })
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.inner.receive().await
    }

    async fn close(&mut self) -> Result<(), Failure> {
        let trouble = self.shared.trouble.clone();
        let closed = self.inner.close().await;
        closed.map_err(|error| failure_of(error, &trouble))
    }
}

/// What `rmcp` makes of a failure is put into words; ours come back as they were.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "rmcp's enum grows, and nothing of ours gives the rest of it"
)]
fn failure_of(error: StreamableHttpError<Failure>, trouble: &Trouble) -> Failure {
    match error {
        StreamableHttpError::Client(failure) => failure,
        StreamableHttpError::SessionExpired | StreamableHttpError::ReinitializationFailed(_) => {
            let failure = Failure::protocol(
                "The server forgot its session with this client, and a new one did not last.",
            );
            trouble.note(failure.clone());
            failure
        }
        StreamableHttpError::TransportChannelClosed | StreamableHttpError::TokioJoinError(_) => {
            trouble.last().unwrap_or_else(|| {
                Failure::protocol("The connection ended before the answer came.")
            })
        }
        StreamableHttpError::ControlRequestTimeout
        | StreamableHttpError::SessionRecoveryTimeout => {
            let failure = Failure::new(
                crate::FailureCode::TimedOut,
                "The server took too long to begin a new session.",
                "Try again later.",
            )
            .after_sending();
            trouble.note(failure.clone());
            failure
        }
        other => {
            // Their texts may hold what the server said.
            tracing::debug!(kind = ?std::mem::discriminant(&other), "an answer that the protocol does not have");
            let failure = Failure::protocol("The server answered what the protocol does not have.");
            trouble.note(failure.clone());
            failure
        }
    }
}
