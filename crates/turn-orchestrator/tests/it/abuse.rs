//! Models, pages and Players that ask for too much, or that come back at an odd moment.

use futures::StreamExt as _;
use proto::turn::v1::{
    DeleteMessageRequest, ListMessagesRequest, TurnStatus, watch_turn_request::From,
    watch_turn_response::Item,
};
use sea_orm::ConnectionTrait as _;
use serde_json::json;
use store::Store;
use testkit::{
    on_every_database,
    provider::{Gate, Step},
};

use crate::village::{Village, edit, say};

/// More than one answer may have, in one piece.
const MEGABYTES: usize = 7 * 1_024 * 1_024;

on_every_database! {
    async fn a_delta_longer_than_an_answer_is_cut_and_what_is_left_of_it_can_be_read(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.provider.script([Step::new().text(&"x".repeat(MEGABYTES)), Step::new().text("Short.")]);
        let done = village.say("c", "Keeper", "go").await;
        assert_eq!(done.ended().status(), TurnStatus::Failed);
        assert_eq!(done.ended().sentence, "The turn was ended because the answer grew beyond 4 MiB.");
        assert_eq!(village.conversation("c").await.messages.len(), 2);
        let snapshot = village.watch(&done.started.turn_id, From::Snapshot(<_>::default())).await.next().await;
        assert!(matches!(snapshot, Some(Item::Snapshot(_))));
    }

    async fn an_edit_back_to_what_was_said_before_is_a_new_edit_and_its_retry_is_none(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.provider.script(["0.", "A.", "B.", "A again."].map(|text| Step::new().text(text)));
        village.say("c", "Keeper", "one").await;
        for text in ["uno", "un"] {
            let edited = village.start(edit("c", "Keeper", "m-one", text)).await.unwrap();
            assert!(!edited.already_started);
            village.done(edited).await;
        }
        let back = village.start(edit("c", "Keeper", "m-one", "uno")).await.unwrap();
        assert!(!back.already_started, "it is not the first edit: another came between");
        let done = village.done(back.clone()).await;
        assert_eq!(done.lines(), ["text: A again."]);
        let retried = village.start(edit("c", "Keeper", "m-one", "uno")).await.unwrap();
        assert!(retried.already_started);
        assert_eq!(retried.turn_id, back.turn_id);
        assert_eq!(village.provider.requests().len(), 4);
    }

    async fn the_edit_of_a_message_that_was_answered_again_is_retried_and_not_repeated(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.provider.script(["0.", "A.", "A, again."].map(|text| Step::new().text(text)));
        village.say("c", "Keeper", "one").await;
        let edited = village.start(edit("c", "Keeper", "m-one", "uno")).await.unwrap();
        let first = village.done(edited).await;
        let again = crate::village::again("c", "Keeper", &first.started.message_id, "r");
        let again = village.start(again).await.unwrap();
        village.done(again).await;
        let retried = village.start(edit("c", "Keeper", "m-one", "uno")).await.unwrap();
        assert!(retried.already_started);
        assert_eq!(retried.turn_id, first.started.turn_id);
    }

    async fn a_message_that_was_replaced_takes_nothing_of_the_current_branch_along(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.provider.script(["0.", "A."].map(|text| Step::new().text(text)));
        let first = village.say("c", "Keeper", "one").await;
        let edited = village.start(edit("c", "Keeper", "m-one", "uno")).await.unwrap();
        village.done(edited).await;
        let gone = village.conversations(&village.player()).delete_message(DeleteMessageRequest {
            message_id: first.started.message_id,
        }).await.unwrap().into_inner();
        assert_eq!(gone.deleted, 1);
        assert_eq!(village.conversation("c").await.messages.len(), 2, "the current branch is whole");
    }

    async fn what_does_not_fit_an_answer_or_a_prompt_is_not_even_read(store: Store) {
        let village = Village::new(store.clone()).await;
        village.npc("Keeper", &[]).await;
        village.provider.answer_with(|_| Step::new().text("Hi."));
        for n in 0..24 {
            village.say("c", "Keeper", &format!("{n}")).await;
        }
        // Every Part becomes half a megabyte, and the oldest such that whoever reads it fails.
        store.write(|tx| Box::pin(async move {
            tx.execute_unprepared(&format!("UPDATE parts SET text = '{}'", "x".repeat(512 * 1_024))).await?;
            tx.execute_unprepared(
                "UPDATE parts SET kind = 'nonsense' WHERE message_id = (SELECT id FROM messages ORDER BY created_at LIMIT 1)"
            ).await?;
            Ok::<(), store::Error>(())
        })).await.unwrap();
        let shown = village.conversation("c").await.messages;
        assert!(!shown.is_empty() && shown.len() < 14, "{}", shown.len());
        let done = village.say("c", "Keeper", "and now?").await;
        assert_eq!(done.lines(), ["text: Hi."]);
        let request = village.provider.requests().pop().unwrap();
        assert!(request.text.len() < 5 * 1_024 * 1_024, "{}", request.text.len());
        assert!(request.system().contains("earliest Messages are not shown"), "{}", request.system());
        let page = village.conversations(&village.player()).list_messages(ListMessagesRequest {
            conversation: "c".to_owned(), page_size: 200, page_token: String::new(),
        }).await;
        assert!(page.is_err(), "this one begins with the oldest");
    }

    async fn a_turn_that_was_stopped_behind_its_calls_leaves_a_history_whose_roles_alternate(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        let gate = Gate::new();
        village.provider.script([
            Step::new().call("current_time", &json!({})),
            Step::new().gate(&gate).text("Never said."),
            Step::new().text("Noon."),
        ]);
        let started = village.start(say("c", "Keeper", "time?")).await.unwrap();
        gate.reached().await;
        village.abort(&started.turn_id).await;
        village.done(started).await;
        village.say("c", "Keeper", "and now?").await;
        let request = village.provider.requests().pop().unwrap();
        let roles: Vec<&str> = request.body["messages"].as_array().unwrap().iter()
            .filter_map(|message| message["role"].as_str()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "user"]);
    }
}
