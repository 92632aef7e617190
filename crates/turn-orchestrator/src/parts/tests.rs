#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "every other variant fails the test, with its value"
)]

use std::{collections::HashMap, sync::Arc};

use kernel::{CallId, ConversationId, JsonText, MediaId, MessageId, SystemClock, TurnId};
use llm::Usage;
use proptest::prelude::*;

use super::*;

fn recorder() -> Recorder {
    let clock = SystemClock;
    Recorder::start(
        Arc::new(clock),
        "openai/test".to_owned(),
        TurnId::mint(&clock),
        ConversationId::mint(&clock),
        MessageId::mint(&clock),
    )
}

fn json(text: &str) -> JsonText {
    text.parse().unwrap()
}

/// What a watcher knows of a Part from events alone: content, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Text(String, bool),
    Reasoning(String, bool),
    Call(CallId, String, String, &'static str, Option<Outcome>),
    Notice(String),
}

fn seen(part: &Part) -> Seen {
    match &part.content {
        Content::Text(prose) => Seen::Text(prose.text.clone(), prose.streaming),
        Content::Reasoning(prose) => Seen::Reasoning(prose.text.clone(), prose.streaming),
        Content::Notice { sentence, .. } => Seen::Notice(sentence.clone()),
        Content::Call(call) => {
            let (state, outcome) = match &call.progress {
                Progress::InputStreaming => ("streaming", None),
                Progress::Running => ("running", None),
                Progress::Ended(outcome) => ("ended", Some(outcome.clone())),
                // An event tells the sentence of a refusal, and not whether it was a fault or a cut.
                Progress::Refused(outcome) => (
                    "refused",
                    outcome
                        .sentence()
                        .map(|said| Outcome::Error(said.to_owned())),
                ),
            };
            Seen::Call(
                call.id,
                call.tool.clone(),
                call.input.clone(),
                state,
                outcome,
            )
        }
    }
}

/// Applies events as a watcher does.
fn replay(events: &[(u64, Event)]) -> Vec<Seen> {
    let mut parts: Vec<Seen> = Vec::new();
    let mut calls: HashMap<CallId, usize> = HashMap::new();
    let add = |parts: &mut Vec<Seen>, position: &u32, part: Seen| {
        assert_eq!(
            usize::try_from(*position).unwrap(),
            parts.len(),
            "positions are dense"
        );
        parts.push(part);
        parts.len() - 1
    };
    for (_, event) in events {
        match event {
            Event::TurnStarted { .. }
            | Event::StepStarted { .. }
            | Event::StepEnded { .. }
            | Event::TurnEnded { .. } => {}
            Event::TextStarted { position } => {
                add(&mut parts, position, Seen::Text(String::new(), true));
            }
            Event::ReasoningStarted { position } => {
                add(&mut parts, position, Seen::Reasoning(String::new(), true));
            }
            Event::TextDelta { position, delta } | Event::ReasoningDelta { position, delta } => {
                match &mut parts[*position as usize] {
                    Seen::Text(text, true) | Seen::Reasoning(text, true) => text.push_str(delta),
                    other => panic!("a delta for {other:?}"),
                }
            }
            Event::TextEnded { position } | Event::ReasoningEnded { position } => {
                match &mut parts[*position as usize] {
                    Seen::Text(_, open @ true) | Seen::Reasoning(_, open @ true) => *open = false,
                    other => panic!("an end for {other:?}"),
                }
            }
            Event::Notice {
                position, sentence, ..
            } => {
                add(&mut parts, position, Seen::Notice(sentence.clone()));
            }
            Event::ToolInputStarted {
                position,
                call,
                tool,
            } => {
                let part = Seen::Call(*call, tool.clone(), String::new(), "streaming", None);
                calls.insert(*call, add(&mut parts, position, part));
            }
            Event::ToolInputDelta { call, delta } => match &mut parts[calls[call]] {
                Seen::Call(_, _, input, "streaming", None) => input.push_str(delta),
                other => panic!("arguments for {other:?}"),
            },
            Event::ToolInputAvailable { call, input, .. } => match &mut parts[calls[call]] {
                Seen::Call(_, _, text, state @ "streaming", None) => {
                    input.as_str().clone_into(text);
                    *state = "running";
                }
                other => panic!("whole arguments for {other:?}"),
            },
            Event::ToolInputRefused {
                call,
                input,
                sentence,
                ..
            } => match &mut parts[calls[call]] {
                Seen::Call(_, _, text, state @ "streaming", outcome) => {
                    input.as_str().clone_into(text);
                    *state = "refused";
                    *outcome = Some(Outcome::Error(sentence.clone()));
                }
                other => panic!("a refusal for {other:?}"),
            },
            Event::ToolEnded { call, outcome, .. } => match &mut parts[calls[call]] {
                Seen::Call(_, _, _, state @ "running", ended @ None) => {
                    *state = "ended";
                    *ended = Some(outcome.clone());
                }
                other => panic!("a second result for {other:?}"),
            },
        }
    }
    parts
}

