//! What goes wrong is said in words, and nothing is lost.

use serde_json::{Value, json};
use testkit::provider::Step;

use super::in_both_shapes;
use crate::village::{Shape, Village, chunk};

in_both_shapes!(
    a_provider_that_fails_ends_the_turn_in_words,
    a_step_that_breaks_is_tried_once_more_and_nothing_runs_twice,
    bad_input_is_refused_with_the_nearest_that_exists,
);

async fn a_provider_that_fails_ends_the_turn_in_words(shape: Shape) {
    let village = Village::start(shape).await;
    village.npc("keeper", "openai/scripted");
    let html = Step::refusal(502, "<html><body><h1>Bad gateway</h1></body></html>")
        .header("content-type", "text/html");
    let unauthorized = Step::refusal(
        401,
        json!({"error": {"message": "Incorrect API key provided: sk-1234567890"}}).to_string(),
    );
    for (conversation, answers) in [
        ("unauthorized", vec![unauthorized]),
        ("html", vec![html.clone(), html.clone(), html]),
        ("nothing", vec![Step::stream(""), Step::stream("")]),
    ] {
        village.chat_completions.script(answers);
        let streamed = village.chat("keeper", conversation, "Hello?").await;
        let error = chunk(&streamed, "error")["errorText"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(error.contains("openai"), "{conversation}: {error}");
        assert!(
            !error.contains('<') && !error.contains("key-of-a-test"),
            "{conversation}: {error}"
        );
        let shown = village.conversation(conversation).await;
        assert_eq!(shown["status"], "idle");
        let last = shown["messages"][1]["parts"].as_array().unwrap().last();
        assert_eq!(last.unwrap()["data"]["code"], "failed", "{shown:#}");
    }
    assert!(
        !village.logged().contains("key-of-a-test"),
        "a log holds the Provider's key"
    );
    village.finish().await;
}

async fn a_step_that_breaks_is_tried_once_more_and_nothing_runs_twice(shape: Shape) {
    let village = Village::start(shape).await;
    village.npc("keeper", "openai/scripted");
    village.cli_json(&["grant", "add", "keeper", "tool:current_time"]);
    village.chat_completions.script([
        Step::new().call("current_time", &json!({})),
        Step::new().text("It is ").cut(),
        Step::new().text("It is late."),
    ]);
    let streamed = village.chat("keeper", "c", "What time is it?").await;
    assert_eq!(chunk(&streamed, "finish")["finishReason"], "stop");
    let outputs: Vec<&Value> = streamed
        .iter()
        .filter(|chunk| chunk["type"] == "tool-output-available")
        .collect();
    assert_eq!(outputs.len(), 1);
    assert!(streamed.iter().all(|chunk| chunk["type"] != "reset-step"));
    assert_eq!(village.chat_completions.requests().len(), 3);
    village.finish().await;
}

async fn bad_input_is_refused_with_the_nearest_that_exists(shape: Shape) {
    let village = Village::start(shape).await;
    village.npc("keeper", "openai/scripted");
    for (arguments, nearest) in [
        (vec!["npc", "show", "keper"], "keeper"),
        (
            vec!["grant", "add", "keeper", "tool:curent_time"],
            "current_time",
        ),
        (vec!["grant", "add", "keeper", "tol:current_time"], "tool"),
        (
            vec!["npc", "create", "other", "--model", "openia/x"],
            "openai",
        ),
        (vec!["chat", "keper", "Hello"], "keeper"),
    ] {
        let output = village.cli(&arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.contains(nearest), "{arguments:?}: {error}");
    }
    let npcs = village.cli_json(&["npc", "list"]);
    assert_eq!(npcs.as_array().unwrap().len(), 1, "{npcs}");
    assert_eq!(village.cli_json(&["grant", "list", "keeper"]), json!([]));

    let long = "x".repeat(70_000);
    let refused = village.start_chat("keeper", "c", "m", &long).await;
    assert!(refused.status().is_client_error());
    let problem: Value = refused.json().await.unwrap();
    assert!(
        problem["detail"].as_str().unwrap().contains("65536")
            || problem["detail"].as_str().unwrap().contains("64"),
        "{problem}"
    );
    village.finish().await;
}
