//! Turns that go well.

use proto::turn::v1::{FinishReason, TurnStatus, turn_event::Event};
use serde_json::json;
use store::Store;
use testkit::{
    on_every_database,
    provider::{Step, Wire},
};

use crate::village::{Setup, Village};

on_every_database! {
    async fn an_npc_without_grants_answers_and_is_offered_no_tools(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.provider.script([Step::new().reasoning("A guest.").words("Good evening, traveller.")]);
        let done = village.say("c", "Keeper", "hello").await;
        assert_eq!(done.lines(), ["reasoning: A guest.", "text: Good evening, traveller."]);
        assert_eq!(done.ended().status(), TurnStatus::Finished);
        assert_eq!(done.ended().finish_reason(), FinishReason::Stop);
        assert_eq!(done.ended().steps, 1);
        assert!(done.ended().limits.is_empty());
        let request = &village.provider.requests()[0];
        assert!(request.body.get("tools").is_none(), "{}", request.text);
        assert!(request.system().contains("Keeper keeps the gate."));
        assert!(request.system().contains("Today is Wednesday, 2026-11-18 (UTC)."));
        assert!(!request.system().contains("Unavailable tools"));
    }

    async fn tool_calls_are_chained_until_the_model_answers(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        village.provider.script([
            Step::new().text("Let me look.").call("current_time", &json!({})),
            Step::new().call("current_time", &json!({"n": 1})).call("current_time", &json!({"n": 2})),
            Step::new().text("It is late."),
        ]);
        let done = village.say("c", "Keeper", "what time is it?").await;
        assert_eq!(done.lines(), [
            "text: Let me look.",
            "current_time ended ok",
            "current_time ended ok",
            "current_time ended ok",
            "text: It is late.",
        ]);
        assert_eq!(done.ended().steps, 3);
        let steps: Vec<u32> = done.message.parts.iter().map(|part| part.step).collect();
        assert_eq!(steps, [1, 1, 2, 2, 3]);
        // The model read exactly what is stored.
        let requests = village.provider.requests();
        let result = &requests[1].body["messages"][3];
        assert_eq!(result["role"], "tool");
        assert_eq!(result["content"], "2026-11-18T11:06:40Z");
        assert_eq!(requests[0].tools(), ["current_time"]);
        // Steps begin and end around what happens in them.
        let order: Vec<&str> = done.events.iter().filter_map(|event| match event.event.as_ref().unwrap() {
            Event::StepStarted(_) => Some("begin"),
            Event::ToolOutput(_) => Some("output"),
            Event::StepEnded(_) => Some("end"),
            _ => None,
        }).collect();
        assert_eq!(order, ["begin", "output", "end", "begin", "output", "output", "end", "begin", "end"]);
    }

    async fn the_next_turn_reads_what_the_last_one_did_in_a_form_that_is_cached(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        village.provider.script([
            Step::new().text("Let me look.").call_as("call_0", "current_time", &json!({})),
            Step::new().text("Noon."),
            Step::new().call_as("call_0", "current_time", &json!({})),
            Step::new().text("Still noon."),
        ]);
        village.say("c", "Keeper", "time?").await;
        let done = village.say("c", "Keeper", "and now?").await;
        assert_eq!(done.ended().status(), TurnStatus::Finished, "{:?}", done.ended());
        let requests = village.provider.requests();
        let history = |n: usize| requests[n].body["messages"].as_array().unwrap().clone();
        let (first, later) = (history(1), history(2));
        assert_eq!(later[..first.len()], first[..], "the prefix is the same, word for word");
        assert_eq!(requests[0].system(), requests[3].system());
    }

    async fn thinking_goes_back_to_the_model_that_signed_it(store: Store) {
        let setup = Setup { wire: Wire::Anthropic, ..Setup::default() };
        let village = Village::with(store, setup).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        village.provider.script([
            Step::new().reasoning("Which clock?").text("Looking.").call("current_time", &json!({})),
            Step::new().text("Noon."),
            Step::new().text("As I said."),
        ]);
        village.say("c", "Keeper", "time?").await;
        let done = village.say("c", "Keeper", "sure?").await;
        assert_eq!(done.ended().status(), TurnStatus::Finished, "{:?}", done.ended());
        for request in &village.provider.requests()[1..] {
            let answer = &request.body["messages"][1]["content"];
            assert_eq!(answer[0]["type"], "thinking", "{}", request.text);
            assert_eq!(answer[0]["thinking"], "Which clock?");
        }
    }

    async fn each_piece_of_work_has_one_wide_event(store: Store) {
        let events = testkit::events::capture();
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        village.provider.script([
            Step::new().call("current_time", &json!({"secret": "hunter2"})),
            Step::new().text("The answer is hunter3."),
        ]);
        let done = village.say("c", "Keeper", "hunter4?").await;
        let turn = events.wait_for("turn", 1).await.remove(0);
        assert_eq!(turn["outcome"], "ok");
        assert_eq!(turn["agentsville.turn.id"], json!(done.started.turn_id));
        assert_eq!(turn["gen_ai.request.model"], "model");
        assert_eq!(turn["agentsville.steps"], 2);
        assert_eq!(turn["agentsville.tool_calls"], 1);
        assert_eq!(events.of("step").len(), 2);
        let call = events.one("tool_call");
        assert_eq!(call["gen_ai.tool.name"], "current_time");
        assert_eq!(call["outcome"], "ok");
        let text = events.text();
        for secret in ["hunter2", "hunter3", "hunter4", "a-key-of-the-test"] {
            assert!(!text.contains(secret), "{secret} is in the log");
        }
    }
}
