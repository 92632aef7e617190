//! Events as the Message that they amount to.

use proto::turn::v1::{
    FinishReason, Message, NoticePart, Outcome, Part, ReasoningPart, Role, StepEnded, StepStarted,
    TextDelta, TextEnded, TextPart, TextStarted, ToolCallPart, ToolCallState, Turn, TurnEnded,
    TurnEvent, TurnSnapshot, TurnStatus, Usage, part::Content, turn_event::Event,
};

/// The events of a turn that says something in one step.
pub(crate) fn say(words: &[&str]) -> Vec<Event> {
    let mut events = vec![
        Event::StepStarted(StepStarted { step: 1 }),
        Event::TextStarted(TextStarted { position: 0 }),
    ];
    events.extend(words.iter().map(|&delta| {
        Event::TextDelta(TextDelta {
            position: 0,
            delta: delta.to_owned(),
        })
    }));
    events.extend([
        Event::TextEnded(TextEnded { position: 0 }),
        Event::StepEnded(StepEnded {
            step: 1,
            usage: None,
        }),
        Event::TurnEnded(TurnEnded {
            status: TurnStatus::Finished.into(),
            finish_reason: FinishReason::Stop.into(),
            sentence: String::new(),
            limits: Vec::new(),
            usage: Some(Usage {
                input_tokens: 3,
                output_tokens: 2,
                ..Usage::default()
            }),
            steps: 1,
        }),
    ]);
    events
}

/// The turn as it stands after these events, and the last event's number.
pub(crate) fn snapshot(
    turn_id: &str,
    conversation_id: &str,
    message_id: &str,
    events: &[TurnEvent],
) -> (TurnSnapshot, u64) {
    let mut turn = Turn {
        id: turn_id.to_owned(),
        conversation_id: conversation_id.to_owned(),
        message_id: message_id.to_owned(),
        status: TurnStatus::Running.into(),
        ..Turn::default()
    };
    let mut parts = Vec::new();
    for event in events.iter().filter_map(|event| event.event.clone()) {
        add(&mut turn, &mut parts, event);
    }
    let number = events.last().map_or(0, |event| event.number);
    let message = Message {
        id: message_id.to_owned(),
        role: Role::Assistant.into(),
        parts,
        turn_id: turn_id.to_owned(),
        ..Message::default()
    };
    let snapshot = TurnSnapshot {
        turn: Some(turn),
        message: Some(message),
        number,
    };
    (snapshot, number)
}

fn add(turn: &mut Turn, parts: &mut Vec<Part>, event: Event) {
    let step = turn.step;
    let mut push = |position, content| {
        parts.push(Part {
            position,
            step,
            content: Some(content),
        });
    };
    match event {
        Event::TurnStarted(_) | Event::StepEnded(_) => {}
        Event::StepStarted(started) => turn.step = started.step,
        Event::TextStarted(started) => push(
            started.position,
            Content::Text(TextPart {
                text: String::new(),
                streaming: true,
            }),
        ),
        Event::ReasoningStarted(started) => push(
            started.position,
            Content::Reasoning(ReasoningPart {
                text: String::new(),
                streaming: true,
            }),
        ),
        Event::Notice(notice) => push(
            notice.position,
            Content::Notice(NoticePart {
                code: notice.code,
                sentence: notice.sentence,
            }),
        ),
        Event::TextDelta(delta) => {
            text(parts, delta.position, |text, _| text.push_str(&delta.delta));
        }
        Event::ReasoningDelta(delta) => {
            text(parts, delta.position, |text, _| text.push_str(&delta.delta));
        }
        Event::TextEnded(ended) => text(parts, ended.position, |_, streaming| *streaming = false),
        Event::ReasoningEnded(ended) => {
            text(parts, ended.position, |_, streaming| *streaming = false);
        }
        Event::ToolInputStarted(started) => push(
            started.position,
            Content::ToolCall(ToolCallPart {
                call_id: started.call_id,
                tool_name: started.tool_name,
                state: ToolCallState::InputStreaming.into(),
                ..ToolCallPart::default()
            }),
        ),
        Event::ToolInputDelta(delta) => call(parts, &delta.call_id, |call| {
            call.input_json.push_str(&delta.delta);
        }),
        Event::ToolInputAvailable(input) => call(parts, &input.call_id, |call| {
            call.input_json = input.input_json;
            call.state = ToolCallState::Running.into();
        }),
        Event::ToolInputRefused(refused) => call(parts, &refused.call_id, |call| {
            call.input_json = refused.input_json;
            call.sentence = refused.sentence;
            call.state = ToolCallState::Refused.into();
            call.outcome = Outcome::Error.into();
        }),
        Event::ToolOutput(output) => call(parts, &output.call_id, |call| {
            call.output_json = output.output_json;
            call.media = output.media;
            call.state = ToolCallState::Ended.into();
            call.outcome = Outcome::Ok.into();
        }),
        Event::ToolFailed(failed) => call(parts, &failed.call_id, |call| {
            call.sentence = failed.sentence;
            call.media = failed.media;
            call.state = ToolCallState::Ended.into();
            call.outcome = failed.outcome;
        }),
        Event::TurnEnded(ended) => {
            turn.status = ended.status;
            turn.sentence = ended.sentence;
            turn.usage = ended.usage;
            turn.finish_reason = ended.finish_reason;
            settle(parts);
        }
    }
}

fn text(parts: &mut [Part], position: u32, change: impl FnOnce(&mut String, &mut bool)) {
    let part = parts.iter_mut().find(|part| part.position == position);
    match part.and_then(|part| part.content.as_mut()) {
        Some(Content::Text(text)) => change(&mut text.text, &mut text.streaming),
        Some(Content::Reasoning(text)) => change(&mut text.text, &mut text.streaming),
        Some(Content::ToolCall(_) | Content::Notice(_)) | None => {
            panic!("no text at {position}")
        }
    }
}

fn call(parts: &mut [Part], call_id: &str, change: impl FnOnce(&mut ToolCallPart)) {
    let call = parts.iter_mut().find_map(|part| match &mut part.content {
        Some(Content::ToolCall(call)) if call.call_id == call_id => Some(call),
        _ => None,
    });
    change(call.unwrap_or_else(|| panic!("no call {call_id}")));
}

/// As an orchestrator stores the Parts of a turn that was stopped.
fn settle(parts: &mut [Part]) {
    for part in parts {
        match &mut part.content {
            Some(Content::Text(text)) => text.streaming = false,
            Some(Content::Reasoning(text)) => text.streaming = false,
            Some(Content::ToolCall(call)) if call.outcome() == Outcome::Unspecified => {
                call.outcome = Outcome::Interrupted.into();
                "The call was interrupted.".clone_into(&mut call.sentence);
                let state = if call.state() == ToolCallState::InputStreaming {
                    call.input_json = serde_json::to_string(&call.input_json).unwrap();
                    ToolCallState::Refused
                } else {
                    ToolCallState::Ended
                };
                call.state = state.into();
            }
            Some(Content::ToolCall(_) | Content::Notice(_)) | None => {}
        }
    }
}
