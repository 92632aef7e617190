#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "every other variant fails the test, with its value"
)]

use kernel::{CallId, Clock, SystemClock, Timestamp};
use llm::{AssistantBlock, Message, ToolResult};
use proptest::prelude::*;

use super::*;
use crate::parts::{Call, Prose};

const MODEL: &str = "anthropic/a";

fn part(position: u32, step: u32, content: Content) -> Part {
    Part {
        position,
        step,
        content,
        started_at: SystemClock.now(),
        ended_at: Some(Timestamp::from_micros(0)),
        last_event: 0,
    }
}

fn text(text: &str) -> Content {
    Content::Text(Prose {
        text: text.to_owned(),
        ..Prose::default()
    })
}

fn reasoning(meta: Option<&str>) -> Content {
    Content::Reasoning(Prose {
        text: "hm".to_owned(),
        streaming: false,
        meta: meta.map(|from| ProviderMeta {
            from: from.to_owned(),
            meta: JsonText::null(),
        }),
    })
}

fn call(tool: &str, input: &str, progress: Progress) -> (CallId, Content) {
    let id = CallId::mint(&SystemClock);
    let call = Call {
        id,
        wire_id: Some("call_0".to_owned()),
        tool: tool.to_owned(),
        input: input.to_owned(),
        meta: None,
        progress,
        media: Vec::new(),
    };
    (id, Content::Call(Box::new(call)))
}

fn answer(contents: impl IntoIterator<Item = (u32, Content)>) -> Vec<Message> {
    let parts: Vec<Part> = contents
        .into_iter()
        .zip(0..)
        .map(|((step, content), position)| part(position, step, content))
        .collect();
    let mut history = Vec::new();
    push_question(&mut history, "hi");
    push_answer(&mut history, &parts, MODEL);
    history
}

#[test]
fn each_step_is_one_answer_with_all_its_results_after_it() {
    let ok = |said: &str| Progress::Ended(Outcome::Ok(JsonText::of(&said)));
    let (a, call_a) = call("current_time", "{}", ok("12:00"));
    let (b, call_b) = call("current_time", "{}", ok("12:01"));
    let history = answer([
        (1, text("Let me look.")),
        (1, call_a),
        (1, call_b),
        (2, text("Noon.")),
    ]);
    let block = |id: CallId| AssistantBlock::Call {
        id: id.to_string(),
        name: "current_time".to_owned(),
        arguments: "{}".parse().unwrap(),
        meta: None,
    };
    let result = |id: CallId, said: &str| ToolResult {
        call_id: id.to_string(),
        name: "current_time".to_owned(),
        text: said.to_owned(),
        failed: false,
    };
    assert_eq!(
        history,
        [
            Message::User {
                text: "hi".to_owned()
            },
            Message::Assistant {
                blocks: vec![
                    AssistantBlock::Text("Let me look.".to_owned()),
                    block(a),
                    block(b)
                ]
            },
            Message::ToolResults(vec![result(a, "12:00"), result(b, "12:01")]),
            Message::Assistant {
                blocks: vec![AssistantBlock::Text("Noon.".to_owned())]
            },
        ]
    );
}

#[test]
fn a_call_without_a_result_gets_an_interrupted_one() {
    for progress in [Progress::InputStreaming, Progress::Running] {
        let (_, call) = call("fetch_url", "{\"url\":", progress);
        let history = answer([(1, call)]);
        let Some(Message::ToolResults(results)) = history.last() else {
            panic!("{history:?}")
        };
        assert_eq!(results[0].text, INTERRUPTED);
        assert!(results[0].failed);
    }
}

#[test]
fn reasoning_goes_back_only_to_the_model_that_signed_it() {
    let history = answer([
        (1, reasoning(None)),
        (1, reasoning(Some("openai/b"))),
        (1, reasoning(Some(MODEL))),
        (1, text("So.")),
    ]);
    let Some(Message::Assistant { blocks }) = history.last() else {
        panic!("{history:?}")
    };
    assert_eq!(blocks.len(), 2);
    assert!(matches!(blocks[0], AssistantBlock::Reasoning { .. }));
}

#[test]
fn what_came_before_a_retry_is_not_the_models_history() {
    let (_, cut) = call(
        "fetch_url",
        "\"{\"",
        Progress::Refused(Outcome::Interrupted("cut".to_owned())),
    );
    let notice = Content::Notice {
        code: NoticeCode::Retry,
        sentence: "again".to_owned(),
    };
    let history = answer([
        (1, text("The answ")),
        (1, cut),
        (1, notice),
        (1, text("The answer.")),
    ]);
    assert_eq!(
        history[1..],
        [Message::Assistant {
            blocks: vec![AssistantBlock::Text("The answer.".to_owned())]
        }]
    );
}

