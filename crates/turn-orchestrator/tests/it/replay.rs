//! What a watcher makes of events: the Parts, as the contract has them.

use std::collections::HashMap;

use proto::turn::v1::{
    NoticePart, Outcome, Part, ReasoningPart, TextPart, ToolCallPart, ToolCallState, TurnEnded,
    TurnEvent, part::Content, turn_event::Event,
};

/// Applies events to Parts, as a client does.
#[derive(Debug, Default, Clone)]
pub(crate) struct Replay {
    pub(crate) parts: Vec<Part>,
    calls: HashMap<String, usize>,
    step: u32,
    pub(crate) last: u64,
    pub(crate) ended: Option<TurnEnded>,
}

impl Replay {
    /// Starts from a snapshot.
    pub(crate) fn from_snapshot(snapshot: &proto::turn::v1::TurnSnapshot) -> Self {
        let parts = snapshot.message.clone().unwrap().parts;
        Self {
            calls: parts
                .iter()
                .enumerate()
                .filter_map(|(at, part)| match &part.content {
                    Some(Content::ToolCall(call)) => Some((call.call_id.clone(), at)),
                    _ => None,
                })
                .collect(),
            parts: parts.into_iter().map(timeless).collect(),
            step: snapshot.turn.clone().unwrap().step,
            last: snapshot.number,
            ended: None,
        }
    }

    pub(crate) fn of(events: &[TurnEvent]) -> Self {
        let mut replay = Self::default();
        for event in events {
            replay.apply(event);
        }
        replay
    }

    pub(crate) fn apply(&mut self, event: &TurnEvent) {
        assert_eq!(event.number, self.last + 1, "numbers leave no gap");
        assert!(self.ended.is_none(), "nothing follows the end");
        self.last = event.number;
        match event.event.clone().unwrap() {
            Event::TurnStarted(_) | Event::StepEnded(_) => {}
            Event::StepStarted(started) => self.step = started.step,
            Event::TextStarted(started) => self.add(
                started.position,
                Content::Text(TextPart {
                    text: String::new(),
                    streaming: true,
                }),
            ),
            Event::ReasoningStarted(started) => self.add(
                started.position,
                Content::Reasoning(ReasoningPart {
                    text: String::new(),
                    streaming: true,
                }),
            ),
            Event::TextDelta(delta) => match self.at(delta.position) {
                Content::Text(text) if text.streaming => text.text.push_str(&delta.delta),
                other => panic!("a delta for {other:?}"),
            },
            Event::ReasoningDelta(delta) => match self.at(delta.position) {
                Content::Reasoning(text) if text.streaming => text.text.push_str(&delta.delta),
                other => panic!("a delta for {other:?}"),
            },
            Event::TextEnded(ended) => match self.at(ended.position) {
                Content::Text(text) if text.streaming => text.streaming = false,
                other => panic!("an end for {other:?}"),
            },
            Event::ReasoningEnded(ended) => match self.at(ended.position) {
                Content::Reasoning(text) if text.streaming => text.streaming = false,
                other => panic!("an end for {other:?}"),
            },
            Event::Notice(notice) => self.add(
                notice.position,
                Content::Notice(NoticePart {
                    code: notice.code,
                    sentence: notice.sentence,
                }),
            ),
            Event::ToolInputStarted(started) => {
                let at = usize::try_from(started.position).unwrap();
                self.calls.insert(started.call_id.clone(), at);
                self.add(
                    started.position,
                    Content::ToolCall(ToolCallPart {
                        call_id: started.call_id,
                        tool_name: started.tool_name,
                        state: ToolCallState::InputStreaming.into(),
                        ..ToolCallPart::default()
                    }),
                );
            }
            Event::ToolInputDelta(delta) => {
                let call = self.call(&delta.call_id, ToolCallState::InputStreaming);
                call.input_json.push_str(&delta.delta);
            }
            Event::ToolInputAvailable(available) => {
                let call = self.call(&available.call_id, ToolCallState::InputStreaming);
                call.state = ToolCallState::Running.into();
                call.input_json = available.input_json;
            }
            Event::ToolInputRefused(refused) => {
                let call = self.call(&refused.call_id, ToolCallState::InputStreaming);
                call.state = ToolCallState::Refused.into();
                call.input_json = refused.input_json;
                call.sentence = refused.sentence;
            }
            Event::ToolOutput(output) => {
                let call = self.call(&output.call_id, ToolCallState::Running);
                call.state = ToolCallState::Ended.into();
                call.outcome = Outcome::Ok.into();
                call.output_json = output.output_json;
                call.media = output.media;
            }
            Event::ToolFailed(failed) => {
                let call = self.call(&failed.call_id, ToolCallState::Running);
                call.state = ToolCallState::Ended.into();
                call.outcome = failed.outcome;
                call.sentence = failed.sentence;
                call.media = failed.media;
            }
            Event::TurnEnded(ended) => self.ended = Some(ended),
        }
    }

    fn add(&mut self, position: u32, content: Content) {
        assert_eq!(usize::try_from(position).unwrap(), self.parts.len());
        self.parts.push(Part {
            position,
            step: self.step,
            content: Some(content),
        });
    }

    fn at(&mut self, position: u32) -> &mut Content {
        self.parts[usize::try_from(position).unwrap()]
            .content
            .as_mut()
            .unwrap()
    }

    fn call(&mut self, id: &str, state: ToolCallState) -> &mut ToolCallPart {
        let at = self.calls[id];
        match self.parts[at].content.as_mut().unwrap() {
            Content::ToolCall(call) => {
                assert_eq!(call.state(), state, "a call ends once: {call:?}");
                call
            }
            other => panic!("{other:?} is no call"),
        }
    }
}

/// A Part without what events do not tell: times, and whether a refusal was a fault or a cut.
pub(crate) fn timeless(mut part: Part) -> Part {
    if let Some(Content::ToolCall(call)) = &mut part.content {
        call.started_at_micros = 0;
        call.ended_at_micros = 0;
        if call.state() == ToolCallState::Refused {
            call.outcome = Outcome::Unspecified.into();
        }
    }
    part
}

/// A Part in a line, for assertions that read.
pub(crate) fn line(part: &Part) -> String {
    match part.content.as_ref().unwrap() {
        Content::Text(text) => {
            format!("text{}: {}", open(text.streaming), text.text)
        }
        Content::Reasoning(text) => {
            format!("reasoning{}: {}", open(text.streaming), text.text)
        }
        Content::Notice(notice) => format!("notice {}", notice.code),
        Content::ToolCall(call) => format!(
            "{} {} {}",
            call.tool_name,
            call.state()
                .as_str_name()
                .trim_start_matches("TOOL_CALL_STATE_")
                .to_lowercase(),
            call.outcome()
                .as_str_name()
                .trim_start_matches("OUTCOME_")
                .to_lowercase()
        ),
    }
}

fn open(streaming: bool) -> &'static str {
    if streaming { " (open)" } else { "" }
}
