//! Players and their tokens.

use kernel::{Caller, ErrorCode};
use proto::registry::v1::*;
use store::Store;
use testkit::on_every_database;

use crate::support::{OPERATOR_TOKEN, Setup, named, refused};

on_every_database! {
    async fn a_token_is_random_shown_once_and_stored_hashed(store: Store) {
        use sea_orm::ConnectionTrait as _;
        let setup = Setup::new(store).await;
        let (player, token) = setup.new_player("Cleo").await;
        let (_, other) = setup.new_player("Dan").await;
        assert_ne!(token, other);
        assert_eq!(token.len(), 43, "256 bits in base64url");
        assert_eq!(setup.holder(&token).await.ok(), player.player());
        let backend = setup.store.reader().get_database_backend();
        for table in ["players", "audit"] {
            let statement = sea_orm::Statement::from_string(backend, format!("SELECT * FROM {table}"));
            let rows = setup.store.reader().query_all_raw(statement).await.expect("a read");
            assert!(!rows.is_empty());
            assert!(!format!("{rows:?}").contains(&token), "{table}");
        }
    }

    async fn tokens_that_nobody_holds_are_refused_alike(store: Store) {
        let setup = Setup::new(store).await;
        let (player, revoked) = setup.new_player("Cleo").await;
        let id = player.player().expect("a Player").to_string();
        setup.players(&setup.operator).revoke_player(RevokePlayerRequest { player: id }).await.expect("it is revoked");
        for token in [revoked, String::new(), "wrong".to_owned(), "x".repeat(1_000_000)] {
            let problem = setup.holder(&token).await.expect_err("nobody's");
            assert_eq!(problem.code, ErrorCode::Unauthenticated);
            assert_eq!(problem.sentence, "the token is not valid; ask the Operator for a new one");
        }
    }

    async fn a_new_token_ends_the_old_one(store: Store) {
        let setup = Setup::new(store).await;
        let (player, old) = setup.new_player("Cleo").await;
        let request = UpdatePlayerRequest { player: "cleo".to_owned(), name: Some("Cleopatra".to_owned()), new_token: true };
        let updated = setup.players(&setup.operator).update_player(request).await.expect("it is changed").into_inner();
        assert_eq!(updated.player.expect("a Player").slug, "cleopatra");
        assert_eq!(setup.holder(&updated.token).await.ok(), player.player());
        assert!(setup.holder(&old).await.is_err());
    }

    async fn a_rename_keeps_the_token(store: Store) {
        let setup = Setup::new(store).await;
        let (player, token) = setup.new_player("Cleo").await;
        let request = UpdatePlayerRequest { player: "Cleo".to_owned(), name: Some("Cleopatra".to_owned()), new_token: false };
        let updated = setup.players(&setup.operator).update_player(request).await.expect("it is changed").into_inner();
        assert_eq!(updated.token, "");
        assert_eq!(setup.holder(&token).await.ok(), player.player());
    }

    async fn a_revoked_player_does_nothing_more_whatever_a_key_still_mints(store: Store) {
        let setup = Setup::new(store).await;
        let npc = setup.npc(&setup.owner, "Keeper").await;
        let mut players = setup.players(&setup.operator);
        let first = players.revoke_player(RevokePlayerRequest { player: "Ada".to_owned() }).await.expect("it is revoked").into_inner().player.expect("a Player");
        assert!(first.revoked_at_micros > 0);
        let again = players.revoke_player(RevokePlayerRequest { player: "Ada".to_owned() }).await.expect("nothing changes").into_inner().player.expect("a Player");
        assert_eq!(again, first);
        let created = setup.npcs(&setup.owner).create_npc(named("Another")).await;
        assert_eq!(refused(created).code, ErrorCode::PermissionDenied);
        let edit = UpdateNpcRequest { npc: npc.id.clone(), private: Some(true), ..UpdateNpcRequest::default() };
        assert_eq!(refused(setup.npcs(&setup.owner).update_npc(edit).await).code, ErrorCode::PermissionDenied);
        assert_eq!(setup.add(&setup.owner, &npc.id, "tool:fetch_url").await.expect_err("revoked").code, ErrorCode::PermissionDenied);
        // What the Player made stays.
        setup.npcs(&setup.other).get_npc(GetNpcRequest { npc: npc.id }).await.expect("it is there");
        let renew = UpdatePlayerRequest { player: "Ada".to_owned(), name: None, new_token: true };
        assert_eq!(refused(players.update_player(renew).await).code, ErrorCode::FailedPrecondition);
    }

    async fn the_operator_is_neither_revoked_nor_given_another_token(store: Store) {
        let setup = Setup::new(store).await;
        let mut players = setup.players(&setup.operator);
        let revoke = players.revoke_player(RevokePlayerRequest { player: "operator".to_owned() }).await;
        assert_eq!(refused(revoke).code, ErrorCode::FailedPrecondition);
        let renew = UpdatePlayerRequest { player: "operator".to_owned(), name: None, new_token: true };
        assert_eq!(refused(players.update_player(renew).await).code, ErrorCode::FailedPrecondition);
        assert_eq!(setup.holder(OPERATOR_TOKEN).await.ok(), setup.operator.player());
    }

    async fn names_of_players_are_unique_and_lists_come_newest_first(store: Store) {
        let setup = Setup::new(store).await;
        let mut players = setup.players(&setup.operator);
        for taken in ["ada", "OPERATOR"] {
            let created = players.create_player(CreatePlayerRequest { name: taken.to_owned() }).await;
            assert_eq!(refused(created).code, ErrorCode::AlreadyExists);
        }
        let page = players.list_players(ListPlayersRequest { page_size: 2, page_token: String::new() }).await.expect("a page").into_inner();
        assert_eq!(page.players.iter().map(|player| player.name.as_str()).collect::<Vec<_>>(), ["Ben", "Ada"]);
        let rest = players.list_players(ListPlayersRequest { page_size: 2, page_token: page.next_page_token }).await.expect("a page").into_inner();
        let operator = &rest.players[0];
        assert_eq!((operator.name.as_str(), operator.operator, rest.players.len()), ("Operator", true, 1));
        assert_eq!(Caller::Operator(operator.id.parse().expect("an id")), setup.operator);
        let missing = players.get_player(GetPlayerRequest { player: "Nobody".to_owned() }).await;
        assert_eq!(refused(missing).sentence, "there is no Player \"Nobody\"");
        let bad = players.create_player(CreatePlayerRequest { name: "!".to_owned() }).await;
        assert_eq!(refused(bad).field.as_deref(), Some("name"));
    }
}
