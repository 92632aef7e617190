//! Stored Messages as `UIMessage`s.

use kernel::Timestamp;
use proto::turn::v1::{
    MediaReference, Message, Outcome, Part, Role, ToolCallPart, ToolCallState, part::Content,
};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{translator::notice_id, words};

/// A Message as the npm package `ai` has it (`UIMessage`): what `GET /v1/conversations/{id}` returns is what `useChat` starts
/// from.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = UIMessage)]
#[serde(rename_all = "camelCase")]
pub struct UiMessage {
    /// A Player's: the id that the client chose. The NPC's: the Message's id.
    pub id: String,
    /// `user` or `assistant`.
    pub role: &'static str,
    /// What is kept beside the Message.
    pub metadata: UiMetadata,
    /// The Parts, in order.
    pub parts: Vec<UiPart>,
}

/// What is kept beside a Message.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UiMetadata {
    /// The Conversation.
    pub conversation_id: String,
    /// The turn that wrote it; absent for a Player's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// When it was written.
    pub created_at: String,
}

/// A Part of a Message.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum UiPart {
    /// A step of the turn begins here.
    StepStart,
    /// Text.
    Text {
        /// The text so far.
        text: String,
        /// `streaming` or `done`.
        state: &'static str,
    },
    /// Reasoning.
    Reasoning {
        /// The text so far.
        text: String,
        /// `streaming` or `done`.
        state: &'static str,
    },
    /// A Tool call and its result.
    DynamicTool(DynamicToolPart),
    /// What a Tool gave that is no text.
    File {
        /// Its media type, as the Tool's server says.
        #[serde(rename = "mediaType")]
        media_type: String,
        /// Where its bytes are: `/v1/media/{id}`.
        url: String,
    },
    /// Something that the Player should know.
    DataNotice {
        /// Names the Part within its Message.
        id: String,
        /// What.
        data: NoticeData,
    },
}

/// A Tool call and its result.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamicToolPart {
    /// The Tool that the model named.
    pub tool_name: String,
    /// The call's id.
    pub tool_call_id: String,
    /// `input-streaming`, `input-available`, `output-available` or `output-error`.
    pub state: &'static str,
    /// The arguments; absent while they stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub input: Option<Box<RawValue>>,
    /// While they stream: the text of the arguments so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_input: Option<String>,
    /// The result of a call that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output: Option<Box<RawValue>>,
    /// Why a call failed, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_text: Option<String>,
}

/// Something that the Player should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct NoticeData {
    /// A stable word: `unavailable-tools`, `limit`, `retry`.
    pub code: String,
    /// What, in a sentence.
    pub text: String,
}

/// The Messages of a Conversation.
pub fn ui_messages(conversation_id: &str, messages: Vec<Message>) -> Vec<UiMessage> {
    messages
        .into_iter()
        .map(|message| ui_message(conversation_id, message))
        .collect()
}

/// One Message.
pub fn ui_message(conversation_id: &str, message: Message) -> UiMessage {
    let role = message.role();
    let Message {
        id,
        client_id,
        parts,
        turn_id,
        created_at_micros,
        ..
    } = message;
    UiMessage {
        id: if client_id.is_empty() { id } else { client_id },
        role: match role {
            Role::User => "user",
            Role::Unspecified | Role::Assistant => "assistant",
        },
        metadata: UiMetadata {
            conversation_id: conversation_id.to_owned(),
            turn_id: Some(turn_id).filter(|id| !id.is_empty()),
            created_at: Timestamp::from_micros(created_at_micros).to_string(),
        },
        parts: ui_parts(parts),
    }
}

fn ui_parts(parts: Vec<Part>) -> Vec<UiPart> {
    let mut step = 0;
    let mut shown = Vec::with_capacity(parts.len());
    // Where a stream has them: behind all Parts of their step, in the order in which the calls ended.
    let mut files = Vec::new();
    for mut part in parts {
        if part.step > step {
            step = part.step;
            put(&mut files, &mut shown);
            shown.push(UiPart::StepStart);
        }
        if let Some(Content::ToolCall(call)) = &mut part.content {
            let ended = call.ended_at_micros;
            files.extend(call.media.drain(..).map(|media| (ended, file(media))));
        }
        shown.extend(part.content.map(|content| ui_part(part.position, content)));
    }
    put(&mut files, &mut shown);
    shown
}

fn put(files: &mut Vec<(i64, UiPart)>, shown: &mut Vec<UiPart>) {
    files.sort_by_key(|(ended, _)| *ended);
    shown.extend(files.drain(..).map(|(_, file)| file));
}

fn file(media: MediaReference) -> UiPart {
    UiPart::File {
        url: words::media_url(&media),
        media_type: words::media_type(media),
    }
}

fn ui_part(position: u32, content: Content) -> UiPart {
    match content {
        Content::Text(text) => UiPart::Text {
            text: text.text,
            state: text_state(text.streaming),
        },
        Content::Reasoning(reasoning) => UiPart::Reasoning {
            text: reasoning.text,
            state: text_state(reasoning.streaming),
        },
        Content::ToolCall(call) => UiPart::DynamicTool(tool_part(call)),
        Content::Notice(notice) => UiPart::DataNotice {
            id: notice_id(position),
            data: NoticeData {
                code: notice.code,
                text: notice.sentence,
            },
        },
    }
}

fn text_state(streaming: bool) -> &'static str {
    if streaming { "streaming" } else { "done" }
}

fn tool_part(call: ToolCallPart) -> DynamicToolPart {
    let (state, outcome) = (call.state(), call.outcome());
    let ToolCallPart {
        call_id,
        tool_name,
        input_json,
        output_json,
        sentence,
        ..
    } = call;
    let part = DynamicToolPart {
        tool_name,
        tool_call_id: call_id,
        state: "input-available",
        input: None,
        raw_input: None,
        output: None,
        error_text: None,
    };
    match (state, outcome) {
        (ToolCallState::Unspecified | ToolCallState::InputStreaming, _) => DynamicToolPart {
            state: "input-streaming",
            raw_input: Some(input_json),
            ..part
        },
        (ToolCallState::Running, _) => DynamicToolPart {
            input: Some(words::raw_json(&input_json)),
            ..part
        },
        (ToolCallState::Ended, Outcome::Ok) => DynamicToolPart {
            state: "output-available",
            input: Some(words::raw_json(&input_json)),
            output: Some(words::raw_json(&output_json)),
            ..part
        },
        (ToolCallState::Ended | ToolCallState::Refused, outcome) => DynamicToolPart {
            state: "output-error",
            input: Some(words::raw_json(&input_json)),
            error_text: Some(words::failure(outcome, sentence)),
            ..part
        },
    }
}
