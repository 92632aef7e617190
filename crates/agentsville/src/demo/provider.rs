//! A Provider that plays from a script: Chat Completions over HTTP, as OpenAI documents its stream
//! (<https://platform.openai.com/docs/api-reference/chat-streaming>).
//!
//! It keeps no state: the history that it is sent says where in the script it is, as with a real model, and what it says in the end
//! it takes from the results that the Tools gave.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Body,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
    routing::post,
};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use kernel::ErrorCode;
use runtime::Lifecycle;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{METADATA_URL, ledger};
use crate::failure::Failure;

/// Between two pieces: about as fast as a person reads.
const PACE: Duration = Duration::from_millis(30);
/// Characters of arguments in one piece.
const ARGUMENT_PIECE: usize = 12;

/// The player of the script, serving until the lifecycle's soft step.
#[derive(Debug)]
pub(crate) struct Rehearsal {
    address: SocketAddr,
}

impl Rehearsal {
    /// Its name among the Providers, and its only model.
    pub(crate) const PROVIDER: &str = "rehearsal";
    /// The model's full name.
    pub(crate) const MODEL: &str = "rehearsal/script";

    /// Starts it. `page` is what the script has fetched.
    pub(crate) async fn start(page: String, lifecycle: &Lifecycle) -> Result<Self, Failure> {
        let failed = |error: &std::io::Error| {
            Failure::of(
                ErrorCode::Internal,
                format!("the demo cannot start its scripted Provider: {error}"),
            )
        };
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .map_err(|error| failed(&error))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let routes = Router::new()
            .route("/v1/chat/completions", post(complete))
            .with_state(Arc::from(page));
        let soft = lifecycle.soft();
        lifecycle.spawn_background("scripted Provider", async move {
            let served = axum::serve(listener, routes)
                .with_graceful_shutdown(soft.cancelled_owned())
                .await;
            if let Err(error) = served {
                tracing::warn!(%error, "the scripted Provider ended");
            }
        });
        Ok(Self { address })
    }

    /// The base URL, as `[providers.NAME]` takes it.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

#[derive(Debug, Deserialize)]
struct Request {
    model: String,
    messages: Vec<Message>,
}

#[derive(Debug, Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    tool_calls: Vec<ToolCall>,
    #[serde(default)]
    tool_call_id: String,
}

#[derive(Debug, Deserialize)]
struct ToolCall {
    id: String,
    function: Function,
}

#[derive(Debug, Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: String,
}