#[test]
fn a_name_and_arguments_that_no_provider_takes_are_made_acceptable() {
    let refused = || Progress::Refused(Outcome::Error("no".to_owned()));
    for (tool, name) in [("", "unnamed"), ("rm -rf /", "rm_-rf__"), ("ok", "ok")] {
        let (_, content) = call(tool, "\"not an object\"", refused());
        let history = answer([(1, content)]);
        let Message::Assistant { blocks } = &history[1] else {
            panic!("{history:?}")
        };
        let AssistantBlock::Call {
            name: replayed,
            arguments,
            ..
        } = &blocks[0]
        else {
            panic!("{blocks:?}")
        };
        assert_eq!(replayed, name);
        assert_eq!(arguments.as_str(), r#"{"INVALID_JSON":"not an object"}"#);
    }
}

#[test]
fn two_questions_in_a_row_are_one_and_an_empty_answer_is_none() {
    let mut history = Vec::new();
    push_question(&mut history, "hi");
    push_answer(&mut history, &[], MODEL);
    push_question(&mut history, "still there?");
    assert_eq!(
        history,
        [Message::User {
            text: "hi\n\nstill there?".to_owned()
        }]
    );
}

#[test]
fn an_answer_that_was_only_thought_is_none() {
    let mut history = answer([(1, reasoning(Some(MODEL)))]);
    push_question(&mut history, "still there?");
    assert_eq!(
        history,
        [Message::User {
            text: "hi\n\nstill there?".to_owned()
        }]
    );
}

#[test]
fn a_question_behind_results_that_nobody_answered_comes_after_words_that_say_so() {
    let (_, called) = call("current_time", "{}", Progress::Running);
    let mut history = answer([(1, called)]);
    push_question(&mut history, "and now?");
    assert_eq!(
        history[3..],
        [
            Message::Assistant {
                blocks: vec![AssistantBlock::Text(UNANSWERED.to_owned())]
            },
            Message::User {
                text: "and now?".to_owned()
            }
        ]
    );
}

fn contents() -> impl Strategy<Value = (u32, u8, bool)> {
    (0..4_u32, 0..8_u8, any::<bool>())
}

proptest! {
    #[test]
    fn any_stored_answer_is_a_history_that_a_strict_provider_takes(
        mut stored in prop::collection::vec(contents(), 0..24),
    ) {
        stored.sort_by_key(|(step, ..)| *step);
        let history = answer(stored.into_iter().map(|(step, kind, ok)| {
            let progress = match (kind, ok) {
                (0, true) => Progress::Ended(Outcome::Ok(JsonText::of(&"x"))),
                (0, false) => Progress::Ended(Outcome::Error("x".to_owned())),
                (1, true) => Progress::Refused(Outcome::Interrupted("x".to_owned())),
                (1, false) => Progress::Running,
                _ => Progress::InputStreaming,
            };
            let content = match kind {
                0..=2 => call("t", "{}", progress).1,
                3 => text(""),
                4 => text("x"),
                5 => reasoning(ok.then_some(MODEL)),
                6 => Content::Notice { code: NoticeCode::Limit, sentence: "x".to_owned() },
                _ => Content::Notice { code: NoticeCode::Retry, sentence: "x".to_owned() },
            };
            (step, content)
        }));
        for pair in history.windows(2) {
            match (&pair[0], &pair[1]) {
                (Message::Assistant { blocks }, next) => {
                    let calls: Vec<&String> = blocks.iter().filter_map(|block| match block {
                        AssistantBlock::Call { id, .. } => Some(id),
                        AssistantBlock::Text(_) | AssistantBlock::Reasoning { .. } => None,
                    }).collect();
                    match next {
                        Message::ToolResults(results) => {
                            let answered: Vec<&String> = results.iter().map(|r| &r.call_id).collect();
                            prop_assert_eq!(calls, answered);
                        }
                        other => prop_assert!(calls.is_empty() && matches!(other, Message::User { .. }), "{other:?}"),
                    }
                }
                (Message::User { .. } | Message::ToolResults(_), next) => {
                    prop_assert!(matches!(next, Message::Assistant { .. }), "{next:?}");
                }
            }
        }
        if let Some(Message::Assistant { blocks }) = history.last() {
            let calls = blocks
                .iter()
                .filter(|block| matches!(block, AssistantBlock::Call { .. }))
                .count();
            prop_assert_eq!(calls, 0);
        }
    }
}
