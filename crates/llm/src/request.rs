//! What one step asks of a Provider.

use kernel::{JsonText, ToolName};

/// One Provider call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRequest {
    /// The model, as the Provider names it.
    pub model: String,
    /// The system prompt; none if empty.
    pub system: String,
    /// The history, oldest first. Every call in it is followed by its result: the caller repairs histories.
    pub messages: Vec<Message>,
    /// The Tool set, in a stable order (prompt caches depend on it).
    pub tools: Vec<ToolSpec>,
    /// Whether the model may call Tools.
    pub tool_use: ToolUse,
    /// Tokens that the model may write in this step; the Provider's setting if `None`.
    pub max_output_tokens: Option<u32>,
}

/// Whether the model may call Tools in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolUse {
    /// As it likes.
    Auto,
    /// Not at all: the last step, which must end in words. Tools stay out of the request where the wire allows it; where it
    /// does not (Anthropic, with calls in the history), they are sent with a `tool_choice` of `none`.
    None,
}

/// One Tool as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSpec {
    /// Its name.
    pub name: ToolName,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub schema: JsonText,
}

/// One entry of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// What the Player said.
    User {
        /// The text.
        text: String,
    },
    /// What the model answered in one step.
    Assistant {
        /// Its parts, in the order in which they were shown. Each wire puts them in the order that it accepts.
        blocks: Vec<AssistantBlock>,
    },
    /// The results of all calls of the step before.
    ToolResults(Vec<ToolResult>),
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AssistantBlock {
    /// Text.
    Text(String),
    /// Reasoning.
    Reasoning {
        /// What was shown of it; may be empty.
        text: String,
        /// What came with [`StepEvent::ReasoningDone`](crate::StepEvent::ReasoningDone). Sent back to the Provider that it
        /// came from, digit for digit; reasoning without it is not sent.
        meta: Option<JsonText>,
    },
    /// A Tool call.
    Call {
        /// Our id, unique in the history. Providers' own ids are not: they repeat across steps.
        id: String,
        /// The name that the model used, whether or not there is such a Tool.
        name: String,
        /// Its arguments, an object ([`CallArguments::for_replay`](crate::CallArguments::for_replay) for those that were none).
        arguments: JsonText,
        /// What came with [`StepEvent::CallFinished`](crate::StepEvent::CallFinished).
        meta: Option<JsonText>,
    },
}

/// The result of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The [`AssistantBlock::Call::id`] that it answers.
    pub call_id: String,
    /// The name that the call used.
    pub name: String,
    /// What the model reads.
    pub text: String,
    /// Whether the call failed. Where the wire has no word for it, the text must say so.
    pub failed: bool,
}
