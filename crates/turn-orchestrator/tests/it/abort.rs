//! Stopping turns: every Part is settled, and the next turn goes on.

use futures::{FutureExt as _, StreamExt as _};
use kernel::{Caller, ServiceName};
use proto::turn::v1::{AbortTurnRequest, FinishReason, TurnStatus, abort_turn_request::Target};
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
    async fn an_abort_in_the_middle_of_text_keeps_the_text(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        let gate = Gate::new();
        village.provider.script([
            Step::new().reasoning("Hm.").text("Once upon").gate(&gate),
            Step::new().text("As I was saying."),
        ]);
        let started = village.start(say("c", "Keeper", "tell")).await.unwrap();
        gate.reached().await;
        assert_eq!(village.abort(&started.turn_id).await, std::slice::from_ref(&started.turn_id));
        let turn = started.turn_id.clone();
        let done = village.done(started).await;
        assert_eq!(done.ended().status(), TurnStatus::Aborted);
        assert_eq!(done.ended().finish_reason(), FinishReason::Other);
        assert!(done.lines().iter().all(|line| !line.contains("(open)")), "{:?}", done.lines());
        village.provider.wait_for_hang_ups(1).await;
        assert!(village.abort(&turn).await.is_empty(), "what has ended is not stopped again");
        let next = village.say("c", "Keeper", "go on").await;
        assert_eq!(next.lines(), ["text: As I was saying."]);
    }

    async fn an_abort_in_the_middle_of_arguments_refuses_the_call(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:fetch_url"]).await;
        let gate = Gate::new();
        village.provider.script([
            Step::new().text("Looking.").call("fetch_url", &json!({"url": "https://a.example/"})).gate(&gate),
            Step::new().text("Next."),
        ]);
        let started = village.start(say("c", "Keeper", "go")).await.unwrap();
        let mut seen = village.watch(&started.turn_id, proto::turn::v1::watch_turn_request::From::After(0)).await;
        // Until the model has begun to write arguments.
        while !format!("{:?}", seen.next().await.unwrap()).contains("ToolInputDelta") {}
        village.abort(&started.turn_id).await;
        let done = village.done(started).await;
        assert_eq!(done.lines(), ["text: Looking.", "fetch_url refused interrupted", "notice stopped"]);
        assert!(village.fetch.requests.lock().unwrap().is_empty());
        let next = village.say("c", "Keeper", "and?").await;
        assert_eq!(next.lines(), ["text: Next."], "the strict Provider takes the history");
    }

    async fn an_abort_in_the_middle_of_a_tool_interrupts_the_call(store: Store) {
        let events = testkit::events::capture();
        let village = Village::new(store).await;
        village.npc("Keeper", &["tool:fetch_url", "tool:current_time"]).await;
        let running = Arc::new(Notify::new());
        let told = Arc::clone(&running);
        village.fetch.before(move || {
            told.notify_one();
            futures::future::pending().boxed()
        });
        village.provider.script([
            Step::new()
                .call("current_time", &json!({}))
                .call("fetch_url", &json!({"url": "https://a.example/"})),
            Step::new().text("Next."),
        ]);
        let started = village.start(say("c", "Keeper", "go")).await.unwrap();
        running.notified().await;
        village.abort(&started.turn_id).await;
        let done = village.done(started).await;
        assert_eq!(done.lines(), ["current_time ended ok", "fetch_url ended interrupted", "notice stopped"]);
        assert_eq!(done.ended().status(), TurnStatus::Aborted);
        let calls = events.wait_for("tool_call", 2).await;
        let outcomes: Vec<_> = calls.iter().map(|call| call["outcome"].as_str().unwrap()).collect();
        assert_eq!(outcomes, ["ok", "interrupted"]);
        assert_eq!(events.wait_for("turn", 1).await[0]["agentsville.reason"], "aborted");
        let next = village.say("c", "Keeper", "and?").await;
        assert_eq!(next.lines(), ["text: Next."], "the strict Provider takes the history");
    }

    async fn a_watcher_that_goes_away_stops_nothing(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        let gate = Gate::new();
        village.provider.script([Step::new().text("One").gate(&gate).text(" two.")]);
        let started = village.start(say("c", "Keeper", "count")).await.unwrap();
        let mut seen = village.watch(&started.turn_id, proto::turn::v1::watch_turn_request::From::After(0)).await;
        seen.next().await.unwrap();
        drop(seen);
        gate.open();
        assert_eq!(village.done(started).await.lines(), ["text: One two."]);
    }

    async fn an_abort_reaches_the_replica_that_runs_the_turn(store: Store) {
        let mut village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        let gate = Gate::new();
        village.provider.script([Step::new().text("Once").gate(&gate)]);
        let started = village.start(say("c", "Keeper", "tell")).await.unwrap();
        gate.reached().await;
        let (replica, _lifecycle) = village.replica(&Setup::default());
        village.move_to(replica);
        village.abort(&started.turn_id).await;
        assert_eq!(village.done(started).await.ended().status(), TurnStatus::Aborted);
    }

    async fn a_turn_is_stopped_by_its_player_alone_and_an_npcs_turns_by_the_operator_and_the_edge(store: Store) {
        let village = Village::new(store).await;
        let npc = village.npc("Keeper", &[]).await;
        let gate = Gate::new();
        village.provider.script([Step::new().text("Once").gate(&gate)]);
        let started = village.start(say("c", "Keeper", "tell")).await.unwrap();
        gate.reached().await;
        let abort = |caller: Caller, target: Target| {
            let mut client = village.turns(&caller);
            async move { client.abort_turn(AbortTurnRequest { target: Some(target) }).await.map(|ok| ok.into_inner().turn_ids) }
        };
        let turn = || Target::TurnId(started.turn_id.clone());
        let stranger = Caller::Player(village.new_player("Bob").await);
        let operator = village.operator();
        assert_eq!(abort(stranger.clone(), turn()).await.unwrap_err().code(), Code::NotFound);
        assert_eq!(abort(operator.clone(), turn()).await.unwrap_err().code(), Code::PermissionDenied);
        let npcs = || Target::NpcId(npc.clone());
        assert_eq!(abort(stranger, npcs()).await.unwrap_err().code(), Code::PermissionDenied);
        assert_eq!(abort(village.player(), npcs()).await.unwrap_err().code(), Code::PermissionDenied);
        let edge = Caller::Service { name: ServiceName::Edge, player: None };
        assert_eq!(abort(edge, npcs()).await.unwrap(), std::slice::from_ref(&started.turn_id));
        assert_eq!(village.done(started).await.ended().status(), TurnStatus::Aborted);
        assert!(abort(operator, npcs()).await.unwrap().is_empty());
    }
}
