//! Quirks of endpoints that speak Chat Completions, each as a stream that one of them sent.

use kernel::JsonText;
use llm::{AssistantBlock, CallArguments, ErrorKind, Finish, Message, Usage};
use testkit::provider::{Manner, Step, Wire::ChatCompletions};

use crate::support::{Outcome, Pair, ask, call, go_on, json, outcome, play, result};

const ONE: (&str, &str) = ("current_time", r#"{"n":1}"#);
const TWO: (&str, &str) = ("current_time", r#"{"n":2}"#);

fn wire_ids(outcome: &Outcome) -> Vec<Option<&str>> {
    outcome
        .calls
        .iter()
        .map(|call| call.wire_id.as_deref())
        .collect()
}

#[tokio::test]
async fn q01_call_delta_without_index() {
    let step = play!(ChatCompletions, "q01_call_delta_without_index");
    assert_eq!(step.complete_calls(), [ONE, TWO]);
    assert_eq!(step.finish, Some(Finish::ToolCalls));
}

#[tokio::test]
async fn q02_parallel_calls_all_at_index_0() {
    let step = play!(ChatCompletions, "q02_parallel_calls_all_at_index_0");
    assert_eq!(step.complete_calls(), [ONE, TWO]);
    assert_eq!(wire_ids(&step), [Some("a"), Some("b")]);
}

#[tokio::test]
async fn q02_second_object_at_the_same_index() {
    let step = play!(ChatCompletions, "q02_second_object_at_the_same_index");
    assert_eq!(step.complete_calls(), [ONE, TWO]);
}

#[tokio::test]
async fn q03_fragments_interleaved_across_indices() {
    let step = play!(ChatCompletions, "q03_fragments_interleaved_across_indices");
    let fetch = ("fetch_url", r#"{"url":"https://example.com/"}"#);
    assert_eq!(step.complete_calls(), [ONE, fetch]);
}

#[tokio::test]
async fn q03_gap_in_the_indices() {
    let step = play!(ChatCompletions, "q03_gap_in_the_indices");
    assert_eq!(step.complete_calls(), [ONE]);
}

#[tokio::test]
async fn q04_several_whole_calls_in_one_delta() {
    let step = play!(ChatCompletions, "q04_several_whole_calls_in_one_delta");
    assert_eq!(step.complete_calls(), [ONE, TWO]);
}

#[tokio::test]
async fn q05_blank_arguments() {
    let step = play!(ChatCompletions, "q05_blank_arguments");
    assert_eq!(step.complete_calls(), [("current_time", "{}"); 4]);
}

#[tokio::test]
async fn q06_arguments_as_an_object() {
    let step = play!(ChatCompletions, "q06_arguments_as_an_object");
    let digits = r#"{"n":12345678901234567890123,"x":1.10}"#;
    assert_eq!(step.complete_calls(), [("current_time", digits)]);

    let pair = Pair::new(ChatCompletions).await;
    let mut request = ask("hi");
    go_on(&mut request, &step);
    pair.scripted.script([Step::new().text("done")]);
    outcome(&*pair.provider, &request).await;
    let sent = &pair.scripted.requests()[0].body["messages"][2]["tool_calls"][0]["function"];
    assert_eq!(sent["arguments"], digits, "it goes back as a string");
}

#[tokio::test]
async fn q07_ids_missing_empty_or_null() {
    let step = play!(ChatCompletions, "q07_ids_missing_empty_or_null");
    let three = ("current_time", r#"{"n":3}"#);
    assert_eq!(step.complete_calls(), [ONE, TWO, three]);
    assert_eq!(wire_ids(&step), [None, None, None]);
}

#[tokio::test]
async fn q08_one_id_for_several_calls() {
    let step = play!(ChatCompletions, "q08_one_id_for_several_calls");
    assert_eq!(step.complete_calls(), [ONE, TWO]);
    assert_eq!(wire_ids(&step), [Some("call_0"), Some("call_0")]);

    // The scripted Provider refuses duplicate ids; ours are not.
    let pair = Pair::new(ChatCompletions).await;
    let mut request = ask("hi");
    go_on(&mut request, &step);
    go_on(&mut request, &step);
    pair.scripted.script([Step::new().text("done")]);
    assert_eq!(outcome(&*pair.provider, &request).await.text, "done");
}

#[tokio::test]
async fn q09_ids_of_nine_characters_for_mistral() {
    let pair = Pair::with(ChatCompletions, Manner::Strict, |config| {
        config.call_ids = Some(llm::CallIds::NineAlphanumeric);
    })
    .await;
    let mut request = ask("hi");
    let ids = [
        "0193a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b",
        "0193a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1c",
    ];
    request.messages.extend([
        Message::Assistant {
            blocks: ids.map(|id| call(id, "{}")).to_vec(),
        },
        Message::ToolResults(ids.map(|id| result(id, "ok")).to_vec()),
    ]);
    pair.scripted.script([Step::new().text("done")]);
    assert_eq!(outcome(&*pair.provider, &request).await.text, "done");
    let body = &pair.scripted.requests()[0].body;
    let id = body["messages"][2]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(
        id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
        "{id}"
    );
    assert_eq!(body["messages"][3]["tool_call_id"], id);
}

#[tokio::test]
async fn q10_finish_stop_although_there_are_calls() {
    let step = play!(ChatCompletions, "q10_finish_stop_although_there_are_calls");
    assert_eq!(step.complete_calls(), [("current_time", "{}")]);
    assert_eq!(step.finish, Some(Finish::ToolCalls));
}

#[tokio::test]
async fn q10_finish_reason_is_empty_until_the_end() {
    let step = play!(ChatCompletions, "q10_finish_reason_is_empty_until_the_end");
    assert_eq!(
        (step.text.as_str(), step.finish),
        ("ab", Some(Finish::Stop))
    );
}

#[tokio::test]
async fn q11_finish_tool_calls_without_calls() {
    let step = play!(ChatCompletions, "q11_finish_tool_calls_without_calls");
    assert_eq!(
        (step.text.as_str(), step.finish),
        ("hi", Some(Finish::Stop))
    );
}

#[tokio::test]
async fn q12_finish_reason_on_every_chunk() {
    let step = play!(ChatCompletions, "q12_finish_reason_on_every_chunk");
    assert_eq!(step.text, "ab");
    assert_eq!(step.complete_calls(), [ONE]);
}

#[tokio::test]
async fn q12_call_in_the_chunk_of_the_finish() {
    let step = play!(ChatCompletions, "q12_call_in_the_chunk_of_the_finish");
    assert_eq!(step.complete_calls(), [ONE]);
}

#[tokio::test]
async fn q13_output_limit_in_the_middle_of_a_call() {
    let step = play!(ChatCompletions, "q13_output_limit_in_the_middle_of_a_call");
    assert_eq!(step.finish, Some(Finish::Length));
    let cut = |raw: &str| CallArguments::Cut {
        raw: raw.to_owned(),
    };
    let arguments: Vec<_> = step.calls.iter().map(|call| &call.arguments).collect();
    assert_eq!(arguments, [&cut(r#"{"n":1}"#), &cut(r#"{"n":"#)]);
}

#[tokio::test]
async fn q13_cut_arguments_said_to_be_tool_calls() {
    let step = play!(ChatCompletions, "q13_cut_arguments_said_to_be_tool_calls");
    assert_eq!(step.finish, Some(Finish::ToolCalls));
    let raw = r#"{"n":"ab"#.to_owned();
    assert_eq!(step.calls[1].arguments, CallArguments::Cut { raw });
}

#[tokio::test]
async fn q13_content_filter_in_a_call() {
    let step = play!(ChatCompletions, "q13_content_filter_in_a_call");
    assert_eq!(step.finish, Some(Finish::ContentFilter));
    assert!(matches!(step.calls[0].arguments, CallArguments::Cut { .. }));
}

#[tokio::test]
async fn q14_arguments_that_are_no_object() {
    let step = play!(ChatCompletions, "q14_arguments_that_are_no_object");
    let problems: Vec<_> = step
        .calls
        .iter()
        .map(|call| match &call.arguments {
            CallArguments::Malformed { raw, problem } => (raw.as_str(), problem.as_str()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        problems,
        [
            ("[1]", "the arguments are not a JSON object"),
            (
                "{'n': 1}",
                "the arguments are not JSON: a key was expected at byte 1"
            ),
        ]
    );
    assert_eq!(
        step.calls[0].arguments.for_replay(),
        json(r#"{"INVALID_JSON":"[1]"}"#)
    );
}

#[tokio::test]
async fn q16_a_made_up_tool_is_a_call_like_any_other() {
    let step = play!(ChatCompletions, "q16_a_made_up_tool");
    assert_eq!(
        step.complete_calls(),
        [("functions.bash", r#"{"command":"ls"}"#)]
    );
}

#[tokio::test]
async fn q17_a_made_up_name_goes_back_in_the_allowed_characters() {
    let step = play!(ChatCompletions, "q16_a_made_up_tool");
    let pair = Pair::new(ChatCompletions).await;
    let mut request = ask("hi");
    go_on(&mut request, &step);
    pair.scripted.script([Step::new().text("done")]);
    assert_eq!(outcome(&*pair.provider, &request).await.text, "done");
    let body = &pair.scripted.requests()[0].body;
    let sent = &body["messages"][2]["tool_calls"][0]["function"]["name"];
    assert_eq!(sent, "functions_bash");
}

#[tokio::test]
async fn q18_comments_and_wrapped_keepalives() {
    let step = play!(ChatCompletions, "q18_comments_and_wrapped_keepalives");
    assert_eq!(
        (step.text.as_str(), step.finish),
        ("ab", Some(Finish::Stop))
    );
}

#[tokio::test]
async fn q19_crlf_cr_byte_order_mark_and_no_blank_line_at_the_end() {
    for step in [
        play!(ChatCompletions, "q19_crlf"),
        play!(ChatCompletions, "q19_cr"),
        play!(ChatCompletions, "q19_byte_order_mark"),
        play!(ChatCompletions, "q19_no_blank_line_at_the_end"),
    ] {
        assert_eq!(
            (step.text.as_str(), step.finish),
            ("ab", Some(Finish::Stop))
        );
    }
}

#[tokio::test]
async fn q20_multibyte_text_split_across_packets() {
    let bytes: &'static [u8] = include_bytes!("streams/q20_multibyte_text.sse");
    let pair = Pair::new(ChatCompletions).await;
    let crab = bytes.windows(4).position(|four| four == "🦀".as_bytes());
    let (head, tail) = bytes.split_at(crab.unwrap() + 2);
    let split = Step::stream(head)
        .pause(std::time::Duration::from_millis(20))
        .bytes(tail);
    assert_eq!(pair.run(split).await.text, "日本語 🦀 é");
    assert_eq!(
        play!(ChatCompletions, "q20_multibyte_text").text,
        "日本語 🦀 é"
    );
}

#[tokio::test]
async fn q21_error_object_in_the_stream() {
    let step = play!(ChatCompletions, "q21_error_object_in_the_stream");
    assert_eq!(step.text, "hal");
    assert_eq!(
        step.failure(),
        (
            ErrorKind::Overloaded { retry_after: None },
            "Provider test failed in the middle of its answer: upstream overloaded"
        )
    );
    assert!(step.error.unwrap().retryable());
}

#[tokio::test]
async fn q21_finish_reason_error() {
    let step = play!(ChatCompletions, "q21_finish_reason_error");
    assert_eq!(
        step.failure().0,
        ErrorKind::Overloaded { retry_after: None }
    );
}

#[tokio::test]
async fn q22_end_without_a_finish_reason() {
    let step = play!(ChatCompletions, "q22_end_without_a_finish_reason");
    assert_eq!(
        step.failure(),
        (
            ErrorKind::CutStream,
            "Provider test cut its answer short: the stream ended without a finish reason; try again"
        )
    );
    assert_eq!(step.calls, [], "no call of it is finished");
}

#[tokio::test]
async fn q22_done_without_a_finish_reason() {
    let step = play!(ChatCompletions, "q22_done_without_a_finish_reason");
    assert_eq!(step.failure().0, ErrorKind::CutStream);
}

#[tokio::test]
async fn q22_end_in_the_middle_of_an_event() {
    let step = play!(ChatCompletions, "q22_end_in_the_middle_of_an_event");
    assert_eq!(step.failure().0, ErrorKind::CutStream);
}

#[tokio::test]
async fn q22_connection_that_breaks() {
    let pair = Pair::new(ChatCompletions).await;
    let step = pair.run(Step::new().text("hal").break_off()).await;
    assert_eq!(step.failure().0, ErrorKind::CutStream);
}

#[tokio::test]
async fn q22_stream_that_stalls() {
    let pair = Pair::with(ChatCompletions, Manner::Strict, |config| {
        config.idle_timeout_ms = 500;
    })
    .await;
    let step = pair.run(Step::new().text("hal").stall()).await;
    assert_eq!(step.text, "hal");
    assert_eq!(
        step.failure(),
        (
            ErrorKind::Timeout,
            "Provider test went silent in the middle of its answer for 0.5 s; try again"
        )
    );
}

#[tokio::test]
async fn q23_no_done_behind_the_finish() {
    let step = play!(ChatCompletions, "q23_no_done_behind_the_finish");
    assert_eq!(step.complete_calls(), [ONE]);
}

#[tokio::test]
async fn q23_connection_that_stalls_or_breaks_behind_the_finish() {
    let pair = Pair::with(ChatCompletions, Manner::Strict, |config| {
        config.idle_timeout_ms = 500;
    })
    .await;
    let finished: &'static [u8] = include_bytes!("streams/q23_no_done_behind_the_finish.sse");
    for step in [
        Step::stream(finished).stall(),
        Step::stream(finished).break_off(),
    ] {
        assert_eq!(pair.run(step).await.complete_calls(), [ONE]);
    }
}

#[tokio::test]
async fn q24_usage_with_no_choices() {
    let step = play!(ChatCompletions, "q24_usage_with_no_choices");
    assert_eq!(
        step.usage,
        Usage {
            input: Some(10),
            output: Some(5),
            cached_input: Some(4),
            reasoning: Some(2),
        }
    );
}

#[tokio::test]
async fn q24_usage_empty_or_null() {
    let step = play!(ChatCompletions, "q24_usage_empty_or_null");
    assert_eq!((step.text.as_str(), step.usage), ("a", Usage::default()));
}

#[tokio::test]
async fn q24_usage_in_the_last_content_chunk() {
    let step = play!(ChatCompletions, "q24_usage_in_the_last_content_chunk");
    let usage = Usage {
        input: Some(10),
        output: Some(5),
        cached_input: Some(3),
        reasoning: None,
    };
    assert_eq!((step.text.as_str(), step.usage), ("a", usage));
}

#[tokio::test]
async fn q25_stream_options_rejected() {
    let pair = Pair::new(ChatCompletions).await;
    let refused =
        r#"{"error":{"message":"Unrecognized request argument supplied: stream_options"}}"#;
    pair.scripted
        .script([Step::refusal(422, refused), Step::new().text("a")]);
    assert_eq!(outcome(&*pair.provider, &ask("hi")).await.text, "a");
    assert_eq!(pair.run(Step::new().text("b")).await.text, "b");
    let asked: Vec<bool> = pair
        .scripted
        .requests()
        .iter()
        .map(|request| request.body["stream_options"].is_object())
        .collect();
    assert_eq!(asked, [true, false, false], "once, and remembered");
}

#[tokio::test]
async fn q27_content_null() {
    let step = play!(ChatCompletions, "q27_content_null");
    assert_eq!((step.text.as_str(), step.finish), ("a", Some(Finish::Stop)));
}

#[tokio::test]
async fn q27_content_as_typed_parts() {
    let step = play!(ChatCompletions, "q27_content_as_typed_parts");
    assert_eq!((step.reasoning.as_str(), step.text.as_str()), ("hm", "ab"));
}

#[tokio::test]
async fn q28_reasoning_under_any_name() {
    let meta = |field: &str| Some(json(&format!(r#"{{"provider":"test","field":"{field}"}}"#)));
    for (step, meta) in [
        (
            play!(ChatCompletions, "q28_reasoning_content"),
            meta("reasoning_content"),
        ),
        (play!(ChatCompletions, "q28_reasoning"), meta("reasoning")),
        (
            play!(ChatCompletions, "q28_reasoning_in_two_fields"),
            meta("reasoning_content"),
        ),
        (play!(ChatCompletions, "q28_think_tags_in_content"), None),
    ] {
        assert_eq!((step.reasoning.as_str(), step.text.as_str()), ("hm", "a"));
        assert_eq!(step.metas, [meta]);
    }
}

#[tokio::test]
async fn q28_reasoning_details_go_back_whole() {
    let step = play!(ChatCompletions, "q28_reasoning_details");
    assert_eq!(step.reasoning, "hm");
    let pair = Pair::new(ChatCompletions).await;
    let mut request = ask("hi");
    go_on(&mut request, &step);
    pair.scripted.script([Step::new().text("done")]);
    assert_eq!(outcome(&*pair.provider, &request).await.text, "done");
    let sent = &pair.scripted.requests()[0].body["messages"][2]["reasoning_details"];
    assert_eq!(
        *sent,
        serde_json::json!([{
            "type": "reasoning.text", "text": "hm", "signature": "sig",
            "format": "anthropic-claude-v1", "index": 0,
        }])
    );
}

#[tokio::test]
async fn q29_reasoning_content_goes_back_with_every_call_of_the_same_provider_only() {
    let pair = Pair::new(ChatCompletions).await;
    let mut request = ask("hi");
    let step = pair
        .run(
            Step::new()
                .reasoning("hm")
                .call("current_time", &serde_json::json!({})),
        )
        .await;
    go_on(&mut request, &step);
    let silent = pair
        .run(Step::new().call("current_time", &serde_json::json!({})))
        .await;
    go_on(&mut request, &silent);
    pair.scripted.script([Step::new().text("done")]);
    outcome(&*pair.provider, &request).await;
    let body = &pair.scripted.requests()[2].body;
    assert_eq!(body["messages"][2]["reasoning_content"], "hm");
    assert_eq!(body["messages"][4]["reasoning_content"], "");

    // The same history at another Provider.
    let foreign = step.metas[0]
        .as_ref()
        .unwrap()
        .as_str()
        .replace("test", "other");
    for message in &mut request.messages {
        if let Message::Assistant { blocks } = message {
            for block in blocks {
                if let AssistantBlock::Reasoning { meta, .. } = block {
                    *meta = Some(json(&foreign));
                }
            }
        }
    }
    pair.scripted.script([Step::new().text("done")]);
    outcome(&*pair.provider, &request).await;
    let requests = pair.scripted.requests();
    assert!(!requests[3].text.contains("reasoning_content"));
}

#[tokio::test]
async fn q30_thought_signature_goes_back_with_its_call() {
    let step = play!(ChatCompletions, "q30_thought_signature");
    assert_eq!(step.complete_calls(), [ONE, TWO]);
    let pair = Pair::new(ChatCompletions).await;
    let mut request = ask("hi");
    go_on(&mut request, &step);
    pair.scripted.script([Step::new().text("done")]);
    assert_eq!(outcome(&*pair.provider, &request).await.text, "done");
    let calls = &pair.scripted.requests()[0].body["messages"][2]["tool_calls"];
    assert_eq!(
        calls[0]["extra_content"]["google"]["thought_signature"],
        "c2ln"
    );
    assert!(calls[1].get("extra_content").is_none());
}

#[tokio::test]
async fn lone_surrogates_are_replaced_and_numbers_keep_every_digit() {
    let step = play!(ChatCompletions, "lone_surrogates_and_numbers_of_any_size");
    assert_eq!(step.text, "a\u{FFFD} b 🦀");
    assert_eq!(
        step.complete_calls(),
        [(
            "current_time",
            r#"{"n":9007199254740993.000000000000000001}"#
        )]
    );
}

#[tokio::test]
async fn an_endpoint_that_answers_with_one_document_is_understood() {
    let pair = Pair::new(ChatCompletions).await;
    let document = r#"{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"tool_calls",
        "message":{"role":"assistant","content":"a","tool_calls":[{"id":"a","type":"function","function":{"name":"current_time","arguments":"{\"n\":1}"}}]}}],
        "usage":{"prompt_tokens":1,"completion_tokens":2}}"#;
    let step = pair
        .run(Step::stream(document).header("content-type", "application/json"))
        .await;
    assert_eq!(step.text, "a");
    assert_eq!(step.complete_calls(), [ONE]);
    assert_eq!(step.usage.output, Some(2));
}

#[tokio::test]
async fn a_stream_that_is_labelled_json_is_understood() {
    let pair = Pair::new(ChatCompletions).await;
    let bytes: &'static [u8] = include_bytes!("streams/q23_no_done_behind_the_finish.sse");
    let step = pair
        .run(Step::stream(bytes).header("content-type", "application/json"))
        .await;
    assert_eq!(step.complete_calls(), [ONE]);
}

#[tokio::test]
async fn a_plain_request_succeeds() {
    let pair = Pair::new(ChatCompletions).await;
    let step = pair.run(Step::new().words("good day to you")).await;
    assert_eq!(
        step,
        Outcome {
            text: "good day to you".to_owned(),
            finish: Some(Finish::Stop),
            usage: Usage {
                input: Some(10),
                output: Some(5),
                ..Usage::default()
            },
            model: Some("m".to_owned()),
            ..Outcome::default()
        }
    );
    let request = &pair.scripted.requests()[0];
    assert_eq!(request.headers["authorization"], "Bearer sk-test-key");
    assert_eq!(JsonText::of(&request.body["stream"]), json("true"));
}
