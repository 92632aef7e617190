//! Calls that models make, good and bad.

use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use proto::turn::v1::{FinishReason, GetMessageRequest, TurnStatus, part::Content};
use serde_json::json;
use store::Store;
use testkit::{on_every_database, provider::Step};

use crate::village::{Done, Village, say};

/// What the model was told of the calls of a step.
fn results(village: &Village, request: usize) -> Vec<String> {
    village.provider.requests()[request].body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect()
}

fn outcomes(done: &Done) -> Vec<&'static str> {
    done.message
        .parts
        .iter()
        .filter_map(|part| match part.content.as_ref().unwrap() {
            Content::ToolCall(call) => Some(call.outcome().as_str_name()),
            _ => None,
        })
        .collect()
}

on_every_database! {
    async fn a_call_that_names_no_tool_of_the_set_is_a_failed_call_with_help(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        village.provider.script([
            Step::new().call("curent_time", &json!({})).call("bash", &json!({"command": "id"})),
            Step::new().text("Sorry."),
        ]);
        let done = village.say("c", "Keeper", "time?").await;
        assert_eq!(done.lines(), ["curent_time refused error", "bash refused error", "text: Sorry."]);
        assert_eq!(done.ended().status(), TurnStatus::Finished);
        assert_eq!(results(&village, 1), [
            "Failed: there is no such tool \"curent_time\"; did you mean \"current_time\"?",
            "Failed: there is no such tool \"bash\"; you have current_time.",
        ]);
    }

    async fn a_tool_that_was_not_granted_does_not_exist(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        village.provider.script([
            Step::new().call("fetch_url", &json!({"url": "https://a.example/"})),
            Step::new().text("I cannot."),
        ]);
        let done = village.say("c", "Keeper", "fetch").await;
        assert_eq!(done.lines()[0], "fetch_url refused error");
        assert!(village.fetch.requests.lock().unwrap().is_empty());
        assert_eq!(village.provider.requests()[0].tools(), ["current_time"]);
    }

    async fn a_revoked_grant_takes_effect_at_the_next_turn(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:current_time", "tool:fetch_url"]).await;
        village.provider.script([Step::new().text("a"), Step::new().text("b")]);
        village.say("c", "Keeper", "one").await;
        village.revoke("Keeper", "tool:fetch_url").await;
        village.say("c", "Keeper", "two").await;
        let requests = village.provider.requests();
        assert_eq!(requests[0].tools(), ["current_time", "fetch_url"]);
        assert_eq!(requests[1].tools(), ["current_time"]);
    }

    async fn arguments_that_are_wrong_are_a_failed_call_that_helps(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:fetch_url"]).await;
        village.provider.script([
            Step::new()
                .call("fetch_url", &json!({"url": 7, "start_index": "x"}))
                .call_with("fetch_url", "{\"url\": \"https://a.example/")
                .call_with("fetch_url", "[1,2]"),
            Step::new().text("Sorry."),
        ]);
        let done = village.say("c", "Keeper", "fetch").await;
        assert_eq!(outcomes(&done), ["OUTCOME_ERROR", "OUTCOME_ERROR", "OUTCOME_ERROR"]);
        let told = results(&village, 1);
        assert!(told[0].contains("/url") && told[0].contains("/start_index"), "{told:?}");
        assert!(told[1].contains("not a JSON object") || told[1].contains("cut"), "{told:?}");
        assert!(told[2].contains("not a JSON object"), "{told:?}");
        assert!(village.fetch.requests.lock().unwrap().is_empty(), "nothing ran");
    }

    async fn a_call_is_in_the_database_before_it_runs(store: Store) {
        let village = Arc::new(Village::new(store).await);
        village.npc("Keeper", &["tool:fetch_url"]).await;
        village.fetch.page("https://a.example/", "hello");
        let message = Arc::new(Mutex::new(String::new()));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (watched, stored, named) = (Arc::downgrade(&village), Arc::clone(&seen), Arc::clone(&message));
        village.fetch.before(move || {
            let (village, stored, named) = (watched.upgrade().unwrap(), Arc::clone(&stored), Arc::clone(&named));
            async move {
                // The start's answer may not have come yet.
                let id = loop {
                    let id = named.lock().unwrap().clone();
                    if !id.is_empty() {
                        break id;
                    }
                    tokio::task::yield_now().await;
                };
                let message = village.conversations(&village.player())
                    .get_message(GetMessageRequest { message_id: id }).await.unwrap().into_inner().message.unwrap();
                *stored.lock().unwrap() = message.parts.iter().map(crate::replay::line).collect();
            }.boxed()
        });
        village.provider.script([
            Step::new().text("One moment.").call("fetch_url", &json!({"url": "https://a.example/"})),
            Step::new().text("Done."),
        ]);
        let started = village.start(say("c", "Keeper", "fetch")).await.unwrap();
        message.lock().unwrap().clone_from(&started.message_id);
        village.done(started).await;
        assert_eq!(*seen.lock().unwrap(), ["text: One moment.", "fetch_url running unspecified"]);
    }

    async fn arguments_that_the_output_limit_cut_are_never_run(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:fetch_url"]).await;
        village.provider.script([
            Step::new().call("fetch_url", &json!({"url": "https://a.example/"})).finish("length"),
            Step::new().text("Sorry."),
        ]);
        let done = village.say("c", "Keeper", "fetch").await;
        assert_eq!(outcomes(&done), ["OUTCOME_ERROR"]);
        assert!(results(&village, 1)[0].contains("were cut"), "{:?}", results(&village, 1));
        assert!(village.fetch.requests.lock().unwrap().is_empty(), "nothing ran");
    }

    async fn calls_that_the_content_filter_cut_are_never_run(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:fetch_url"]).await;
        village.provider.script([
            Step::new().call("fetch_url", &json!({"url": "https://a.example/"})).finish("content_filter"),
        ]);
        let done = village.say("c", "Keeper", "fetch").await;
        assert_eq!(outcomes(&done), ["OUTCOME_ERROR"]);
        assert_eq!(done.ended().finish_reason(), FinishReason::ContentFilter);
        assert!(village.fetch.requests.lock().unwrap().is_empty(), "nothing ran");
    }

    async fn tools_promised_and_not_called_end_the_turn(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        village.provider.script([Step::new().text("Hm.").finish("tool_calls")]);
        let done = village.say("c", "Keeper", "time?").await;
        assert_eq!(done.ended().status(), TurnStatus::Finished);
        assert_eq!(done.ended().finish_reason(), FinishReason::Stop);
        assert_eq!(village.provider.requests().len(), 1);
    }

    async fn calls_run_although_the_provider_says_stop(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        village.provider.script([
            Step::new().call("current_time", &json!({})).finish("stop"),
            Step::new().text("Noon."),
        ]);
        let done = village.say("c", "Keeper", "time?").await;
        assert_eq!(done.lines(), ["current_time ended ok", "text: Noon."]);
    }

    async fn numbers_keep_every_digit(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        let arguments = r#"{"n":123456789012345678901234567890}"#;
        village.provider.script([
            Step::new().call_with("current_time", arguments),
            Step::new().text("Noon."),
        ]);
        let done = village.say("c", "Keeper", "time?").await;
        let Some(Content::ToolCall(call)) = &done.message.parts[0].content else { panic!("no call") };
        assert_eq!(call.input_json, arguments);
        let replayed = &village.provider.requests()[1].body["messages"][2]["tool_calls"][0]["function"]["arguments"];
        assert_eq!(replayed, arguments);
    }
}
