use serde_json::json;

use super::*;

fn ask(body: &Value) -> Result<ChatRequest, Problem> {
    read(body.as_object().unwrap())
}

fn user(id: &str, text: &str) -> Value {
    json!({"id": id, "role": "user", "parts": [{"type": "text", "text": text}]})
}

fn answer(id: &str) -> Value {
    json!({"id": id, "role": "assistant", "parts": [{"type": "text", "text": "yes"}]})
}

fn question(body: &Value) -> Question {
    ask(body).unwrap().question
}

fn refusal(body: &Value) -> (String, String) {
    let problem = ask(body).unwrap_err();
    (problem.field.unwrap_or_default(), problem.detail)
}

#[test]
fn what_the_transport_sends_is_read_and_what_a_page_adds_is_not() {
    let request = ask(&json!({
        "id": "chat1", "npc": "Keeper", "trigger": "submit-message", "theme": {"dark": true},
        "messages": [user("u1", "first"), answer("a1"), {
            "id": "u2", "role": "user", "metadata": {"x": 1},
            "parts": [{"type": "text", "text": "se"}, {"type": "data-cursor", "data": 1}, {"type": "text", "text": "cond"}],
        }],
    }));
    assert_eq!(
        request,
        Ok(ChatRequest {
            conversation: "chat1".to_owned(),
            npc: "Keeper".to_owned(),
            question: Question::Submit {
                id: "u2".to_owned(),
                text: "second".to_owned(),
            },
        })
    );
}

#[test]
fn a_submitted_message_with_a_message_id_is_an_edit() {
    let edit = question(&json!({
        "id": "c", "npc": "n", "trigger": "submit-message", "messageId": "u1", "messages": [user("u1", "other")],
    }));
    assert_eq!(
        edit,
        Question::Edit {
            id: "u1".to_owned(),
            text: "other".to_owned()
        }
    );
    assert_eq!(edit_id("u1", "other"), edit_id("u1", "other"));
    assert_ne!(edit_id("u1", "other"), edit_id("u1", "another"));
    assert!(edit_id("u1", "other").starts_with("u1:"));
    assert_eq!(edit_id(&"u".repeat(200), "other").len(), 64);
}

#[test]
fn an_answer_again_names_the_answer_or_leaves_it_to_the_last() {
    let body = |message_id: Value| {
        json!({
            "id": "c", "npc": "n", "trigger": "regenerate-message", "messageId": message_id, "messages": [user("u1", "x")],
        })
    };
    let expected = |answer: Option<&str>| Question::Regenerate {
        id: "u1".to_owned(),
        answer: answer.map(str::to_owned),
    };
    assert_eq!(question(&body(json!("a1"))), expected(Some("a1")));
    assert_eq!(question(&body(Value::Null)), expected(None));
    assert_eq!(question(&body(json!("u1"))), expected(None));
    assert_eq!(regenerate_id("u1", "a1"), "u1:a1");
}

#[test]
fn files_are_refused_in_words() {
    let (field, detail) = refusal(
        &json!({"id": "c", "npc": "n", "messages": [{"id": "u", "role": "user", "parts": [
            {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AA=="}, {"type": "text", "text": "see"},
        ]}]}),
    );
    assert_eq!(field, "messages");
    assert_eq!(
        detail,
        "the last Message has a file part; this Village takes text only, so put what matters into the text"
    );
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let whole = json!({"id": "c", "npc": "n", "messages": [user("u", "x")]});
    let with = |field: &str, value: Value| {
        let mut body = whole.clone();
        body[field] = value;
        refusal(&body).0
    };
    for (field, value) in [
        ("id", Value::Null),
        ("id", json!("")),
        ("id", json!("x".repeat(201))),
        ("npc", json!(3)),
        ("trigger", json!("resume-stream")),
        ("trigger", json!(3)),
        ("messageId", json!([])),
        ("messages", Value::Null),
        ("messages", json!([])),
        ("messages", json!(["x"])),
        ("messages", json!([user("u", "x"), answer("a")])),
        ("messages", json!([user("u", " \n")])),
        (
            "messages",
            json!([{"role": "user", "parts": [{"type": "text", "text": "x"}]}]),
        ),
        (
            "messages",
            json!([{"id": "u", "role": "user", "content": "x"}]),
        ),
        (
            "messages",
            json!([{"id": "u", "role": "user", "parts": [{"type": "text"}]}]),
        ),
    ] {
        assert_eq!(with(field, value.clone()), field, "{field}: {value}");
    }
}
