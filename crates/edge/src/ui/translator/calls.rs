//! Tool calls: how far the client was told of each.

use std::collections::BTreeMap;

use proto::turn::v1::{MediaReference, Outcome, ToolCallPart, ToolCallState};

use crate::ui::{
    chunk::{Chunk, Dynamic},
    words,
};

/// What a call that is still open when its turn ends is told to be.
const UNSETTLED: &str = "the turn ended before this call had a result";

/// The calls by their ids.
#[derive(Debug, Default)]
pub(super) struct Calls(BTreeMap<String, Call>);

#[derive(Debug)]
struct Call {
    tool_name: String,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The arguments stream; this much of their text was sent.
    Streaming { sent: String },
    /// The arguments are whole.
    Running,
    /// The call has its one result.
    Settled,
}

impl Calls {
    pub(super) fn whole(&mut self, call: ToolCallPart, out: &mut Vec<Chunk>) {
        let (state, outcome) = (call.state(), call.outcome());
        let ToolCallPart {
            call_id,
            tool_name,
            input_json,
            output_json,
            sentence,
            media,
            ..
        } = call;
        match state {
            ToolCallState::Unspecified | ToolCallState::InputStreaming => {
                self.open(call_id.clone(), tool_name, out);
                if let Some(Stage::Streaming { sent }) =
                    self.0.get(&call_id).map(|known| &known.stage)
                    && let Some(rest) = input_json.strip_prefix(sent.as_str())
                    && !rest.is_empty()
                {
                    self.add_input(call_id, rest, out);
                }
            }
            ToolCallState::Running => self.input_available(call_id, tool_name, &input_json, out),
            ToolCallState::Ended => {
                self.input_available(call_id.clone(), tool_name, &input_json, out);
                if outcome == Outcome::Ok {
                    self.succeed(call_id, &output_json, media, out);
                } else {
                    self.fail(call_id, words::failure(outcome, sentence), media, out);
                }
            }
            ToolCallState::Refused => self.refuse(
                call_id,
                tool_name,
                &input_json,
                words::failure(outcome, sentence),
                out,
            ),
        }
    }

    pub(super) fn open(&mut self, call_id: String, tool_name: String, out: &mut Vec<Chunk>) {
        if self.0.contains_key(&call_id) {
            return;
        }
        out.push(Chunk::ToolInputStart {
            tool_call_id: call_id.clone(),
            tool_name: tool_name.clone(),
            dynamic: Dynamic,
        });
        let stage = Stage::Streaming {
            sent: String::new(),
        };
        self.0.insert(call_id, Call { tool_name, stage });
    }

    pub(super) fn add_input(&mut self, call_id: String, delta: &str, out: &mut Vec<Chunk>) {
        if let Some(Stage::Streaming { sent }) =
            self.0.get_mut(&call_id).map(|call| &mut call.stage)
        {
            sent.push_str(delta);
            out.push(Chunk::ToolInputDelta {
                tool_call_id: call_id,
                input_text_delta: delta.to_owned(),
                dynamic: Dynamic,
            });
        }
    }

    pub(super) fn input_available(
        &mut self,
        call_id: String,
        tool_name: String,
        input_json: &str,
        out: &mut Vec<Chunk>,
    ) {
        if !self.reach(&call_id, &tool_name, Stage::Running) {
            return;
        }
        out.push(Chunk::ToolInputAvailable {
            tool_call_id: call_id,
            tool_name,
            input: words::raw_json(input_json),
            dynamic: Dynamic,
        });
    }

    pub(super) fn refuse(
        &mut self,
        call_id: String,
        tool_name: String,
        input_json: &str,
        error_text: String,
        out: &mut Vec<Chunk>,
    ) {
        if !self.reach(&call_id, &tool_name, Stage::Settled) {
            return;
        }
        out.push(Chunk::ToolInputError {
            tool_call_id: call_id,
            tool_name,
            input: words::raw_json(input_json),
            error_text,
            dynamic: Dynamic,
        });
    }

    /// Moves a call on, and says whether it was not there yet. A call that the client never saw is made known by the chunk
    /// that carries its arguments.
    fn reach(&mut self, call_id: &str, tool_name: &str, stage: Stage) -> bool {
        let Some(call) = self.0.get_mut(call_id) else {
            let tool_name = tool_name.to_owned();
            self.0.insert(call_id.to_owned(), Call { tool_name, stage });
            return true;
        };
        let further = matches!(
            (&call.stage, &stage),
            (Stage::Streaming { .. }, Stage::Running | Stage::Settled)
        );
        if further {
            call.stage = stage;
        }
        further
    }

    pub(super) fn succeed(
        &mut self,
        call_id: String,
        output_json: &str,
        media: Vec<MediaReference>,
        out: &mut Vec<Chunk>,
    ) {
        if self.settle(&call_id) {
            out.push(Chunk::ToolOutputAvailable {
                tool_call_id: call_id,
                output: words::raw_json(output_json),
                dynamic: Dynamic,
            });
            out.extend(media.into_iter().map(file));
        }
    }

    pub(super) fn fail(
        &mut self,
        call_id: String,
        error_text: String,
        media: Vec<MediaReference>,
        out: &mut Vec<Chunk>,
    ) {
        if self.settle(&call_id) {
            out.push(Chunk::ToolOutputError {
                tool_call_id: call_id,
                error_text,
                dynamic: Dynamic,
            });
            out.extend(media.into_iter().map(file));
        }
    }

    pub(super) fn settle_all(&mut self, out: &mut Vec<Chunk>) {
        for (call_id, call) in &mut self.0 {
            let tool_call_id = call_id.clone();
            let error_text = UNSETTLED.to_owned();
            match std::mem::replace(&mut call.stage, Stage::Settled) {
                Stage::Settled => {}
                Stage::Running => out.push(Chunk::ToolOutputError {
                    tool_call_id,
                    error_text,
                    dynamic: Dynamic,
                }),
                Stage::Streaming { sent } => out.push(Chunk::ToolInputError {
                    tool_call_id,
                    tool_name: call.tool_name.clone(),
                    input: words::raw_json(&sent),
                    error_text,
                    dynamic: Dynamic,
                }),
            }
        }
    }

    /// Settles a known call once. A client throws on the result of a call that it never saw.
    fn settle(&mut self, call_id: &str) -> bool {
        match self.0.get_mut(call_id) {
            Some(call) if !matches!(call.stage, Stage::Settled) => {
                call.stage = Stage::Settled;
                true
            }
            Some(_) | None => false,
        }
    }
}

fn file(media: MediaReference) -> Chunk {
    Chunk::File {
        url: words::media_url(&media),
        media_type: words::media_type(media),
    }
}
