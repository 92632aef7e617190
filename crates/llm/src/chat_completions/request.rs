//! Writes the body of `POST /chat/completions`.

use std::borrow::Cow;

use kernel::JsonText;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{CallMeta, ReasoningMeta};
use crate::{
    AssistantBlock, Message, StepRequest, ToolUse,
    config::CallIds,
    wire_id::{call_id, tool_name},
};

/// How one endpoint's Chat Completions differ.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialect<'d> {
    pub(crate) provider: &'d str,
    pub(crate) call_ids: CallIds,
    /// `max_completion_tokens`, which OpenAI's own models require, or `max_tokens`, which everybody else knows.
    pub(crate) limit: OutputLimit,
    /// Whether usage is asked for. Some endpoints refuse the question.
    pub(crate) usage: AskForUsage,
    pub(crate) default_max_output_tokens: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputLimit {
    MaxTokens,
    MaxCompletionTokens,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskForUsage {
    Yes,
    No,
}

#[derive(Serialize)]
struct Body<'r> {
    model: &'r str,
    messages: Vec<WireMessage<'r>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'r>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize, Default)]
struct WireMessage<'r> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Cow<'r, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<Cow<'r, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Cow<'r, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_details: Option<Vec<Box<RawValue>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
}

#[derive(Serialize)]
struct WireCall<'r> {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: WireFunction<'r>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct WireFunction<'r> {
    name: String,
    /// Always a string, whatever the endpoint itself sends.
    arguments: &'r str,
}

#[derive(Serialize)]
struct Tool<'r> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: ToolFunction<'r>,
}

#[derive(Serialize)]
struct ToolFunction<'r> {
    name: &'r str,
    description: &'r str,
    parameters: &'r JsonText,
}

/// The body of a request.
pub(crate) fn body(
    request: &StepRequest,
    dialect: Dialect<'_>,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() {
        messages.push(WireMessage {
            role: "system",
            content: Some(Cow::Borrowed(&request.system)),
            ..WireMessage::default()
        });
    }
    for message in &request.messages {
        match message {
            Message::User { text } => messages.push(WireMessage {
                role: "user",
                content: Some(Cow::Borrowed(text)),
                ..WireMessage::default()
            }),
            Message::Assistant { blocks } => messages.extend(assistant(blocks, dialect)),
            Message::ToolResults(results) => {
                messages.extend(results.iter().map(|result| WireMessage {
                    role: "tool",
                    content: Some(Cow::Borrowed(&result.text)),
                    tool_call_id: Some(call_id(&result.call_id, dialect.call_ids)),
                    ..WireMessage::default()
                }));
            }
        }
    }
    echo_empty_reasoning(&mut messages);
    let tools = match request.tool_use {
        ToolUse::Auto => &request.tools[..],
        ToolUse::None => &[],
    };
    let limit = request
        .max_output_tokens
        .or(dialect.default_max_output_tokens);
    let body = Body {
        model: &request.model,
        messages,
        tools: tools
            .iter()
            .map(|tool| Tool {
                kind: "function",
                function: ToolFunction {
                    name: tool.name.as_str(),
                    description: &tool.description,
                    parameters: &tool.schema,
                },
            })
            .collect(),
        stream: true,
        stream_options: (dialect.usage == AskForUsage::Yes).then_some(StreamOptions {
            include_usage: true,
        }),
        max_tokens: limit.filter(|_| dialect.limit == OutputLimit::MaxTokens),
        max_completion_tokens: limit.filter(|_| dialect.limit == OutputLimit::MaxCompletionTokens),
    };
    serde_json::to_vec(&body)
}

/// One answer; none if nothing of it can be sent.
fn assistant<'r>(blocks: &'r [AssistantBlock], dialect: Dialect<'_>) -> Option<WireMessage<'r>> {
    let mut message = WireMessage {
        role: "assistant",
        ..WireMessage::default()
    };
    for block in blocks {
        match block {
            AssistantBlock::Text(text) if text.is_empty() => {}
            AssistantBlock::Text(text) => append(&mut message.content, text, "\n\n"),
            AssistantBlock::Reasoning { text, meta } => {
                reasoning(&mut message, text, meta.as_ref(), dialect.provider);
            }
            AssistantBlock::Call {
                id,
                name,
                arguments,
                meta,
            } => message.tool_calls.push(WireCall {
                id: call_id(id, dialect.call_ids),
                kind: "function",
                function: WireFunction {
                    name: tool_name(name),
                    arguments: arguments.as_str(),
                },
                extra_content: meta
                    .as_ref()
                    .and_then(|meta| serde_json::from_str::<CallMeta>(meta.as_str()).ok())
                    .filter(|meta| meta.provider == dialect.provider)
                    .map(|meta| meta.extra_content),
            }),
        }
    }
    if message.content.is_none() && message.tool_calls.is_empty() {
        return None;
    }
    // Reasoning is wanted back where a step goes on from its calls; elsewhere it is cost, and some refuse it.
    if message.tool_calls.is_empty() {
        message.reasoning_content = None;
        message.reasoning = None;
        message.reasoning_details = None;
    }
    Some(message)
}

fn reasoning<'r>(
    message: &mut WireMessage<'r>,
    text: &'r str,
    meta: Option<&JsonText>,
    provider: &str,
) {
    let meta = meta
        .and_then(|meta| serde_json::from_str::<ReasoningMeta>(meta.as_str()).ok())
        .filter(|meta| meta.provider == provider);
    let Some(meta) = meta else {
        return;
    };
    match (meta.field.as_str(), meta.details) {
        ("reasoning_content", _) => append(&mut message.reasoning_content, text, ""),
        ("reasoning", _) => append(&mut message.reasoning, text, ""),
        ("reasoning_details", Some(details)) => {
            let more: Vec<Box<RawValue>> =
                serde_json::from_str(details.as_str()).unwrap_or_default();
            message
                .reasoning_details
                .get_or_insert_default()
                .extend(more);
        }
        (_, _) => {}
    }
}

/// `DeepSeek` and Kimi, once thinking, refuse every answer with calls that lacks the field, also one that had nothing to think
/// (opencode#25058): where one has it, all get it.
fn echo_empty_reasoning(messages: &mut [WireMessage<'_>]) {
    if messages.iter().any(|m| m.reasoning_content.is_some()) {
        for message in messages.iter_mut().filter(|m| !m.tool_calls.is_empty()) {
            message.reasoning_content.get_or_insert(Cow::Borrowed(""));
        }
    }
}

fn append<'r>(field: &mut Option<Cow<'r, str>>, text: &'r str, between: &str) {
    match field {
        None => *field = Some(Cow::Borrowed(text)),
        Some(before) => {
            let before = before.to_mut();
            before.push_str(between);
            before.push_str(text);
        }
    }
}
