//! What a scripted Provider answers to one request.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Where an answer waits until the test lets it go on.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    reached: CancellationToken,
    opened: CancellationToken,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets every answer through, now and later.
    pub fn open(&self) {
        self.opened.cancel();
    }

    /// Waits until an answer stands at the gate: everything before it has been handed to the socket.
    pub async fn reached(&self) {
        self.reached.cancelled().await;
    }

    pub(super) async fn pass(&self) {
        self.reached.cancel();
        self.opened.cancelled().await;
    }
}

/// What of an answer stands before its body.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    /// It never comes.
    pub(super) never: bool,
}

/// A piece of a rendered body.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    Bytes(Bytes),
    Pause(Duration),
    Gate(Gate),
    /// Nothing more comes, and the connection stays open.
    Silence,
    /// The connection breaks.
    Break,
}

/// One thing that the model does. Each is a chunk (a call is several).
#[derive(Debug, Clone)]
pub(super) enum Action {
    Text(String),
    Reasoning(String),
    Call {
        id: Option<String>,
        name: String,
        arguments: String,
    },
    Piece(Piece),
}

/// How an answer ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// With the finish reason that fits.
    Proper,
    /// With this finish reason, in the wire's word.
    Reason(String),
    /// Without one: the body just ends.
    Missing,
}

/// An answer: built up in the order in which it is sent.
#[derive(Debug, Clone)]
pub struct Step {
    pub(super) head: Head,
    pub(super) actions: Vec<Action>,
    pub(super) end: End,
    /// Whether the wire's own first and last events are sent too.
    pub(super) framed: bool,
}

impl Step {
    /// An empty answer, which ends properly.
    #[expect(
        clippy::new_without_default,
        reason = "an answer is built, never taken as it happens to be"
    )]
    pub fn new() -> Self {
        Self {
            head: Head {
                status: 200,
                headers: Vec::new(),
                never: false,
            },
            actions: Vec::new(),
            end: End::Proper,
            framed: true,
        }
    }

    /// Another status, with a body of its own: JSON, unless a header says otherwise.
    pub fn refusal(status: u16, body: impl Into<String>) -> Self {
        let body: String = body.into();
        let mut step = Self::new().bytes(body.into_bytes());
        step.head.status = status;
        step.end = End::Missing;
        step.framed = false;
        step.header("content-type", "application/json")
    }

    /// 200 with exactly these bytes as the event stream.
    pub fn stream(bytes: impl Into<Bytes>) -> Self {
        let mut step = Self::new().bytes(bytes);
        step.end = End::Missing;
        step.framed = false;
        step
    }

    /// Not even a status: the request hangs.
    pub fn silence() -> Self {
        let mut step = Self::new();
        step.head.never = true;
        step
    }

    /// Sets a header of the answer.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = name.to_ascii_lowercase();
        self.head.headers.retain(|(known, _)| *known != name);
        self.head.headers.push((name, value.to_owned()));
        self
    }

    /// A chunk of text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.action(Action::Text(text.to_owned()))
    }

    /// Text in chunks of one word each.
    #[must_use]
    pub fn words(mut self, text: &str) -> Self {
        for word in text.split_inclusive(' ') {
            self = self.text(word);
        }
        self
    }

    /// A chunk of reasoning.
    #[must_use]
    pub fn reasoning(self, text: &str) -> Self {
        self.action(Action::Reasoning(text.to_owned()))
    }

    /// A Tool call. Several make parallel calls.
    #[must_use]
    pub fn call(self, name: &str, arguments: &Value) -> Self {
        self.call_with(name, &arguments.to_string())
    }

    /// A Tool call whose arguments are this text, JSON or not.
    #[must_use]
    pub fn call_with(self, name: &str, arguments: &str) -> Self {
        self.action(Action::Call {
            id: None,
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        })
    }

    /// A Tool call with an id of the test's choice.
    #[must_use]
    pub fn call_as(self, id: &str, name: &str, arguments: &Value) -> Self {
        self.action(Action::Call {
            id: Some(id.to_owned()),
            name: name.to_owned(),
            arguments: arguments.to_string(),
        })
    }

    /// Bytes as they are, between two events.
    #[must_use]
    pub fn bytes(self, bytes: impl Into<Bytes>) -> Self {
        self.action(Action::Piece(Piece::Bytes(bytes.into())))
    }

    /// Nothing for a while.
    #[must_use]
    pub fn pause(self, time: Duration) -> Self {
        self.action(Action::Piece(Piece::Pause(time)))
    }

    /// Nothing until the gate is opened.
    #[must_use]
    pub fn gate(self, gate: &Gate) -> Self {
        self.action(Action::Piece(Piece::Gate(gate.clone())))
    }

    /// Nothing any more; the connection stays open.
    #[must_use]
    pub fn stall(self) -> Self {
        self.action(Action::Piece(Piece::Silence)).cut()
    }

    /// The connection breaks in the middle of the body.
    #[must_use]
    pub fn break_off(self) -> Self {
        self.action(Action::Piece(Piece::Break)).cut()
    }

    /// The body ends here without a finish reason.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.end = End::Missing;
        self
    }

    /// Ends with a finish reason of the test's choice, in the wire's word.
    #[must_use]
    pub fn finish(mut self, reason: &str) -> Self {
        self.end = End::Reason(reason.to_owned());
        self
    }

    fn action(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }

    pub(super) fn has_calls(&self) -> bool {
        self.actions
            .iter()
            .any(|action| matches!(action, Action::Call { .. }))
    }
}

/// Cuts arguments as models stream them: a few characters at a time.
pub(super) fn fragments(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters
        .chunks(8)
        .map(|piece| piece.iter().collect())
        .collect()
}

/// Pieces under construction.
#[derive(Debug, Default)]
pub(super) struct Pieces(pub(super) VecDeque<Piece>);

impl Pieces {
    pub(super) fn bytes(&mut self, bytes: Bytes) {
        self.0.push_back(Piece::Bytes(bytes));
    }
}
