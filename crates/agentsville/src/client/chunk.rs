//! Chunks of the UI message stream, as far as a transcript shows them.

use kernel::JsonText;
use serde::Deserialize;

/// One chunk. What this does not know is [`Chunk::Other`], so that a newer Village can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// The answer begins.
    Start(Started),
    /// A step begins.
    StepStart,
    /// A text begins.
    TextStart,
    /// More of a text.
    TextDelta(String),
    /// The text is whole.
    TextEnd,
    /// Reasoning begins.
    ReasoningStart,
    /// More reasoning.
    ReasoningDelta(String),
    /// The reasoning is whole.
    ReasoningEnd,
    /// The model began to write a Tool call.
    ToolInputStart {
        /// The call.
        call: String,
        /// The Tool.
        tool: String,
    },
    /// A call is recorded and runs.
    ToolInput {
        /// The call.
        call: String,
        /// The Tool.
        tool: String,
        /// What is sent.
        input: JsonText,
    },
    /// A call that will not run.
    ToolRefused {
        /// The call.
        call: String,
        /// The Tool.
        tool: String,
        /// What the model wrote.
        input: JsonText,
        /// Why.
        sentence: String,
    },
    /// A call succeeded.
    ToolOutput {
        /// The call.
        call: String,
        /// What came back.
        output: JsonText,
    },
    /// A call failed.
    ToolFailed {
        /// The call.
        call: String,
        /// Why.
        sentence: String,
    },
    /// What a Tool gave that is no text.
    File {
        /// Where its bytes are.
        url: String,
        /// Its type.
        media_type: String,
    },
    /// Something that the Player should know.
    Notice(Notice),
    /// The turn failed.
    Error(String),
    /// The turn was stopped.
    Abort(Option<String>),
    /// The turn ended.
    Finish(Finished),
    /// Nothing that a transcript shows.
    Other,
}

/// What `start` says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Started {
    /// The Conversation.
    pub conversation_id: Option<String>,
    /// The turn.
    pub turn_id: Option<String>,
}

/// What `finish` says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Finished {
    /// Tokens.
    pub usage: Option<Usage>,
    /// Limits that the turn met.
    pub limits: Vec<String>,
    /// How the turn ended.
    pub status: Option<String>,
}

/// Tokens, as the Provider counted them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Of the prompts.
    pub input_tokens: Option<u64>,
    /// Of the answers.
    pub output_tokens: Option<u64>,
}

/// Something that the Player should know.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Notice {
    /// A stable word.
    pub code: String,
    /// A sentence.
    pub text: String,
}

/// How a turn ended, as far as its stream tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With an answer.
    Finished,
    /// Somebody stopped it.
    Stopped,
    /// It failed.
    Failed,
    /// The stream broke off; the turn may go on.
    BrokenOff,
}

impl Finished {
    /// How the turn ended, as the last chunk tells it.
    pub fn ending(&self) -> Ending {
        match self.status.as_deref() {
            Some("failed" | "interrupted") => Ending::Failed,
            Some("aborted") => Ending::Stopped,
            _ => Ending::Finished,
        }
    }
}

/// A chunk is no chunk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the Village sent something that is no chunk of a UI message stream: {0}")]
pub struct InvalidChunk(pub String);

// Flat on purpose: `JsonText` keeps digits only where serde does not buffer, and tagged enums buffer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    r#type: String,
    delta: Option<String>,
    tool_call_id: Option<String>,
    tool_name: Option<String>,
    input: Option<JsonText>,
    output: Option<JsonText>,
    error_text: Option<String>,
    reason: Option<String>,
    message_metadata: Option<JsonText>,
    data: Option<JsonText>,
    url: Option<String>,
    media_type: Option<String>,
}