/// One step of the script.
#[derive(Debug, PartialEq, Eq)]
struct Scene {
    says: String,
    calls: Vec<(&'static str, Value)>,
}

/// The scene that follows what has happened since the Player last spoke.
fn scene(messages: &[Message], page: &str) -> Scene {
    let since = messages
        .iter()
        .rposition(|message| message.role == "user")
        .unwrap_or(0);
    let answer = &messages[since..];
    let scenes_played = answer
        .iter()
        .filter(|message| !message.tool_calls.is_empty())
        .count();
    match scenes_played {
        0 => Scene {
            says: "I shall look at the clock, at the notice board, and into the ledger.".to_owned(),
            calls: vec![
                ("current_time", json!({})),
                ("fetch_url", json!({ "url": page })),
                (ledger::TOOL, json!({ "account": ledger::ACCOUNT })),
            ],
        },
        1 => Scene {
            says: "Now the other address. It is one where clouds keep a machine's credentials, so let us see what the Village says."
                .to_owned(),
            calls: vec![("fetch_url", json!({ "url": METADATA_URL }))],
        },
        _ => Scene {
            says: closing(answer, page),
            calls: Vec::new(),
        },
    }
}

/// What the results say, in the script's words.
fn closing(answer: &[Message], page: &str) -> String {
    let result = |wanted: &dyn Fn(&Function) -> bool| {
        let call = answer
            .iter()
            .flat_map(|message| &message.tool_calls)
            .find(|call| wanted(&call.function))?;
        answer
            .iter()
            .find(|message| message.tool_call_id == call.id)
            .and_then(|message| message.content.as_str())
    };
    let fetched = |url: &str| {
        result(&|function| function.name == "fetch_url" && function.arguments.contains(url))
    };
    let time =
        result(&|function| function.name == "current_time").map_or("unknown to me", str::trim);
    let notice = fetched(page)
        .and_then(|text| text.lines().find(|line| line.starts_with("Tonight: ")))
        .unwrap_or("I could not read the notice board.");
    let balance = result(&|function| function.name == ledger::TOOL)
        .and_then(|text| text.lines().find(|line| line.starts_with(ledger::ACCOUNT)))
        .unwrap_or("I could not read it.");
    let other = match fetched(METADATA_URL) {
        Some(_) => {
            "The other address was refused, as it should be: nothing was connected to, and I was told why instead of getting a page."
        }
        None => "I did not get to the other address.",
    };
    format!(
        "It is {time}.\n\nFrom the notice board: {notice}\n\nFrom the ledger: {balance}.\n\n{other}"
    )
}

async fn complete(State(page): State<Arc<str>>, Json(request): Json<Request>) -> Response {
    let scene = scene(&request.messages, &page);
    let pieces = stream::iter(chunks(&request, &scene)).then(|data| async move {
        tokio::time::sleep(PACE).await;
        Ok::<_, Infallible>(Bytes::from(format!("data: {data}\n\n")))
    });
    (
        [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-cache"),
        ],
        Body::from_stream(pieces),
    )
        .into_response()
}

/// The scene as chunks of the stream, the last of them `[DONE]`.
fn chunks(request: &Request, scene: &Scene) -> Vec<String> {
    let chunk = |delta: Value, finish: Option<&str>| {
        json!({
            "id": "chatcmpl-rehearsal", "object": "chat.completion.chunk", "created": 0, "model": request.model,
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
        })
        .to_string()
    };
    let mut chunks = vec![chunk(json!({ "role": "assistant", "content": "" }), None)];
    chunks.extend(
        scene
            .says
            .split_inclusive(' ')
            .map(|word| chunk(json!({ "content": word }), None)),
    );
    let so_far = request.messages.len();
    for (index, (name, arguments)) in scene.calls.iter().enumerate() {
        let id = format!("call_{so_far}_{index}");
        chunks.push(chunk(
            json!({ "tool_calls": [{
                "index": index, "id": id, "type": "function", "function": { "name": name, "arguments": "" },
            }] }),
            None,
        ));
        let arguments: Vec<char> = arguments.to_string().chars().collect();
        chunks.extend(arguments.chunks(ARGUMENT_PIECE).map(|piece| {
            let piece: String = piece.iter().collect();
            chunk(
                json!({ "tool_calls": [{ "index": index, "function": { "arguments": piece } }] }),
                None,
            )
        }));
    }
    let finish = if scene.calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    chunks.push(chunk(json!({}), Some(finish)));
    // A script has no tokens; its words come near.
    let words = |text: &str| text.split_whitespace().count();
    let read: usize = request
        .messages
        .iter()
        .map(|message| message.content.as_str().map_or(0, words))
        .sum();
    let written = words(&scene.says);
    chunks.push(
        json!({
            "id": "chatcmpl-rehearsal", "object": "chat.completion.chunk", "created": 0, "model": request.model,
            "choices": [],
            "usage": { "prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written },
        })
        .to_string(),
    );
    chunks.push("[DONE]".to_owned());
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "https://localhost:1/notices";

    fn history(json: Value) -> Vec<Message> {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn the_history_says_where_in_the_script_it_is() {
        let opening = history(
            json!([{ "role": "system", "content": "…" }, { "role": "user", "content": "…" }]),
        );
        assert_eq!(scene(&opening, PAGE).calls.len(), 3);
        let middle = history(json!([
            { "role": "user", "content": "…" },
            { "role": "assistant", "content": "…", "tool_calls": [{ "id": "a", "function": { "name": "current_time", "arguments": "{}" } }] },
            { "role": "tool", "tool_call_id": "a", "content": "noon" },
        ]));
        assert_eq!(
            scene(&middle, PAGE).calls,
            [("fetch_url", json!({ "url": METADATA_URL }))]
        );
    }

    #[test]
    fn the_closing_words_come_from_what_the_tools_said() {
        let whole = history(json!([
            { "role": "user", "content": "…" },
            { "role": "assistant", "content": null, "tool_calls": [
                { "id": "a", "function": { "name": "current_time", "arguments": "{}" } },
                { "id": "b", "function": { "name": "fetch_url", "arguments": format!(r#"{{"url":"{PAGE}"}}"#) } },
                { "id": "d", "function": { "name": "ledger__balance", "arguments": "{}" } }] },
            { "role": "tool", "tool_call_id": "d", "content": "fence\nlantern fund: 128 crowns\nfence" },
            { "role": "tool", "tool_call_id": "b", "content": "fence\nTonight: a play.\nfence" },
            { "role": "tool", "tool_call_id": "a", "content": "2026-11-30T12:00:00Z" },
            { "role": "assistant", "content": null, "tool_calls": [
                { "id": "c", "function": { "name": "fetch_url", "arguments": format!(r#"{{"url":"{METADATA_URL}"}}"#) } }] },
            { "role": "tool", "tool_call_id": "c", "content": "refused" },
        ]));
        let last = scene(&whole, PAGE);
        assert!(last.calls.is_empty());
        assert!(
            last.says.starts_with("It is 2026-11-30T12:00:00Z.\n\nFrom the notice board: Tonight: a play.\n\nFrom the ledger: lantern fund: 128 crowns.\n\nThe other address was refused"),
            "{}",
            last.says
        );
    }
}
