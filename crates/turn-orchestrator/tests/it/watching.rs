//! Watching turns: nothing is missed, nothing comes twice.

use futures::StreamExt as _;
use kernel::Caller;
use proto::turn::v1::{
    SnapshotFirst, TurnStatus, WatchTurnRequest,
    watch_turn_request::{From, Target},
    watch_turn_response::Item,
};
use serde_json::json;
use store::Store;
use testkit::{
    on_every_database,
    provider::{Gate, Step},
};
use tokio::task::JoinSet;
use tonic::Code;

use crate::{
    replay::{Replay, timeless},
    village::{Village, say},
};

const SNAPSHOT: From = From::Snapshot(SnapshotFirst {});

/// Applies whatever a watcher gets.
pub(crate) async fn follow(mut items: futures::stream::BoxStream<'static, Item>) -> Replay {
    let mut replay = Replay::default();
    while let Some(item) = items.next().await {
        match item {
            Item::Snapshot(snapshot) => {
                assert!(snapshot.number >= replay.last, "a snapshot never goes back");
                replay = Replay::from_snapshot(&snapshot);
            }
            Item::Event(event) => replay.apply(&event),
        }
    }
    replay
}

on_every_database! {
    async fn watchers_that_come_at_any_time_see_the_same(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        let gates: Vec<Gate> = (0..4).map(|_| Gate::new()).collect();
        village.provider.script([
            Step::new().reasoning("Hm").gate(&gates[0]).text("Let me").gate(&gates[1]).text(" look.").call("current_time", &json!({})),
            Step::new().text("It is").gate(&gates[2]).text(" noon").gate(&gates[3]).text("."),
        ]);
        let started = village.start(say("c", "Keeper", "time?")).await.unwrap();
        let mut watchers = JoinSet::new();
        for gate in &gates {
            gate.reached().await;
            for from in [SNAPSHOT, From::After(0)] {
                watchers.spawn(follow(village.watch(&started.turn_id, from).await));
            }
            gate.open();
        }
        let done = village.done(started).await;
        for seen in watchers.join_all().await {
            assert_eq!(seen.parts, done.replay.parts);
            assert_eq!(seen.last, done.replay.last);
        }
    }

    async fn a_conversations_running_turn_is_watched_by_the_conversation(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        let gate = Gate::new();
        village.provider.script([Step::new().text("One").gate(&gate).text(" two.")]);
        let started = village.start(say("c", "Keeper", "count")).await.unwrap();
        gate.reached().await;
        let watch = |conversation: &str| WatchTurnRequest {
            target: Some(Target::Conversation(conversation.to_owned())),
            from: Some(SNAPSHOT),
        };
        let mut client = village.turns(&village.player());
        let items = client.watch_turn(watch("c")).await.unwrap().into_inner();
        gate.open();
        let seen = follow(items.map(|item| item.unwrap().item.unwrap()).boxed()).await;
        let done = village.done(started).await;
        assert_eq!(seen.parts, done.replay.parts);
        for conversation in ["c", "none"] {
            let refused = client.watch_turn(watch(conversation)).await.unwrap_err();
            assert_eq!(refused.code(), Code::NotFound, "nothing runs any more");
        }
    }

    async fn a_turn_that_has_ended_is_one_snapshot(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        village.provider.script([Step::new().call("current_time", &json!({})), Step::new().text("Noon.")]);
        let done = village.say("c", "Keeper", "time?").await;
        let seen: Vec<Item> = village.watch(&done.started.turn_id, SNAPSHOT).await.collect().await;
        let [Item::Snapshot(snapshot)] = &seen[..] else { panic!("{seen:?}") };
        let turn = snapshot.turn.as_ref().unwrap();
        assert_eq!(turn.status(), TurnStatus::Finished);
        assert_eq!(turn.conversation_client_id, "c");
        assert_eq!(turn.usage, done.ended().usage);
        assert_eq!(snapshot.number, done.replay.last);
        let parts: Vec<_> = snapshot.message.clone().unwrap().parts.into_iter().map(timeless).collect();
        assert_eq!(parts, done.replay.parts);
    }

    async fn events_that_the_log_has_forgotten_are_a_snapshot(store: Store) {
        let mut village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.provider.script([Step::new().text("Hi.")]);
        let done = village.say("c", "Keeper", "hello").await;
        // A replica with a log of its own knows nothing of the turn.
        let ended = tokio_util::sync::CancellationToken::new();
        village.coordination = coordination::connect(
            &coordination::Config::in_process(), &tokio_util::task::TaskTracker::new(), &ended
        ).unwrap();
        let (replica, _lifecycle) = village.replica(&crate::village::Setup::default());
        village.move_to(replica);
        let seen: Vec<Item> = village.watch(&done.started.turn_id, From::After(1)).await.collect().await;
        assert!(matches!(&seen[..], [Item::Snapshot(snapshot)] if snapshot.number == done.replay.last), "{seen:?}");
    }

    async fn only_its_player_watches_a_turn_and_the_operator_leaves_an_audit_row(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.provider.script([Step::new().text("Hi.")]);
        let done = village.say("c", "Keeper", "hello").await;
        let watch = || WatchTurnRequest {
            target: Some(Target::TurnId(done.started.turn_id.clone())),
            from: Some(SNAPSHOT),
        };
        let stranger = Caller::Player(village.new_player("Bob").await);
        let refused = village.turns(&stranger).watch_turn(watch()).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound);
        assert!(village.audited().await.is_empty());
        let operator = village.operator();
        village.turns(&operator).watch_turn(watch()).await.unwrap();
        let audited = village.audited().await;
        assert_eq!(audited.len(), 1);
        assert_eq!(audited[0].actor, operator.label());
        assert_eq!(audited[0].action, "conversation.read");
        assert_eq!(audited[0].subject_id, done.started.conversation_id);
    }
}