impl Chunk {
    /// How the turn ended, if this chunk says so. The first that does decides.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "three of many chunks end a turn, and no new one will"
    )]
    pub fn ending(&self) -> Option<Ending> {
        match self {
            Self::Error(_) => Some(Ending::Failed),
            Self::Abort(_) => Some(Ending::Stopped),
            Self::Finish(finished) => Some(finished.ending()),
            _ => None,
        }
    }

    /// Reads a chunk.
    pub fn parse(json: &JsonText) -> Result<Self, InvalidChunk> {
        let wire: Wire =
            serde_json::from_str(json.as_str()).map_err(|error| InvalidChunk(error.to_string()))?;
        let call = wire.tool_call_id.unwrap_or_default();
        let tool = wire.tool_name.unwrap_or_default();
        let delta = wire.delta.unwrap_or_default();
        let sentence = wire.error_text.unwrap_or_default();
        Ok(match wire.r#type.as_str() {
            "start" => Self::Start(read(wire.message_metadata.as_ref())),
            "start-step" => Self::StepStart,
            "text-start" => Self::TextStart,
            "text-delta" => Self::TextDelta(delta),
            "text-end" => Self::TextEnd,
            "reasoning-start" => Self::ReasoningStart,
            "reasoning-delta" => Self::ReasoningDelta(delta),
            "reasoning-end" => Self::ReasoningEnd,
            "tool-input-start" => Self::ToolInputStart { call, tool },
            "tool-input-available" => Self::ToolInput {
                call,
                tool,
                input: wire.input.unwrap_or_else(JsonText::null),
            },
            "tool-input-error" => Self::ToolRefused {
                call,
                tool,
                input: wire.input.unwrap_or_else(JsonText::null),
                sentence,
            },
            "tool-output-available" => Self::ToolOutput {
                call,
                output: wire.output.unwrap_or_else(JsonText::null),
            },
            "tool-output-error" => Self::ToolFailed { call, sentence },
            "tool-output-denied" => Self::ToolFailed {
                call,
                sentence: "it was denied".to_owned(),
            },
            "file" => Self::File {
                url: wire.url.unwrap_or_default(),
                media_type: wire.media_type.unwrap_or_default(),
            },
            "data-notice" => Self::Notice(read(wire.data.as_ref())),
            "error" => Self::Error(sentence),
            "abort" => Self::Abort(wire.reason),
            "finish" => Self::Finish(read(wire.message_metadata.as_ref())),
            _ => Self::Other,
        })
    }
}

/// Reads what is only for show: what does not fit is left out rather than ending the transcript.
fn read<T: Default + for<'de> Deserialize<'de>>(json: Option<&JsonText>) -> T {
    json.and_then(|json| serde_json::from_str(json.as_str()).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(json: &str) -> Chunk {
        Chunk::parse(&JsonText::parse(json).unwrap()).unwrap()
    }

    #[test]
    fn a_tools_input_keeps_every_digit() {
        assert_eq!(
            chunk(
                r#"{"type":"tool-input-available","toolCallId":"c","toolName":"t","input":{"n":12345678901234567890123},"dynamic":true}"#
            ),
            Chunk::ToolInput {
                call: "c".to_owned(),
                tool: "t".to_owned(),
                input: JsonText::parse(r#"{"n":12345678901234567890123}"#).unwrap(),
            }
        );
    }

    #[test]
    fn the_end_tells_tokens_and_limits_as_far_as_it_knows_them() {
        assert_eq!(
            chunk(
                r#"{"type":"finish","messageMetadata":{"usage":{"inputTokens":7},"limits":["steps"],"status":"finished"}}"#
            ),
            Chunk::Finish(Finished {
                usage: Some(Usage {
                    input_tokens: Some(7),
                    output_tokens: None,
                }),
                limits: vec!["steps".to_owned()],
                status: Some("finished".to_owned()),
            })
        );
        assert_eq!(
            chunk(r#"{"type":"finish"}"#),
            Chunk::Finish(Finished::default())
        );
        assert_eq!(
            chunk(r#"{"type":"finish","messageMetadata":7}"#),
            Chunk::Finish(Finished::default())
        );
    }

    #[test]
    fn an_unknown_chunk_is_passed_over_and_a_shapeless_one_is_not() {
        assert_eq!(chunk(r#"{"type":"source-url","url":"x"}"#), Chunk::Other);
        assert!(Chunk::parse(&JsonText::parse("[1]").unwrap()).is_err());
        assert!(Chunk::parse(&JsonText::parse(r#"{"type":3}"#).unwrap()).is_err());
    }
}
