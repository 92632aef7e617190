use proto::turn::v1::{
    FinishReason, Limit, MediaReference, Message, Notice, NoticePart, Outcome, Part,
    ReasoningDelta, ReasoningEnded, ReasoningPart, ReasoningStarted, Role, StepEnded, StepStarted,
    TextDelta, TextEnded, TextPart, TextStarted, ToolCallPart, ToolCallState, ToolFailed,
    ToolInputAvailable, ToolInputDelta, ToolInputRefused, ToolInputStarted, ToolOutput, Turn,
    TurnEnded, TurnEvent, TurnSnapshot, TurnStarted, TurnStatus, Usage, part::Content,
    turn_event::Event,
};

use super::*;

const USAGE: Usage = Usage {
    input_tokens: 120,
    output_tokens: 30,
    cached_input_tokens: 100,
    reasoning_tokens: 7,
};

fn started() -> Event {
    Event::TurnStarted(TurnStarted {
        turn_id: "turn".to_owned(),
        conversation_id: "conversation".to_owned(),
        message_id: "message".to_owned(),
    })
}

fn step(step: u32) -> Event {
    Event::StepStarted(StepStarted { step })
}

fn step_ended(step: u32) -> Event {
    Event::StepEnded(StepEnded {
        step,
        usage: Some(USAGE),
    })
}

fn text(position: u32, deltas: &[&str]) -> Vec<Event> {
    let mut events = vec![Event::TextStarted(TextStarted { position })];
    events.extend(deltas.iter().map(|&delta| {
        Event::TextDelta(TextDelta {
            position,
            delta: delta.to_owned(),
        })
    }));
    events
}

fn text_ended(position: u32) -> Event {
    Event::TextEnded(TextEnded { position })
}

fn call_started(position: u32, call: &str, tool: &str) -> Event {
    Event::ToolInputStarted(ToolInputStarted {
        position,
        call_id: call.to_owned(),
        tool_name: tool.to_owned(),
    })
}

fn input_delta(call: &str, delta: &str) -> Event {
    Event::ToolInputDelta(ToolInputDelta {
        call_id: call.to_owned(),
        delta: delta.to_owned(),
    })
}

fn input(call: &str, tool: &str, json: &str) -> Event {
    Event::ToolInputAvailable(ToolInputAvailable {
        call_id: call.to_owned(),
        tool_name: tool.to_owned(),
        input_json: json.to_owned(),
    })
}

fn output(call: &str, json: &str) -> Event {
    Event::ToolOutput(ToolOutput {
        call_id: call.to_owned(),
        output_json: json.to_owned(),
        media: vec![picture()],
    })
}

fn picture() -> MediaReference {
    MediaReference {
        id: "0195".to_owned(),
        kind: "image".to_owned(),
        media_type: "image/png".to_owned(),
        bytes: 7,
    }
}

fn failed(call: &str, outcome: Outcome, sentence: &str) -> Event {
    Event::ToolFailed(ToolFailed {
        call_id: call.to_owned(),
        outcome: outcome.into(),
        sentence: sentence.to_owned(),
        media: Vec::new(),
    })
}

fn ended(status: TurnStatus, sentence: &str) -> Event {
    Event::TurnEnded(TurnEnded {
        status: status.into(),
        finish_reason: FinishReason::Stop.into(),
        sentence: sentence.to_owned(),
        limits: vec![Limit::Steps.into(), Limit::CallsPerStep.into()],
        usage: Some(USAGE),
        steps: 2,
    })
}

