//! Quirks of the Messages API.

use llm::{
    AssistantBlock, CallArguments, ErrorKind, Finish, Message, StepRequest, ToolResult, ToolUse,
    Usage,
};
use serde_json::json;
use testkit::provider::{Manner, Step, Wire::Anthropic};

use crate::support::{self, Pair, ask, call, go_on, outcome, play, result};

#[tokio::test]
async fn q13_anthropic_max_tokens() {
    let step = play!(Anthropic, "q13_anthropic_max_tokens");
    assert_eq!(step.finish, Some(Finish::Length));
    let raw = "{}".to_owned();
    assert_eq!(step.calls[0].arguments, CallArguments::Cut { raw });
}

#[tokio::test]
async fn q15_unvalidated_json_at_block_stop() {
    let step = play!(Anthropic, "q15_unvalidated_json_at_block_stop");
    assert!(matches!(
        &step.calls[0].arguments,
        CallArguments::Malformed { raw, .. } if raw == r#"{"n":1}{"n":2}"#
    ));
    assert_eq!(
        step.calls[1].arguments,
        CallArguments::Complete(support::json("{}"))
    );
}

#[tokio::test]
async fn q21_anthropic_error_event() {
    let step = play!(Anthropic, "q21_anthropic_error_event");
    assert_eq!(
        step.failure(),
        (
            ErrorKind::Overloaded { retry_after: None },
            "Provider test failed in the middle of its answer: Overloaded"
        )
    );
}

#[tokio::test]
async fn q22_anthropic_cut() {
    let step = play!(Anthropic, "anthropic_cut");
    assert_eq!(
        (step.text.as_str(), step.failure().0),
        ("a", ErrorKind::CutStream)
    );
}

#[tokio::test]
async fn q23_anthropic_end_without_message_stop() {
    let step = play!(Anthropic, "anthropic_end_without_message_stop");
    assert_eq!((step.text.as_str(), step.finish), ("a", Some(Finish::Stop)));
}

