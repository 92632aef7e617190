//! Providers that fail.

use proto::turn::v1::{FinishReason, TurnStatus, turn_event::Event};
use serde_json::json;
use store::Store;
use testkit::{on_every_database, provider::Step};

use crate::village::Village;

on_every_database! {
    async fn a_stream_that_breaks_in_the_middle_is_begun_again_once(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        village.provider.script([
            Step::new().text("The answ").break_off(),
            Step::new().text("The answer."),
            Step::new().text("Yes."),
        ]);
        let done = village.say("c", "Keeper", "go").await;
        assert_eq!(done.lines(), ["text: The answ", "notice retry", "text: The answer."]);
        assert_eq!(done.ended().status(), TurnStatus::Finished);
        assert_eq!(done.ended().steps, 1, "it counts as one step");
        let begun: Vec<u32> = done.events.iter().filter_map(|event| match event.event.as_ref().unwrap() {
            Event::StepStarted(step) => Some(step.step),
            _ => None,
        }).collect();
        assert_eq!(begun, [1, 1]);
        // Neither the retry nor the next turn reads the broken attempt.
        village.say("c", "Keeper", "sure?").await;
        for request in village.provider.requests() {
            assert!(!request.text.contains("The answ\""), "{}", request.text);
        }
    }

    async fn nothing_runs_twice_and_a_call_in_a_broken_stream_not_at_all(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:fetch_url"]).await;
        village.fetch.page("https://a.example/", "hello");
        village.provider.script([
            Step::new().call("fetch_url", &json!({"url": "https://a.example/"})).cut(),
            Step::new().call("fetch_url", &json!({"url": "https://a.example/"})),
            Step::new().text("Read."),
        ]);
        let done = village.say("c", "Keeper", "go").await;
        assert_eq!(done.lines(), [
            "fetch_url refused interrupted",
            "notice retry",
            "fetch_url ended ok",
            "text: Read.",
        ]);
        assert_eq!(village.fetch.requests.lock().unwrap().len(), 1);
    }

    async fn a_stream_that_breaks_twice_fails_the_turn_in_words_and_keeps_what_there_is(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        village.provider.script([
            Step::new().call("current_time", &json!({})),
            Step::new().text("One").break_off(),
            Step::new().text("Two").break_off(),
            Step::new().text("Better."),
        ]);
        let done = village.say("c", "Keeper", "go").await;
        assert_eq!(done.ended().status(), TurnStatus::Failed);
        assert_eq!(done.ended().finish_reason(), FinishReason::Error);
        assert!(done.ended().sentence.ends_with('.'), "{}", done.ended().sentence);
        assert_eq!(done.lines(), ["current_time ended ok", "text: One", "notice retry", "text: Two", "notice failed"]);
        let next = village.say("c", "Keeper", "again?").await;
        assert_eq!(next.lines(), ["text: Better."], "the strict Provider takes the history");
    }

    async fn a_refusal_fails_the_turn_in_a_sentence_without_html_or_keys(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        for (step, words) in [
            (Step::refusal(401, r#"{"error":{"message":"Incorrect API key provided: a-key-of-the-test"}}"#), "key"),
            (Step::refusal(403, "<html><body><h1>Forbidden</h1></body></html>").header("content-type", "text/html"), "403"),
            (Step::refusal(404, r#"{"error":{"message":"no such model"}}"#), "model"),
            (Step::stream(""), "scripted"),
        ] {
            // What is tried again is refused again.
            village.provider.answer_with(move |_| step.clone());
            let done = village.say(words, "Keeper", "go").await;
            assert_eq!(done.ended().status(), TurnStatus::Failed);
            let sentence = &done.ended().sentence;
            assert!(sentence.contains(words), "{sentence}");
            assert!(!sentence.contains('<') && !sentence.contains("a-key-of-the-test"), "{sentence}");
        }
    }
}
