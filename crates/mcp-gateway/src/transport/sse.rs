//! The older HTTP with server-sent events: a stream that names an address, and messages that are posted there. `rmcp` has it no more.
//!
//! The address is read against the stream's URL and must be of the same origin: a server must not send credentials elsewhere. When the
//! stream ends, the session that it was is over: whoever waits is told, and the pool makes a new connection, with a growing wait between
//! failures. A stream that is opened again by itself would be another session, without the handshake.

use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::{HeaderValue, Method, StatusCode};
use rmcp::{
    RoleClient,
    model::JsonRpcMessage,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use sse_stream::Sse;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use url::Url;

use super::{
    Trouble,
    door::{Ask, Door, EVENTS, JSON, is_success},
    events::events,
    inbound::Inbound,
};
use crate::{Config, Failure, FailureCode};

/// Messages that wait to be read; then the server waits.
const QUEUED: usize = 64;
/// Bytes of the address for messages.
const ADDRESS_BYTES: usize = 2_048;
/// Bytes of an acknowledgement that are read, so that its connection can be kept.
const ACKNOWLEDGEMENT_BYTES: usize = 4 * 1_024;
/// How long that may take.
const ACKNOWLEDGEMENT_TIME: Duration = Duration::from_secs(5);

type Events = Pin<Box<dyn Stream<Item = Result<Sse, Failure>> + Send>>;

/// One connection over the older HTTP.
pub(crate) struct SseTransport {
    poster: Arc<Poster>,
    inbox: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
    open: CancellationToken,
    _guard: DropGuard,
}

/// Posts messages.
struct Poster {
    door: Arc<Door>,
    address: Url,
    inbound: Inbound,
    trouble: Trouble,
    time_to_post: Duration,
}

/// A stream whose server named the address for messages.
struct Opened {
    address: Url,
    events: Events,
}

impl SseTransport {
    /// Opens the stream and waits for the address.
    pub(crate) async fn start(
        door: &Arc<Door>,
        inbound: &Inbound,
        trouble: &Trouble,
        config: &Config,
        tracker: &TaskTracker,
    ) -> Result<Self, Failure> {
        let opened = open(door, config.answer_bytes, config.connect()).await?;
        let (outbox, inbox) = mpsc::channel(QUEUED);
        let open = CancellationToken::new();
        let reading = read(opened.events, inbound.clone(), trouble.clone(), outbox);
        let reading = open.clone().run_until_cancelled_owned(reading);
        tracker.spawn(async move { reading.await.unwrap_or_default() });
        Ok(Self {
            poster: Arc::new(Poster {
                door: Arc::clone(door),
                address: opened.address,
                inbound: inbound.clone(),
                trouble: trouble.clone(),
                time_to_post: config.connect(),
            }),
            inbox,
            _guard: open.clone().drop_guard(),
            open,
        })
    }
}

impl Transport<RoleClient> for SseTransport {
    type Error = Failure;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Failure>> + Send + 'static {
        let poster = Arc::clone(&self.poster);
        let open = self.open.clone();
        async move {
            let outcome = open.run_until_cancelled(poster.post(&message)).await;
            outcome.unwrap_or_else(|| Err(poster.trouble.last().unwrap_or_else(ended)))
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.inbox.recv().await
    }

    async fn close(&mut self) -> Result<(), Failure> {
        self.open.cancel();
        self.inbox.close();
        Ok(())
    }
}

impl Poster {
    async fn post(&self, message: &TxJsonRpcMessage<RoleClient>) -> Result<(), Failure> {
        self.inbound.answers().sent(message);
        let posted = self.try_post(message).await;
        posted.inspect_err(|failure| {
            if let JsonRpcMessage::Request(request) = message {
                self.inbound.answers().forget(&request.id);
            }
            self.trouble.note(failure.clone());
        })
    }

    async fn try_post(&self, message: &TxJsonRpcMessage<RoleClient>) -> Result<(), Failure> {
        let body = serde_json::to_vec(message)
            .map_err(|_source| Failure::protocol("The message cannot be written as JSON."))?;
        let deadline = Instant::now() + self.time_to_post;
        let mut ask = Ask::new(Method::POST, JSON, Bytes::from(body), deadline);
        ask.headers
            .insert(http::header::ACCEPT, HeaderValue::from_static("*/*"));
        ask.url = Some(self.address.clone());
        let answer = self.door.ask(ask).await?;
        let status = answer.response.status();
        if is_success(status) {
            let body = answer.response.into_body();
            let until = Instant::now() + ACKNOWLEDGEMENT_TIME;
            // What it says is of no interest, and that it says it not either.
            drop(body.read_at_most(ACKNOWLEDGEMENT_BYTES, until).await);
            return Ok(());
        }
        let (failure, _body) = self.door.refusal(answer).await;
        if status == StatusCode::NOT_FOUND {
            return Err(Failure::protocol(
                "The server no longer knows the session of its stream (HTTP 404).",
            ));
        }
        Err(failure)
    }
}

/// Whether a server answers a GET as one of this kind does. For those who took it for the newer one.
pub(crate) async fn is_spoken(door: &Door, limit: usize, patience: Duration) -> bool {
    open(door, limit, patience).await.is_ok()
}

async fn open(door: &Door, limit: usize, patience: Duration) -> Result<Opened, Failure> {
    let deadline = Instant::now() + patience;
    let url = door.url()?;
    let ask = Ask::new(Method::GET, EVENTS, Bytes::new(), deadline);
    let answer = door.ask(ask).await?;
    let status = answer.response.status();
    if !is_success(status) {
        return Err(door.refusal(answer).await.0);
    }
    if answer.is_html() {
        return Err(Failure::html(status));
    }
    let media_type = answer.media_type();
    if media_type != EVENTS {
        let shown = door.redactor().quote(&media_type);
        return Err(Failure::content_type(&shown));
    }
    let mut events: Events = Box::pin(events(answer.response.into_body(), limit));
    let named = timeout_at(deadline, endpoint(&mut events)).await;
    let named = named.map_err(|_elapsed| {
        Failure::new(
            FailureCode::TimedOut,
            "The server opened its stream and did not name the address for messages.",
            "Check the URL: the stream of a server of this kind is often at /sse.",
        )
    })??;
    let address = address(&url, &named).map_err(|problem| match problem {
        Wrong::Unreadable => {
            Failure::protocol("The server names an address for messages that is no URL.")
        }
        Wrong::Elsewhere(host) => Failure::protocol(format_args!(
            "The server wants messages sent to another origin, {}, and that would have its credentials.",
            door.redactor().quote(&host)
        )),
    })?;
    Ok(Opened { address, events })
}

/// What the server's `endpoint` event says, which comes first.
async fn endpoint(events: &mut Events) -> Result<String, Failure> {
    while let Some(event) = events.next().await {
        let event = event?;
        if event.event.as_deref() == Some("endpoint") {
            return Ok(event.data.unwrap_or_default());
        }
    }
    Err(Failure::protocol(
        "The server closed its stream before it named the address for messages.",
    ))
}

#[derive(Debug, PartialEq, Eq)]
enum Wrong {
    Unreadable,
    Elsewhere(String),
}

/// The address for messages: of the stream's own origin, and judged again whenever it is used.
fn address(stream: &Url, named: &str) -> Result<Url, Wrong> {
    let named = named.trim();
    if named.is_empty() || named.len() > ADDRESS_BYTES {
        return Err(Wrong::Unreadable);
    }
    let mut address = stream.join(named).map_err(|_source| Wrong::Unreadable)?;
    if address.origin() != stream.origin() {
        return Err(Wrong::Elsewhere(
            address.host_str().unwrap_or_default().to_owned(),
        ));
    }
    address.set_fragment(None);
    Ok(address)
}

/// Reads the stream to its end.
async fn read(
    mut events: Events,
    inbound: Inbound,
    trouble: Trouble,
    outbox: mpsc::Sender<RxJsonRpcMessage<RoleClient>>,
) {
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(failure) => return trouble.note(failure),
        };
        if !matches!(event.event.as_deref(), None | Some("" | "message")) {
            continue;
        }
        let data = event.data.unwrap_or_default();
        let text = data.trim();
        if text.is_empty() {
            continue;
        }
        let Some(heard) = inbound.hear(text) else {
            continue;
        };
        match serde_json::from_str(&heard) {
            Ok(message) => {
                if outbox.send(message).await.is_err() {
                    return;
                }
            }
            // Whose answer it was cannot be told, and somebody waits for it.
            Err(_source) => {
                return trouble.note(Failure::protocol(
                    "The server sent what is no message of JSON-RPC.",
                ));
            }
        }
    }
    trouble.note(ended());
}

fn ended() -> Failure {
    Failure::protocol("The server ended its stream of events.")
}
