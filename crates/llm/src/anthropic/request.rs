//! Writes the body of `POST /v1/messages`.

use kernel::JsonText;
use serde::Serialize;

use super::ThinkingMeta;
use crate::{
    AssistantBlock, Message, StepRequest, ToolUse,
    config::CallIds,
    wire_id::{call_id, tool_name},
};

/// Tokens that a model may write when nobody said: the wire requires a number.
const MAX_TOKENS: u32 = 8_192;

/// How one endpoint's Messages differ.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialect<'d> {
    pub(crate) provider: &'d str,
    pub(crate) call_ids: CallIds,
    pub(crate) default_max_output_tokens: Option<u32>,
    pub(crate) thinking_tokens: Option<u32>,
    pub(crate) thinking: SendThinking,
}

/// Whether thinking goes back and on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendThinking {
    Yes,
    /// The endpoint refused what it once signed: go on without.
    No,
}

#[derive(Serialize)]
struct Body<'r> {
    model: &'r str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "str::is_empty")]
    system: &'r str,
    messages: Vec<WireMessage<'r>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    stream: bool,
}

#[derive(Serialize)]
struct ToolChoice {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
struct Thinking {
    #[serde(rename = "type")]
    kind: &'static str,
    budget_tokens: u32,
}

#[derive(Serialize)]
struct WireMessage<'r> {
    role: Role,
    content: Vec<Block<'r>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Block<'r> {
    Typed(TypedBlock<'r>),
    /// A thinking block, as it came.
    Thinking(JsonText),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum TypedBlock<'r> {
    Text {
        text: &'r str,
    },
    ToolUse {
        id: String,
        name: String,
        input: Input<'r>,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(skip_serializing_if = "str::is_empty")]
        content: &'r str,
        #[serde(skip_serializing_if = "IsError::is_no")]
        is_error: IsError,
    },
}

/// Arguments, which the wire requires to be an object.
#[derive(Serialize)]
#[serde(untagged)]
enum Input<'r> {
    Object(&'r JsonText),
    Wrapped {
        #[serde(rename = "INVALID_JSON")]
        raw: &'r str,
    },
}

#[derive(Serialize, Clone, Copy)]
#[serde(transparent)]
struct IsError(bool);

impl IsError {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature that serde calls"
    )]
    fn is_no(&self) -> bool {
        !self.0
    }
}

#[derive(Serialize)]
struct Tool<'r> {
    name: &'r str,
    description: &'r str,
    input_schema: Schema<'r>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Schema<'r> {
    Given(&'r JsonText),
    Empty {
        #[serde(rename = "type")]
        kind: &'static str,
    },
}

/// The body of a request.
pub(crate) fn body(
    request: &StepRequest,
    dialect: Dialect<'_>,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut messages: Vec<WireMessage<'_>> = Vec::with_capacity(request.messages.len());
    for message in &request.messages {
        let (role, content) = match message {
            Message::User { text } => (Role::User, words(text).into_iter().collect()),
            Message::Assistant { blocks } => (Role::Assistant, assistant(blocks, dialect)),
            Message::ToolResults(results) => (
                Role::User,
                results
                    .iter()
                    .map(|result| {
                        Block::Typed(TypedBlock::ToolResult {
                            tool_use_id: call_id(&result.call_id, dialect.call_ids),
                            content: &result.text,
                            is_error: IsError(result.failed),
                        })
                    })
                    .collect(),
            ),
        };
        append(&mut messages, role, content);
    }
    // A history may begin with an answer when its beginning was cut off; the wire wants a user first.
    if messages
        .first()
        .is_some_and(|first| first.role == Role::Assistant)
    {
        let content = words("(The beginning of this conversation was left out.)");
        let first = WireMessage {
            role: Role::User,
            content: content.into_iter().collect(),
        };
        messages.insert(0, first);
    }
    let (tools, tool_choice) = tools(request);
    let thinking_tokens = dialect
        .thinking_tokens
        .filter(|_| dialect.thinking == SendThinking::Yes && may_think(&messages));
    let asked = request
        .max_output_tokens
        .or(dialect.default_max_output_tokens)
        .unwrap_or(MAX_TOKENS);
    let body = Body {
        model: &request.model,
        // The wire counts thinking in, and wants room beside it.
        max_tokens: asked.saturating_add(thinking_tokens.unwrap_or(0)),
        system: &request.system,
        messages,
        tools,
        tool_choice,
        thinking: thinking_tokens.map(|budget_tokens| Thinking {
            kind: "enabled",
            budget_tokens,
        }),
        stream: true,
    };
    serde_json::to_vec(&body)
}

/// Adds content, to the message before if that has the same role: roles alternate on this wire, and results and the text that
/// follows them are one message.
fn append<'r>(messages: &mut Vec<WireMessage<'r>>, role: Role, content: Vec<Block<'r>>) {
    if content.is_empty() {
        return;
    }
    match messages.last_mut().filter(|last| last.role == role) {
        Some(last) => last.content.extend(content),
        None => messages.push(WireMessage { role, content }),
    }
}