/// A turn with everything in it: reasoning, text, a call that succeeds, one that is refused, one that fails, a notice.
fn whole_turn() -> Vec<Event> {
    let mut events = vec![
        started(),
        Event::Notice(Notice {
            position: 0,
            code: "unavailable-tools".to_owned(),
            sentence: "The sandbox is not there.".to_owned(),
        }),
        step(1),
        Event::ReasoningStarted(ReasoningStarted { position: 1 }),
        Event::ReasoningDelta(ReasoningDelta {
            position: 1,
            delta: "Hm.".to_owned(),
        }),
        Event::ReasoningEnded(ReasoningEnded { position: 1 }),
    ];
    events.extend(text(2, &["Let me ", "see 🦊.\n"]));
    events.extend([
        text_ended(2),
        call_started(3, "call-1", "current_time"),
        input_delta("call-1", "{"),
        input_delta("call-1", "}"),
        input("call-1", "current_time", "{}"),
        call_started(4, "call-2", "nope"),
        Event::ToolInputRefused(ToolInputRefused {
            call_id: "call-2".to_owned(),
            tool_name: "nope".to_owned(),
            input_json: "\"{broken\"".to_owned(),
            sentence: "There is no such Tool.".to_owned(),
        }),
        input(
            "call-3",
            "fetch_url",
            r#"{"url":"https://x.example","n":12345678901234567890}"#,
        ),
        output("call-1", r#""2026-01-01T00:00:00Z""#),
        failed("call-3", Outcome::Error, "The page is gone."),
        step_ended(1),
        step(2),
    ]);
    events.extend(text(5, &["Done."]));
    events.extend([
        text_ended(5),
        step_ended(2),
        ended(TurnStatus::Finished, ""),
    ]);
    events
}

fn numbered(events: Vec<Event>) -> Vec<TurnEvent> {
    events
        .into_iter()
        .zip(1..)
        .map(|(event, number)| TurnEvent {
            number,
            event: Some(event),
        })
        .collect()
}

fn tell(translator: &mut Translator, events: impl IntoIterator<Item = TurnEvent>) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for event in events {
        translator.event(event, &mut chunks).unwrap();
    }
    chunks
}

fn lines(chunks: &[Chunk]) -> String {
    let mut text = String::new();
    for chunk in chunks {
        chunk.write_event(&mut text);
    }
    text.replace("\n\n", "\n")
}

fn told(events: Vec<Event>) -> String {
    lines(&tell(&mut Translator::default(), numbered(events)))
}

fn part(position: u32, step: u32, content: Content) -> Part {
    Part {
        position,
        step,
        content: Some(content),
    }
}

fn text_part(position: u32, step: u32, text: &str, streaming: bool) -> Part {
    let text = text.to_owned();
    part(position, step, Content::Text(TextPart { text, streaming }))
}

fn call(state: ToolCallState, outcome: Outcome) -> ToolCallPart {
    ToolCallPart {
        call_id: format!("call-{}", i32::from(state)),
        tool_name: "fetch_url".to_owned(),
        state: state.into(),
        input_json: r#"{"url":"https://x.example"}"#.to_owned(),
        output_json: if outcome == Outcome::Ok {
            "[1]".to_owned()
        } else {
            String::new()
        },
        sentence: String::new(),
        outcome: outcome.into(),
        started_at_micros: 1,
        ended_at_micros: 2,
        media: Vec::from_iter((outcome == Outcome::Ok).then(picture)),
    }
}

fn snapshot(status: TurnStatus, step: u32, number: u64, parts: Vec<Part>) -> TurnSnapshot {
    TurnSnapshot {
        turn: Some(Turn {
            id: "turn".to_owned(),
            conversation_id: "conversation".to_owned(),
            message_id: "message".to_owned(),
            status: status.into(),
            step,
            sentence: String::new(),
            usage: Some(USAGE),
            finish_reason: FinishReason::Stop.into(),
            ..Turn::default()
        }),
        message: Some(Message {
            id: "message".to_owned(),
            role: Role::Assistant.into(),
            parts,
            ..Message::default()
        }),
        number,
    }
}

#[test]
fn a_whole_turn_as_chunks() {
    insta::assert_snapshot!(told(whole_turn()));
}

