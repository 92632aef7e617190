//! Stored Parts as a history that every Provider accepts.
//!
//! What a model reads of a step is made by one function, in the step itself and in every later turn, so that the prompt's prefix
//! stays the same and is cached.
//!
//! **Invariants.** Every call is followed by exactly one result. Reasoning goes back only to the model that it came from, and only
//! with what that model sent to prove it. Roles alternate.

#[cfg(test)]
mod tests;

use kernel::{JsonText, ToolName};
use llm::{AssistantBlock, CallArguments, Message, ToolResult};

use crate::parts::{Call, Content, NoticeCode, Outcome, Part, Progress, ProviderMeta};

/// What the model reads of a call that has no result of its own.
pub(crate) const INTERRUPTED: &str = "Failed: the call was interrupted before it gave a result. Whether it took effect is not known.";

/// What stands between the results of calls and the next question when the turn ended before the model had answered: some chat
/// templates refuse a question right after results (Mistral: "Unexpected role 'user' after role 'tool'").
const UNANSWERED: &str = "(The turn ended before this was answered.)";

/// Adds what the Player said.
pub(crate) fn push_question(history: &mut Vec<Message>, said: &str) {
    if let Some(Message::ToolResults(_)) = history.last() {
        history.push(Message::Assistant {
            blocks: vec![AssistantBlock::Text(UNANSWERED.to_owned())],
        });
    }
    // A turn that ended without a word leaves two questions in a row, which some chat templates refuse.
    if let Some(Message::User { text }) = history.last_mut() {
        text.push_str("\n\n");
        text.push_str(said);
        return;
    }
    history.push(Message::User {
        text: said.to_owned(),
    });
}

/// Adds an answer, step by step. `model` is the one that will read it.
pub(crate) fn push_answer(history: &mut Vec<Message>, parts: &[Part], model: &str) {
    for step in parts.chunk_by(|a, b| a.step == b.step) {
        push_step(history, step, model);
    }
}

/// Adds what the model wrote in one step, and the results of its calls. What stands before a retry was a failed attempt.
pub(crate) fn push_step(history: &mut Vec<Message>, parts: &[Part], model: &str) {
    let begin = parts
        .iter()
        .rposition(|part| {
            matches!(
                part.content,
                Content::Notice {
                    code: NoticeCode::Retry,
                    ..
                }
            )
        })
        .map_or(0, |retry| retry + 1);
    let mut blocks = Vec::new();
    let mut results = Vec::new();
    for part in &parts[begin..] {
        match &part.content {
            Content::Text(prose) if !prose.text.is_empty() => {
                blocks.push(AssistantBlock::Text(prose.text.clone()));
            }
            Content::Reasoning(prose) => {
                if let Some(meta) = own_meta(prose.meta.as_ref(), model) {
                    blocks.push(AssistantBlock::Reasoning {
                        text: prose.text.clone(),
                        meta: Some(meta),
                    });
                }
            }
            Content::Call(call) => {
                let id = call.id.to_string();
                let name = replayable_name(&call.tool);
                blocks.push(AssistantBlock::Call {
                    id: id.clone(),
                    name: name.clone(),
                    arguments: replayable_arguments(call),
                    meta: own_meta(call.meta.as_ref(), model),
                });
                let (text, failed) = model_reads(&call.progress);
                results.push(ToolResult {
                    call_id: id,
                    name,
                    text,
                    failed,
                });
            }
            Content::Text(_) | Content::Notice { .. } => {}
        }
    }
    // Thinking alone is no answer on any wire: without it the questions around it are one.
    if blocks
        .iter()
        .all(|block| matches!(block, AssistantBlock::Reasoning { .. }))
    {
        return;
    }
    match history.last_mut() {
        Some(Message::Assistant { blocks: earlier }) => earlier.append(&mut blocks),
        Some(Message::User { .. } | Message::ToolResults(_)) | None => {
            history.push(Message::Assistant { blocks });
        }
    }
    if !results.is_empty() {
        history.push(Message::ToolResults(results));
    }
}

/// What the model reads of a call's result, and whether it failed.
fn model_reads(progress: &Progress) -> (String, bool) {
    match progress.outcome() {
        Some(Outcome::Ok(output)) => (text_of(output), false),
        Some(Outcome::Error(sentence) | Outcome::Denied(sentence)) => {
            (format!("Failed: {sentence}"), true)
        }
        Some(Outcome::Interrupted(sentence)) => (format!("Failed: {sentence}"), true),
        None => (INTERRUPTED.to_owned(), true),
    }
}

/// A JSON string as its text, and other JSON as it stands.
fn text_of(output: &JsonText) -> String {
    serde_json::from_str::<String>(output.as_str())
        .unwrap_or_else(|_other| output.as_str().to_owned())
}

/// Signatures are their maker's: another model would refuse them.
fn own_meta(meta: Option<&ProviderMeta>, model: &str) -> Option<JsonText> {
    meta.filter(|meta| meta.from == model)
        .map(|meta| meta.meta.clone())
}

/// Providers check names in the history against the same pattern as in the Tool set, and models invent some that do not match.
fn replayable_name(name: &str) -> String {
    if name.parse::<ToolName>().is_ok() {
        return name.to_owned();
    }
    let name: String = name
        .chars()
        .take(ToolName::MAX)
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect();
    if name.is_empty() {
        "unnamed".to_owned()
    } else {
        name
    }
}

/// Arguments as an object, as Anthropic wants them.
fn replayable_arguments(call: &Call) -> JsonText {
    let raw = match JsonText::parse(&call.input) {
        Ok(json) if json.is_object() => return json,
        Ok(json) => text_of(&json),
        Err(_streaming) => call.input.clone(),
    };
    CallArguments::Cut { raw }.for_replay()
}
