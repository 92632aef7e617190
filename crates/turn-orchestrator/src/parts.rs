//! The Parts of a Message, the events that tell of them, and the recorder that makes both.
//!
//! **Invariants.** A Part's position is fixed when its first piece arrives. Every call has exactly one terminal event, on every
//! path. Events are numbered 1, 2, 3, …, and whoever applies them in order has the recorder's Parts.

mod event;
mod media;
mod recorder;
#[cfg(test)]
mod tests;

use kernel::{CallId, JsonText, Timestamp};
use serde::{Deserialize, Serialize};

pub(crate) use event::{Event, FinishReason, TurnEnd, TurnStatus};
pub(crate) use media::{Media, MediaKind, NewMedia, media_type};
pub(crate) use recorder::{Recorder, Written};

/// A Part of a Message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its place in the Message, from 0.
    pub(crate) position: u32,
    /// The step that it belongs to, from 1; 0 in a Player's Message.
    pub(crate) step: u32,
    /// What it is.
    pub(crate) content: Content,
    /// When its first piece came.
    pub(crate) started_at: Timestamp,
    /// When it was whole.
    pub(crate) ended_at: Option<Timestamp>,
    /// The last event that it contains; 0 in a Player's Message.
    pub(crate) last_event: u64,
}

/// What a Part is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// Text.
    Text(Prose),
    /// Reasoning.
    Reasoning(Prose),
    /// A Tool call and its result.
    Call(Box<Call>),
    /// Something that the Player should know.
    Notice {
        /// Which.
        code: NoticeCode,
        /// What, in a sentence.
        sentence: String,
    },
}

/// Text or reasoning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Prose {
    /// The text so far.
    pub(crate) text: String,
    /// Whether more may come.
    pub(crate) streaming: bool,
    /// What the Provider wants back with it.
    pub(crate) meta: Option<ProviderMeta>,
}

/// A Tool call and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    /// Ours, and unique.
    pub(crate) id: CallId,
    /// The Provider's own id, for the record.
    pub(crate) wire_id: Option<String>,
    /// The Tool that the model named.
    pub(crate) tool: String,
    /// The arguments: JSON once the call is no longer streaming, until then the JSON text so far.
    pub(crate) input: String,
    /// What the Provider wants back with it.
    pub(crate) meta: Option<ProviderMeta>,
    /// How far it is.
    pub(crate) progress: Progress,
    /// What it gave that is no text. Only with a result; a history does not read it.
    pub(crate) media: Vec<Media>,
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The model is writing its arguments.
    InputStreaming,
    /// It is recorded and runs.
    Running,
    /// It ran, and this is its one result.
    Ended(Outcome),
    /// It was refused or cut before it ran, and this is its one result.
    Refused(Outcome),
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It succeeded, with this output.
    Ok(JsonText),
    /// It failed, for this reason.
    Error(String),
    /// It was denied, for this reason.
    Denied(String),
    /// It was cut off: an abort, or a crash.
    Interrupted(String),
}

impl Outcome {
    /// The word that the database and wide events use.
    pub(crate) const fn as_str(&self) -> &'static str {
        match self {
            Self::Ok(_) => "ok",
            Self::Error(_) => "error",
            Self::Denied(_) => "denied",
            Self::Interrupted(_) => "interrupted",
        }
    }

    /// The reason, unless it succeeded.
    pub(crate) fn sentence(&self) -> Option<&str> {
        match self {
            Self::Ok(_) => None,
            Self::Error(sentence) | Self::Denied(sentence) | Self::Interrupted(sentence) => {
                Some(sentence)
            }
        }
    }

    /// The output, if it succeeded.
    pub(crate) const fn output(&self) -> Option<&JsonText> {
        match self {
            Self::Ok(output) => Some(output),
            Self::Error(_) | Self::Denied(_) | Self::Interrupted(_) => None,
        }
    }
}

impl Progress {
    /// The result, if the call has it.
    pub(crate) const fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::InputStreaming | Self::Running => None,
            Self::Ended(outcome) | Self::Refused(outcome) => Some(outcome),
        }
    }
}

/// What a Provider sent with a Part and wants back, digit for digit. Another model must not get it: signatures are its maker's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProviderMeta {
    /// The model that it came from, `PROVIDER/MODEL`.
    pub(crate) from: String,
    /// What it sent.
    pub(crate) meta: JsonText,
}

/// Stable words for what a Player should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoticeCode {
    /// What was granted and cannot be offered now.
    UnavailableTools,
    /// A limit was met.
    Limit,
    /// The Provider failed in the middle, and the step begins anew. What came before it in its step is not the model's history.
    Retry,
    /// The turn failed. It stands in the transcript, which would else show nothing of it.
    Failed,
    /// Somebody or something stopped the turn.
    Stopped,
}

impl NoticeCode {
    /// The word.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::UnavailableTools => "unavailable-tools",
            Self::Limit => "limit",
            Self::Retry => "retry",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }

    /// Reads the word.
    pub(crate) fn of(word: &str) -> Option<Self> {
        [
            Self::UnavailableTools,
            Self::Limit,
            Self::Retry,
            Self::Failed,
            Self::Stopped,
        ]
        .into_iter()
        .find(|code| code.as_str() == word)
    }
}
