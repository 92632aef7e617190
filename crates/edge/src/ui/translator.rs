//! Events and snapshots of one turn, in any mixture, as chunks.

use std::collections::{BTreeMap, BTreeSet};

use proto::turn::v1::{
    FinishReason, Limit, Outcome, Part, ToolCallPart, ToolCallState, Turn, TurnEnded, TurnEvent,
    TurnSnapshot, TurnStatus, Usage, part::Content, turn_event::Event,
};

use super::{
    chunk::{Chunk, Dynamic, EndMetadata, StartMetadata, UsageView},
    message::NoticeData,
    words,
};

/// What a call that is still open when its turn ends is told to be.
const UNSETTLED: &str = "the turn ended before this call had a result";

/// Events are missing: watch again, from a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The event that should have come.
    pub expected: u64,
    /// The event that came.
    pub found: u64,
}

/// Turns what a watcher gets into chunks. It remembers what the client was told, so that a snapshot, at the start or in the
/// middle, adds only what is missing, and an event that is told twice adds nothing.
#[derive(Debug, Default)]
pub struct Translator {
    last: u64,
    progress: Progress,
    step: u32,
    step_open: bool,
    texts: BTreeMap<u32, Text>,
    calls: BTreeMap<String, Call>,
    notices: BTreeSet<u32>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Progress {
    #[default]
    Waiting,
    Started,
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextKind {
    Text,
    Reasoning,
}

#[derive(Debug)]
struct Text {
    kind: TextKind,
    sent_bytes: usize,
    ended: bool,
}

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

impl Translator {
    /// The last event that was told: where to watch on from.
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// Whether the end was told. Nothing follows it.
    pub fn has_ended(&self) -> bool {
        self.progress == Progress::Ended
    }

    /// Adds what a snapshot says and the client was not told.
    pub fn snapshot(&mut self, snapshot: TurnSnapshot, out: &mut Vec<Chunk>) {
        if self.has_ended() {
            return;
        }
        let TurnSnapshot {
            turn,
            message,
            number,
        } = snapshot;
        let turn = turn.unwrap_or_default();
        self.start(
            &turn.conversation_id,
            &turn.id,
            turn.message_id.clone(),
            out,
        );
        for part in message.map(|message| message.parts).unwrap_or_default() {
            self.part(part, out);
        }
        self.last = self.last.max(number);
        let status = turn.status();
        if status != TurnStatus::Running {
            self.end(End::of_turn(status, turn), out);
        } else if turn.step > self.step {
            self.open_step(turn.step, out);
        }
    }

    /// Adds one event.
    pub fn event(&mut self, event: TurnEvent, out: &mut Vec<Chunk>) -> Result<(), Gap> {
        let TurnEvent { number, event } = event;
        if self.has_ended() || number <= self.last {
            return Ok(());
        }
        if number != self.last + 1 {
            return Err(Gap {
                expected: self.last + 1,
                found: number,
            });
        }
        self.last = number;
        // None is an event of a later release: what it tells of comes with the next snapshot.
        if let Some(event) = event {
            self.apply(event, out);
        }
        Ok(())
    }

    fn apply(&mut self, event: Event, out: &mut Vec<Chunk>) {
        match event {
            Event::TurnStarted(started) => self.start(
                &started.conversation_id,
                &started.turn_id,
                started.message_id,
                out,
            ),
            Event::StepStarted(started) => self.open_step(started.step, out),
            Event::TextStarted(started) => self.open_text(started.position, TextKind::Text, out),
            Event::TextDelta(delta) => {
                self.add_text(delta.position, TextKind::Text, delta.delta, out);
            }
            Event::TextEnded(ended) => self.end_text(ended.position, out),
            Event::ReasoningStarted(started) => {
                self.open_text(started.position, TextKind::Reasoning, out);
            }
            Event::ReasoningDelta(delta) => {
                self.add_text(delta.position, TextKind::Reasoning, delta.delta, out);
            }
            Event::ReasoningEnded(ended) => self.end_text(ended.position, out),
            Event::ToolInputStarted(started) => {
                self.open_call(started.call_id, started.tool_name, out);
            }
            Event::ToolInputDelta(delta) => self.add_input(delta.call_id, &delta.delta, out),
            Event::ToolInputAvailable(input) => {
                self.input_available(input.call_id, input.tool_name, &input.input_json, out);
            }
            Event::ToolInputRefused(refused) => self.refuse(
                refused.call_id,
                refused.tool_name,
                &refused.input_json,
                refused.sentence,
                out,
            ),
            Event::ToolOutput(output) => self.succeed(output.call_id, &output.output_json, out),
            Event::ToolFailed(failed) => {
                let outcome = failed.outcome();
                self.fail(
                    failed.call_id,
                    words::failure(outcome, failed.sentence),
                    out,
                );
            }
            Event::Notice(notice) => {
                self.notice(notice.position, notice.code, notice.sentence, out);
            }
            Event::StepEnded(_) => self.close_step(out),
            Event::TurnEnded(ended) => self.end(End::of_event(ended), out),
        }
    }

    fn start(
        &mut self,
        conversation_id: &str,
        turn_id: &str,
        message_id: String,
        out: &mut Vec<Chunk>,
    ) {
        if self.progress == Progress::Waiting {
            self.progress = Progress::Started;
            out.push(Chunk::Start {
                message_id,
                message_metadata: StartMetadata {
                    conversation_id: conversation_id.to_owned(),
                    turn_id: turn_id.to_owned(),
                },
            });
        }
    }

    fn open_step(&mut self, step: u32, out: &mut Vec<Chunk>) {
        self.close_step(out);
        self.step = step;
        self.step_open = true;
        out.push(Chunk::StartStep);
    }

    fn close_step(&mut self, out: &mut Vec<Chunk>) {
        self.end_texts(out);
        if self.step_open {
            self.step_open = false;
            out.push(Chunk::FinishStep);
        }
    }

    fn part(&mut self, part: Part, out: &mut Vec<Chunk>) {
        let Part {
            position,
            step,
            content,
        } = part;
        if step > self.step {
            self.open_step(step, out);
        }
        match content {
            Some(Content::Text(text)) => {
                self.whole_text(position, TextKind::Text, &text.text, text.streaming, out);
            }
            Some(Content::Reasoning(reasoning)) => self.whole_text(
                position,
                TextKind::Reasoning,
                &reasoning.text,
                reasoning.streaming,
                out,
            ),
            Some(Content::ToolCall(call)) => self.whole_call(call, out),
            Some(Content::Notice(notice)) => {
                self.notice(position, notice.code, notice.sentence, out);
            }
            None => {}
        }
    }

    fn whole_text(
        &mut self,
        position: u32,
        kind: TextKind,
        text: &str,
        streaming: bool,
        out: &mut Vec<Chunk>,
    ) {
        self.open_text(position, kind, out);
        let sent = self
            .texts
            .get(&position)
            .map_or(0, |known| known.sent_bytes);
        if let Some(rest) = text.get(sent..).filter(|rest| !rest.is_empty()) {
            self.add_text(position, kind, rest.to_owned(), out);
        }
        if !streaming {
            self.end_text(position, out);
        }
    }

    fn whole_call(&mut self, call: ToolCallPart, out: &mut Vec<Chunk>) {
        let (state, outcome) = (call.state(), call.outcome());
        let ToolCallPart {
            call_id,
            tool_name,
            input_json,
            output_json,
            sentence,
            ..
        } = call;
        match state {
            ToolCallState::Unspecified | ToolCallState::InputStreaming => {
                self.open_call(call_id.clone(), tool_name, out);
                if let Some(Stage::Streaming { sent }) =
                    self.calls.get(&call_id).map(|known| &known.stage)
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
                    self.succeed(call_id, &output_json, out);
                } else {
                    self.fail(call_id, words::failure(outcome, sentence), out);
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

    fn open_text(&mut self, position: u32, kind: TextKind, out: &mut Vec<Chunk>) {
        if self.texts.contains_key(&position) {
            return;
        }
        let text = Text {
            kind,
            sent_bytes: 0,
            ended: false,
        };
        let id = text.id(position);
        out.push(match kind {
            TextKind::Text => Chunk::TextStart { id },
            TextKind::Reasoning => Chunk::ReasoningStart { id },
        });
        self.texts.insert(position, text);
    }

    fn add_text(&mut self, position: u32, kind: TextKind, delta: String, out: &mut Vec<Chunk>) {
        self.open_text(position, kind, out);
        let Some(text) = self.texts.get_mut(&position).filter(|text| !text.ended) else {
            return;
        };
        text.sent_bytes += delta.len();
        let id = text.id(position);
        out.push(match text.kind {
            TextKind::Text => Chunk::TextDelta { id, delta },
            TextKind::Reasoning => Chunk::ReasoningDelta { id, delta },
        });
    }

    fn end_text(&mut self, position: u32, out: &mut Vec<Chunk>) {
        if let Some(text) = self.texts.get_mut(&position) {
            text.end(position, out);
        }
    }

    fn end_texts(&mut self, out: &mut Vec<Chunk>) {
        for (position, text) in &mut self.texts {
            text.end(*position, out);
        }
    }

    fn open_call(&mut self, call_id: String, tool_name: String, out: &mut Vec<Chunk>) {
        if self.calls.contains_key(&call_id) {
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
        self.calls.insert(call_id, Call { tool_name, stage });
    }

    fn add_input(&mut self, call_id: String, delta: &str, out: &mut Vec<Chunk>) {
        if let Some(Stage::Streaming { sent }) =
            self.calls.get_mut(&call_id).map(|call| &mut call.stage)
        {
            sent.push_str(delta);
            out.push(Chunk::ToolInputDelta {
                tool_call_id: call_id,
                input_text_delta: delta.to_owned(),
                dynamic: Dynamic,
            });
        }
    }

    fn input_available(
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

    fn refuse(
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
        let Some(call) = self.calls.get_mut(call_id) else {
            let tool_name = tool_name.to_owned();
            self.calls
                .insert(call_id.to_owned(), Call { tool_name, stage });
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

    fn succeed(&mut self, call_id: String, output_json: &str, out: &mut Vec<Chunk>) {
        if self.settle(&call_id) {
            out.push(Chunk::ToolOutputAvailable {
                tool_call_id: call_id,
                output: words::raw_json(output_json),
                dynamic: Dynamic,
            });
        }
    }

    fn fail(&mut self, call_id: String, error_text: String, out: &mut Vec<Chunk>) {
        if self.settle(&call_id) {
            out.push(Chunk::ToolOutputError {
                tool_call_id: call_id,
                error_text,
                dynamic: Dynamic,
            });
        }
    }

    /// Settles a known call once. A client throws on the result of a call that it never saw.
    fn settle(&mut self, call_id: &str) -> bool {
        match self.calls.get_mut(call_id) {
            Some(call) if !matches!(call.stage, Stage::Settled) => {
                call.stage = Stage::Settled;
                true
            }
            Some(_) | None => false,
        }
    }

    fn notice(&mut self, position: u32, code: String, text: String, out: &mut Vec<Chunk>) {
        if self.notices.insert(position) {
            out.push(Chunk::DataNotice {
                id: notice_id(position),
                data: NoticeData { code, text },
            });
        }
    }

    /// Settles whatever the turn's owner did not, and tells the end.
    fn end(&mut self, end: End, out: &mut Vec<Chunk>) {
        let End {
            status,
            finish_reason,
            sentence,
            metadata,
        } = end;
        self.end_texts(out);
        self.settle_calls(out);
        self.close_step(out);
        self.progress = Progress::Ended;
        match status {
            TurnStatus::Unspecified | TurnStatus::Running | TurnStatus::Finished => {}
            TurnStatus::Aborted => out.push(Chunk::Abort {
                reason: or(sentence, "the turn was stopped"),
            }),
            TurnStatus::Failed | TurnStatus::Interrupted => {
                out.push(Chunk::MessageMetadata {
                    message_metadata: metadata.clone(),
                });
                out.push(Chunk::Error {
                    error_text: or(
                        sentence,
                        "the turn failed, and left no reason; ask again, and see the Village's log",
                    ),
                });
            }
        }
        let finish_reason = match status {
            TurnStatus::Failed | TurnStatus::Interrupted => FinishReason::Error,
            TurnStatus::Unspecified
            | TurnStatus::Running
            | TurnStatus::Finished
            | TurnStatus::Aborted => finish_reason,
        };
        out.push(Chunk::Finish {
            finish_reason: words::finish_reason(finish_reason),
            message_metadata: metadata,
        });
    }

    fn settle_calls(&mut self, out: &mut Vec<Chunk>) {
        for (call_id, call) in &mut self.calls {
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
}

impl Text {
    fn id(&self, position: u32) -> String {
        match self.kind {
            TextKind::Text => format!("text-{position}"),
            TextKind::Reasoning => format!("reasoning-{position}"),
        }
    }

    fn end(&mut self, position: u32, out: &mut Vec<Chunk>) {
        if self.ended {
            return;
        }
        self.ended = true;
        let id = self.id(position);
        out.push(match self.kind {
            TextKind::Text => Chunk::TextEnd { id },
            TextKind::Reasoning => Chunk::ReasoningEnd { id },
        });
    }
}

struct End {
    status: TurnStatus,
    finish_reason: FinishReason,
    sentence: String,
    metadata: EndMetadata,
}

impl End {
    fn of_event(ended: TurnEnded) -> Self {
        let (status, finish_reason) = (ended.status(), ended.finish_reason());
        Self {
            status,
            finish_reason,
            metadata: metadata(status, ended.limits(), ended.usage, ended.steps),
            sentence: ended.sentence,
        }
    }

    fn of_turn(status: TurnStatus, turn: Turn) -> Self {
        Self {
            status,
            finish_reason: turn.finish_reason(),
            metadata: metadata(status, turn.limits(), turn.usage, turn.step),
            sentence: turn.sentence,
        }
    }
}

fn metadata(
    status: TurnStatus,
    limits: impl Iterator<Item = Limit>,
    usage: Option<Usage>,
    steps: u32,
) -> EndMetadata {
    EndMetadata {
        usage: usage.map(UsageView::from).unwrap_or_default(),
        limits: limits.map(words::limit).collect(),
        status: words::turn_status(status),
        steps,
    }
}

/// Names a notice within its Message.
pub(super) fn notice_id(position: u32) -> String {
    format!("notice-{position}")
}

fn or(sentence: String, instead: &str) -> String {
    if sentence.is_empty() {
        instead.to_owned()
    } else {
        sentence
    }
}
