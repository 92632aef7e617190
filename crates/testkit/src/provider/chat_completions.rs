//! Renders a scripted answer as Chat Completions chunks.

use std::collections::VecDeque;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    event,
    step::{Action, End, Piece, Pieces, Step, fragments},
};

pub(super) fn render(step: &Step, request: &Value, number: u64) -> VecDeque<Piece> {
    let chunk = |choices: Value| {
        json!({
            "id": format!("chatcmpl-{number}"),
            "object": "chat.completion.chunk",
            "created": 1,
            "model": request["model"],
            "choices": choices,
        })
    };
    let delta = |delta: Value| {
        let choice = json!([{"index": 0, "delta": delta, "finish_reason": null}]);
        event(&chunk(choice))
    };
    let mut pieces = Pieces::default();
    if step.framed {
        pieces.bytes(delta(json!({"role": "assistant", "content": ""})));
    }
    let mut calls = 0;
    for action in &step.actions {
        match action {
            Action::Text(text) => pieces.bytes(delta(json!({"content": text}))),
            Action::Reasoning(text) => pieces.bytes(delta(json!({"reasoning_content": text}))),
            Action::Call {
                id,
                name,
                arguments,
            } => {
                let id = id
                    .clone()
                    .unwrap_or_else(|| format!("call_{number}_{calls}"));
                pieces.bytes(delta(json!({"tool_calls": [{
                    "index": calls,
                    "id": id,
                    "type": "function",
                    "function": {"name": name, "arguments": ""},
                }]})));
                for fragment in fragments(arguments) {
                    pieces.bytes(delta(json!({"tool_calls": [{
                        "index": calls,
                        "function": {"arguments": fragment},
                    }]})));
                }
                calls += 1;
            }
            Action::Piece(piece) => pieces.0.push_back(piece.clone()),
        }
    }
    let reason = match &step.end {
        End::Missing => return pieces.0,
        End::Proper if step.has_calls() => "tool_calls",
        End::Proper => "stop",
        End::Reason(reason) => reason,
    };
    let choice = json!([{"index": 0, "delta": {}, "finish_reason": reason}]);
    pieces.bytes(event(&chunk(choice)));
    if request["stream_options"]["include_usage"] == true {
        let mut usage = chunk(json!([]));
        usage["usage"] = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
        pieces.bytes(event(&usage));
    }
    pieces.bytes(Bytes::from_static(b"data: [DONE]\n\n"));
    pieces.0
}
