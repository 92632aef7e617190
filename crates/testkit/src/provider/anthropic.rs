//! Renders a scripted answer as events of the Messages API.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use serde_json::{Value, json};

use super::{
    named_event,
    step::{Action, End, Piece, Pieces, Step, fragments},
};

/// What a real Provider signs thinking with is secret; this is only meant to be checked.
pub(super) fn signature(thinking: &str) -> String {
    let mut hasher = DefaultHasher::new();
    thinking.hash(&mut hasher);
    format!("signed{:016x}", hasher.finish())
}

/// The content block that is being written.
enum Block {
    None,
    Text,
    Thinking(String),
}

struct Writer {
    pieces: Pieces,
    index: u64,
    block: Block,
}

impl Writer {
    fn event(&mut self, data: &Value) {
        self.pieces.bytes(named_event(data));
    }

    fn start(&mut self, block: &Value) {
        let data =
            json!({"type": "content_block_start", "index": self.index, "content_block": block});
        self.event(&data);
    }

    fn delta(&mut self, delta: &Value) {
        let data = json!({"type": "content_block_delta", "index": self.index, "delta": delta});
        self.event(&data);
    }

    fn stop(&mut self) {
        let data = json!({"type": "content_block_stop", "index": self.index});
        self.event(&data);
        self.index += 1;
    }

    fn close(&mut self) {
        match std::mem::replace(&mut self.block, Block::None) {
            Block::None => {}
            Block::Text => self.stop(),
            Block::Thinking(thinking) => {
                let signature = signature(&thinking);
                self.delta(&json!({"type": "signature_delta", "signature": signature}));
                self.stop();
            }
        }
    }
}

pub(super) fn render(step: &Step, request: &Value, number: u64) -> VecDeque<Piece> {
    let mut writer = Writer {
        pieces: Pieces::default(),
        index: 0,
        block: Block::None,
    };
    if step.framed {
        writer.event(&json!({"type": "message_start", "message": {
            "id": format!("msg_{number}"),
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": [],
            "stop_reason": null,
            "usage": {"input_tokens": 10, "output_tokens": 1},
        }}));
    }
    for action in &step.actions {
        match action {
            Action::Text(text) => {
                if !matches!(writer.block, Block::Text) {
                    writer.close();
                    writer.start(&json!({"type": "text", "text": ""}));
                    writer.block = Block::Text;
                }
                writer.delta(&json!({"type": "text_delta", "text": text}));
            }
            Action::Reasoning(text) => {
                if !matches!(writer.block, Block::Thinking(_)) {
                    writer.close();
                    writer.start(&json!({"type": "thinking", "thinking": "", "signature": ""}));
                    writer.block = Block::Thinking(String::new());
                }
                if let Block::Thinking(thinking) = &mut writer.block {
                    thinking.push_str(text);
                }
                writer.delta(&json!({"type": "thinking_delta", "thinking": text}));
            }
            Action::Call {
                id,
                name,
                arguments,
            } => {
                writer.close();
                let index = writer.index;
                let id = id
                    .clone()
                    .unwrap_or_else(|| format!("toolu_{number}_{index}"));
                writer.start(&json!({"type": "tool_use", "id": id, "name": name, "input": {}}));
                for fragment in fragments(arguments) {
                    writer.delta(&json!({"type": "input_json_delta", "partial_json": fragment}));
                }
                writer.stop();
            }
            Action::Piece(piece) => writer.pieces.0.push_back(piece.clone()),
        }
    }
    let reason = match &step.end {
        End::Missing => return writer.pieces.0,
        End::Proper if step.has_calls() => "tool_use",
        End::Proper => "end_turn",
        End::Reason(reason) => reason,
    };
    writer.close();
    writer.event(&json!({
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": null},
        "usage": {"output_tokens": 5},
    }));
    writer.event(&json!({"type": "message_stop"}));
    writer.pieces.0
}
