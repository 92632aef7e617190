//! What happens in a turn, as watchers are told.

use kernel::{CallId, ConversationId, JsonText, MessageId, TurnId};
use llm::Usage;

use super::{Media, NoticeCode, Outcome};
use crate::limits::Limit;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// The turn started.
    TurnStarted {
        turn: TurnId,
        conversation: ConversationId,
        message: MessageId,
    },
    /// A step started.
    StepStarted { step: u32 },
    /// A text Part started.
    TextStarted { position: u32 },
    /// More of a text Part.
    TextDelta { position: u32, delta: String },
    /// A text Part is whole.
    TextEnded { position: u32 },
    /// A reasoning Part started.
    ReasoningStarted { position: u32 },
    /// More of a reasoning Part.
    ReasoningDelta { position: u32, delta: String },
    /// A reasoning Part is whole.
    ReasoningEnded { position: u32 },
    /// The model began to write a call.
    ToolInputStarted {
        position: u32,
        call: CallId,
        tool: String,
    },
    /// More of a call's arguments.
    ToolInputDelta { call: CallId, delta: String },
    /// A call's arguments are whole and valid; it is recorded and will run.
    ToolInputAvailable {
        call: CallId,
        tool: String,
        input: JsonText,
    },
    /// A call that will not run.
    ToolInputRefused {
        call: CallId,
        tool: String,
        input: JsonText,
        sentence: String,
    },
    /// A call ended.
    ToolEnded {
        call: CallId,
        outcome: Outcome,
        media: Vec<Media>,
    },
    /// Something that the Player should know.
    Notice {
        position: u32,
        code: NoticeCode,
        sentence: String,
    },
    /// A step ended.
    StepEnded { step: u32, usage: Usage },
    /// The turn ended. Nothing follows.
    TurnEnded {
        end: TurnEnd,
        usage: Usage,
        steps: u32,
    },
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnEnd {
    /// How.
    pub(crate) status: TurnStatus,
    /// The reason of the last step.
    pub(crate) finish: FinishReason,
    /// Why, in a sentence, unless it just finished.
    pub(crate) sentence: Option<String>,
    /// Limits that it met.
    pub(crate) limits: Vec<Limit>,
}

/// How a turn stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnStatus {
    /// It runs.
    Running,
    /// It ended with an answer.
    Finished,
    /// Somebody stopped it.
    Aborted,
    /// The Provider or the store failed it.
    Failed,
    /// Its owner died or shut down.
    Interrupted,
}

impl TurnStatus {
    /// The word that the database and wide events use.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Aborted => "aborted",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }

    /// Reads the word.
    pub(crate) fn of(word: &str) -> Option<Self> {
        [
            Self::Running,
            Self::Finished,
            Self::Aborted,
            Self::Failed,
            Self::Interrupted,
        ]
        .into_iter()
        .find(|status| status.as_str() == word)
    }
}

/// Why the last step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinishReason {
    /// The model was done.
    Stop,
    /// The model ran out of room.
    Length,
    /// The Provider withheld content.
    ContentFilter,
    /// Tools were called.
    ToolCalls,
    /// A failure.
    Error,
    /// Something else, such as a limit or an abort.
    Other,
}

impl FinishReason {
    /// The word that the database and wide events use.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ContentFilter => "content-filter",
            Self::ToolCalls => "tool-calls",
            Self::Error => "error",
            Self::Other => "other",
        }
    }

    /// Reads the word.
    pub(crate) fn of(word: &str) -> Option<Self> {
        [
            Self::Stop,
            Self::Length,
            Self::ContentFilter,
            Self::ToolCalls,
            Self::Error,
            Self::Other,
        ]
        .into_iter()
        .find(|reason| reason.as_str() == word)
    }
}

impl From<&llm::Finish> for FinishReason {
    fn from(finish: &llm::Finish) -> Self {
        match finish {
            llm::Finish::Stop => Self::Stop,
            llm::Finish::ToolCalls => Self::ToolCalls,
            llm::Finish::Length => Self::Length,
            llm::Finish::ContentFilter => Self::ContentFilter,
            llm::Finish::Other(_) => Self::Other,
        }
    }
}
