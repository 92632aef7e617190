//! NPCs: names, fields, lists, ends.

use kernel::{ErrorCode, limits::PERSONA_BYTES};
use proto::registry::v1::*;
use store::Store;
use testkit::on_every_database;

use crate::support::{NPCS, Setup, named, refused};

on_every_database! {
    async fn a_new_npc_is_stored_as_it_was_said_and_has_no_grants(store: Store) {
        let setup = Setup::new(store).await;
        let request = CreateNpcRequest {
            name: " Old Keeper ".to_owned(),
            persona: "Keeps the gate.\0\n村".to_owned(),
            model: "openai/gpt-5/mini".to_owned(),
            private: true,
            fetch_hosts: vec!["Docs.Example.".to_owned(), "*.example.org".to_owned()],
            sandbox_scope: SandboxScope::Player.into(),
            sandbox_network: SandboxNetwork::List.into(),
            sandbox_hosts: vec!["pypi.org".to_owned()],
        };
        let npc = setup.create(&setup.owner, request).await;
        let expected = Npc {
            name: "Old Keeper".to_owned(),
            slug: "old-keeper".to_owned(),
            owner_id: setup.owner.player().expect("a Player").to_string(),
            persona: "Keeps the gate.\u{FFFD}\n村".to_owned(),
            model: "openai/gpt-5/mini".to_owned(),
            private: true,
            fetch_hosts: vec!["docs.example".to_owned(), "*.example.org".to_owned()],
            sandbox_scope: SandboxScope::Player.into(),
            sandbox_network: SandboxNetwork::List.into(),
            sandbox_hosts: vec!["pypi.org".to_owned()],
            generation: 1,
            ..npc.clone()
        };
        assert_eq!(npc, expected);
        let mut npcs = setup.npcs(&setup.owner);
        for given in ["Old Keeper", "old-keeper", "OLD  KEEPER", &npc.id, &npc.id.to_uppercase()] {
            let read = npcs.get_npc(GetNpcRequest { npc: given.to_owned() }).await.expect("it is found");
            assert_eq!(read.into_inner().npc.as_ref(), Some(&npc), "{given}");
        }
        let grants = setup.grants(&setup.owner).list_grants(ListGrantsRequest { npc: npc.id }).await.expect("Grants");
        assert_eq!(grants.into_inner().grants, []);
    }

    async fn a_name_is_unique_as_a_slug_whoever_owns_it(store: Store) {
        let setup = Setup::new(store).await;
        setup.private_npc(&setup.owner, "Old Keeper").await;
        let npc = setup.npc(&setup.other, "Young Keeper").await;
        let taken = refused(setup.npcs(&setup.other).create_npc(named("old_KEEPER!")).await);
        assert_eq!((taken.code, taken.sentence.as_str()), (ErrorCode::AlreadyExists, "the name \"old_KEEPER!\" is taken; choose another"));
        let rename = UpdateNpcRequest { npc: npc.id, name: Some("Old Keeper".to_owned()), ..UpdateNpcRequest::default() };
        assert_eq!(refused(setup.npcs(&setup.other).update_npc(rename).await).code, ErrorCode::AlreadyExists);
    }

    async fn bad_fields_are_refused_by_name_and_nothing_is_written(store: Store) {
        let setup = Setup::new(store).await;
        let good = named("Keeper");
        let requests = [
            ("name", CreateNpcRequest { name: String::new(), ..good.clone() }),
            ("name", CreateNpcRequest { name: "x".repeat(65), ..good.clone() }),
            ("name", CreateNpcRequest { name: "0193fb11-0000-7000-8000-000000000000".to_owned(), ..good.clone() }),
            ("name", CreateNpcRequest { name: "a\u{1b}[2J".to_owned(), ..good.clone() }),
            ("persona", CreateNpcRequest { persona: "x".repeat(PERSONA_BYTES + 1), ..good.clone() }),
            ("model", CreateNpcRequest { model: "gpt-5".to_owned(), ..good.clone() }),
            ("model", CreateNpcRequest { model: "openai/".to_owned(), ..good.clone() }),
            ("model", CreateNpcRequest { model: "openai/gpt 5".to_owned(), ..good.clone() }),
            ("model", CreateNpcRequest { model: format!("openai/{}", "x".repeat(1_000)), ..good.clone() }),
            ("fetch_hosts", CreateNpcRequest { fetch_hosts: vec!["https://a.example".to_owned()], ..good.clone() }),
            ("sandbox_hosts", CreateNpcRequest { sandbox_hosts: vec!["a.example".to_owned(); 65], ..good.clone() }),
            ("sandbox_scope", CreateNpcRequest { sandbox_scope: 99, ..good.clone() }),
            ("sandbox_network", CreateNpcRequest { sandbox_network: -1, ..good.clone() }),
        ];
        for (field, request) in requests {
            let problem = refused(setup.npcs(&setup.owner).create_npc(request).await);
            assert_eq!(problem.code, ErrorCode::InvalidArgument, "{problem:?}");
            assert_eq!(problem.field.as_deref(), Some(field), "{problem:?}");
        }
        let listed = setup.npcs(&setup.owner).list_npcs(ListNpcsRequest::default()).await.expect("a list");
        assert_eq!(listed.into_inner().npcs, []);
    }

    async fn an_unknown_provider_is_refused_with_the_nearest(store: Store) {
        let setup = Setup::new(store).await;
        let request = CreateNpcRequest { model: "opnai/gpt-5".to_owned(), ..named("Keeper") };
        assert_eq!(
            refused(setup.npcs(&setup.owner).create_npc(request).await).sentence,
            "model: there is no Provider \"opnai\"; did you mean openai?; there are: anthropic, openai"
        );
        let unknown_model = CreateNpcRequest { model: "openai/no-such-model".to_owned(), ..named("Keeper") };
        setup.create(&setup.owner, unknown_model).await;
    }

    async fn a_change_keeps_what_it_does_not_name(store: Store) {
        let setup = Setup::new(store).await;
        let request = CreateNpcRequest { persona: "kind".to_owned(), fetch_hosts: vec!["a.example".to_owned()], ..named("Keeper") };
        let before = setup.create(&setup.owner, request).await;
        let mut npcs = setup.npcs(&setup.owner);
        let edit = UpdateNpcRequest { npc: before.id.clone(), private: Some(true), ..UpdateNpcRequest::default() };
        let after = npcs.update_npc(edit.clone()).await.expect("it is changed").into_inner().npc.expect("an NPC");
        let expected = Npc { private: true, generation: 2, updated_at_micros: after.updated_at_micros, ..before.clone() };
        assert_eq!(after, expected);
        assert!(after.updated_at_micros > before.updated_at_micros);
        let again = npcs.update_npc(edit).await.expect("nothing changes").into_inner().npc.expect("an NPC");
        assert_eq!(again, after);
        let clear = UpdateNpcRequest { npc: before.id.clone(), fetch_hosts: Some(HostList::default()), ..UpdateNpcRequest::default() };
        let cleared = npcs.update_npc(clear).await.expect("it is changed").into_inner().npc.expect("an NPC");
        assert_eq!((cleared.fetch_hosts, cleared.generation), (Vec::new(), 3));
    }

    async fn changes_at_the_same_time_lose_none(store: Store) {
        let setup = Setup::new(store).await;
        let npc = setup.npc(&setup.owner, "Keeper").await;
        let edits = (0..12).map(|number| {
            let mut npcs = setup.npcs(&setup.owner);
            let edit = UpdateNpcRequest { npc: npc.id.clone(), persona: Some(format!("persona {number}")), ..UpdateNpcRequest::default() };
            async move { npcs.update_npc(edit).await }
        });
        for result in futures::future::join_all(edits).await {
            result.expect("every change is made");
        }
        let read = setup.npcs(&setup.owner).get_npc(GetNpcRequest { npc: npc.id }).await.expect("it is there");
        assert_eq!(read.into_inner().npc.expect("an NPC").generation, 13);
    }

    async fn lists_come_newest_first_in_pages(store: Store) {
        let setup = Setup::new(store).await;
        for name in ["A", "B", "C"] {
            setup.npc(&setup.owner, name).await;
        }
        let mut npcs = setup.npcs(&setup.other);
        let mut pages = Vec::new();
        let mut token = String::new();
        loop {
            let request = ListNpcsRequest { page_size: 2, page_token: token };
            let page = npcs.list_npcs(request).await.expect("a page").into_inner();
            pages.push(page.npcs.iter().map(|npc| npc.name.clone()).collect::<Vec<_>>());
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(pages, [vec!["C".to_owned(), "B".to_owned()], vec!["A".to_owned()]]);
        for (field, request) in [
            ("page_size", ListNpcsRequest { page_size: 201, page_token: String::new() }),
            ("page_token", ListNpcsRequest { page_size: 1, page_token: "' OR 1=1".to_owned() }),
        ] {
            assert_eq!(refused(npcs.list_npcs(request).await).field.as_deref(), Some(field));
        }
    }

    async fn long_personas_make_no_list_too_long_to_answer(store: Store) {
        let setup = Setup::new(store).await;
        let persona = "\u{1}".repeat(PERSONA_BYTES);
        let npc = setup.create(&setup.owner, CreateNpcRequest { persona, ..named("Keeper") }).await;
        let mut npcs = setup.npcs(&setup.owner);
        for number in 10..26 {
            let persona = Some(format!("{number}{}", "\u{1}".repeat(PERSONA_BYTES - 2)));
            let edit = UpdateNpcRequest { npc: npc.id.clone(), persona, ..UpdateNpcRequest::default() };
            npcs.update_npc(edit).await.expect("it is changed");
        }
        let mut audit = setup.audit(&setup.operator);
        let (mut rows, mut pages, mut token) = (0, 0, String::new());
        loop {
            let request = ListAuditRowsRequest { page_size: 0, page_token: token };
            let page = audit.list_audit_rows(request).await.expect("a page that fits").into_inner();
            rows += page.rows.len();
            pages += 1;
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(rows, 20);
        assert!(pages > 1);
    }

    async fn a_player_owns_no_more_npcs_than_the_bound_even_at_the_same_time(store: Store) {
        let setup = Setup::new(store).await;
        let creations = (0..10).map(|number| {
            let mut npcs = setup.npcs(&setup.owner);
            async move { npcs.create_npc(named(&format!("Keeper {number}"))).await }
        });
        let results = futures::future::join_all(creations).await;
        let made = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(made as u64, NPCS);
        let problem = refused(setup.npcs(&setup.owner).create_npc(named("Another")).await);
        assert_eq!(problem.code, ErrorCode::ResourceExhausted);
        setup.npc(&setup.other, "Another").await;
    }

    async fn a_player_that_only_a_key_knows_cannot_own_an_npc(store: Store) {
        let setup = Setup::new(store).await;
        let stranger = kernel::Caller::Player(kernel::PlayerId::mint(&*setup.clock));
        let problem = refused(setup.npcs(&stranger).create_npc(named("Keeper")).await);
        assert_eq!(problem.code, ErrorCode::PermissionDenied);
        assert_eq!(problem.sentence, "this Player is not known here; the Operator creates Players");
    }

    async fn deleting_an_npc_takes_its_grants_and_those_to_it(store: Store) {
        let setup = Setup::new(store).await;
        let gone = setup.npc(&setup.owner, "Gone").await;
        let stays = setup.npc(&setup.other, "Stays").await;
        setup.add(&setup.owner, &gone.id, "tool:current_time").await.expect("a Grant");
        setup.add(&setup.other, &stays.id, "npc:Gone").await.expect("a Grant");
        setup.add(&setup.other, &stays.id, "tool:current_time").await.expect("a Grant");
        let deleted = setup.npcs(&setup.owner).delete_npc(DeleteNpcRequest { npc: "Gone".to_owned() }).await.expect("it is deleted");
        assert_eq!(deleted.into_inner().npc_id, gone.id);
        let grants = setup.grants(&setup.other).list_grants(ListGrantsRequest { npc: stays.id }).await.expect("Grants").into_inner().grants;
        assert_eq!(grants.iter().map(|grant| grant.what.as_str()).collect::<Vec<_>>(), ["tool:current_time"]);
        let problem = refused(setup.npcs(&setup.owner).get_npc(GetNpcRequest { npc: gone.id }).await);
        assert_eq!(problem.code, ErrorCode::NotFound);
        // The name is free again.
        setup.npc(&setup.other, "Gone").await;
    }
}
