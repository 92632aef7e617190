//! What a turn did can be read, in order, while it runs and ever after.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::provider::{Gate, Step};

use super::in_both_shapes;
use crate::village::{Shape, Village, chunk, chunks};

in_both_shapes!(
    a_turn_streams_is_stored_and_goes_on,
    a_watcher_who_comes_back_sees_the_same_answer,
    an_edit_and_a_new_answer_replace_what_the_model_remembers,
    a_retried_request_starts_nothing_new,
);

async fn a_turn_streams_is_stored_and_goes_on(shape: Shape) {
    let village = Village::start(shape).await;
    village.npc("keeper", "openai/scripted-2x2");
    village.cli_json(&["grant", "add", "keeper", "tool:current_time"]);
    let streamed = village
        .chat("keeper", "c", "What does the old clock say?")
        .await;

    assert_eq!(streamed[0]["type"], "start");
    let metadata = &streamed[0]["messageMetadata"];
    assert!(metadata["turnId"].is_string() && metadata["conversationId"].is_string());
    let outputs = streamed
        .iter()
        .filter(|chunk| chunk["type"] == "tool-output-available");
    assert_eq!(outputs.count(), 4);
    let usage = &chunk(&streamed, "finish")["messageMetadata"]["usage"];
    assert!(usage["inputTokens"].as_u64().unwrap() > 0, "{usage}");

    let shown = village.conversation("c").await;
    assert_eq!(shown["status"], "idle");
    let roles: Vec<&Value> = shown["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| &m["role"])
        .collect();
    assert_eq!(roles, ["user", "assistant"]);
    assert_eq!(text_of(&shown["messages"][1]), text_of_chunks(&streamed));

    // The next turn hands the Provider the whole history, and a strict one takes it.
    village.chat("keeper", "c", "And now, once more?").await;
    let request = village.chat_completions.requests().pop().unwrap();
    let messages = request.body["messages"].as_array().unwrap();
    assert_eq!(
        messages
            .iter()
            .filter(|message| message["role"] == "user")
            .count(),
        2
    );
    assert!(
        !village.logged().contains("old clock"),
        "a log holds what a Player said"
    );
    village.finish().await;
}

async fn a_watcher_who_comes_back_sees_the_same_answer(shape: Shape) {
    let village = Village::start(shape).await;
    village.npc("keeper", "openai/scripted");
    village.cli_json(&["grant", "add", "keeper", "tool:current_time"]);
    let gate = Gate::new();
    village.chat_completions.script([
        Step::new()
            .text("Let me look. ")
            .call("current_time", &json!({})),
        Step::new().text("It is ").gate(&gate).text("late."),
    ]);
    let first = village
        .start_chat("keeper", "c", "m", "What time is it?")
        .await;
    gate.reached().await;

    // One watcher leaves, which stops nothing; another comes.
    drop(first);
    let resumed = village
        .request(Method::GET, "/v1/chat/c/stream")
        .send()
        .await
        .unwrap();
    assert_eq!(resumed.status(), 200);
    gate.open();
    let resumed = chunks(&resumed.text().await.unwrap());
    assert_eq!(text_of_chunks(&resumed), "Let me look. It is late.");
    assert_eq!(chunk(&resumed, "tool-output-available")["dynamic"], true);

    let nothing = village
        .request(Method::GET, "/v1/chat/c/stream")
        .send()
        .await
        .unwrap();
    assert_eq!(nothing.status(), 204);
    assert_eq!(
        text_of(&village.conversation("c").await["messages"][1]),
        "Let me look. It is late."
    );
    village.finish().await;
}

async fn an_edit_and_a_new_answer_replace_what_the_model_remembers(shape: Shape) {
    let village = Village::start(shape).await;
    village.npc("keeper", "openai/scripted");
    village
        .chat_completions
        .script(["one", "two", "three"].map(|text| Step::new().text(text)));
    village
        .start_chat("keeper", "c", "m", "First words")
        .await
        .text()
        .await
        .unwrap();
    let answer = village.conversation("c").await["messages"][1]["id"].clone();

    let said =
        |text: &str| json!({"id": "m", "role": "user", "parts": [{"type": "text", "text": text}]});
    let post = async |body: Value| {
        let response = village
            .request(Method::POST, "/v1/chat")
            .json(&body)
            .send()
            .await
            .unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        assert_eq!(status, 200, "{text}");
    };
    let old =
        json!({"id": answer, "role": "assistant", "parts": [{"type": "text", "text": "one"}]});
    post(json!({"id": "c", "messages": [said("First words"), old], "trigger": "regenerate-message", "messageId": answer, "npc": "keeper"})).await;
    assert_eq!(
        spoken(&village.conversation("c").await),
        ["First words", "two"]
    );
    let remembered = village.chat_completions.requests().pop().unwrap().text;
    assert!(!remembered.contains("\"one\""), "{remembered}");

    post(json!({"id": "c", "messages": [said("Other words")], "trigger": "submit-message", "messageId": "m", "npc": "keeper"})).await;
    assert_eq!(
        spoken(&village.conversation("c").await),
        ["Other words", "three"]
    );
    let remembered = village.chat_completions.requests().pop().unwrap().text;
    assert!(!remembered.contains("First words"), "{remembered}");
    village.finish().await;
}

async fn a_retried_request_starts_nothing_new(shape: Shape) {
    let village = Village::start(shape).await;
    village.npc("keeper", "openai/scripted");
    let gate = Gate::new();
    village
        .chat_completions
        .script([Step::new().text("Once").gate(&gate).text(".")]);
    let first = village.start_chat("keeper", "c", "m", "Say it once.").await;
    gate.reached().await;
    let second = village.start_chat("keeper", "c", "m", "Say it once.").await;
    // Another Message has to wait for its turn.
    let other = village
        .start_chat("keeper", "c", "m2", "And something else.")
        .await;
    assert_eq!(other.status(), 409);
    gate.open();
    let turn = |body: &str| chunks(body)[0]["messageMetadata"]["turnId"].clone();
    let (first, second) = (first.text().await.unwrap(), second.text().await.unwrap());
    assert_eq!(turn(&first), turn(&second));
    assert_eq!(village.chat_completions.requests().len(), 1);
    village.finish().await;
}

/// All text of a Message.
pub(super) fn text_of(message: &Value) -> String {
    let parts = message["parts"].as_array().unwrap();
    parts
        .iter()
        .filter(|part| part["type"] == "text")
        .filter_map(|part| part["text"].as_str())
        .collect()
}

/// All text of a stream.
pub(super) fn text_of_chunks(chunks: &[Value]) -> String {
    chunks
        .iter()
        .filter(|chunk| chunk["type"] == "text-delta")
        .filter_map(|chunk| chunk["delta"].as_str())
        .collect()
}

fn spoken(conversation: &Value) -> Vec<String> {
    conversation["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(text_of)
        .collect()
}
