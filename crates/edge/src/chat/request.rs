//! What a client asks: the body of `DefaultChatTransport`.
//!
//! The transport sends the whole history and whatever the page adds; all but the last user Message is left alone.

use kernel::limits::CLIENT_ID_CHARS;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use utoipa::ToSchema;

use crate::{body::quoted, problem::Problem};

/// What `DefaultChatTransport` of the npm package `ai` sends, and `npc` (`body: {npc: "…"}`). Other fields are ignored.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatBody {
    /// The Conversation's id, which the client chooses. At most 200 characters.
    id: String,
    /// The NPC, by name or id.
    npc: String,
    /// `UIMessage`s, the last of them the user's. Only its text Parts are read.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<Value>,
    /// `submit-message` or `regenerate-message`.
    trigger: String,
    /// With `submit-message`: the Message that is edited. With `regenerate-message`: the answer to give again.
    message_id: Option<String>,
}

/// What a client asks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChatRequest {
    pub(super) conversation: String,
    pub(super) npc: String,
    pub(super) question: Question,
}

/// What the turn is to answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// A new Message.
    Submit { id: String, text: String },
    /// A Message in the place of the stored one of that id.
    Edit { id: String, text: String },
    /// The answer to this Message again; which one, unless it is the last.
    Regenerate { id: String, answer: Option<String> },
}

/// Reads the body.
pub(super) fn read(body: &Map<String, Value>) -> Result<ChatRequest, Problem> {
    let conversation = required_id(
        body,
        "id",
        "the Conversation's id, which the client chooses",
    )?;
    let npc = required_id(
        body,
        "npc",
        "the NPC's name or id (with `ai`: new DefaultChatTransport({body: {npc: \"…\"}}))",
    )?;
    let message_id = optional_id(body, "messageId")?;
    let message = last_message(body)?;
    let trigger = match body.get("trigger") {
        None => "submit-message",
        Some(Value::String(trigger)) => trigger,
        Some(_) => return Err(no_trigger("something else than a text")),
    };
    let question = match trigger {
        "submit-message" => submit(message, message_id)?,
        "regenerate-message" => {
            let id = message_own_id(message)?;
            // A client may also point at the question; its answer is the last one then.
            let answer = message_id.filter(|answer| *answer != id);
            Question::Regenerate { id, answer }
        }
        other => return Err(no_trigger(&quoted(other))),
    };
    Ok(ChatRequest {
        conversation,
        npc,
        question,
    })
}

/// The request id of an edit: the same edit again is a retry, and another text is another edit.
pub(super) fn edit_id(message: &str, text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    join(message, &hex(&digest[..16]))
}

/// The request id of an answer that is given again.
pub(super) fn regenerate_id(message: &str, answer: &str) -> String {
    join(message, answer)
}

/// Two ids as one, which is hashed when it would be longer than an id may be.
fn join(message: &str, other: &str) -> String {
    let joined = format!("{message}:{other}");
    if joined.chars().count() <= CLIENT_ID_CHARS {
        return joined;
    }
    hex(&Sha256::digest(joined.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    bytes.iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

fn submit(message: &Map<String, Value>, message_id: Option<String>) -> Result<Question, Problem> {
    if message.get("role").and_then(Value::as_str) != Some("user") {
        return Err(Problem::field(
            "messages",
            "the last Message is not the user's; results and approvals of Tools cannot be sent, since Tools run in the Village",
        ));
    }
    let text = text_of(message)?;
    Ok(match message_id {
        None => Question::Submit {
            id: message_own_id(message)?,
            text,
        },
        Some(id) => Question::Edit { id, text },
    })
}

/// The last Message; for an answer again, the last user Message is the one that it answers.
fn last_message(body: &Map<String, Value>) -> Result<&Map<String, Value>, Problem> {
    let Some(Value::Array(messages)) = body.get("messages") else {
        return Err(Problem::field(
            "messages",
            "messages is missing or no list; send the `UIMessage`s of the chat, or only the last one",
        ));
    };
    let regenerates = body.get("trigger").and_then(Value::as_str) == Some("regenerate-message");
    let is_user =
        |message: &&Map<String, Value>| message.get("role").and_then(Value::as_str) == Some("user");
    let mut newest_first = messages.iter().rev().filter_map(Value::as_object);
    let message = if regenerates {
        newest_first.find(is_user)
    } else {
        newest_first.next()
    };
    message.ok_or_else(|| {
        Problem::field(
            "messages",
            "messages holds no Message of the user; send at least the last one",
        )
    })
}

fn text_of(message: &Map<String, Value>) -> Result<String, Problem> {
    let Some(Value::Array(parts)) = message.get("parts") else {
        return Err(Problem::field(
            "messages",
            "the last Message has no list of parts; send a `UIMessage`: {id, role, parts: [{type: \"text\", text}]}",
        ));
    };
    let mut whole = String::new();
    for part in parts {
        match part.get("type").and_then(Value::as_str) {
            Some("text") => {
                let text = part.get("text").and_then(Value::as_str).ok_or_else(|| {
                    Problem::field("messages", "a text part of the last Message has no text")
                })?;
                whole.push_str(text);
            }
            Some("file") => {
                return Err(Problem::field(
                    "messages",
                    "the last Message has a file part; this Village takes text only, so put what matters into the text",
                ));
            }
            // Parts that a page adds for itself, such as data-….
            Some(_) | None => {}
        }
    }
    if whole.trim().is_empty() {
        return Err(Problem::field(
            "messages",
            "the last Message has no text; write something",
        ));
    }
    Ok(whole)
}

fn message_own_id(message: &Map<String, Value>) -> Result<String, Problem> {
    match message.get("id") {
        Some(Value::String(id)) => checked_id("messages", id),
        _ => Err(Problem::field(
            "messages",
            "the last Message has no id; its id names the request, so that a retry does not ask twice",
        )),
    }
}

fn required_id(body: &Map<String, Value>, field: &str, what: &str) -> Result<String, Problem> {
    match body.get(field) {
        Some(Value::String(id)) => checked_id(field, id),
        _ => Err(Problem::field(
            field,
            format!("{field} is missing or no text; send {what}"),
        )),
    }
}

fn optional_id(body: &Map<String, Value>, field: &str) -> Result<Option<String>, Problem> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(id)) => checked_id(field, id).map(Some),
        Some(_) => Err(Problem::field(field, format!("{field} is not a text"))),
    }
}

fn checked_id(field: &str, id: &str) -> Result<String, Problem> {
    let length = id.chars().count();
    if length == 0 || length > CLIENT_ID_CHARS {
        return Err(Problem::field(
            field,
            format!(
                "{field}: an id has 1 to {CLIENT_ID_CHARS} characters, and this one has {length}"
            ),
        ));
    }
    Ok(id.to_owned())
}

fn no_trigger(found: &str) -> Problem {
    Problem::field(
        "trigger",
        format!("trigger is {found}, and not submit-message or regenerate-message"),
    )
}

#[cfg(test)]
mod tests;
