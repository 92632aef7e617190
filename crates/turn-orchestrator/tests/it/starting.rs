//! What starts a turn, and what does not.

use kernel::{Caller, NpcId, ServiceName};
use proto::registry::v1::UpdateNpcRequest;
use proto::turn::v1::{DeleteMessageRequest, ListMessagesRequest, StartTurnRequest, TurnStatus};
use store::Store;
use testkit::{
    on_every_database,
    provider::{Gate, Step},
};
use tonic::Code;

use crate::village::{Setup, Village, again, edit, say, submit};

on_every_database! {
    async fn a_retried_request_starts_nothing_and_returns_the_same_turn(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.provider.script([Step::new().text("Hi.")]);
        let first = village.start(say("c", "Keeper", "hello")).await.unwrap();
        village.events(&first.turn_id).await;
        let second = village.start(say("c", "Keeper", "hello")).await.unwrap();
        assert!(!first.already_started && second.already_started);
        assert_eq!((first.turn_id, first.message_id), (second.turn_id, second.message_id));
        assert_eq!(village.provider.requests().len(), 1);
    }

    async fn the_same_request_many_times_at_once_starts_one_turn(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.provider.script([Step::new().text("Hi.")]);
        let starts = futures::future::join_all(
            (0..8).map(|_| village.start(say("c", "Keeper", "hello")))
        ).await;
        let turns: std::collections::HashSet<String> =
            starts.into_iter().map(|started| started.unwrap().turn_id).collect();
        assert_eq!(turns.len(), 1);
        village.events(turns.iter().next().unwrap()).await;
        assert_eq!(village.conversation("c").await.messages.len(), 2);
    }

    async fn one_turn_runs_in_a_conversation_and_the_refusal_names_it(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        let gate = Gate::new();
        village.provider.script([Step::new().text("One").gate(&gate).text("."), Step::new().text("Two.")]);
        let first = village.start(say("c", "Keeper", "one")).await.unwrap();
        let refused = village.start(say("c", "Keeper", "two")).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(refused.message().contains(&first.turn_id), "{}", refused.message());
        gate.open();
        village.done(first).await;
        let done = village.say("c", "Keeper", "two").await;
        assert_eq!(done.lines(), ["text: Two."]);
    }

    async fn many_different_starts_at_once_run_one_turn(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        let gate = Gate::new();
        village.provider.script([Step::new().gate(&gate).text("Hi.")]);
        let texts: Vec<String> = (0..8).map(|n| format!("hello {n}")).collect();
        let starts = futures::future::join_all(
            texts.iter().map(|text| village.start(say("c", "Keeper", text)))
        ).await;
        let started: Vec<_> = starts.iter().filter_map(|start| start.as_ref().ok()).collect();
        assert_eq!(started.len(), 1, "{starts:?}");
        for refused in starts.iter().filter_map(|start| start.as_ref().err()) {
            assert!(matches!(refused.code(), Code::FailedPrecondition | Code::Aborted), "{refused:?}");
        }
        gate.open();
        village.events(&started[0].turn_id).await;
        assert_eq!(village.conversation("c").await.messages.len(), 2);
    }

    async fn a_conversation_stays_with_its_npc(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.npc("Smith", &[]).await;
        village.provider.script([Step::new().text("Hi.")]);
        village.say("c", "Keeper", "hello").await;
        let refused = village.start(say("c", "Smith", "hello too")).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(refused.message().contains("stays with its NPC"));
    }

    async fn a_conversation_goes_on_by_its_own_id_too(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.provider.script([Step::new().text("One."), Step::new().text("Two.")]);
        let first = village.say("c", "Keeper", "one").await;
        let second = village.say(&first.started.conversation_id, "Keeper", "two").await;
        assert_eq!(first.started.conversation_id, second.started.conversation_id);
        assert_eq!(village.conversation("c").await.messages.len(), 4);
    }

    async fn two_players_may_choose_the_same_conversation_id(store: Store) {
        let mut village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.provider.script([Step::new().text("One."), Step::new().text("Two.")]);
        let first = village.say("c", "Keeper", "one").await;
        village.player = village.new_player("Bob").await;
        let refused = village.start(say(&first.started.conversation_id, "Keeper", "mine now")).await;
        let stolen = refused.unwrap();
        assert_ne!(stolen.conversation_id, first.started.conversation_id, "an id of another's is only a name");
        village.events(&stolen.turn_id).await;
    }

    async fn an_edit_replaces_the_message_and_what_followed_it(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.provider.script(["A1.", "A2.", "B1."].map(|text| Step::new().text(text)));
        village.say("c", "Keeper", "one").await;
        village.say("c", "Keeper", "two").await;
        let edited = village.start(edit("c", "Keeper", "m-one", "uno")).await.unwrap();
        village.done(edited).await;
        let request = village.provider.requests().pop().unwrap();
        let said: Vec<&str> = request.body["messages"].as_array().unwrap().iter()
            .filter_map(|message| message["content"].as_str()).skip(1).collect();
        assert_eq!(said, ["uno"]);
        let current = village.conversation("c").await;
        assert_eq!(current.messages.len(), 2);
        assert_eq!(current.messages[0].client_id, "m-one");
        let all = village.conversations(&village.player()).list_messages(ListMessagesRequest {
            conversation: "c".to_owned(), ..ListMessagesRequest::default()
        }).await.unwrap().into_inner().messages;
        let replaced: Vec<bool> = all.iter().map(|message| message.replaced).collect();
        assert_eq!(replaced, [true, true, true, true, false, false]);
    }

    async fn an_edit_of_what_was_never_said_is_not_found_and_a_second_message_of_an_id_exists(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.provider.script([Step::new().text("Hi.")]);
        village.say("c", "Keeper", "one").await;
        let refused = village.start(edit("c", "Keeper", "m-none", "uno")).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound);
        let twice = StartTurnRequest {
            request_id: "another".to_owned(),
            ..submit("c", "Keeper", "m-one", "one again")
        };
        assert_eq!(village.start(twice).await.unwrap_err().code(), Code::AlreadyExists);
        assert_eq!(village.conversation("c").await.messages.len(), 2, "nothing was written");
    }

    async fn a_regenerated_answer_takes_the_old_ones_place_and_the_old_one_stays_stored(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.provider.script(["A1.", "A2.", "A3."].map(|text| Step::new().text(text)));
        let first = village.say("c", "Keeper", "one").await;
        let second = village.start(again("c", "Keeper", &first.started.message_id, "r1")).await.unwrap();
        assert_eq!(village.done(second).await.lines(), ["text: A2."]);
        let third = village.start(again("c", "Keeper", "", "r2")).await.unwrap();
        village.done(third).await;
        let request = village.provider.requests().pop().unwrap();
        assert_eq!(request.body["messages"].as_array().unwrap().len(), 2, "{}", request.text);
        let current = village.conversation("c").await.messages;
        assert_eq!(current.len(), 2);
        let old = village.message(&first.started.message_id).await;
        assert!(old.replaced && old.parts.len() == 1);
        let nothing = village.start(again("none", "Keeper", "", "r3")).await.unwrap_err();
        assert_eq!(nothing.code(), Code::NotFound);
    }

    async fn a_deleted_message_takes_what_followed_it_along(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.provider.script(["A1.", "A2."].map(|text| Step::new().text(text)));
        village.say("c", "Keeper", "one").await;
        village.say("c", "Keeper", "two").await;
        let messages = village.conversation("c").await.messages;
        let deleted = village.conversations(&village.player()).delete_message(DeleteMessageRequest {
            message_id: messages[2].id.clone(),
        }).await.unwrap().into_inner().deleted;
        assert_eq!(deleted, 2);
        assert_eq!(village.conversation("c").await.messages.len(), 2);
    }

    async fn no_model_and_an_unknown_provider_are_said_before_anything_is_written(store: Store) {
        let mut setup = Setup::default();
        setup.config.default_model.clear();
        let village = Village::with(store, setup).await;
        village.npc("Keeper", &[]).await;
        let refused = village.start(say("c", "Keeper", "hello")).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(refused.message().contains("AGENTSVILLE__TURN__DEFAULT_MODEL"), "{}", refused.message());
        village.edit_npc(UpdateNpcRequest {
            npc: "Keeper".to_owned(),
            model: Some("scriptd/model".to_owned()),
            ..UpdateNpcRequest::default()
        }).await;
        let refused = village.start(say("c", "Keeper", "hello")).await.unwrap_err();
        assert!(refused.message().contains("did you mean \"scripted\"?"), "{}", refused.message());
        let missing = village.conversations(&village.player()).get_conversation(
            proto::turn::v1::GetConversationRequest { conversation: "c".to_owned() }
        ).await.unwrap_err();
        assert_eq!(missing.code(), Code::NotFound);
    }

    async fn a_private_npc_of_another_is_not_found(store: Store) {
        let mut village = Village::new(store).await;
        village.npc("Hermit", &[]).await;
        village.edit_npc(UpdateNpcRequest {
            npc: "Hermit".to_owned(),
            private: Some(true),
            ..UpdateNpcRequest::default()
        }).await;
        village.player = village.new_player("Bob").await;
        for npc in ["Hermit", "Nobody"] {
            let refused = village.start(say("c", npc, "hello")).await.unwrap_err();
            assert_eq!(refused.code(), Code::NotFound);
            assert_eq!(refused.message(), format!("there is no NPC {npc:?}"));
        }
    }

    async fn models_and_services_start_nothing(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        let npc = Caller::Npc { npc: NpcId::mint(&*village.clock), player: village.player };
        let service = Caller::Service { name: ServiceName::Edge, player: Some(village.player) };
        let refused = village.turns(&service).start_turn(say("c", "Keeper", "hi")).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied);
        // The edge may not even speak for an NPC.
        let refused = village.turns(&npc).start_turn(say("c", "Keeper", "hi")).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
    }

    async fn what_is_out_of_bounds_is_refused_by_the_name_of_its_field(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        let ok = || say("c", "Keeper", "hello");
        let long = "x".repeat(65 * 1_024);
        let name = "x".repeat(201);
        for (request, field) in [
            (StartTurnRequest { conversation_client_id: name.clone(), ..ok() }, "conversation_client_id"),
            (StartTurnRequest { conversation_client_id: String::new(), ..ok() }, "conversation_client_id"),
            (StartTurnRequest { npc: "a\u{1b}[2J".to_owned(), ..ok() }, "npc"),
            (StartTurnRequest { request_id: String::new(), ..ok() }, "request_id"),
            (StartTurnRequest { trigger: None, ..ok() }, "trigger"),
            (submit("c", "Keeper", &name, "x"), "submit.client_id"),
            (submit("c", "Keeper", "m", &long), "submit.text"),
            (submit("c", "Keeper", "m", "  \n"), "submit.text"),
        ] {
            let refused = village.start(request).await.unwrap_err();
            let problem = runtime::status::problem(&refused);
            assert_eq!(refused.code(), Code::InvalidArgument, "{field}");
            assert_eq!(problem.field.as_deref(), Some(field));
        }
    }

    async fn a_text_with_nul_is_the_same_on_every_database_and_for_the_model(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.provider.script([Step::new().text("a\u{0}b")]);
        let started = village.start(submit("c", "Keeper", "m", "x\u{0}y")).await.unwrap();
        let done = village.done(started).await;
        assert_eq!(done.lines(), ["text: a\u{FFFD}b"]);
        let request = village.provider.requests().remove(0);
        assert_eq!(request.body["messages"][1]["content"], "x\u{FFFD}y");
        assert_eq!(done.ended().status(), TurnStatus::Finished);
    }
}