#[test]
fn an_aborted_turn_is_settled_even_if_its_owner_forgot() {
    let mut events = vec![started(), step(1)];
    events.extend(text(0, &["half a sen"]));
    events.extend([
        call_started(1, "streams", "write_file"),
        input_delta("streams", "{\"path\": \"/a"),
        input("runs", "bash", "{}"),
        ended(TurnStatus::Aborted, "The Player stopped the turn."),
    ]);
    insta::assert_snapshot!(told(events));
}

#[test]
fn a_failed_turn_tells_its_numbers_before_the_error_that_ends_the_reading() {
    let mut events = vec![started(), step(1)];
    events.extend(text(0, &["so far"]));
    events.push(ended(
        TurnStatus::Failed,
        "The Provider refused the key: set OPENAI_API_KEY.",
    ));
    insta::assert_snapshot!(told(events));
}

#[test]
fn a_snapshot_in_mid_turn_is_continued_by_the_events_after_it() {
    let mut translator = Translator::default();
    let mut chunks = Vec::new();
    let parts = vec![
        text_part(0, 1, "Let me see.", false),
        part(
            1,
            1,
            Content::ToolCall(call(ToolCallState::Ended, Outcome::Ok)),
        ),
        part(
            2,
            1,
            Content::ToolCall(call(ToolCallState::Refused, Outcome::Denied)),
        ),
        part(
            3,
            1,
            Content::ToolCall(call(ToolCallState::Running, Outcome::Unspecified)),
        ),
        part(
            4,
            2,
            Content::Reasoning(ReasoningPart {
                text: "So".to_owned(),
                streaming: false,
            }),
        ),
        text_part(5, 2, "It is ha", true),
    ];
    translator.snapshot(snapshot(TurnStatus::Running, 2, 40, parts), &mut chunks);
    let after = [
        Event::TextDelta(TextDelta {
            position: 5,
            delta: "lf past.".to_owned(),
        }),
        text_ended(5),
        failed("call-2", Outcome::Interrupted, ""),
        step_ended(2),
        ended(TurnStatus::Finished, ""),
    ];
    chunks.extend(tell(
        &mut translator,
        after
            .into_iter()
            .zip(41..)
            .map(|(event, number)| TurnEvent {
                number,
                event: Some(event),
            }),
    ));
    assert!(translator.has_ended());
    insta::assert_snapshot!(lines(&chunks));
}

#[test]
fn a_snapshot_of_a_turn_that_ended_is_the_whole_stream() {
    let mut chunks = Vec::new();
    let parts = vec![text_part(0, 1, "Yes.", false)];
    Translator::default().snapshot(snapshot(TurnStatus::Aborted, 1, 9, parts), &mut chunks);
    insta::assert_snapshot!(lines(&chunks));
}

#[test]
fn a_step_that_has_no_part_yet_is_begun() {
    let mut chunks = Vec::new();
    let parts = vec![text_part(0, 1, "Yes.", false)];
    Translator::default().snapshot(snapshot(TurnStatus::Running, 2, 9, parts), &mut chunks);
    let kinds = lines(&chunks);
    assert!(
        kinds.ends_with("data: {\"type\":\"finish-step\"}\ndata: {\"type\":\"start-step\"}\n"),
        "{kinds}"
    );
}

#[test]
fn events_that_are_told_twice_add_nothing() {
    let events = numbered(whole_turn());
    let mut translator = Translator::default();
    let mut chunks = Vec::new();
    for event in &events {
        chunks.extend(tell(&mut translator, [event.clone()]));
        chunks.extend(tell(&mut translator, [event.clone()]));
    }
    assert_eq!(lines(&chunks), told(whole_turn()));
}

