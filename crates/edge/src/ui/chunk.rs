//! One chunk of the UI message stream.

use std::fmt::Write as _;

use proto::turn::v1::Usage;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::message::NoticeData;

/// One chunk. It serializes as `uiMessageChunkSchema` of the npm package `ai` has it
/// (`src/ui-message-stream/ui-message-chunks.ts`).
#[derive(Debug, Serialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum Chunk {
    /// The Message begins, or begins anew: a client that already has some of it starts over.
    Start {
        /// The Message's id.
        message_id: String,
        /// What the client keeps beside the Message.
        message_metadata: StartMetadata,
    },
    /// A step begins.
    StartStep,
    /// A step ended.
    FinishStep,
    /// A text Part begins.
    TextStart {
        /// Names the Part within the Message.
        id: String,
    },
    /// More of a text Part.
    TextDelta {
        /// The Part.
        id: String,
        /// The text that is added.
        delta: String,
    },
    /// A text Part is whole.
    TextEnd {
        /// The Part.
        id: String,
    },
    /// A reasoning Part begins.
    ReasoningStart {
        /// Names the Part within the Message.
        id: String,
    },
    /// More of a reasoning Part.
    ReasoningDelta {
        /// The Part.
        id: String,
        /// The text that is added.
        delta: String,
    },
    /// A reasoning Part is whole.
    ReasoningEnd {
        /// The Part.
        id: String,
    },
    /// The model begins to write a Tool call.
    ToolInputStart {
        /// The call.
        tool_call_id: String,
        /// The Tool that the model named.
        tool_name: String,
        /// See [`Dynamic`].
        dynamic: Dynamic,
    },
    /// More of a call's arguments.
    ToolInputDelta {
        /// The call.
        tool_call_id: String,
        /// The JSON text that is added.
        input_text_delta: String,
        /// See [`Dynamic`].
        dynamic: Dynamic,
    },
    /// A call's arguments are whole; it runs.
    ToolInputAvailable {
        /// The call.
        tool_call_id: String,
        /// The Tool.
        tool_name: String,
        /// The arguments.
        input: Box<RawValue>,
        /// See [`Dynamic`].
        dynamic: Dynamic,
    },
    /// A call that will not run.
    ToolInputError {
        /// The call.
        tool_call_id: String,
        /// The Tool that the model named.
        tool_name: String,
        /// The arguments as far as they are known.
        input: Box<RawValue>,
        /// Why, in a sentence.
        error_text: String,
        /// See [`Dynamic`].
        dynamic: Dynamic,
    },
    /// A call succeeded.
    ToolOutputAvailable {
        /// The call.
        tool_call_id: String,
        /// The result; `null` where there is none, since a client takes a missing one for a pending call.
        output: Box<RawValue>,
        /// See [`Dynamic`].
        dynamic: Dynamic,
    },
    /// A call failed, was denied or was interrupted.
    ToolOutputError {
        /// The call.
        tool_call_id: String,
        /// Why, in a sentence.
        error_text: String,
        /// See [`Dynamic`].
        dynamic: Dynamic,
    },
    /// What a Tool gave that is no text.
    File {
        /// Where its bytes are: `/v1/media/{id}`.
        url: String,
        /// Its media type, as the Tool's server says.
        media_type: String,
    },
    /// Something that the Player should know.
    DataNotice {
        /// Names the Part within the Message; the same id again replaces it.
        id: String,
        /// What.
        data: NoticeData,
    },
    /// Metadata alone. A client stops reading at `error`, so what `finish` would say comes before it.
    MessageMetadata {
        /// Merged into what the client keeps beside the Message.
        message_metadata: EndMetadata,
    },
    /// The turn failed.
    Error {
        /// Why, in a sentence.
        error_text: String,
    },
    /// Somebody stopped the turn.
    Abort {
        /// Why, in a sentence.
        reason: String,
    },
    /// The Message is over.
    Finish {
        /// The Provider's reason.
        finish_reason: &'static str,
        /// Merged into what the client keeps beside the Message.
        message_metadata: EndMetadata,
    },
}

impl Chunk {
    /// Writes the chunk as one server-sent event.
    pub fn write_event(&self, to: &mut String) {
        // A chunk always serializes: its maps have text keys, and its JSON was validated.
        if let Ok(json) = serde_json::to_string(self) {
            let _infallible = write!(to, "data: {json}\n\n");
        }
    }
}

/// `true`. Tools of an NPC are not known when a client is built, so every Tool chunk says `dynamic: true`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dynamic;

impl Serialize for Dynamic {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

/// What `start` carries beside the Message's id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StartMetadata {
    /// The Conversation's id in the Village.
    pub conversation_id: String,
    /// The turn, which `POST /v1/turns/{id}/abort` stops.
    pub turn_id: String,
}

/// What `finish` carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndMetadata {
    /// Tokens of all steps.
    pub usage: UsageView,
    /// Limits that the turn met: `steps`, `calls-per-step`, `calls`, `time`, `depth`, `repeats`.
    pub limits: Vec<&'static str>,
    /// How the turn ended: `finished`, `aborted`, `failed`, `interrupted`.
    pub status: &'static str,
    /// Steps begun.
    pub steps: u32,
}

/// Tokens, as the Provider counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_field_names,
    reason = "the names are those of `LanguageModelUsage` in `ai`"
)]
pub struct UsageView {
    /// Tokens of the prompts.
    pub input_tokens: u64,
    /// Tokens of the answers.
    pub output_tokens: u64,
    /// Prompt tokens that came from the Provider's cache.
    pub cached_input_tokens: u64,
    /// Tokens of reasoning.
    pub reasoning_tokens: u64,
}

impl From<Usage> for UsageView {
    fn from(usage: Usage) -> Self {
        let Usage {
            input_tokens,
            output_tokens,
            cached_input_tokens,
            reasoning_tokens,
        } = usage;
        Self {
            input_tokens,
            output_tokens,
            cached_input_tokens,
            reasoning_tokens,
        }
    }
}
