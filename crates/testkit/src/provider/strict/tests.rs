use http::{HeaderMap, HeaderValue};
use serde_json::json;

use super::*;

fn chat(messages: &Value) -> Judged {
    chat_completions(&json!({"model": "m", "stream": true, "messages": messages}))
}

fn messages(messages: &Value) -> Judged {
    let mut headers = HeaderMap::new();
    headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    let tools = json!([{"name": "t", "description": "", "input_schema": {"type": "object"}}]);
    let body = json!({
        "model": "m", "stream": true, "max_tokens": 1, "messages": messages, "tools": tools
    });
    anthropic(&body, &headers)
}

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "t", "arguments": "{}"}})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "ok"})
}

#[test]
fn a_paired_chat_history_is_taken() {
    assert_eq!(
        chat(&json!([
            {"role": "system", "content": "s"},
            {"role": "user", "content": "u"},
            {"role": "assistant", "content": "a", "tool_calls": [call("1"), call("2")]},
            result("2"), result("1"),
        ])),
        Ok(())
    );
}

#[test]
fn a_chat_history_that_a_provider_refuses_is_refused() {
    let user = json!({"role": "user", "content": "u"});
    let calls = json!({"role": "assistant", "tool_calls": [call("1")]});
    for (case, history) in [
        ("nothing", json!([])),
        ("a call without a result", json!([user, calls])),
        ("a result later on", json!([user, calls, user, result("1")])),
        ("a result without a call", json!([user, result("1")])),
        (
            "two results",
            json!([user, calls, result("1"), result("1")]),
        ),
        (
            "a result of another call",
            json!([user, calls, result("2")]),
        ),
        (
            "one id in two steps",
            json!([user, calls, result("1"), calls, result("1")]),
        ),
        (
            "an answer last",
            json!([user, {"role": "assistant", "content": "a"}]),
        ),
        ("an empty message", json!([{"role": "user", "content": ""}])),
        (
            "an empty answer",
            json!([user, {"role": "assistant"}, user]),
        ),
        (
            "no calls in a list",
            json!([user, {"role": "assistant", "content": "a", "tool_calls": []}, user]),
        ),
        (
            "arguments that are an object",
            json!([user, {"role": "assistant", "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "t", "arguments": {}}}
            ]}, result("1")]),
        ),
        (
            "a name with a dot",
            json!([user, {"role": "assistant", "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "a.b", "arguments": "{}"}}
            ]}, result("1")]),
        ),
        (
            "a field of one's own",
            json!([{"role": "user", "content": "u", "id": 1}]),
        ),
    ] {
        assert!(chat(&history).is_err(), "{case}");
    }
}

#[test]
fn tools_of_a_chat_are_judged() {
    let with = |tools: Value| {
        let body = json!({
            "model": "m", "stream": true, "messages": [{"role": "user", "content": "u"}], "tools": tools
        });
        chat_completions(&body)
    };
    let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}});
    assert_eq!(with(json!([tool("a"), tool("b")])), Ok(()));
    assert!(with(json!([])).is_err());
    assert!(with(json!([tool("a"), tool("a")])).is_err());
    assert!(with(json!([tool("docs/search")])).is_err());
    assert!(with(json!([{"type": "function", "function": {"name": "a"}}])).is_err());
}

fn tool_use(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "t", "input": {}})
}

fn tool_result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "ok"})
}

fn says(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn user(blocks: &[Value]) -> Value {
    json!({"role": "user", "content": blocks})
}

fn assistant(blocks: &[Value]) -> Value {
    json!({"role": "assistant", "content": blocks})
}

#[test]
fn a_paired_history_of_messages_is_taken() {
    let signed = crate::provider::anthropic::signature("hm");
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": signed});
    assert_eq!(
        messages(&json!([
            user(&[says("u")]),
            assistant(&[thinking, says("a"), tool_use("1"), tool_use("2")]),
            user(&[tool_result("2"), tool_result("1"), says("and")]),
        ])),
        Ok(())
    );
}

#[test]
fn a_history_of_messages_that_a_provider_refuses_is_refused() {
    let u = user(&[says("u")]);
    for (case, history) in [
        ("nothing", json!([])),
        ("an answer first", json!([assistant(&[says("a")]), u])),
        ("two users in a row", json!([u, u, u])),
        ("an answer last", json!([u, assistant(&[says("a")])])),
        ("blank text", json!([user(&[says(" ")])])),
        ("no content", json!([user(&[])])),
        (
            "a call without a result",
            json!([u, assistant(&[tool_use("1")]), u]),
        ),
        (
            "a result without a call",
            json!([user(&[tool_result("1")])]),
        ),
        (
            "text before the results",
            json!([
                u,
                assistant(&[tool_use("1")]),
                user(&[says("x"), tool_result("1")])
            ]),
        ),
        (
            "two results",
            json!([
                u,
                assistant(&[tool_use("1")]),
                user(&[tool_result("1"), tool_result("1")])
            ]),
        ),
        (
            "text after a call",
            json!([
                u,
                assistant(&[tool_use("1"), says("x")]),
                user(&[tool_result("1")])
            ]),
        ),
        (
            "one id in two steps",
            json!([
                u,
                assistant(&[tool_use("1")]),
                user(&[tool_result("1")]),
                assistant(&[tool_use("1")]),
                user(&[tool_result("1")])
            ]),
        ),
        (
            "input that is no object",
            json!([
                u,
                assistant(&[json!({"type": "tool_use", "id": "1", "name": "t", "input": "{}"})]),
                user(&[tool_result("1")])
            ]),
        ),
        (
            "thinking with another's signature",
            json!([
                u,
                assistant(&[
                    json!({"type": "thinking", "thinking": "hm", "signature": "x"}),
                    says("a")
                ]),
                u
            ]),
        ),
        (
            "thinking behind text",
            json!([
                u,
                assistant(&[says("a"), json!({"type": "redacted_thinking", "data": "x"})]),
                u
            ]),
        ),
    ] {
        assert!(messages(&history).is_err(), "{case}");
    }
}

#[test]
fn calls_in_the_history_require_tools() {
    let mut headers = HeaderMap::new();
    headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    let history = json!([
        user(&[says("u")]),
        assistant(&[tool_use("1")]),
        user(&[tool_result("1")])
    ]);
    let body = json!({"model": "m", "stream": true, "max_tokens": 1, "messages": history});
    let refused = anthropic(&body, &headers).unwrap_err();
    assert!(refused.contains("must define tools"), "{refused}");
}
