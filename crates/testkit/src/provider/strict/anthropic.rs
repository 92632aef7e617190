//! Messages, as Anthropic judges them.

use http::HeaderMap;
use serde_json::Value;

use super::{Judged, array, model_and_stream, only, unique_names, word};
use crate::provider::anthropic::signature;

/// Judges a body and its headers.
pub(in crate::provider) fn judge(body: &Value, headers: &HeaderMap) -> Judged {
    if headers.get("anthropic-version").is_none() {
        return Err("anthropic-version: header is required".to_owned());
    }
    only(
        body,
        &[
            "model",
            "max_tokens",
            "system",
            "messages",
            "tools",
            "tool_choice",
            "thinking",
            "stream",
        ],
        "body",
    )?;
    model_and_stream(body)?;
    if body["max_tokens"].as_u64().is_none_or(|tokens| tokens == 0) {
        return Err("max_tokens: Field required".to_owned());
    }
    if !body["thinking"].is_null() {
        let budget = body["thinking"]["budget_tokens"].as_u64().unwrap_or(0);
        if budget < 1_024 || body["max_tokens"].as_u64() <= Some(budget) {
            return Err(
                "thinking.budget_tokens: at least 1024, and less than max_tokens".to_owned(),
            );
        }
    }
    let messages = array(&body["messages"], "messages")?;
    tools(body, messages)?;
    let mut ids: Vec<&str> = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let place = format!("messages.{at}");
        only(message, &["role", "content"], &place)?;
        let expected = if at % 2 == 0 { "user" } else { "assistant" };
        if message["role"] != expected {
            return Err(format!(
                "{place}: roles must alternate between \"user\" and \"assistant\", starting with \"user\""
            ));
        }
        let blocks = array(&message["content"], &format!("{place}.content"))?;
        if expected == "user" {
            user(blocks, &place, &open)?;
            open.clear();
        } else {
            open = assistant(blocks, &place, &mut ids)?;
        }
    }
    if messages.len() % 2 == 0 {
        return Err(
            "messages: the last message must be of the user; this model does not take a prefill"
                .to_owned(),
        );
    }
    thinking_goes_on(body, messages)
}

fn tools(body: &Value, messages: &[Value]) -> Judged {
    if body["tools"].is_null() {
        if !body["tool_choice"].is_null() {
            return Err("tool_choice: tools are required".to_owned());
        }
        let uses = messages
            .iter()
            .filter_map(|message| message["content"].as_array())
            .flatten()
            .any(|block| block["type"] == "tool_use" || block["type"] == "tool_result");
        return if uses {
            Err(
                "Requests which have `tool_use` or `tool_result` blocks in their content must define tools"
                    .to_owned(),
            )
        } else {
            Ok(())
        };
    }
    let tools = array(&body["tools"], "tools")?;
    for tool in tools {
        if tool["input_schema"]["type"] != "object" {
            return Err(format!(
                "tools.input_schema.type: object was expected: {tool}"
            ));
        }
    }
    unique_names(tools.iter().map(|tool| &tool["name"]))
}

/// A user's message: first exactly the results that are due, then text.
fn user(blocks: &[Value], place: &str, open: &[&str]) -> Judged {
    let mut answered: Vec<&str> = Vec::new();
    let mut said = false;
    for block in blocks {
        match block["type"].as_str() {
            Some("text") => {
                text(block, place)?;
                said = true;
            }
            Some("tool_result") => {
                let id = block["tool_use_id"].as_str().unwrap_or_default();
                if !open.contains(&id) {
                    return Err(format!(
                        "{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
                    ));
                }
                if answered.contains(&id) {
                    return Err(format!(
                        "{place}: each tool_use must have a single result: {id}"
                    ));
                }
                if said {
                    return Err(format!(
                        "{place}: `tool_use` ids were found without `tool_result` blocks immediately after: {id}"
                    ));
                }
                answered.push(id);
            }
            Some(_) | None => return Err(format!("{place}: unknown block {block}")),
        }
    }
    match open.iter().find(|id| !answered.contains(id)) {
        Some(id) => Err(format!(
            "{place}: `tool_use` ids were found without `tool_result` blocks immediately after: {id}"
        )),
        None => Ok(()),
    }
}

/// An answer: thinking first, calls last. Gives the ids of its calls.
fn assistant<'v>(
    blocks: &'v [Value],
    place: &str,
    ids: &mut Vec<&'v str>,
) -> Result<Vec<&'v str>, String> {
    let mut mine = Vec::new();
    let thinks = |block: &Value| {
        block["type"]
            .as_str()
            .is_some_and(|t| t.ends_with("thinking"))
    };
    if blocks.iter().any(thinks) && !thinks(&blocks[0]) {
        return Err(format!("{place}: thinking must come first"));
    }
    for block in blocks {
        if !mine.is_empty() && block["type"] != "tool_use" {
            return Err(format!(
                "{place}: nothing may follow `tool_use` blocks: {block}"
            ));
        }
        match block["type"].as_str() {
            Some("text") => text(block, place)?,
            Some("thinking") => {
                let thinking = block["thinking"].as_str().unwrap_or_default();
                if block["signature"] != signature(thinking) {
                    return Err(format!("{place}: Invalid `signature` in `thinking` block"));
                }
            }
            Some("redacted_thinking") => {
                if block["data"].as_str().is_none_or(str::is_empty) {
                    return Err(format!(
                        "{place}: Invalid `data` in `redacted_thinking` block"
                    ));
                }
            }
            Some("tool_use") => {
                let id = word(&block["id"], 64, &format!("{place}.tool_use.id"))?;
                if ids.contains(&id) {
                    return Err(format!("{place}: `tool_use` ids must be unique: {id}"));
                }
                word(&block["name"], 128, &format!("{place}.tool_use.name"))?;
                if !block["input"].is_object() {
                    return Err(format!("{place}.tool_use.input: Input should be an object"));
                }
                ids.push(id);
                mine.push(id);
            }
            Some(_) | None => return Err(format!("{place}: unknown block {block}")),
        }
    }
    if blocks.iter().all(thinks) {
        return Err(format!("{place}: thinking alone is no message"));
    }
    Ok(mine)
}

fn text(block: &Value, place: &str) -> Judged {
    match block["text"].as_str() {
        Some(text) if !text.trim().is_empty() => Ok(()),
        Some(_) | None => Err(format!("{place}: text content blocks must be non-empty")),
    }
}

/// With thinking on, a step that goes on from calls shows the thinking that led to them.
fn thinking_goes_on(body: &Value, messages: &[Value]) -> Judged {
    let [.., answer, last] = messages else {
        return Ok(());
    };
    let goes_on = last["content"][0]["type"] == "tool_result";
    let first = answer["content"][0]["type"].as_str().unwrap_or_default();
    if !body["thinking"].is_null() && goes_on && !first.ends_with("thinking") {
        return Err(format!(
            "Expected `thinking` or `redacted_thinking`, but found `{first}`. When `thinking` is enabled, a final `assistant` message must start with a thinking block"
        ));
    }
    Ok(())
}