#[derive(Debug, Clone)]
enum Act {
    Step(u32),
    EndStep,
    Text(String),
    Reasoning(String),
    ReasoningDone(bool),
    Started(usize),
    Arguments(usize, String),
    Origin(usize),
    Ready(usize),
    Refused(usize),
    Ended(usize, bool),
    Notice,
    Settle,
    Take,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        (0..4_u32).prop_map(Act::Step),
        Just(Act::EndStep),
        "\\PC{0,6}\0?".prop_map(Act::Text),
        "\\PC{0,6}".prop_map(Act::Reasoning),
        any::<bool>().prop_map(Act::ReasoningDone),
        (0..4_usize).prop_map(Act::Started),
        (0..4_usize, "\\PC{0,6}\0?").prop_map(|(index, text)| Act::Arguments(index, text)),
        (0..4_usize).prop_map(Act::Origin),
        (0..4_usize).prop_map(Act::Ready),
        (0..4_usize).prop_map(Act::Refused),
        (0..12_usize, any::<bool>()).prop_map(|(at, ok)| Act::Ended(at, ok)),
        Just(Act::Notice),
        Just(Act::Settle),
        Just(Act::Take),
    ];
    prop::collection::vec(act, 0..60)
}

proptest! {
    /// Whatever a Provider's stream does, in whichever order.
    #[test]
    fn events_are_gapless_and_replay_to_the_parts_that_are_written(acts in acts()) {
        let mut recorder = recorder();
        let mut events = Vec::new();
        let mut stored: HashMap<u32, Part> = HashMap::new();
        for act in acts {
            match act {
                Act::Step(step) => recorder.begin_step(step),
                Act::EndStep => recorder.end_step(Usage::default()),
                Act::Text(text) => recorder.text(&text),
                Act::Reasoning(text) => recorder.reasoning(&text),
                Act::ReasoningDone(meta) => recorder.reasoning_done(meta.then(JsonText::null)),
                Act::Started(index) => recorder.call_started(index, "tool"),
                Act::Arguments(index, text) => recorder.call_arguments(index, &text),
                Act::Origin(index) => recorder.call_origin(index, Some("call_0".to_owned()), None),
                Act::Ready(index) => {
                    recorder.call_ready(index, &json("{}"));
                }
                Act::Refused(index) => recorder.call_refused(
                    index,
                    json("\"raw\""),
                    Outcome::Error("no such tool".to_owned()),
                ),
                Act::Ended(at, true) => {
                    recorder.call_ended(at, Outcome::Ok(json("\"done\"")), Vec::new());
                }
                Act::Ended(at, false) => {
                    recorder.call_ended(at, Outcome::Denied("no".to_owned()), Vec::new());
                }
                Act::Notice => recorder.notice(NoticeCode::Limit, "a limit"),
                Act::Settle => recorder.settle("stopped"),
                Act::Take => {
                    events.extend(recorder.take_events());
                    for part in recorder.take_changes().parts {
                        stored.insert(part.position, part);
                    }
                }
            }
        }
        recorder.settle("the end");
        events.extend(recorder.take_events());
        let written = recorder.take_changes();
        prop_assert_eq!(written.last_event, recorder.last_event());
        for part in written.parts {
            stored.insert(part.position, part);
        }

        let numbers: Vec<u64> = events.iter().map(|(number, _)| *number).collect();
        let expected: Vec<u64> = (1..=recorder.last_event()).collect();
        prop_assert_eq!(numbers, expected);

        let mut stored: Vec<Part> = stored.into_values().collect();
        stored.sort_by_key(|part| part.position);
        let stored_seen: Vec<Seen> = stored.iter().map(seen).collect();
        prop_assert_eq!(&stored_seen, &replay(&events));
        for part in &stored {
            prop_assert!(part.ended_at.is_some(), "{part:?} is not settled");
            prop_assert!(part.last_event > 0 && part.last_event <= recorder.last_event());
            if let Content::Call(call) = &part.content {
                prop_assert!(call.progress.outcome().is_some());
                prop_assert!(JsonText::parse(&call.input).is_ok(), "{}", call.input);
            }
        }
    }
}

