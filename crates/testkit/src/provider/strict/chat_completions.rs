//! Chat Completions, as OpenAI judges them and the compatible ones wish to.

use serde_json::Value;

use super::{Judged, array, model_and_stream, only, unique_names, word};

/// Judges a body.
pub(in crate::provider) fn judge(body: &Value) -> Judged {
    only(
        body,
        &[
            "model",
            "messages",
            "tools",
            "tool_choice",
            "stream",
            "stream_options",
            "max_tokens",
            "max_completion_tokens",
        ],
        "body",
    )?;
    model_and_stream(body)?;
    tools(body)?;
    let messages = array(&body["messages"], "messages")?;
    let mut ids: Vec<&str> = Vec::new();
    let mut at = 0;
    while let Some(message) = messages.get(at) {
        let place = format!("messages.[{at}]");
        at += 1;
        match message["role"].as_str() {
            Some("system") if at > 1 => {
                return Err(format!("{place}: a system message must be the first"));
            }
            Some("system" | "user") => {
                only(message, &["role", "content"], &place)?;
                if message["content"].as_str().is_none_or(str::is_empty) {
                    return Err(format!(
                        "{place}.content: a text that is not empty was expected"
                    ));
                }
            }
            Some("assistant") => {
                let calls = assistant(message, &place, &mut ids)?;
                let results = messages[at..]
                    .iter()
                    .take_while(|message| message["role"] == "tool")
                    .count();
                answered(&calls, &messages[at..at + results])?;
                at += results;
            }
            Some("tool") => {
                return Err(format!(
                    "{place}: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'"
                ));
            }
            Some(_) | None => return Err(format!("{place}.role: unknown role")),
        }
    }
    if messages
        .last()
        .is_some_and(|last| last["role"] == "assistant")
    {
        return Err("messages: expected last role user or tool, but got assistant".to_owned());
    }
    if messages.iter().all(|message| message["role"] == "system") {
        return Err("messages: there is only a system message".to_owned());
    }
    Ok(())
}

fn tools(body: &Value) -> Judged {
    if body["tools"].is_null() {
        return if body["tool_choice"].is_null() {
            Ok(())
        } else {
            Err("tool_choice is only allowed when tools are specified".to_owned())
        };
    }
    let tools = array(&body["tools"], "tools")?;
    for tool in tools {
        if tool["type"] != "function" || tool["function"]["parameters"]["type"] != "object" {
            return Err(format!(
                "tools: a function whose parameters are of type object was expected: {tool}"
            ));
        }
    }
    unique_names(tools.iter().map(|tool| &tool["function"]["name"]))
}

/// The ids of the calls that a message makes.
fn assistant<'v>(
    message: &'v Value,
    place: &str,
    ids: &mut Vec<&'v str>,
) -> Result<Vec<&'v str>, String> {
    only(
        message,
        &[
            "role",
            "content",
            "tool_calls",
            "reasoning_content",
            "reasoning",
            "reasoning_details",
        ],
        place,
    )?;
    let content = &message["content"];
    if !content.is_null() && content.as_str().is_none_or(str::is_empty) {
        return Err(format!(
            "{place}.content: null or a text that is not empty was expected"
        ));
    }
    if message["tool_calls"].is_null() {
        return if content.is_null() {
            Err(format!("{place}: content or tool_calls must be set"))
        } else {
            Ok(Vec::new())
        };
    }
    let mut mine = Vec::new();
    for call in array(&message["tool_calls"], place)? {
        only(call, &["id", "type", "function", "extra_content"], place)?;
        let id = word(&call["id"], 40, &format!("{place}.tool_calls.id"))?;
        if ids.contains(&id) {
            return Err(format!("{place}: duplicate tool call id {id}"));
        }
        ids.push(id);
        mine.push(id);
        if call["type"] != "function" {
            return Err(format!("{place}.tool_calls.type: function was expected"));
        }
        word(
            &call["function"]["name"],
            64,
            &format!("{place}.tool_calls.function.name"),
        )?;
        let Some(arguments) = call["function"]["arguments"].as_str() else {
            return Err(format!(
                "{place}.tool_calls.function.arguments: a string was expected"
            ));
        };
        if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
            return Err(format!(
                "{place}.tool_calls.function.arguments: JSON of an object was expected: {arguments}"
            ));
        }
    }
    Ok(mine)
}

/// Every call has one result right behind it, and every result its call.
fn answered(calls: &[&str], results: &[Value]) -> Judged {
    let mut answered: Vec<&str> = Vec::new();
    for result in results {
        only(result, &["role", "content", "tool_call_id"], "tool message")?;
        if !result["content"].is_string() {
            return Err("tool message: content must be a text".to_owned());
        }
        let id = result["tool_call_id"].as_str().unwrap_or_default();
        if !calls.contains(&id) {
            return Err(format!(
                "messages with role 'tool' must be a response to a preceeding message with 'tool_calls': {id}"
            ));
        }
        if answered.contains(&id) {
            return Err(format!("duplicate response to tool_call_id {id}"));
        }
        answered.push(id);
    }
    match calls.iter().find(|id| !answered.contains(id)) {
        Some(id) => Err(format!(
            "an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'; the following did not have response messages: {id}"
        )),
        None => Ok(()),
    }
}
