//! Several processes: the log and the signals go through Redis.

use futures::StreamExt as _;
use kernel::Secret;
use proto::turn::v1::{
    SnapshotFirst, TurnStatus, watch_turn_request::From, watch_turn_response::Item,
};
use serde_json::json;
use store::Store;
use testkit::{
    on_every_database,
    provider::{Gate, Step},
    redis::{self, OwnRedis},
};

use crate::{
    replay::timeless,
    village::{Setup, Village, say},
    watching::follow,
};

fn through(url: String) -> Setup {
    Setup {
        coordination: coordination::Config {
            namespace: redis::namespace(),
            ..coordination::Config::redis(Secret::new(url))
        },
        ..Setup::default()
    }
}

on_every_database! {
    async fn a_turn_of_one_process_is_watched_and_stopped_through_another(store: Store) {
        let setup = through(redis::url());
        let mut village = Village::with(store, setup.clone()).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        let gate = Gate::new();
        village.provider.script([
            Step::new().text("Let me look.").call("current_time", &json!({})),
            Step::new().text("It is").gate(&gate),
            Step::new().text("Next."),
        ]);
        let started = village.start(say("c", "Keeper", "time?")).await.unwrap();
        gate.reached().await;
        // Another process has connections of its own.
        let ended = tokio_util::sync::CancellationToken::new();
        village.coordination = coordination::connect(
            &setup.coordination, &tokio_util::task::TaskTracker::new(), &ended,
        ).unwrap();
        let (replica, _lifecycle) = village.replica(&setup);
        village.move_to(replica);
        let live = village.watch(&started.turn_id, From::Snapshot(SnapshotFirst {})).await;
        assert_eq!(village.abort(&started.turn_id).await, std::slice::from_ref(&started.turn_id));
        let seen = follow(live).await;
        let done = village.done(started).await;
        assert_eq!(done.ended().status(), TurnStatus::Aborted);
        assert_eq!(seen.parts, done.replay.parts);
        assert_eq!(village.say("c", "Keeper", "and?").await.lines(), ["text: Next."]);
    }

    async fn a_turn_goes_on_without_redis_and_watchers_read_snapshots(store: Store) {
        let mut server = OwnRedis::start();
        let village = Village::with(store, through(server.url())).await;
        village.npc("Keeper", &["tool:current_time"]).await;
        let gate = Gate::new();
        village.provider.script([
            Step::new().text("Let me look.").gate(&gate).call("current_time", &json!({})),
            Step::new().text("It is noon."),
        ]);
        let started = village.start(say("c", "Keeper", "time?")).await.unwrap();
        let items = village.watch(&started.turn_id, From::After(0)).await;
        gate.reached().await;
        server.stop();
        gate.open();
        let seen: Vec<Item> = items.collect().await;
        let Some(Item::Snapshot(last)) = seen.last() else { panic!("{seen:?}") };
        assert_eq!(last.turn.as_ref().unwrap().status(), TurnStatus::Finished);
        let parts: Vec<_> = last.message.clone().unwrap().parts.into_iter().map(timeless).collect();
        let stored: Vec<_> = village.message(&started.message_id).await.parts.into_iter().map(timeless).collect();
        assert_eq!(parts, stored);
        assert_eq!(stored.len(), 3);
    }
}