#[test]
fn a_position_is_fixed_by_the_first_delta_whatever_comes_later() {
    let mut recorder = recorder();
    recorder.begin_step(1);
    recorder.reasoning("hm");
    recorder.reasoning_done(Some(json(r#"{"signature":"s"}"#)));
    recorder.text("first");
    recorder.call_started(0, "a");
    recorder.call_started(1, "b");
    recorder.call_arguments(1, "{}");
    recorder.call_arguments(0, "{}");
    recorder.text("second");
    let parts = recorder.step_parts();
    let order: Vec<String> = parts
        .iter()
        .map(|part| match &part.content {
            Content::Text(prose) | Content::Reasoning(prose) => prose.text.clone(),
            Content::Call(call) => call.tool.clone(),
            Content::Notice { .. } => "notice".to_owned(),
        })
        .collect();
    assert_eq!(order, ["hm", "first", "a", "b", "second"]);
    let Content::Reasoning(prose) = &parts[0].content else {
        panic!("no reasoning")
    };
    assert_eq!(
        prose.meta,
        Some(ProviderMeta {
            from: "openai/test".to_owned(),
            meta: json(r#"{"signature":"s"}"#)
        })
    );
}

#[test]
fn a_text_beyond_the_bound_of_a_part_goes_on_in_the_next_one() {
    let mut recorder = recorder();
    recorder.begin_step(1);
    let long = "é".repeat(kernel::limits::PART_BYTES);
    recorder.text(&long);
    let whole: String = recorder
        .step_parts()
        .iter()
        .map(|part| match &part.content {
            Content::Text(prose) => {
                assert!(prose.text.len() <= kernel::limits::PART_BYTES);
                prose.text.as_str()
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(whole, long);
}

#[test]
fn arguments_beyond_their_bound_are_neither_kept_nor_told() {
    let mut recorder = recorder();
    recorder.begin_step(1);
    recorder.call_started(0, "a");
    for _ in 0..40 {
        recorder.call_arguments(0, &"x".repeat(10_000));
    }
    let told: usize = recorder
        .take_events()
        .iter()
        .map(|(_, event)| match event {
            Event::ToolInputDelta { delta, .. } => delta.len(),
            _ => 0,
        })
        .sum();
    assert_eq!(told, kernel::limits::TOOL_ARGUMENT_BYTES);
}

#[test]
fn what_could_not_be_written_is_written_again() {
    let mut recorder = recorder();
    recorder.begin_step(1);
    recorder.text("a");
    let lost = recorder.take_changes();
    recorder.changes_were_lost();
    recorder.text("b");
    let again = recorder.take_changes();
    assert_eq!(again.parts.len(), lost.parts.len());
    assert!(matches!(&again.parts[0].content, Content::Text(prose) if prose.text == "ab"));
}

#[test]
fn thousands_of_tiny_parts_soon_count_as_a_long_answer() {
    let mut recorder = recorder();
    recorder.begin_step(1);
    for _ in 0..50_000 {
        recorder.text("a");
        recorder.reasoning("b");
        recorder.take_events();
    }
    assert!(recorder.bytes() > crate::limits::ANSWER_BYTES);
}

#[test]
fn what_a_provider_wants_back_counts_even_when_nothing_was_shown() {
    let mut recorder = recorder();
    recorder.begin_step(1);
    let meta = JsonText::of(&"x".repeat(1_024 * 1_024));
    for _ in 0..5 {
        recorder.reasoning_done(Some(meta.clone()));
    }
    assert!(recorder.bytes() > crate::limits::ANSWER_BYTES);
}

#[test]
fn arguments_that_were_cut_are_kept_as_an_excerpt_and_not_six_times_as_long() {
    let mut recorder = recorder();
    recorder.begin_step(1);
    for index in 0..16 {
        recorder.call_started(index, "fetch_url");
        recorder.call_arguments(index, &"\u{1}".repeat(200_000));
    }
    recorder.settle("stopped");
    let stored: usize = recorder
        .step_parts()
        .iter()
        .map(|part| match &part.content {
            Content::Call(call) => call.input.len(),
            other => panic!("no call: {other:?}"),
        })
        .sum();
    assert!(stored < 1_024 * 1_024, "{stored}");
}

#[test]
fn media_are_written_until_they_are_known_to_be_stored_and_then_let_go() {
    let mut recorder = recorder();
    let give = |recorder: &mut Recorder, index: usize, position: u32| {
        recorder.call_started(index, "tool");
        let at = recorder.call_ready(index, &json("{}")).unwrap();
        let media = NewMedia {
            media: Media {
                id: MediaId::mint(&SystemClock),
                kind: MediaKind::Image,
                media_type: "image/png".to_owned(),
                bytes: 3,
            },
            call: recorder.call_id(at).unwrap(),
            position,
            data: vec![1, 2, 3].into(),
        };
        recorder.call_ended(at, Outcome::Ok(json("1")), vec![media]);
    };
    recorder.begin_step(1);
    give(&mut recorder, 0, 0);
    assert_eq!(recorder.take_changes().media.len(), 1);
    // What comes while a write is under way is not let go with it.
    give(&mut recorder, 1, 0);
    recorder.changes_were_lost();
    assert_eq!(
        recorder.take_changes().media.len(),
        2,
        "lost ones are written again"
    );
    give(&mut recorder, 2, 0);
    recorder.changes_were_kept();
    assert_eq!(recorder.take_changes().media.len(), 1, "kept ones are not");
    recorder.changes_were_kept();
    assert!(recorder.take_changes().media.is_empty());
    let told = recorder
        .take_events()
        .into_iter()
        .filter_map(|(_, event)| match event {
            Event::ToolEnded { media, .. } => Some(media.len()),
            _ => None,
        });
    assert_eq!(told.collect::<Vec<_>>(), [1, 1, 1]);
}
