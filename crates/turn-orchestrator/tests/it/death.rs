//! Owners that end before their turns do.

use std::time::Duration;

use futures::FutureExt as _;
use futures::StreamExt as _;
use proto::turn::v1::{TurnStatus, watch_turn_request::From, watch_turn_response::Item};
use sea_orm::ConnectionTrait as _;
use serde_json::json;
use std::sync::Arc;
use store::Store;
use testkit::{
    on_every_database,
    provider::{Gate, Step},
};
use tokio::sync::Notify;
use tonic::Code;

use crate::village::{Setup, Village, say};

on_every_database! {
    async fn a_hard_stop_settles_running_turns_as_interrupted(store: Store) {
        let mut village = Village::new(store).await;
        village.npc("Keeper", &["tool:fetch_url"]).await;
        let running = Arc::new(Notify::new());
        let told = Arc::clone(&running);
        village.fetch.before(move || {
            told.notify_one();
            futures::future::pending().boxed()
        });
        village.provider.script([
            Step::new().text("Looking.").call("fetch_url", &json!({"url": "https://a.example/"})),
            Step::new().text("Next."),
        ]);
        let started = village.start(say("c", "Keeper", "go")).await.unwrap();
        running.notified().await;
        village.lifecycle.drain(Duration::ZERO, futures::future::ready(())).await;
        let refused = village.start(say("d", "Keeper", "go")).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable);
        let (replica, _lifecycle) = village.replica(&Setup::default());
        village.move_to(replica);
        let done = village.done(started).await;
        assert_eq!(done.lines(), ["text: Looking.", "fetch_url ended interrupted", "notice stopped"]);
        assert_eq!(done.ended().status(), TurnStatus::Interrupted);
        let next = village.say("c", "Keeper", "and?").await;
        assert_eq!(next.lines(), ["text: Next."]);
    }

    async fn a_soft_stop_lets_running_turns_finish(store: Store) {
        let mut village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        let gate = Gate::new();
        village.provider.script([Step::new().text("One").gate(&gate).text(" two.")]);
        let started = village.start(say("c", "Keeper", "count")).await.unwrap();
        gate.reached().await;
        village.lifecycle.stop();
        gate.open();
        let stopped = village.lifecycle.drain(Duration::from_mins(1), futures::future::pending()).await;
        assert_eq!(stopped, runtime::Stopped::Drained);
        let (replica, _lifecycle) = village.replica(&Setup::default());
        village.move_to(replica);
        assert_eq!(village.done(started).await.lines(), ["text: One two."]);
    }

    async fn the_next_turn_settles_one_whose_owner_died(store: Store) {
        let mut village = Village::new(store).await;
        village.npc("Keeper", &["tool:fetch_url"]).await;
        let started = die_in_a_call(&mut village).await;
        let refused = village.start(say("c", "Keeper", "too early")).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "its lease still runs");
        village.clock.advance(Duration::from_secs(31));
        let next = village.say("c", "Keeper", "and?").await;
        assert_eq!(next.lines(), ["text: Next."], "the strict Provider takes the history");
        let message = village.message(&started.message_id).await;
        let lines: Vec<String> = message.parts.iter().map(crate::replay::line).collect();
        assert_eq!(lines, ["text: Looking.", "fetch_url ended interrupted"]);
    }

    async fn a_watcher_of_a_dead_owners_turn_is_let_go_with_what_there_is(store: Store) {
        let mut village = Village::new(store).await;
        village.npc("Keeper", &["tool:fetch_url"]).await;
        let started = die_in_a_call(&mut village).await;
        village.clock.advance(Duration::from_secs(31));
        // A replica looks for dead owners when it starts.
        let (replica, _lifecycle) = village.replica(&Setup::default());
        village.move_to(replica);
        let seen: Vec<Item> = village.watch(&started.turn_id, From::Snapshot(proto::turn::v1::SnapshotFirst {}))
            .await.collect().await;
        let Some(Item::Snapshot(last)) = seen.last() else { panic!("{seen:?}") };
        assert_eq!(last.turn.as_ref().unwrap().status(), TurnStatus::Interrupted);
        assert!(last.turn.as_ref().unwrap().sentence.contains("process"));
    }

    async fn an_owner_that_lost_its_lease_writes_nothing_more(store: Store) {
        let mut village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        let gate = Gate::new();
        village.provider.script([Step::new().text("One").gate(&gate).text(" two."), Step::new().text("Next.")]);
        let started = village.start(say("c", "Keeper", "count")).await.unwrap();
        gate.reached().await;
        let old = village.lifecycle.clone();
        lose_the_lease(&village).await;
        village.clock.advance(Duration::from_secs(31));
        let (replica, _lifecycle) = village.replica(&Setup::default());
        village.move_to(replica);
        let next = village.say("c", "Keeper", "and?").await;
        assert_eq!(next.lines(), ["text: Next."]);
        let before = village.message(&started.message_id).await;
        gate.open();
        old.drain(Duration::from_mins(1), futures::future::pending()).await;
        assert_eq!(village.message(&started.message_id).await, before);
        assert_eq!(village.conversation("c").await.messages.len(), 4);
    }
}

/// Leaves a turn as a process does that is killed in the middle of a call: the row says that it runs, and nobody does.
async fn die_in_a_call(village: &mut Village) -> proto::turn::v1::StartTurnResponse {
    let running = Arc::new(Notify::new());
    let told = Arc::clone(&running);
    village.fetch.before(move || {
        told.notify_one();
        futures::future::pending().boxed()
    });
    village.provider.script([
        Step::new()
            .text("Looking.")
            .call("fetch_url", &json!({"url": "https://a.example/"})),
        Step::new().text("Next."),
    ]);
    let started = village.start(say("c", "Keeper", "go")).await.unwrap();
    running.notified().await;
    lose_the_lease(village).await;
    village
        .lifecycle
        .drain(Duration::ZERO, futures::future::ready(()))
        .await;
    let (replica, _lifecycle) = village.replica(&Setup::default());
    village.move_to(replica);
    started
}

/// The lease is signed by somebody else from now on, so that whatever the process still writes or renews is refused, as if it
/// were dead.
async fn lose_the_lease(village: &Village) {
    village
        .store
        .write(|tx| {
            Box::pin(async move {
                tx.execute_unprepared("UPDATE turns SET owner = 'a process that was killed'")
                    .await?;
                Ok::<(), store::Error>(())
            })
        })
        .await
        .unwrap();
}
