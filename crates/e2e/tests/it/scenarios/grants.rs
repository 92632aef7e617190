//! A Tool that was not granted does not exist for the model.

use serde_json::{Value, json};
use testkit::provider::{ScriptedProvider, Step};

use super::in_both_shapes;
use crate::village::{Shape, Village};

in_both_shapes!(
    grants_decide_what_chat_completions_is_offered,
    grants_decide_what_anthropic_is_offered,
    a_call_of_a_tool_that_was_not_granted_fails_and_the_turn_goes_on,
    what_cannot_be_used_is_named_to_the_model_and_to_the_player,
);

async fn grants_decide_what_chat_completions_is_offered(shape: Shape) {
    let village = Village::start(shape).await;
    follow_the_grants(&village, &village.chat_completions, "openai/scripted-0x0").await;
    village.finish().await;
}

async fn grants_decide_what_anthropic_is_offered(shape: Shape) {
    let village = Village::start(shape).await;
    follow_the_grants(&village, &village.anthropic, "anthropic/scripted-0x0").await;
    village.finish().await;
}

async fn follow_the_grants(village: &Village, provider: &ScriptedProvider, model: &str) {
    village.npc("keeper", model);
    assert_eq!(offered(village, provider, "without").await, None);

    village.cli_json(&["grant", "add", "keeper", "tool:current_time"]);
    let tools = offered(village, provider, "with").await.unwrap();
    assert_eq!(tools.len(), 1);
    // Word for word: what people read is what the model reads.
    let listed = village.cli_json(&["npc", "tools", "keeper"]);
    let listed: Vec<Value> = listed["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| json!([tool["name"], tool["description"], tool["inputSchema"]]))
        .collect();
    assert_eq!(listed, tools);
    assert_eq!(listed[0][0], "current_time");

    village.cli_json(&["grant", "remove", "keeper", "tool:current_time"]);
    assert_eq!(offered(village, provider, "again without").await, None);
    assert_eq!(
        village.cli_json(&["npc", "tools", "keeper"])["tools"],
        json!([])
    );
}

/// Name, description and schema of each Tool in the request that a turn makes; `None` when the request has no Tools at all.
async fn offered(
    village: &Village,
    provider: &ScriptedProvider,
    conversation: &str,
) -> Option<Vec<Value>> {
    village
        .chat("keeper", conversation, "What time is it?")
        .await;
    let request = provider.requests().pop().unwrap();
    let tools = request.body.get("tools")?.as_array().unwrap().clone();
    Some(
        tools
            .into_iter()
            .map(|tool| match tool.get("function") {
                Some(function) => json!([
                    function["name"],
                    function["description"],
                    function["parameters"]
                ]),
                None => json!([tool["name"], tool["description"], tool["input_schema"]]),
            })
            .collect(),
    )
}

async fn a_call_of_a_tool_that_was_not_granted_fails_and_the_turn_goes_on(shape: Shape) {
    let village = Village::start(shape).await;
    village.npc("keeper", "openai/scripted");
    village.cli_json(&["grant", "add", "keeper", "tool:current_time"]);
    village.chat_completions.script([
        Step::new()
            .call("fetch_url", &json!({"url": "https://example.com/"}))
            .call("curent_time", &json!({}))
            .call_with("current_time", "{\"zone\":"),
        Step::new().text("I could not."),
    ]);
    village.chat("keeper", "c", "Fetch it.").await;

    let shown = village.conversation("c").await;
    let parts = shown["messages"][1]["parts"].as_array().unwrap();
    let calls: Vec<&Value> = parts
        .iter()
        .filter(|part| part["type"] == "dynamic-tool")
        .collect();
    assert_eq!(calls.len(), 3, "{shown:#}");
    for call in &calls {
        assert_eq!(call["state"], "output-error", "{call:#}");
    }
    let error = |call: usize| calls[call]["errorText"].as_str().unwrap();
    assert!(
        error(0).contains("no such tool") || error(0).contains("No such tool"),
        "{}",
        error(0)
    );
    assert!(error(1).contains("current_time"), "{}", error(1));
    assert_eq!(parts.last().unwrap()["text"], "I could not.");

    // The model got one result for each of its calls.
    let request = village.chat_completions.requests().pop().unwrap();
    let messages = request.body["messages"].as_array().unwrap();
    assert_eq!(
        messages
            .iter()
            .filter(|message| message["role"] == "tool")
            .count(),
        3
    );
    village.finish().await;
}

async fn what_cannot_be_used_is_named_to_the_model_and_to_the_player(shape: Shape) {
    let village = Village::start(shape).await;
    village.npc("keeper", "openai/scripted-0x0");
    village.cli_json(&["grant", "add", "keeper", "family:sandbox"]);
    village.chat("keeper", "c", "Run something.").await;

    let request = village.chat_completions.requests().pop().unwrap();
    assert!(
        request.system().contains("Unavailable tools"),
        "{}",
        request.system()
    );
    assert!(request.system().contains("sandbox"), "{}", request.system());
    assert_eq!(request.body.get("tools"), None);
    let listed = village.cli_json(&["npc", "tools", "keeper"]);
    assert_eq!(listed["unavailable"][0]["what"], "family:sandbox");
    village.finish().await;
}
