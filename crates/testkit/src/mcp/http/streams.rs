//! Bodies of answers: streams of events, and what is no proper body.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::stream;
use http::Response;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{ReplyBody, Session, lock};
use crate::mcp::script::{Act, Conversation};

/// A piece of a stream of events.
#[derive(Debug)]
pub(super) enum Piece {
    /// An event as text.
    Text(String),
    /// The connection breaks there.
    Break,
}

impl Piece {
    pub(super) fn message(message: &Value) -> Self {
        Self::data(&message.to_string())
    }

    fn data(text: &str) -> Self {
        Self::Text(format!("event: message\ndata: {text}\n\n"))
    }

    pub(super) fn endpoint(address: &str) -> Self {
        Self::Text(format!("event: endpoint\ndata: {address}\n\n"))
    }

    pub(super) fn comment() -> Self {
        Self::Text(": a comment\n\n:another\n".to_owned())
    }
}

/// Where a server says what it says.
pub(super) enum Outlet {
    /// On a stream of its own, which ends afterwards.
    Stream(mpsc::UnboundedSender<Piece>),
    /// On the session's stream.
    Session(Arc<Session>),
}

impl Outlet {
    fn say(&self, piece: Piece) {
        match self {
            // A client that is gone hears nothing.
            Self::Stream(outlet) => outlet.send(piece).unwrap_or_default(),
            Self::Session(session) => session.say(piece),
        }
    }

    /// When nobody listens any more.
    async fn closed(&self) {
        match self {
            Self::Stream(outlet) => outlet.closed().await,
            Self::Session(_) => std::future::pending().await,
        }
    }
}

/// Plays acts to their end, or as long as somebody listens.
pub(super) async fn play(acts: Vec<Act>, conversation: Arc<Conversation>, outlet: Outlet) {
    let playing = async {
        for act in acts {
            match act {
                Act::Say(message) => outlet.say(Piece::message(&message)),
                Act::SayText(text) => outlet.say(Piece::data(&text)),
                Act::Pause(time) => tokio::time::sleep(time).await,
                Act::Await(id) => conversation.answered(&id).await,
                Act::Hang => std::future::pending().await,
                Act::BreakOff => {
                    outlet.say(Piece::Break);
                    return;
                }
            }
        }
    };
    tokio::select! {
        () = playing => {}
        () = outlet.closed() => {}
    }
}

/// What is said last, as one text; the rest goes to the session's stream. Err when the server breaks off.
pub(super) async fn whole(
    acts: Vec<Act>,
    conversation: Arc<Conversation>,
    session: &Session,
) -> Result<String, ()> {
    let mut last: Option<String> = None;
    for act in acts {
        match act {
            Act::Say(message) if message.get("method").is_some() => {
                session.say(Piece::message(&message));
            }
            Act::Say(message) => last = Some(message.to_string()),
            Act::SayText(text) => last = Some(text),
            Act::Pause(time) => tokio::time::sleep(time).await,
            Act::Await(id) => conversation.answered(&id).await,
            Act::Hang => std::future::pending().await,
            Act::BreakOff => return Err(()),
        }
    }
    Ok(last.unwrap_or_default())
}

/// Counts a stream that is dropped before its end.
struct Watch(Option<Arc<AtomicUsize>>);

impl Watch {
    fn it_ends(&mut self) {
        self.0 = None;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(aborted) = &self.0 {
            aborted.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A stream of events. One that the client closes before its end is counted in `aborted`.
pub(super) fn events(
    pieces: mpsc::UnboundedReceiver<Piece>,
    headers: &[(&'static str, String)],
    aborted: Option<Arc<AtomicUsize>>,
) -> Response<ReplyBody> {
    let frames = stream::unfold(
        (pieces, Watch(aborted)),
        |(mut pieces, mut watch)| async move {
            let frame = match pieces.recv().await {
                Some(Piece::Text(text)) => Ok(Frame::data(Bytes::from(text))),
                Some(Piece::Break) => {
                    watch.it_ends();
                    Err(io::Error::other("broken off as scripted"))
                }
                None => {
                    watch.it_ends();
                    return None;
                }
            };
            Some((frame, (pieces, watch)))
        },
    );
    let mut response = Response::builder().header("content-type", "text/event-stream");
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    body(response, StreamBody::new(frames).boxed())
}

/// A stream that ends before the answer, which a later GET brings.
pub(super) fn ends_early(
    session: &Arc<Session>,
    acts: Vec<Act>,
    retry: Duration,
) -> Response<ReplyBody> {
    let answer = acts.into_iter().rev().find_map(|act| match act {
        Act::Say(message) => Some(message),
        _ => None,
    });
    let (outlet, pieces) = mpsc::unbounded_channel();
    if let Some(answer) = answer {
        let event = format!("event-{}", answer["id"]);
        lock(&session.kept).insert(event.clone(), answer);
        let text = format!("id: {event}\nretry: {}\ndata: \n\n", retry.as_millis());
        outlet.send(Piece::Text(text)).unwrap_or_default();
    }
    events(pieces, &[], None)
}

/// JSON without end.
pub(super) fn endless() -> Response<ReplyBody> {
    let frames = stream::repeat_with(|| Ok(Frame::data(Bytes::from_static(&[b' '; 16 * 1_024]))));
    let response = Response::builder().header("content-type", "application/json");
    body(response, StreamBody::new(frames).boxed())
}

/// An answer that breaks in its body.
pub(super) fn broken() -> Response<ReplyBody> {
    let frames = stream::iter([
        Ok(Frame::data(Bytes::from_static(b"{\"jsonrpc\""))),
        Err(io::Error::other("broken off as scripted")),
    ]);
    let response = Response::builder().header("content-type", "application/json");
    body(response, StreamBody::new(frames).boxed())
}

fn body(response: http::response::Builder, body: ReplyBody) -> Response<ReplyBody> {
    response.body(body).expect("a reply that was scripted well")
}