/// A text block; the wire refuses blank ones.
fn words(text: &str) -> Option<Block<'_>> {
    (!text.trim().is_empty()).then_some(Block::Typed(TypedBlock::Text { text }))
}

/// The blocks of one answer in the order that the wire takes: thinking, text, calls. Thinking between texts stays where it
/// was, as long as there is some in front.
fn assistant<'r>(blocks: &'r [AssistantBlock], dialect: Dialect<'_>) -> Vec<Block<'r>> {
    let mut said = Vec::new();
    let mut calls = Vec::new();
    for block in blocks {
        match block {
            AssistantBlock::Text(text) => said.extend(words(text)),
            AssistantBlock::Reasoning { meta, .. } => {
                if dialect.thinking == SendThinking::Yes {
                    said.extend(
                        meta.as_ref()
                            .and_then(|meta| thinking(meta, dialect.provider)),
                    );
                }
            }
            AssistantBlock::Call {
                id,
                name,
                arguments,
                ..
            } => calls.push(Block::Typed(TypedBlock::ToolUse {
                id: call_id(id, dialect.call_ids),
                name: tool_name(name),
                input: if arguments.is_object() {
                    Input::Object(arguments)
                } else {
                    Input::Wrapped {
                        raw: arguments.as_str(),
                    }
                },
            })),
        }
    }
    if matches!(said.first(), Some(Block::Typed(_))) {
        said.sort_by_key(|block| matches!(block, Block::Typed(_)));
    }
    // Thinking alone is no message.
    if calls.is_empty() && said.iter().all(|block| matches!(block, Block::Thinking(_))) {
        return Vec::new();
    }
    said.extend(calls);
    said
}

/// The block to send back, if it is of this Provider and signed.
fn thinking<'r>(meta: &JsonText, provider: &str) -> Option<Block<'r>> {
    serde_json::from_str::<ThinkingMeta>(meta.as_str())
        .ok()
        .filter(|meta| meta.provider == provider && meta.block.is_object())
        .map(|meta| Block::Thinking(meta.block))
}

/// Whether thinking may be on: a step that goes on from calls must then show the thinking that led to them.
fn may_think(messages: &[WireMessage<'_>]) -> bool {
    let goes_on_from_calls = messages.last().is_some_and(|last| {
        matches!(
            last.content.first(),
            Some(Block::Typed(TypedBlock::ToolResult { .. }))
        )
    });
    let last_answer = messages.iter().rfind(|m| m.role == Role::Assistant);
    !goes_on_from_calls
        || last_answer.is_some_and(|m| matches!(m.content.first(), Some(Block::Thinking(_))))
}

/// The Tools of a request, and whether they may be used. The wire wants Tools for as long as the history has calls.
fn tools(request: &StepRequest) -> (Vec<Tool<'_>>, Option<ToolChoice>) {
    let history_has_calls = request.messages.iter().any(|message| match message {
        Message::Assistant { blocks } => blocks
            .iter()
            .any(|block| matches!(block, AssistantBlock::Call { .. })),
        Message::ToolResults(_) => true,
        Message::User { .. } => false,
    });
    let none = Some(ToolChoice { kind: "none" });
    match (request.tool_use, history_has_calls) {
        (ToolUse::Auto, _) if !request.tools.is_empty() => (given(request), None),
        (ToolUse::None, true) if !request.tools.is_empty() => (given(request), none),
        // All Grants are gone since those calls: one Tool that stands for none, and cannot be used.
        (ToolUse::Auto | ToolUse::None, true) => (
            vec![Tool {
                name: "no_tools",
                description: "There are no tools at present.",
                input_schema: Schema::Empty { kind: "object" },
            }],
            none,
        ),
        (ToolUse::Auto | ToolUse::None, false) => (Vec::new(), None),
    }
}

fn given(request: &StepRequest) -> Vec<Tool<'_>> {
    request
        .tools
        .iter()
        .map(|tool| Tool {
            name: tool.name.as_str(),
            description: &tool.description,
            input_schema: Schema::Given(&tool.schema),
        })
        .collect()
}