#[tokio::test]
async fn q31_signed_thinking_is_kept_whole() {
    let step = play!(Anthropic, "q31_signed_thinking");
    let meta = |block: &str| {
        Some(support::json(&format!(
            r#"{{"provider":"test","block":{block}}}"#
        )))
    };
    assert_eq!((step.reasoning.as_str(), step.text.as_str()), ("hm", "a"));
    assert_eq!(
        step.metas,
        [
            meta(r#"{"type":"thinking","thinking":"hm","signature":"c2ln"}"#),
            meta(r#"{"type":"redacted_thinking","data":"cmVk"}"#),
        ]
    );
    assert_eq!(step.complete_calls(), [("current_time", r#"{"n":1}"#)]);
    assert_eq!(
        step.usage,
        Usage {
            input: Some(16),
            output: Some(7),
            cached_input: Some(4),
            reasoning: None,
        }
    );
    assert_eq!(step.model.as_deref(), Some("claude"));
}

#[tokio::test]
async fn q31_signed_thinking_goes_back_first_and_unchanged() {
    let pair = thinking_pair().await;
    let mut request = ask("hi");
    let thought = Step::new()
        .text("first ")
        .reasoning("h\u{e9}")
        .reasoning("m")
        .call("current_time", &json!({"n": 1}));
    let step = pair.run(thought).await;
    go_on(&mut request, &step);
    // What was shown of it is cut: it must not matter.
    if let Some(Message::Assistant { blocks }) = request.messages.get_mut(1) {
        blocks[0] = AssistantBlock::Reasoning {
            text: "…".to_owned(),
            meta: step.metas[0].clone(),
        };
        blocks.rotate_left(1);
    }
    pair.scripted.script([Step::new().text("done")]);
    // The scripted Provider checks the signature against the text.
    assert_eq!(outcome(&*pair.provider, &request).await.text, "done");
    let body = &pair.scripted.requests()[1].body;
    assert_eq!(
        kinds(&body["messages"][1]),
        ["thinking", "text", "tool_use"]
    );
    assert_eq!(body["thinking"]["budget_tokens"], 2_048);
    assert_eq!(body["max_tokens"], 8_192 + 2_048);
}

#[tokio::test]
async fn q31_unsigned_thinking_is_dropped_and_the_step_goes_on_without() {
    let step = play!(Anthropic, "q31_thinking_without_a_signature");
    assert_eq!(
        (step.reasoning.as_str(), &step.metas[..]),
        ("hm", &[None][..])
    );

    let pair = thinking_pair().await;
    let mut request = ask("hi");
    request.messages.extend([
        Message::Assistant {
            blocks: vec![
                AssistantBlock::Reasoning {
                    text: "hm".to_owned(),
                    meta: None,
                },
                call("1", "{}"),
            ],
        },
        Message::ToolResults(vec![result("1", "ok")]),
    ]);
    pair.scripted
        .script([Step::new().text("done"), Step::new().text("done")]);
    assert_eq!(outcome(&*pair.provider, &request).await.text, "done");
    request.messages.push(Message::User {
        text: "next".to_owned(),
    });
    // Results and the question are one message on this wire; its beginning is still results.
    assert_eq!(outcome(&*pair.provider, &request).await.text, "done");
    let requests = pair.scripted.requests();
    assert_eq!(kinds(&requests[0].body["messages"][1]), ["tool_use"]);
    assert!(requests[0].body["thinking"].is_null());
    assert!(requests[1].body["thinking"].is_null());
}

#[tokio::test]
async fn q31_thinking_of_another_provider_is_dropped() {
    let pair = Pair::new(Anthropic).await;
    let mut request = ask("hi");
    request.messages.extend([
        Message::Assistant {
            blocks: vec![
                AssistantBlock::Reasoning {
                    text: "hm".to_owned(),
                    meta: Some(support::json(
                        r#"{"provider":"other","block":{"type":"thinking","thinking":"hm","signature":"x"}}"#,
                    )),
                },
                AssistantBlock::Reasoning {
                    text: "hm".to_owned(),
                    meta: Some(support::json(r#"{"provider":"test","field":"reasoning"}"#)),
                },
                AssistantBlock::Text("a".to_owned()),
            ],
        },
        Message::User {
            text: "next".to_owned(),
        },
    ]);
    pair.scripted.script([Step::new().text("done")]);
    assert_eq!(outcome(&*pair.provider, &request).await.text, "done");
    let body = &pair.scripted.requests()[0].body;
    assert_eq!(kinds(&body["messages"][1]), ["text"]);
}

#[tokio::test]
async fn q31_thinking_that_is_refused_is_left_out_once() {
    let pair = Pair::with(Anthropic, Manner::Lenient, |config| {
        config.thinking_tokens = Some(2_048);
    })
    .await;
    let mut request = ask("hi");
    let step = pair
        .run(Step::new().reasoning("hm").call("current_time", &json!({})))
        .await;
    go_on(&mut request, &step);
    let refused = json!({"type": "error", "error": {
        "type": "invalid_request_error",
        "message": "messages.1.content.0: Invalid `signature` in `thinking` block",
    }});
    let refusal = || Step::refusal(400, refused.to_string());
    pair.scripted.script([refusal(), Step::new().text("done")]);
    assert_eq!(outcome(&*pair.provider, &request).await.text, "done");
    let body = &pair.scripted.requests()[2].body;
    assert_eq!(kinds(&body["messages"][1]), ["tool_use"]);
    assert!(body["thinking"].is_null());

    pair.scripted.script([refusal(), refusal()]);
    let failed = outcome(&*pair.provider, &request).await;
    assert_eq!(failed.failure().0, ErrorKind::BadRequest);
    assert_eq!(pair.scripted.requests().len(), 5);
}

#[tokio::test]
async fn q32_calls_go_last_and_all_results_into_one_message_before_text() {
    let pair = Pair::new(Anthropic).await;
    let mut request = ask("hi");
    request.messages.extend([
        Message::Assistant {
            blocks: vec![
                call("1", r#"{"n":1}"#),
                AssistantBlock::Text("between".to_owned()),
                call("2", "[1]"),
                AssistantBlock::Text(" ".to_owned()),
            ],
        },
        Message::ToolResults(vec![
            result("1", ""),
            ToolResult {
                failed: true,
                ..result("2", "no")
            },
        ]),
        Message::User {
            text: "and?".to_owned(),
        },
    ]);
    pair.scripted.script([Step::new().text("done")]);
    assert_eq!(outcome(&*pair.provider, &request).await.text, "done");
    assert_eq!(
        pair.scripted.requests()[0].body["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "between"},
                {"type": "tool_use", "id": "1", "name": "current_time", "input": {"n": 1}},
                {"type": "tool_use", "id": "2", "name": "current_time", "input": {"INVALID_JSON": "[1]"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "1"},
                {"type": "tool_result", "tool_use_id": "2", "content": "no", "is_error": true},
                {"type": "text", "text": "and?"},
            ]},
        ])
    );
}

#[tokio::test]
async fn the_last_step_offers_tools_only_as_far_as_the_history_needs_them() {
    let pair = Pair::new(Anthropic).await;
    let mut request = StepRequest {
        tool_use: ToolUse::None,
        ..ask("hi")
    };
    pair.scripted.answer_with(|_| Step::new().text("done"));
    outcome(&*pair.provider, &request).await;
    request.messages.extend([
        Message::Assistant {
            blocks: vec![call("1", "{}")],
        },
        Message::ToolResults(vec![result("1", "ok")]),
    ]);
    outcome(&*pair.provider, &request).await;
    request.tools.clear();
    assert_eq!(outcome(&*pair.provider, &request).await.text, "done");
    let offered: Vec<_> = pair
        .scripted
        .requests()
        .iter()
        .map(|request| {
            let tools = request.tools().join(" ");
            (tools, request.body["tool_choice"]["type"].clone())
        })
        .collect();
    let row = |tools: &str, choice| (tools.to_owned(), choice);
    assert_eq!(
        offered,
        [
            row("", json!(null)),
            row("current_time fetch_url", json!("none")),
            row("no_tools", json!("none")),
        ]
    );
}

#[tokio::test]
async fn a_history_that_begins_with_an_answer_and_has_empty_ones_is_sent_as_the_wire_wants_it() {
    let pair = Pair::new(Anthropic).await;
    let mut request = ask("one");
    request.messages = vec![
        Message::Assistant {
            blocks: vec![AssistantBlock::Text("a".to_owned())],
        },
        Message::User {
            text: "one".to_owned(),
        },
        Message::Assistant { blocks: Vec::new() },
        Message::User {
            text: "two".to_owned(),
        },
    ];
    pair.scripted.script([Step::new().text("done")]);
    assert_eq!(outcome(&*pair.provider, &request).await.text, "done");
}

#[tokio::test]
async fn blocks_of_other_kinds_and_events_of_tomorrow_are_ignored() {
    let step = play!(Anthropic, "anthropic_blocks_of_other_kinds");
    assert_eq!(
        (step.text.as_str(), step.finish),
        ("ab", Some(Finish::Stop))
    );
    assert_eq!(step.calls, []);
}

#[tokio::test]
async fn input_that_comes_whole_with_the_start_is_taken() {
    let step = play!(Anthropic, "anthropic_whole_input_in_the_start");
    assert_eq!(step.complete_calls(), [("current_time", r#"{"n":1}"#)]);
}

#[tokio::test]
async fn a_base_url_with_the_other_wires_habit_works() {
    let pair = Pair::with(Anthropic, Manner::Strict, |config| {
        config.base_url = config.base_url.take().map(|url| format!("{url}/v1/"));
    })
    .await;
    assert_eq!(pair.run(Step::new().text("a")).await.text, "a");
    let request = &pair.scripted.requests()[0];
    assert_eq!(request.headers["x-api-key"], "sk-test-key");
    assert_eq!(request.headers["anthropic-version"], "2023-06-01");
    assert!(request.headers.get("authorization").is_none());
}

async fn thinking_pair() -> Pair {
    Pair::with(Anthropic, Manner::Strict, |config| {
        config.thinking_tokens = Some(2_048);
    })
    .await
}

fn kinds(message: &serde_json::Value) -> Vec<&str> {
    message["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["type"].as_str().unwrap())
        .collect()
}
