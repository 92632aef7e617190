//! A turn that is cut short settles every Part, and the Conversation goes on.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::{
    origin::{Authority, Reply, TlsOrigin},
    provider::{Gate, ScriptedProvider, Step},
};

use super::in_both_shapes;
use crate::village::{Options, Shape, Village, chunk, chunks};

in_both_shapes!(
    an_abort_in_the_middle_of_text_settles_it,
    an_abort_in_the_middle_of_arguments_settles_them,
    an_abort_in_the_middle_of_a_running_tool_settles_it,
);

async fn an_abort_in_the_middle_of_text_settles_it(shape: Shape) {
    let village = Village::start(shape).await;
    for (provider, model) in [
        (&village.chat_completions, "openai/scripted"),
        (&village.anthropic, "anthropic/scripted"),
    ] {
        let npc = model.split_once('/').unwrap().0;
        village.npc(npc, model);
        let gate = Gate::new();
        provider.script([Step::new().text("Once upon a ").gate(&gate).text("time")]);
        let parts = abort_when(&village, npc, async { gate.reached().await }).await;
        assert!(
            parts.iter().any(|part| part["type"] == "text"
                && part["text"] == "Once upon a "
                && part["state"] == "done"),
            "{parts:#?}"
        );
        the_next_turn_is_taken(&village, npc, provider).await;
    }
    village.finish().await;
}

async fn an_abort_in_the_middle_of_arguments_settles_them(shape: Shape) {
    let village = Village::start(shape).await;
    for (provider, model) in [
        (&village.chat_completions, "openai/scripted"),
        (&village.anthropic, "anthropic/scripted"),
    ] {
        let npc = model.split_once('/').unwrap().0;
        village.npc(npc, model);
        village.cli_json(&["grant", "add", npc, "tool:current_time"]);
        let gate = Gate::new();
        // A whole call, then the arguments of another that never end.
        let begun = match npc {
            "openai" => Step::new().call("current_time", &json!({})).bytes(
                "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"x\",\"type\":\"function\",\"function\":{\"name\":\"current_time\",\"arguments\":\"{\\\"zo\"}}]}}]}\n\n",
            ),
            _ => Step::new().call("current_time", &json!({})).bytes(
                "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":7,\"content_block\":{\"type\":\"tool_use\",\"id\":\"x\",\"name\":\"current_time\",\"input\":{}}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":7,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"zo\"}}\n\n",
            ),
        };
        provider.script([begun.gate(&gate).text("never")]);
        let parts = abort_when(&village, npc, async { gate.reached().await }).await;
        let calls: Vec<&Value> = parts
            .iter()
            .filter(|part| part["type"] == "dynamic-tool")
            .collect();
        assert_eq!(calls.len(), 2, "{parts:#?}");
        the_next_turn_is_taken(&village, npc, provider).await;
    }
    village.finish().await;
}

async fn an_abort_in_the_middle_of_a_running_tool_settles_it(shape: Shape) {
    let authority = Authority::new();
    let origin = TlsOrigin::start(&authority, &["slow.example.test", "localhost"]).await;
    origin.serve("/slow", Reply::text("late").after(Duration::from_secs(9)));
    let options = Options {
        settings: vec![
            (
                "AGENTSVILLE__OUTBOUND__CA_FILE",
                authority.pem_path().display().to_string(),
            ),
            (
                "AGENTSVILLE__OUTBOUND__ALLOW",
                format!(
                    "[{{ to = \"localhost:{}\", for = [\"fetch\"] }}]",
                    origin.port()
                ),
            ),
        ],
    };
    let village = Village::start_with(shape, options).await;
    village.npc("openai", "openai/scripted");
    village.cli_json(&["grant", "add", "openai", "tool:fetch_url"]);
    village.cli_json(&["grant", "add", "openai", "tool:current_time"]);
    let url = format!("https://localhost:{}/slow", origin.port());
    village.chat_completions.script([Step::new()
        .call("fetch_url", &json!({"url": url}))
        .call("current_time", &json!({}))]);
    let asked = async {
        while origin.requests().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let parts = abort_when(&village, "openai", asked).await;
    let calls: Vec<&Value> = parts
        .iter()
        .filter(|part| part["type"] == "dynamic-tool")
        .collect();
    assert_eq!(calls.len(), 2, "{parts:#?}");
    assert_eq!(calls[0]["state"], "output-error", "{calls:#?}");
    the_next_turn_is_taken(&village, "openai", &village.chat_completions).await;
    village.finish().await;
}

/// Starts a turn, stops it at this moment, and returns the Parts that are stored: all of them settled.
async fn abort_when(village: &Village, npc: &str, moment: impl Future<Output = ()>) -> Vec<Value> {
    let stream = village
        .start_chat(npc, npc, &format!("{npc}-1"), "Begin.")
        .await;
    assert_eq!(stream.status(), 200);
    moment.await;
    let shown = village.conversation(npc).await;
    assert_eq!(shown["status"], "running");
    let turn = shown["messages"][1]["metadata"]["turnId"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/v1/turns/{turn}/abort");
    let aborted = village.request(Method::POST, &path).send().await.unwrap();
    assert_eq!(aborted.status(), 200);

    let streamed = chunks(&stream.text().await.unwrap());
    chunk(&streamed, "abort");
    let ends = |kind: &str| {
        streamed
            .iter()
            .filter(|chunk| chunk["type"] == kind)
            .count()
    };
    assert_eq!(ends("text-start"), ends("text-end"));
    assert_eq!(ends("start-step"), ends("finish-step"));

    let shown = village.conversation(npc).await;
    assert_eq!(shown["status"], "idle");
    let parts = shown["messages"][1]["parts"].as_array().unwrap().clone();
    for part in &parts {
        let state = part["state"].as_str().unwrap_or("done");
        assert!(
            ["done", "output-available", "output-error"].contains(&state),
            "{part:#}"
        );
    }
    parts
}

/// A strict Provider answers 400 to a history with an unpaired call.
async fn the_next_turn_is_taken(village: &Village, npc: &str, provider: &ScriptedProvider) {
    provider.script([Step::new().text("Here I am.")]);
    let streamed = village.chat(npc, npc, "Are you still there?").await;
    let finish = chunk(&streamed, "finish");
    assert_eq!(finish["finishReason"], "stop", "{streamed:#?}");
}
