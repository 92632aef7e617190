//! Table A of the requirements, for the registry's verbs: every cell.

use kernel::{Caller, ErrorCode, ServiceName};
use proto::registry::v1::*;
use store::Store;
use testkit::on_every_database;

use crate::support::{Setup, code, named, service};

const NO: Result<(), ErrorCode> = Err(ErrorCode::PermissionDenied);
const HIDDEN: Result<(), ErrorCode> = Err(ErrorCode::NotFound);
const YES: Result<(), ErrorCode> = Ok(());

/// Everybody who may call, and what they are.
fn everybody(setup: &Setup) -> [(&'static str, Caller); 5] {
    let owner = setup.owner.player();
    [
        ("operator", setup.operator.clone()),
        ("owner", setup.owner.clone()),
        ("other", setup.other.clone()),
        ("model", setup.model()),
        ("service", service(ServiceName::TurnOrchestrator, owner)),
    ]
}

on_every_database! {
    async fn who_creates_npcs(store: Store) {
        let setup = Setup::new(store).await;
        for ((who, caller), expected) in everybody(&setup).into_iter().zip([YES, YES, YES, NO, NO]) {
            let created = setup.npcs(&caller).create_npc(named(who)).await;
            assert_eq!(code(created), expected, "{who}");
        }
    }

    async fn who_sees_an_npc(store: Store) {
        let setup = Setup::new(store).await;
        let public = setup.npc(&setup.owner, "Public").await;
        let private = setup.private_npc(&setup.owner, "Private").await;
        for (npc, cells) in [(&public, [YES, YES, YES, NO, NO]), (&private, [YES, YES, HIDDEN, NO, NO])] {
            for ((who, caller), expected) in everybody(&setup).into_iter().zip(cells) {
                for given in [&npc.id, &npc.name] {
                    let seen = setup.npcs(&caller).get_npc(GetNpcRequest { npc: given.clone() }).await;
                    assert_eq!(code(seen), expected, "{who} {}", npc.name);
                }
                let listed = setup.grants(&caller).list_grants(ListGrantsRequest { npc: npc.id.clone() }).await;
                assert_eq!(code(listed), expected, "{who} {}", npc.name);
            }
        }
    }

    async fn a_hidden_npc_is_missing_in_the_same_words(store: Store) {
        let setup = Setup::new(store).await;
        let private = setup.private_npc(&setup.owner, "Private").await;
        let mut npcs = setup.npcs(&setup.other);
        for given in [private.name.as_str(), private.id.as_str()] {
            let get = npcs.get_npc(GetNpcRequest { npc: given.to_owned() }).await.expect_err("hidden");
            let update = npcs.update_npc(UpdateNpcRequest { npc: given.to_owned(), private: Some(false), ..UpdateNpcRequest::default() }).await.expect_err("hidden");
            let delete = npcs.delete_npc(DeleteNpcRequest { npc: given.to_owned() }).await.expect_err("hidden");
            for status in [get, update, delete] {
                assert_eq!(status.message(), format!("there is no NPC {given:?}"));
            }
        }
        let missing = npcs.get_npc(GetNpcRequest { npc: "Missing".to_owned() }).await.expect_err("missing");
        assert_eq!(missing.message(), "there is no NPC \"Missing\"");
    }

    async fn a_list_has_what_the_caller_may_see(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Public").await;
        setup.private_npc(&setup.owner, "Private").await;
        let expected: [(Result<(), ErrorCode>, &[&str]); 5] = [
            (YES, &["Private", "Public"]),
            (YES, &["Private", "Public"]),
            (YES, &["Public"]),
            (NO, &[]),
            (NO, &[]),
        ];
        for ((who, caller), (expected, names)) in everybody(&setup).into_iter().zip(expected) {
            let listed = setup.npcs(&caller).list_npcs(ListNpcsRequest::default()).await;
            let found: Vec<String> = listed
                .as_ref()
                .map(|listed| listed.get_ref().npcs.iter().map(|npc| npc.name.clone()).collect())
                .unwrap_or_default();
            assert_eq!((code(listed), found), (expected, names.iter().map(|&name| name.to_owned()).collect()), "{who}");
        }
    }

    async fn who_edits_and_deletes_an_npc(store: Store) {
        let setup = Setup::new(store).await;
        for (private, cells) in [(false, [YES, YES, NO, NO, NO]), (true, [YES, YES, HIDDEN, NO, NO])] {
            for ((who, caller), expected) in everybody(&setup).into_iter().zip(cells) {
                let npc = setup.create(&setup.owner, CreateNpcRequest { private, ..named("Keeper") }).await;
                let edit = UpdateNpcRequest { npc: npc.id.clone(), persona: Some("new".to_owned()), ..UpdateNpcRequest::default() };
                assert_eq!(code(setup.npcs(&caller).update_npc(edit).await), expected, "{who} edits");
                let deleted = setup.npcs(&caller).delete_npc(DeleteNpcRequest { npc: npc.id.clone() }).await;
                // A model and a service are told no more than that there is nothing for them.
                assert_eq!(code(deleted).is_ok(), expected.is_ok(), "{who} deletes");
                if expected.is_err() {
                    setup.npcs(&setup.owner).delete_npc(DeleteNpcRequest { npc: npc.id }).await.expect("it was left");
                }
            }
        }
    }

    async fn who_changes_grants(store: Store) {
        let setup = Setup::new(store).await;
        for (private, cells) in [(false, [YES, YES, NO, NO, NO]), (true, [YES, YES, HIDDEN, NO, NO])] {
            let npc = setup.create(&setup.owner, CreateNpcRequest { private, ..named("Keeper") }).await;
            for ((who, caller), expected) in everybody(&setup).into_iter().zip(cells) {
                let added = setup.add(&caller, &npc.id, "tool:current_time").await.map(|_| ()).map_err(|problem| problem.code);
                assert_eq!(added, expected, "{who} adds");
                let grant = setup.add(&setup.owner, &npc.id, "family:memory").await.expect("a Grant");
                let updated = setup.grants(&caller).update_grant(UpdateGrantRequest { grant_id: grant.id.clone(), tools: Vec::new() }).await;
                assert_eq!(code(updated), expected, "{who} updates");
                let removed = setup.grants(&caller).remove_grant(RemoveGrantRequest { npc: npc.id.clone(), what: "family:memory".to_owned() }).await;
                assert_eq!(code(removed), expected, "{who} removes");
            }
            setup.npcs(&setup.owner).delete_npc(DeleteNpcRequest { npc: npc.id }).await.expect("it is deleted");
        }
    }

    async fn who_reads_a_grant(store: Store) {
        let setup = Setup::new(store).await;
        for (private, cells) in [(false, [YES, YES, YES, NO, NO]), (true, [YES, YES, HIDDEN, NO, NO])] {
            let npc = setup.create(&setup.owner, CreateNpcRequest { private, ..named(if private { "A" } else { "B" }) }).await;
            let grant = setup.add(&setup.owner, &npc.id, "tool:fetch_url").await.expect("a Grant");
            for ((who, caller), expected) in everybody(&setup).into_iter().zip(cells) {
                let read = setup.grants(&caller).get_grant(GetGrantRequest { grant_id: grant.id.clone() }).await;
                assert_eq!(code(read), expected, "{who}");
            }
        }
    }

    async fn who_manages_players_and_reads_the_audit_log(store: Store) {
        let setup = Setup::new(store).await;
        for ((who, caller), expected) in everybody(&setup).into_iter().zip([YES, NO, NO, NO, NO]) {
            let player = setup.new_player(&format!("Player for {who}")).await.0.player().expect("a Player").to_string();
            let mut players = setup.players(&caller);
            assert_eq!(code(players.create_player(CreatePlayerRequest { name: format!("New {who}") }).await), expected, "{who}");
            assert_eq!(code(players.get_player(GetPlayerRequest { player: player.clone() }).await), expected, "{who}");
            assert_eq!(code(players.list_players(ListPlayersRequest::default()).await), expected, "{who}");
            let edit = UpdatePlayerRequest { player: player.clone(), name: None, new_token: true };
            assert_eq!(code(players.update_player(edit).await), expected, "{who}");
            assert_eq!(code(players.revoke_player(RevokePlayerRequest { player }).await), expected, "{who}");
            assert_eq!(code(setup.audit(&caller).list_audit_rows(ListAuditRowsRequest::default()).await), expected, "{who}");
        }
    }

    async fn a_player_who_is_missing_is_denied_like_one_who_is_there(store: Store) {
        let setup = Setup::new(store).await;
        let mut players = setup.players(&setup.other);
        for player in ["Ada", "Missing"] {
            let read = players.get_player(GetPlayerRequest { player: player.to_owned() }).await;
            assert_eq!(code(read), NO, "{player}");
        }
    }

    async fn only_the_edge_asks_who_holds_a_token(store: Store) {
        let setup = Setup::new(store).await;
        let (_, token) = setup.new_player("Cleo").await;
        for (who, caller) in everybody(&setup) {
            let asked = setup.resolution(&caller).authenticate_player(AuthenticatePlayerRequest { token: token.clone() }).await;
            assert_eq!(code(asked), NO, "{who}");
        }
        assert!(setup.holder(&token).await.is_ok());
    }

    async fn only_the_orchestrator_resolves_npcs(store: Store) {
        let setup = Setup::new(store).await;
        let npc = setup.npc(&setup.owner, "Keeper").await.id;
        let player = setup.owner.player();
        for (caller, expected) in [
            (setup.operator.clone(), NO),
            (setup.owner.clone(), NO),
            (setup.model(), NO),
            (service(ServiceName::Edge, player), NO),
            (service(ServiceName::McpGateway, player), NO),
            (service(ServiceName::TurnOrchestrator, None), HIDDEN),
            (service(ServiceName::TurnOrchestrator, player), YES),
        ] {
            let resolved = setup.resolution(&caller).resolve_npc(ResolveNpcRequest { npc: npc.clone() }).await;
            assert_eq!(code(resolved), expected, "{caller:?}");
        }
    }
}
