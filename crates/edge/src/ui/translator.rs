//! Events and snapshots of one turn, in any mixture, as chunks.

mod calls;
mod texts;

use std::collections::BTreeSet;

use proto::turn::v1::{
    FinishReason, Limit, Part, Turn, TurnEnded, TurnEvent, TurnSnapshot, TurnStatus, Usage,
    part::Content, turn_event::Event,
};

use super::{
    chunk::{Chunk, EndMetadata, StartMetadata, UsageView},
    message::NoticeData,
    words,
};
use calls::Calls;
use texts::{TextKind, Texts};

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
    texts: Texts,
    calls: Calls,
    notices: BTreeSet<u32>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Progress {
    #[default]
    Waiting,
    Started,
    Ended,
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
            Event::TextStarted(started) => self.texts.open(started.position, TextKind::Text, out),
            Event::TextDelta(delta) => {
                self.texts
                    .add(delta.position, TextKind::Text, delta.delta, out);
            }
            Event::TextEnded(ended) => self.texts.end(ended.position, out),
            Event::ReasoningStarted(started) => {
                self.texts.open(started.position, TextKind::Reasoning, out);
            }
            Event::ReasoningDelta(delta) => {
                self.texts
                    .add(delta.position, TextKind::Reasoning, delta.delta, out);
            }
            Event::ReasoningEnded(ended) => self.texts.end(ended.position, out),
            Event::ToolInputStarted(started) => {
                self.calls.open(started.call_id, started.tool_name, out);
            }
            Event::ToolInputDelta(delta) => self.calls.add_input(delta.call_id, &delta.delta, out),
            Event::ToolInputAvailable(input) => {
                self.calls
                    .input_available(input.call_id, input.tool_name, &input.input_json, out);
            }
            Event::ToolInputRefused(refused) => self.calls.refuse(
                refused.call_id,
                refused.tool_name,
                &refused.input_json,
                refused.sentence,
                out,
            ),
            Event::ToolOutput(output) => {
                self.calls
                    .succeed(output.call_id, &output.output_json, output.media, out);
            }
            Event::ToolFailed(failed) => {
                let outcome = failed.outcome();
                self.calls.fail(
                    failed.call_id,
                    words::failure(outcome, failed.sentence),
                    failed.media,
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
        self.texts.end_all(out);
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
                self.texts
                    .whole(position, TextKind::Text, &text.text, text.streaming, out);
            }
            Some(Content::Reasoning(reasoning)) => self.texts.whole(
                position,
                TextKind::Reasoning,
                &reasoning.text,
                reasoning.streaming,
                out,
            ),
            Some(Content::ToolCall(call)) => self.calls.whole(call, out),
            Some(Content::Notice(notice)) => {
                self.notice(position, notice.code, notice.sentence, out);
            }
            None => {}
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
        self.texts.end_all(out);
        self.calls.settle_all(out);
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
