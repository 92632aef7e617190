//! Grants of every kind.

use kernel::ErrorCode;
use proto::registry::v1::*;
use sea_orm::ConnectionTrait as _;
use store::Store;
use testkit::on_every_database;

use crate::support::{Setup, refused};

async fn whats(setup: &Setup, npc: &str) -> Vec<String> {
    let request = ListGrantsRequest {
        npc: npc.to_owned(),
    };
    let listed = setup.grants(&setup.owner).list_grants(request).await;
    let grants = listed.expect("Grants").into_inner().grants;
    grants.into_iter().map(|grant| grant.what).collect()
}

on_every_database! {
    async fn every_kind_is_a_row_of_one_table_newest_first(store: Store) {
        let setup = Setup::new(store).await;
        let npc = setup.npc(&setup.owner, "Keeper").await;
        let colleague = setup.npc(&setup.other, "Old Smith").await;
        let time = setup.add(&setup.owner, "Keeper", "tool:current_time").await.expect("a Grant");
        setup.add(&setup.owner, &npc.id, "family:sandbox").await.expect("a Grant");
        let ask = setup.add(&setup.owner, &npc.id, "npc:old smith").await.expect("a Grant");
        assert_eq!(whats(&setup, &npc.id).await, ["npc:Old Smith", "family:sandbox", "tool:current_time"]);
        assert_eq!((ask.kind(), ask.target), (GrantKind::Npc, colleague.id));
        assert_eq!((time.kind(), time.target.as_str(), time.npc_id.as_str()), (GrantKind::Tool, "current_time", npc.id.as_str()));
        let read = setup.grants(&setup.other).get_grant(GetGrantRequest { grant_id: time.id.clone() }).await.expect("a Grant");
        assert_eq!(read.into_inner().grant, Some(time));
    }

    async fn granting_twice_is_granting_once(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        let first = setup.add(&setup.owner, "Keeper", "tool:fetch_url").await.expect("a Grant");
        let second = setup.add(&setup.owner, "Keeper", "tool:fetch_url").await.expect("the same Grant");
        assert_eq!(first, second);
        let additions = setup.audited().await.into_iter().filter(|(action, _)| action == "grant.add").count();
        assert_eq!(additions, 1);
    }

    async fn what_cannot_be_granted_is_refused_in_words(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        for (what, code, sentence) in [
            ("tool:curent_time", ErrorCode::InvalidArgument, "what: there is no built-in Tool \"curent_time\"; did you mean current_time?: there are current_time and fetch_url"),
            ("current_time", ErrorCode::InvalidArgument, "what: \"current_time\" says not what to grant: write tool:NAME, family:NAME, mcp:SERVER or npc:NPC"),
            ("family:all", ErrorCode::InvalidArgument, "what: there is no family \"all\": there are sandbox and memory"),
            ("mcp:Docs", ErrorCode::NotFound, "there is no MCP Server \"Docs\""),
            ("npc:Nobody", ErrorCode::NotFound, "there is no NPC \"Nobody\""),
            ("npc:Keeper", ErrorCode::InvalidArgument, "what: an NPC is not its own colleague"),
        ] {
            let problem = setup.add(&setup.owner, "Keeper", what).await.expect_err(what);
            assert_eq!((problem.code, problem.sentence.as_str()), (code, sentence));
        }
        assert_eq!(whats(&setup, "Keeper").await, [""; 0]);
    }

    async fn only_a_servers_grant_is_narrowed_to_tools(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        let grant = setup.add(&setup.owner, "Keeper", "family:memory").await.expect("a Grant");
        let request = AddGrantRequest { npc: "Keeper".to_owned(), what: "family:memory".to_owned(), tools: vec!["recall".to_owned()], ..AddGrantRequest::default() };
        let problem = refused(setup.grants(&setup.owner).add_grant(request).await);
        assert_eq!(problem.field.as_deref(), Some("tools"));
        let request = UpdateGrantRequest { grant_id: grant.id, tools: vec!["recall".to_owned()] };
        let problem = refused(setup.grants(&setup.owner).update_grant(request).await);
        assert_eq!(problem.field.as_deref(), Some("tools"));
    }

    async fn an_owner_grants_only_what_the_owner_can_see(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        let secret = setup.private_npc(&setup.other, "Secret").await;
        for what in ["npc:Secret".to_owned(), format!("npc:{}", secret.id)] {
            let problem = setup.add(&setup.owner, "Keeper", &what).await.expect_err("hidden");
            assert_eq!(problem.code, ErrorCode::NotFound);
            assert_eq!(problem.sentence, format!("there is no NPC {:?}", &what[4..]));
        }
    }

    async fn a_colleague_that_became_private_shows_in_no_grant_of_others_and_can_be_taken_away(store: Store) {
        let setup = Setup::new(store).await;
        let npc = setup.npc(&setup.owner, "Keeper").await;
        setup.npc(&setup.other, "Smith").await;
        let grant = setup.add(&setup.owner, "Keeper", "npc:Smith").await.expect("a Grant");
        let hide = UpdateNpcRequest { npc: "Smith".to_owned(), private: Some(true), ..UpdateNpcRequest::default() };
        setup.npcs(&setup.other).update_npc(hide).await.expect("it is private");
        assert_eq!(whats(&setup, &npc.id).await, [""; 0]);
        let read = setup.grants(&setup.owner).get_grant(GetGrantRequest { grant_id: grant.id.clone() }).await;
        assert_eq!(refused(read).code, ErrorCode::NotFound);
        let remove = RemoveGrantRequest { npc: "Keeper".to_owned(), what: "npc:Smith".to_owned() };
        let removed = setup.grants(&setup.owner).remove_grant(remove).await.expect("it is removed").into_inner();
        assert_eq!(removed.grant_id, grant.id);
    }

    async fn taking_away_what_was_not_granted_says_so(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        setup.private_npc(&setup.other, "Secret").await;
        for what in ["tool:fetch_url", "mcp:Docs", "npc:Nobody", "npc:Secret"] {
            let request = RemoveGrantRequest { npc: "Keeper".to_owned(), what: what.to_owned() };
            let problem = refused(setup.grants(&setup.owner).remove_grant(request).await);
            assert_eq!((problem.code, problem.sentence), (ErrorCode::NotFound, format!("there is no Grant {what:?}")));
        }
    }

    async fn no_grant_dangles_when_its_target_is_deleted_meanwhile(store: Store) {
        let setup = Setup::new(store).await;
        let keeper = setup.npc(&setup.owner, "Keeper").await;
        for round in 0..8 {
            let target = setup.npc(&setup.other, &format!("Target {round}")).await;
            let what = format!("npc:{}", target.id);
            let mut npcs = setup.npcs(&setup.other);
            let (_granted, deleted) = tokio::join!(
                setup.add(&setup.owner, &keeper.id, &what),
                npcs.delete_npc(DeleteNpcRequest { npc: target.id.clone() }),
            );
            deleted.expect("it is deleted");
        }
        let backend = setup.store.reader().get_database_backend();
        let rows = setup.store.reader().query_all_raw(sea_orm::Statement::from_string(backend, "SELECT id FROM grants")).await.expect("a read");
        assert_eq!(rows.len(), 0);
    }

    async fn colleagues_that_are_granted_to_each_other_at_once_both_are(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "A").await;
        setup.npc(&setup.owner, "B").await;
        let (first, second) = tokio::join!(
            setup.add(&setup.owner, "A", "npc:B"),
            setup.add(&setup.owner, "B", "npc:A"),
        );
        first.expect("a Grant");
        second.expect("a Grant");
    }
}