#[test]
fn a_gap_is_found_and_a_snapshot_closes_it_without_repeating_anything() {
    let mut translator = Translator::default();
    let mut events = vec![started(), step(1)];
    events.extend(text(0, &["one "]));
    events.extend([
        call_started(1, "call-1", "fetch_url"),
        input_delta("call-1", "{\"url\":"),
    ]);
    let mut chunks = tell(&mut translator, numbered(events));
    let mut missed = Vec::new();
    assert_eq!(
        translator.event(
            TurnEvent {
                number: 9,
                event: Some(text_ended(0)),
            },
            &mut missed
        ),
        Err(Gap {
            expected: 7,
            found: 9
        })
    );
    assert!(missed.is_empty());
    let parts = vec![
        text_part(0, 1, "one two", true),
        part(
            1,
            1,
            Content::ToolCall(ToolCallPart {
                call_id: "call-1".to_owned(),
                ..call(ToolCallState::InputStreaming, Outcome::Unspecified)
            }),
        ),
    ];
    translator.snapshot(snapshot(TurnStatus::Running, 1, 9, parts), &mut chunks);
    chunks.extend(tell(
        &mut translator,
        [TurnEvent {
            number: 10,
            event: Some(ended(TurnStatus::Finished, "")),
        }],
    ));
    insta::assert_snapshot!(lines(&chunks));
}

#[test]
fn results_of_calls_that_nobody_saw_are_left_out_since_a_client_throws_on_them() {
    let told = told(vec![
        started(),
        step(1),
        output("ghost", "1"),
        failed("ghost", Outcome::Error, "x"),
        input_delta("ghost", "x"),
        step_ended(1),
        ended(TurnStatus::Finished, ""),
    ]);
    assert!(!told.contains("ghost"), "{told}");
}

#[test]
fn json_keeps_every_digit_and_never_breaks_the_framing() {
    for (json, expected) in [
        (
            "{\"n\":\n 12345678901234567890.10}",
            r#"{"n":12345678901234567890.10}"#,
        ),
        (
            "data: x\n\ndata: [DONE]\n\n",
            r#""data: x\n\ndata: [DONE]\n\n""#,
        ),
        ("", r#""""#),
        ("null", "null"),
    ] {
        let chunk = Chunk::ToolOutputAvailable {
            tool_call_id: "c".to_owned(),
            output: raw_json(json),
            dynamic: chunk::Dynamic,
        };
        let mut event = String::new();
        chunk.write_event(&mut event);
        assert_eq!(
            event,
            format!(
                "data: {{\"type\":\"tool-output-available\",\"toolCallId\":\"c\",\"output\":{expected},\"dynamic\":true}}\n\n"
            )
        );
    }
}

#[test]
fn stored_messages_as_ui_messages() {
    let calls = [
        (ToolCallState::InputStreaming, Outcome::Unspecified),
        (ToolCallState::Running, Outcome::Unspecified),
        (ToolCallState::Ended, Outcome::Ok),
        (ToolCallState::Ended, Outcome::Denied),
        (ToolCallState::Ended, Outcome::Interrupted),
        (ToolCallState::Refused, Outcome::Error),
    ];
    let mut parts = vec![
        part(
            0,
            0,
            Content::Notice(NoticePart {
                code: "unavailable-tools".to_owned(),
                sentence: "The sandbox is not there.".to_owned(),
            }),
        ),
        part(
            1,
            1,
            Content::Reasoning(ReasoningPart {
                text: "Hm.".to_owned(),
                streaming: false,
            }),
        ),
    ];
    parts.extend((2..).zip(calls).map(|(position, (state, outcome))| {
        part(position, 1, Content::ToolCall(call(state, outcome)))
    }));
    parts.push(text_part(8, 2, "Don", true));
    let messages = vec![
        Message {
            id: "0193".to_owned(),
            client_id: "u1".to_owned(),
            role: Role::User.into(),
            parts: vec![text_part(0, 0, "What time is it?", false)],
            created_at_micros: 1_795_000_000_000_000,
            ..Message::default()
        },
        Message {
            id: "0194".to_owned(),
            role: Role::Assistant.into(),
            parts,
            turn_id: "turn".to_owned(),
            created_at_micros: 1_795_000_000_000_000,
            ..Message::default()
        },
    ];
    let shown = serde_json::to_value(ui_messages("conversation", messages)).unwrap();
    insta::assert_json_snapshot!(shown);
}
