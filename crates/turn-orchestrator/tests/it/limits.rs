//! Ceilings: the turn goes on or ends in words, and the Player is told.

use std::time::Duration;

use futures::FutureExt as _;
use kernel::limits::{CALLS_PER_TURN, PARALLEL_CALLS};
use proto::turn::v1::{FinishReason, Limit, TurnStatus, part::Content};
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use store::Store;
use testkit::{
    on_every_database,
    provider::{Gate, Step, Wire},
};
use tonic::Code;

use crate::village::{Setup, Village, say};

fn setup(change: impl FnOnce(&mut turn_orchestrator::Config)) -> Setup {
    let mut setup = Setup::default();
    change(&mut setup.config);
    setup
}

on_every_database! {
    async fn a_player_who_starts_turns_and_goes_away_runs_only_so_many(store: Store) {
        let village = Village::with(store, setup(|config| config.at_once_per_player = 2)).await;
        village.npc("Keeper", &[]).await;
        let gate = Gate::new();
        village.provider.script(["a", "b", "c"].map(|text| Step::new().gate(&gate).text(text)));
        let first = village.start(say("c1", "Keeper", "one")).await.unwrap();
        let second = village.start(say("c2", "Keeper", "two")).await.unwrap();
        let refused = village.start(say("c3", "Keeper", "three")).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert!(refused.message().starts_with("2 turns of yours run already"), "{}", refused.message());
        gate.open();
        village.done(first).await;
        village.done(second).await;
        // A turn gives its place back when it has ended, just after its last event.
        let third = loop {
            match village.start(say("c3", "Keeper", "three")).await {
                Ok(third) => break third,
                Err(status) => assert_eq!(status.code(), Code::ResourceExhausted),
            }
        };
        village.done(third).await;
    }

    async fn the_last_step_is_an_answer_without_tools(store: Store) {
        let village = Village::with(store, setup(|config| config.steps = 3)).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        village.provider.script([
            Step::new().call("current_time", &json!({"n": 1})),
            Step::new().call("current_time", &json!({"n": 2})),
            Step::new().text("Here is what I have."),
        ]);
        let done = village.say("c", "Keeper", "go").await;
        assert_eq!(done.lines()[2..], ["notice limit", "text: Here is what I have."]);
        assert_eq!(done.ended().status(), TurnStatus::Finished);
        assert_eq!(done.ended().finish_reason(), FinishReason::Other);
        assert_eq!(done.ended().limits, [i32::from(Limit::Steps)]);
        assert_eq!(done.ended().steps, 3);
        let requests = village.provider.requests();
        assert!(requests[1].body.get("tools").is_some());
        assert!(requests[2].body.get("tools").is_none() || requests[2].body["tool_choice"] == "none");
        assert!(requests[2].system().contains("reached its limit of 3 steps"));
    }

    async fn the_last_step_works_on_the_other_wire_too(store: Store) {
        let config = setup(|config| config.steps = 2).config;
        let village = Village::with(store, Setup { wire: Wire::Anthropic, config, ..Setup::default() }).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        village.provider.script([
            Step::new().call("current_time", &json!({})),
            Step::new().text("So far."),
        ]);
        let done = village.say("c", "Keeper", "go").await;
        assert_eq!(done.lines(), ["current_time ended ok", "notice limit", "text: So far."]);
    }

    async fn a_forced_answer_that_fails_is_replaced_by_words(store: Store) {
        let village = Village::with(store, setup(|config| config.steps = 2)).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        village.provider.script([
            Step::new().call("current_time", &json!({})),
            Step::refusal(400, r#"{"error":{"message":"no"}}"#),
        ]);
        let done = village.say("c", "Keeper", "go").await;
        assert_eq!(done.ended().status(), TurnStatus::Finished);
        let last = done.lines().pop().unwrap();
        assert!(last.starts_with("text: I could not finish this."), "{last}");
        assert!(last.contains("2 steps"), "{last}");
    }

    async fn a_model_that_calls_tools_although_they_are_off_gets_no_tool_and_the_player_gets_words(store: Store) {
        let village = Village::with(store, setup(|config| config.steps = 1)).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        village.provider.script([Step::new().call("current_time", &json!({})), Step::new().text("Next turn.")]);
        let done = village.say("c", "Keeper", "go").await;
        assert_eq!(done.lines()[..2], ["notice limit", "current_time refused error"]);
        assert!(done.lines()[2].starts_with("text: I could not finish this."));
        let next = village.say("c", "Keeper", "and?").await;
        assert_eq!(next.ended().status(), TurnStatus::Finished, "the strict Provider takes the history");
    }

    async fn calls_beyond_a_steps_limit_get_an_error_and_are_not_dropped(store: Store) {
        let village = Village::with(store, setup(|config| config.calls_per_step = 2)).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        let four = (0..4).fold(Step::new(), |step, n| step.call("current_time", &json!({"n": n})));
        village.provider.script([four, Step::new().text("Two will do.")]);
        let done = village.say("c", "Keeper", "go").await;
        assert_eq!(done.lines(), [
            "current_time ended ok",
            "current_time ended ok",
            "current_time refused error",
            "current_time refused error",
            "notice limit",
            "text: Two will do.",
        ]);
        assert_eq!(done.ended().finish_reason(), FinishReason::Stop);
        assert_eq!(done.ended().limits, [i32::from(Limit::CallsPerStep)]);
    }

    async fn the_sixty_fifth_call_of_a_turn_does_not_run(store: Store) {
        let village = Village::with(store, setup(|config| config.calls_per_step = 64)).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        let many = |count: u32| (0..count).fold(Step::new(), |step, n| step.call("current_time", &json!({"n": n})));
        village.provider.script([many(CALLS_PER_TURN - 1), many(3), Step::new().text("Enough.")]);
        let done = village.say("c", "Keeper", "go").await;
        let ran = done.lines().iter().filter(|line| *line == "current_time ended ok").count();
        assert_eq!(ran, CALLS_PER_TURN as usize);
        assert_eq!(done.lines().iter().filter(|line| *line == "current_time refused error").count(), 2);
        assert_eq!(done.ended().limits, [i32::from(Limit::Calls)]);
        assert_eq!(done.ended().finish_reason(), FinishReason::Other);
    }

    async fn equal_calls_are_warned_at_three_and_stopped_at_five(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        // The clock of the test stands, so that the same question has the same answer.
        village.provider.answer_with(|request| {
            if request.body.get("tools").is_some() && request.body["tool_choice"] != "none" {
                Step::new().call("current_time", &json!({}))
            } else {
                Step::new().text("It is what it is.")
            }
        });
        let done = village.say("c", "Keeper", "go").await;
        let warned: Vec<bool> = done.message.parts.iter().filter_map(|part| match part.content.as_ref().unwrap() {
            Content::ToolCall(call) => Some(call.output_json.contains("change your approach")),
            _ => None,
        }).collect();
        assert_eq!(warned, [false, false, true, true, true]);
        assert_eq!(done.ended().limits, [i32::from(Limit::Repeats)]);
        assert_eq!(done.lines().pop().unwrap(), "text: It is what it is.");
    }

    async fn a_turn_that_takes_too_long_ends_in_words(store: Store) {
        let mut village = Village::with(store, setup(|config| config.time_seconds = 2)).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        village.provider.script([Step::new().text("Let me think").stall(), Step::new().text("Next.")]);
        let done = village.say("c", "Keeper", "go").await;
        let lines = done.lines();
        let [.., notice, words] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(notice, "notice limit");
        assert!(words.starts_with("text: I could not finish this."), "{words}");
        assert_eq!(done.ended().status(), TurnStatus::Finished);
        assert_eq!(done.ended().finish_reason(), FinishReason::Other);
        assert_eq!(done.ended().limits, [i32::from(Limit::Time)]);
        let (patient, _lifecycle) = village.replica(&Setup::default());
        village.move_to(patient);
        let next = village.say("c", "Keeper", "and?").await;
        assert_eq!(next.lines(), ["text: Next."], "the strict Provider takes the history");
    }

    async fn calls_run_side_by_side_up_to_a_bound(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:fetch_url"]).await;
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (running, highest) = (Arc::clone(&now), Arc::clone(&most));
        village.fetch.before(move || {
            let (running, highest) = (Arc::clone(&running), Arc::clone(&highest));
            async move {
                highest.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(20)).await;
                running.fetch_sub(1, Ordering::SeqCst);
            }.boxed()
        });
        village.fetch.page("https://a.example/", "hello");
        let many = (0..12).fold(Step::new(), |step, n| {
            step.call("fetch_url", &json!({"url": "https://a.example/", "n": n}))
        });
        village.provider.script([many, Step::new().text("All read.")]);
        let done = village.say("c", "Keeper", "go").await;
        assert_eq!(done.lines().iter().filter(|line| *line == "fetch_url ended ok").count(), 12);
        let most = most.load(Ordering::SeqCst);
        assert!(most > 1 && most <= PARALLEL_CALLS, "{most} at the same time");
    }

    async fn tokens_are_summed_and_never_end_a_turn(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        village.provider.script([
            Step::new().call("current_time", &json!({})),
            Step::new().text("Noon."),
        ]);
        let done = village.say("c", "Keeper", "go").await;
        let usage = done.ended().usage.unwrap();
        let steps: u64 = done.events.iter().filter_map(|event| match event.event.as_ref().unwrap() {
            proto::turn::v1::turn_event::Event::StepEnded(step) => Some(step.usage.unwrap().input_tokens),
            _ => None,
        }).sum();
        assert!(usage.input_tokens > 0);
        assert_eq!(usage.input_tokens, steps);
    }

    async fn an_answer_that_grows_without_end_is_ended_in_words(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        let megabyte = "x".repeat(1_024 * 1_024);
        let endless = (0..6).fold(Step::new(), |step, _| step.text(&megabyte));
        village.provider.script([endless, Step::new().text("Short.")]);
        let done = village.say("c", "Keeper", "go").await;
        assert_eq!(done.ended().status(), TurnStatus::Failed);
        assert_eq!(done.ended().sentence, "The turn was ended because the answer grew beyond 4 MiB.");
        assert!(done.lines().iter().all(|line| !line.starts_with("text (open)")));
    }

    async fn a_model_that_calls_without_end_is_ended_and_every_call_has_a_result(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        let endless = (0..600).fold(Step::new(), |step, n| step.call("current_time", &json!({"n": n})));
        village.provider.script([endless, Step::new().text("Calm.")]);
        let done = village.say("c", "Keeper", "go").await;
        assert_eq!(done.ended().status(), TurnStatus::Failed);
        assert!(done.ended().sentence.contains("Tool calls in one step"), "{}", done.ended().sentence);
        let lines = done.lines();
        let (last, calls) = lines.split_last().unwrap();
        assert_eq!(last, "notice failed");
        assert!(calls.iter().all(|line| line == "current_time refused interrupted"));
        let next = village.say("c", "Keeper", "and?").await;
        assert_eq!(next.lines(), ["text: Calm."], "the strict Provider takes the history");
    }

    async fn a_tools_name_of_a_megabyte_is_cut(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        let name = "current_time".repeat(100_000);
        village.provider.script([Step::new().call(&name, &json!({})), Step::new().text("Sorry.")]);
        let done = village.say("c", "Keeper", "go").await;
        let Some(Content::ToolCall(call)) = &done.message.parts[0].content else { panic!("no call") };
        assert!(call.tool_name.len() < 300 && call.sentence.len() < 300, "{}", call.sentence);
        assert_eq!(done.ended().status(), TurnStatus::Finished);
    }
}
