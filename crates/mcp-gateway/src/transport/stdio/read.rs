//! Reads messages, and finds out why there are no more.

use std::time::Duration;

use rmcp::{RoleClient, service::RxJsonRpcMessage};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::{
    net::unix::pipe,
    sync::{mpsc, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    last_words::LastWords,
    lines::{Answers, Line, Lines, answered},
    process::Life,
};
use crate::{
    Failure, StdioEndpoint,
    transport::{Trouble, inbound::Inbound},
};

/// How long the end of a process may come after the end of its output.
const STATUS_TIME: Duration = Duration::from_secs(2);
/// How long the end of its errors may come after that.
const ERRORS_TIME: Duration = Duration::from_millis(500);
/// The code of errors that a server would have answered with, had it known (JSON-RPC 2.0, section 5.1: -32000 to -32099).
const SERVER_ERROR: i32 = -32_000;

/// The way out of a process.
#[derive(Debug)]
pub(super) struct Reading {
    /// The most bytes of a message.
    pub(super) limit: usize,
    pub(super) inbound: Inbound,
    pub(super) trouble: Trouble,
    pub(super) outbox: mpsc::Sender<RxJsonRpcMessage<RoleClient>>,
    pub(super) life: watch::Receiver<Life>,
    pub(super) last_words: LastWords,
    pub(super) endpoint: StdioEndpoint,
    pub(super) closing: CancellationToken,
}

/// What a line is.
enum Heard {
    Message(Box<RxJsonRpcMessage<RoleClient>>),
    /// A message that nobody listens to.
    Nothing,
    /// No message: a greeting, a log line.
    Noise,
}

/// A message that `rmcp` cannot read, as far as it says what it answers.
#[derive(Debug, Deserialize)]
struct Odd<'m> {
    id: Option<Value>,
    #[serde(borrow)]
    method: Option<&'m RawValue>,
}

impl Reading {
    /// Reads until the process says no more, and then ends the connection.
    pub(super) async fn read(mut self, output: pipe::Receiver) {
        let mut lines = Lines::new(output, self.limit);
        let mut skipped = 0_u64;
        let failure = loop {
            // Lines that nobody hears must not keep others from their turn.
            tokio::task::consume_budget().await;
            let heard = match lines.next().await {
                Some(Line::Whole(line)) => self.understand(&line),
                Some(Line::TooLong(Answers::To(id))) => {
                    refuse(&id, &Failure::too_long(self.limit).sentence)
                }
                Some(Line::TooLong(Answers::Nothing)) => Heard::Noise,
                Some(Line::TooLong(Answers::Unknown) | Line::Endless) => {
                    break Failure::too_long(self.limit);
                }
                None => break self.end().await,
            };
            match heard {
                Heard::Message(message) => {
                    if self.outbox.send(*message).await.is_err() {
                        return;
                    }
                }
                Heard::Nothing => {}
                Heard::Noise => skipped += 1,
            }
        };
        tracing::debug!(skipped, %failure, "the connection to a process ended");
        self.trouble.note(failure);
        self.closing.cancel();
    }

    fn understand(&self, line: &[u8]) -> Heard {
        let line = line.trim_ascii();
        let text = String::from_utf8_lossy(line);
        let text = text.trim_start_matches('\u{feff}');
        if !text.starts_with('{') {
            return Heard::Noise;
        }
        let Some(heard) = self.inbound.hear(text) else {
            return Heard::Nothing;
        };
        match serde_json::from_str(&heard) {
            Ok(message) => Heard::Message(Box::new(message)),
            Err(_not_a_message) => match odd(text) {
                Answers::To(id) => refuse(
                    &id,
                    "What the server answered is no message of the protocol.",
                ),
                Answers::Nothing | Answers::Unknown => Heard::Noise,
            },
        }
    }

    /// Why the process says no more.
    async fn end(&mut self) -> Failure {
        let ended = self
            .life
            .wait_for(|life| life.status.is_some() || life.is_gone);
        let status = timeout(STATUS_TIME, ended).await;
        let status = status
            .ok()
            .and_then(Result::ok)
            .and_then(|life| life.status);
        if status.is_some() {
            timeout(ERRORS_TIME, self.last_words.ended())
                .await
                .unwrap_or_default();
        }
        let words = self.last_words.quote(&self.endpoint.environment);
        let command = &self.endpoint.command;
        match status {
            Some(status) => Failure::exited(command, status, &words),
            None => Failure::closed_its_output(command, &words),
        }
    }
}

/// What a message that `rmcp` cannot read answers. A log line may be JSON, too; it says of no version that it is a message's.
fn odd(text: &str) -> Answers {
    if !text.contains("\"jsonrpc\"") {
        return Answers::Nothing;
    }
    match serde_json::from_str::<Odd<'_>>(text) {
        Ok(Odd {
            id: Some(id),
            method: None,
        }) => Answers::To(id),
        Ok(_) => Answers::Nothing,
        Err(_no_json) => answered(text.as_bytes(), text.as_bytes()),
    }
}

/// An answer that says that there is none: the request fails, and nothing else.
fn refuse(id: &Value, sentence: &str) -> Heard {
    let answer = json!({
        "jsonrpc": "2.0",
        "id": id,
        "error": {"code": SERVER_ERROR, "message": sentence},
    });
    serde_json::from_value(answer).map_or(Heard::Noise, |message| Heard::Message(Box::new(message)))
}
