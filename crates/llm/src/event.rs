//! What a step tells while it runs.

use std::fmt;

use kernel::JsonText;
use serde::Serialize;

/// One thing that happened in a step. Deltas are never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepEvent {
    /// More text.
    TextDelta(String),
    /// More reasoning.
    ReasoningDelta(String),
    /// The reasoning so far is complete. May come without any delta before it: a Provider may hide what it thought and still
    /// want it back.
    ReasoningDone {
        /// What to hand back in [`AssistantBlock::Reasoning`](crate::AssistantBlock::Reasoning).
        meta: Option<JsonText>,
    },
    /// The model began to call a Tool.
    CallStarted {
        /// Ours: 0, 1, 2, … in the order of starting, whatever the Provider counts.
        index: usize,
        /// The name that the model used; empty if it gave none.
        name: String,
    },
    /// More of a call's arguments.
    CallArgumentsDelta {
        /// Which call.
        index: usize,
        /// Raw text of the arguments.
        delta: String,
    },
    /// A call's arguments are as complete as they will be. Exactly once for each [`StepEvent::CallStarted`] of a step that
    /// ends in [`StepEvent::Done`], in order, directly before it: only the end of a step tells whether its calls are whole.
    CallFinished {
        /// Which call.
        index: usize,
        /// The arguments.
        arguments: CallArguments,
        /// The Provider's own id of the call, for the record. Not unique.
        wire_id: Option<String>,
        /// What to hand back in [`AssistantBlock::Call`](crate::AssistantBlock::Call).
        meta: Option<JsonText>,
    },
    /// The step ended. Always the last event.
    Done {
        /// Why.
        finish: Finish,
        /// What it cost, as far as the Provider says.
        usage: Usage,
        /// The model that answered, if the Provider says.
        model: Option<String>,
    },
}

/// The arguments of a finished call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallArguments {
    /// A JSON object. Blank arguments are `{}`.
    Complete(JsonText),
    /// Not a JSON object, or more than [`kernel::limits::TOOL_ARGUMENT_BYTES`].
    Malformed {
        /// What the model wrote, at most [`CallArguments::RAW_BYTES`].
        raw: String,
        /// What is wrong, for the model to read.
        problem: String,
    },
    /// The step ended before the arguments did (output limit, content filter): never to be run.
    Cut {
        /// What the model wrote, at most [`CallArguments::RAW_BYTES`].
        raw: String,
    },
}

impl CallArguments {
    /// Bytes of raw arguments that are kept for a failed result.
    pub const RAW_BYTES: usize = 4 * 1_024;

    /// The arguments as they may stand in a history. Anthropic takes nothing but objects, so what is none is wrapped
    /// (anthropic-sdk-python#1265).
    pub fn for_replay(&self) -> JsonText {
        #[derive(Serialize)]
        struct Wrapped<'r> {
            #[serde(rename = "INVALID_JSON")]
            raw: &'r str,
        }
        match self {
            Self::Complete(arguments) => arguments.clone(),
            Self::Malformed { raw, .. } | Self::Cut { raw } => JsonText::of(&Wrapped { raw }),
        }
    }
}

/// Why a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// The answer is complete, and calls nothing.
    Stop,
    /// The model called Tools. Said exactly when there are calls and the step was not cut, whatever the Provider says.
    ToolCalls,
    /// The output limit was reached.
    Length,
    /// The Provider's filter, or the model's refusal.
    ContentFilter,
    /// Something else, in the Provider's word (at most 64 bytes).
    Other(String),
}

impl fmt::Display for Finish {
    /// As the UI message stream says it (`finishReason`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool-calls",
            Self::Length => "length",
            Self::ContentFilter => "content-filter",
            Self::Other(_) => "other",
        })
    }
}

/// Tokens of a step. What a Provider does not tell is `None`, never a guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens read, cached ones included.
    pub input: Option<u64>,
    /// Tokens written, reasoning included.
    pub output: Option<u64>,
    /// Tokens of `input` that came from the Provider's cache.
    pub cached_input: Option<u64>,
    /// Tokens of `output` that were reasoning.
    pub reasoning: Option<u64>,
}
