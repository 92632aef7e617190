//! Grants to MCP Servers, and the definitions that are pinned with them.

use kernel::{Caller, ErrorCode, JsonText, ServiceName, ToolDefinition};
use proto::registry::v1::{resolved_grant::Target, *};
use store::Store;
use testkit::on_every_database;

use crate::support::{Setup, http, private_http, refused, service};

fn definition(tool: &str, version: &str) -> ToolDefinition {
    ToolDefinition {
        name: tool.to_owned(),
        description: format!("Does {version}."),
        input_schema: JsonText::parse(r#"{"type":"object"}"#).expect("JSON"),
        annotations: None,
    }
}

fn pin(tool: &str, version: &str) -> ToolPin {
    let definition = definition(tool, version);
    ToolPin {
        tool_name: tool.to_owned(),
        definition_hash: definition.hash(),
        definition_json: definition.canonical().as_str().to_owned(),
    }
}

/// Definitions of these Tools, as somebody saw them.
pub(crate) fn pins(tools: &[&str], version: &str) -> Vec<ToolPin> {
    tools.iter().map(|tool| pin(tool, version)).collect()
}

/// Hashes only.
fn hashes(pins: &[ToolPin]) -> Vec<ToolPin> {
    let bare = pins.iter().map(|pin| ToolPin {
        definition_json: String::new(),
        ..pin.clone()
    });
    bare.collect()
}

fn wish(npc: &str, tools: &[&str], seen: Vec<ToolPin>) -> AddGrantRequest {
    AddGrantRequest {
        npc: npc.to_owned(),
        what: "mcp:Docs".to_owned(),
        tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
        seen,
    }
}

async fn grant(setup: &Setup, caller: &Caller, request: AddGrantRequest) -> Grant {
    let added = setup.grants(caller).add_grant(request).await;
    added.expect("a Grant").into_inner().grant.expect("a Grant")
}

async fn pinned(setup: &Setup, caller: &Caller, npc: &str) -> Vec<GrantPins> {
    let request = ListPinsRequest {
        server: "Docs".to_owned(),
        npc: npc.to_owned(),
    };
    let listed = setup.servers(caller).list_pins(request).await;
    listed.expect("pins").into_inner().grants
}

async fn save(setup: &Setup, player: &Caller, grant: &str, pins: Vec<ToolPin>) -> bool {
    let turns = service(ServiceName::TurnOrchestrator, player.player());
    let request = SavePinsRequest {
        grant_id: grant.to_owned(),
        pins,
    };
    let saved = setup.mcp_resolution(&turns).save_pins(request).await;
    saved.expect("an answer").into_inner().saved
}

async fn targets(setup: &Setup, player: &Caller, npc: &str) -> Vec<McpServerTarget> {
    let turns = service(ServiceName::TurnOrchestrator, player.player());
    let request = ResolveNpcRequest {
        npc: npc.to_owned(),
    };
    let resolved = setup.resolution(&turns).resolve_npc(request).await;
    let grants = resolved.expect("an NPC").into_inner().grants;
    let servers = grants.into_iter().filter_map(|grant| match grant.target {
        Some(Target::McpServer(server)) => Some(server),
        _ => None,
    });
    servers.collect()
}

on_every_database! {
    async fn a_server_is_granted_by_name_and_by_id_with_some_of_its_tools(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        let server = setup.server(&setup.other, http("Docs")).await;
        let first = grant(&setup, &setup.owner, wish("Keeper", &["files.read", "такой/größe", "search", "search"], Vec::new())).await;
        assert_eq!((first.kind(), first.target.as_str(), first.what.as_str(), first.pinned), (GrantKind::Mcp, server.id.as_str(), "mcp:Docs", false));
        assert_eq!(first.tools, ["files.read", "такой/größe", "search"]);
        let by_id = AddGrantRequest { what: format!("mcp:{}", server.id), ..wish("Keeper", &[], Vec::new()) };
        let second = grant(&setup, &setup.owner, by_id).await;
        assert_eq!((second.id.as_str(), second.tools.len()), (first.id.as_str(), 0));
        let narrow = UpdateGrantRequest { grant_id: first.id.clone(), tools: vec!["search".to_owned()] };
        let narrowed = setup.grants(&setup.owner).update_grant(narrow).await.expect("it is changed").into_inner().grant.expect("a Grant");
        assert_eq!((narrowed.what.as_str(), narrowed.tools.as_slice()), ("mcp:Docs", &["search".to_owned()][..]));
        // A new name shows at once.
        let rename = UpdateMcpServerRequest { server: server.id, name: Some("Papers".to_owned()), ..UpdateMcpServerRequest::default() };
        setup.servers(&setup.other).update_mcp_server(rename).await.expect("it is renamed");
        let read = setup.grants(&setup.other).get_grant(GetGrantRequest { grant_id: first.id.clone() }).await.expect("a Grant");
        assert_eq!(read.into_inner().grant.expect("a Grant").what, "mcp:Papers");
        let remove = RemoveGrantRequest { npc: "Keeper".to_owned(), what: "mcp:papers".to_owned() };
        let removed = setup.grants(&setup.owner).remove_grant(remove).await.expect("it is removed");
        assert_eq!(removed.into_inner().grant_id, first.id);
    }

    async fn names_of_tools_that_nobody_could_tell_apart_are_refused(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        setup.server(&setup.owner, http("Docs")).await;
        let long = "x".repeat(129);
        let many: Vec<String> = (0..129).map(|number| format!("tool{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for tools in [&[""][..], &["a\nb"], &["a\u{1b}[2Jb"], &["a\u{202e}b"], &["a\0b"], &[&long], &many] {
            let problem = refused(setup.grants(&setup.owner).add_grant(wish("Keeper", tools, Vec::new())).await);
            assert_eq!((problem.code, problem.field.as_deref()), (ErrorCode::InvalidArgument, Some("tools")));
            assert!(!problem.sentence.contains(['\u{1b}', '\n', '\u{202e}']), "{:?}", problem.sentence);
        }
    }

    async fn what_the_granter_saw_is_pinned(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        setup.server(&setup.owner, http("Docs")).await;
        let seen = pins(&["read", "search"], "one");
        let granted = grant(&setup, &setup.owner, wish("Keeper", &[], seen.clone())).await;
        assert!(granted.pinned);
        let listed = pinned(&setup, &setup.owner, "Keeper").await;
        assert_eq!(listed.len(), 1);
        assert_eq!((listed[0].grant_id.as_str(), listed[0].npc.as_str(), listed[0].pinned), (granted.id.as_str(), "Keeper", true));
        assert_eq!(listed[0].pins, seen);
        let target = targets(&setup, &setup.other, "Keeper").await.remove(0);
        assert_eq!((target.pinned, target.pins), (true, hashes(&seen)));
    }

    async fn granting_again_replaces_pins_only_with_another_choice_of_tools(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        setup.server(&setup.owner, http("Docs")).await;
        let (one, two) = (pins(&["search"], "one"), pins(&["search"], "two"));
        grant(&setup, &setup.owner, wish("Keeper", &[], one.clone())).await;
        grant(&setup, &setup.owner, wish("Keeper", &[], two.clone())).await;
        assert_eq!(pinned(&setup, &setup.owner, "Keeper").await[0].pins, one);
        grant(&setup, &setup.owner, wish("Keeper", &["search"], Vec::new())).await;
        assert_eq!(pinned(&setup, &setup.owner, "Keeper").await[0].pins, one);
        grant(&setup, &setup.owner, wish("Keeper", &["search", "read"], two.clone())).await;
        assert_eq!(pinned(&setup, &setup.owner, "Keeper").await[0].pins, two);
        // Taken away and granted anew, it begins anew.
        let remove = RemoveGrantRequest { npc: "Keeper".to_owned(), what: "mcp:Docs".to_owned() };
        setup.grants(&setup.owner).remove_grant(remove).await.expect("it is removed");
        let fresh = grant(&setup, &setup.owner, wish("Keeper", &[], Vec::new())).await;
        assert_eq!((fresh.pinned, setup.rows("SELECT grant_id FROM tool_pins").await), (false, 0));
    }

    async fn a_definition_that_is_not_what_its_hash_says_is_refused(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        setup.server(&setup.owner, http("Docs")).await;
        let good = pin("search", "one");
        let cases = [
            ToolPin { definition_json: pin("search", "two").definition_json, ..good.clone() },
            ToolPin { definition_json: pin("read", "one").definition_json, ..good.clone() },
            ToolPin { definition_json: "{}".to_owned(), ..good.clone() },
            ToolPin { definition_json: "nonsense".to_owned(), ..good.clone() },
            ToolPin { definition_json: "[".repeat(60_000), ..good.clone() },
            ToolPin { definition_hash: String::new(), ..good.clone() },
            ToolPin { definition_hash: good.definition_hash.to_uppercase(), ..good.clone() },
            ToolPin { tool_name: String::new(), ..good.clone() },
            ToolPin { tool_name: "x".repeat(513), definition_json: String::new(), ..good.clone() },
            ToolPin { tool_name: "a\0b".to_owned(), definition_json: String::new(), ..good.clone() },
        ];
        for case in cases {
            let problem = refused(setup.grants(&setup.owner).add_grant(wish("Keeper", &[], vec![case.clone()])).await);
            assert_eq!((problem.code, problem.field.as_deref()), (ErrorCode::InvalidArgument, Some("seen")), "{case:?}");
            let accept = AcceptPinsRequest { server: "Docs".to_owned(), npc: String::new(), pins: vec![case.clone()] };
            let problem = refused(setup.servers(&setup.owner).accept_pins(accept).await);
            assert_eq!(problem.field.as_deref(), Some("pins"), "{case:?}");
        }
        let twice = refused(setup.grants(&setup.owner).add_grant(wish("Keeper", &[], vec![good.clone(), good.clone()])).await);
        assert!(twice.sentence.contains("given twice"), "{twice:?}");
        let of_a_tool = AddGrantRequest { what: "tool:current_time".to_owned(), ..wish("Keeper", &[], vec![good.clone()]) };
        assert_eq!(refused(setup.grants(&setup.owner).add_grant(of_a_tool).await).field.as_deref(), Some("seen"));
        let many = (0..4_097).map(|number| ToolPin { tool_name: format!("t{number}"), definition_json: String::new(), ..good.clone() });
        assert_eq!(refused(setup.grants(&setup.owner).add_grant(wish("Keeper", &[], many.collect())).await).field.as_deref(), Some("seen"));
        assert_eq!(setup.rows("SELECT id FROM grants").await, 0);
    }

    async fn a_definition_in_another_order_of_keys_is_the_same_and_one_too_large_keeps_its_hash(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        setup.server(&setup.owner, http("Docs")).await;
        let good = pin("search", "one");
        let shuffled = r#"{ "name": "search", "inputSchema": {"type":"object"}, "description": "Does one." }"#;
        let large = ToolDefinition { description: "x".repeat(70_000), ..definition("read", "one") };
        let seen = vec![
            ToolPin { definition_json: shuffled.to_owned(), ..good.clone() },
            ToolPin { tool_name: "read".to_owned(), definition_hash: large.hash(), definition_json: large.canonical().as_str().to_owned() },
        ];
        grant(&setup, &setup.owner, wish("Keeper", &[], seen)).await;
        let listed = pinned(&setup, &setup.owner, "Keeper").await.remove(0).pins;
        let kept = ToolPin { tool_name: "read".to_owned(), definition_hash: large.hash(), definition_json: String::new() };
        assert_eq!(listed, [kept, good]);
    }

    async fn as_many_tools_as_a_server_lists_can_be_pinned_and_an_npc_has_a_bound(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        let many = |prefix: &str| -> Vec<ToolPin> {
            let bare = |number| ToolPin { tool_name: format!("{prefix}{number:04}"), definition_json: String::new(), ..pin("x", "one") };
            (0..4_096).map(bare).collect()
        };
        for name in ["Docs", "Docs 2", "Docs 3"] {
            setup.server(&setup.owner, http(name)).await;
        }
        grant(&setup, &setup.owner, wish("Keeper", &[], many("a"))).await;
        grant(&setup, &setup.owner, AddGrantRequest { what: "mcp:Docs 2".to_owned(), ..wish("Keeper", &[], many("b")) }).await;
        let third = AddGrantRequest { what: "mcp:Docs 3".to_owned(), ..wish("Keeper", &[], pins(&["one"], "one")) };
        assert_eq!(refused(setup.grants(&setup.owner).add_grant(third).await).code, ErrorCode::ResourceExhausted);
        let resolved = targets(&setup, &setup.owner, "Keeper").await;
        assert_eq!(resolved.iter().map(|target| target.pins.len()).collect::<Vec<_>>(), [4_096, 4_096]);
    }

    async fn a_turn_gets_the_servers_that_its_player_may_use_in_a_stable_order(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        let docs = setup.server(&setup.owner, http("Docs")).await;
        for request in [private_http("Secret"), http("Alpha")] {
            setup.server(&setup.owner, request).await;
        }
        for what in ["mcp:Secret", "mcp:Docs", "mcp:Alpha"] {
            setup.add(&setup.owner, "Keeper", what).await.expect("a Grant");
        }
        let seen = pins(&["read", "search"], "one");
        grant(&setup, &setup.owner, wish("Keeper", &["search"], seen.clone())).await;
        let disable = UpdateMcpServerRequest { server: docs.id.clone(), enabled: Some(false), pinning: Pinning::Warn.into(), ..UpdateMcpServerRequest::default() };
        setup.servers(&setup.owner).update_mcp_server(disable).await.expect("it is changed");
        for (player, names) in [(&setup.owner, vec!["Alpha", "Docs", "Secret"]), (&setup.other, vec!["Alpha", "Docs"]), (&setup.operator, vec!["Alpha", "Docs"])] {
            let servers = targets(&setup, player, "Keeper").await;
            assert_eq!(servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>(), names, "{player:?}");
            let expected = McpServerTarget {
                server_id: docs.id.clone(),
                name: "Docs".to_owned(),
                slug: "docs".to_owned(),
                generation: 2,
                enabled: false,
                tools: vec!["search".to_owned()],
                pinning: Pinning::Warn.into(),
                pinned: true,
                // Of the Tools that the Grant covers.
                pins: hashes(&seen[1..]),
            };
            assert_eq!(servers[1], expected);
        }
    }

    async fn a_private_server_shows_in_no_grant_of_others_and_can_be_taken_away(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        let server = setup.server(&setup.other, http("Docs")).await;
        let granted = setup.add(&setup.owner, "Keeper", "mcp:Docs").await.expect("a Grant");
        let hide = UpdateMcpServerRequest { server: server.id.clone(), private: Some(true), ..UpdateMcpServerRequest::default() };
        setup.servers(&setup.other).update_mcp_server(hide).await.expect("it is private");
        let listed = setup.grants(&setup.owner).list_grants(ListGrantsRequest { npc: "Keeper".to_owned() }).await.expect("Grants");
        assert_eq!(listed.into_inner().grants, []);
        let widen = UpdateGrantRequest { grant_id: granted.id.clone(), tools: vec!["search".to_owned()] };
        assert_eq!(refused(setup.grants(&setup.owner).update_grant(widen).await).code, ErrorCode::NotFound);
        let remove = RemoveGrantRequest { npc: "Keeper".to_owned(), what: "mcp:Docs".to_owned() };
        assert_eq!(setup.grants(&setup.owner).remove_grant(remove).await.expect("it is removed").into_inner().grant_id, granted.id);
    }

    async fn what_a_turn_lists_first_is_pinned_once_however_many_turns_begin(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        setup.server(&setup.owner, http("Docs")).await;
        let granted = setup.add(&setup.owner, "Keeper", "mcp:Docs").await.expect("a Grant");
        assert!(!save(&setup, &setup.other, &granted.id, Vec::new()).await);
        let rounds = (0..8).map(|number| {
            let pins = pins(&["search"], &format!("version {number}"));
            let (setup, id) = (&setup, &granted.id);
            async move { save(setup, &setup.other, id, pins).await }
        });
        let saved = futures::future::join_all(rounds).await;
        assert_eq!(saved.iter().filter(|saved| **saved).count(), 1);
        let winner = saved.iter().position(|saved| *saved).expect("a winner");
        assert_eq!(pinned(&setup, &setup.owner, "Keeper").await[0].pins, pins(&["search"], &format!("version {winner}")));
        assert!(!save(&setup, &setup.owner, &granted.id, pins(&["search"], "later")).await);
        let audited = setup.audited().await.into_iter().filter(|(action, _)| action == "grant.pin").count();
        assert_eq!(audited, 1);
    }

    async fn a_turn_pins_nothing_that_its_player_may_not_use(store: Store) {
        let setup = Setup::new(store).await;
        setup.private_npc(&setup.owner, "Secret").await;
        setup.npc(&setup.owner, "Keeper").await;
        setup.server(&setup.owner, private_http("Docs")).await;
        let open = setup.add(&setup.owner, "Keeper", "mcp:Docs").await.expect("a Grant");
        let hidden = setup.add(&setup.owner, "Secret", "mcp:Docs").await.expect("a Grant");
        let tool = setup.add(&setup.owner, "Keeper", "tool:current_time").await.expect("a Grant");
        let one = pins(&["search"], "one");
        for player in [&setup.other, &setup.operator] {
            for grant in [&open.id, &hidden.id] {
                assert!(!save(&setup, player, grant, one.clone()).await);
            }
        }
        for nothing in [tool.id.as_str(), "no id", &setup.owner.player().expect("a Player").to_string()] {
            assert!(!save(&setup, &setup.owner, nothing, one.clone()).await);
        }
        assert!(save(&setup, &setup.owner, &hidden.id, one).await);
    }

    async fn pins_are_listed_and_accepted_for_the_npcs_that_the_caller_may_change(store: Store) {
        let setup = Setup::new(store).await;
        setup.server(&setup.owner, http("Docs")).await;
        for (owner, npc) in [(&setup.owner, "Smith"), (&setup.owner, "Baker"), (&setup.other, "Cook")] {
            setup.npc(owner, npc).await;
            grant(&setup, owner, wish(npc, &[], pins(&["search"], "one"))).await;
        }
        for (caller, npcs) in [(&setup.owner, vec!["Baker", "Smith"]), (&setup.other, vec!["Cook"]), (&setup.operator, vec!["Baker", "Cook", "Smith"])] {
            let listed = pinned(&setup, caller, "").await;
            assert_eq!(listed.iter().map(|of| of.npc.as_str()).collect::<Vec<_>>(), npcs, "{caller:?}");
        }
        let accept = |npc: &str| AcceptPinsRequest { server: "Docs".to_owned(), npc: npc.to_owned(), pins: pins(&["read", "search"], "two") };
        let one = setup.servers(&setup.owner).accept_pins(accept("Smith")).await.expect("it is accepted");
        assert_eq!(one.into_inner().npcs, ["Smith"]);
        // What is accepted already changes nothing.
        let all = setup.servers(&setup.owner).accept_pins(accept("")).await.expect("it is accepted");
        assert_eq!(all.into_inner().npcs, ["Baker"]);
        assert_eq!(pinned(&setup, &setup.other, "Cook").await[0].pins, pins(&["search"], "one"));
        for npc in ["Baker", "Smith"] {
            assert_eq!(pinned(&setup, &setup.owner, npc).await[0].pins, pins(&["read", "search"], "two"));
        }
        let rows = setup.audit(&setup.operator).list_audit_rows(ListAuditRowsRequest::default()).await.expect("rows").into_inner().rows;
        let accepted: Vec<serde_json::Value> = rows.iter().filter(|row| row.action == "grant.accept").map(|row| serde_json::from_str(&row.after_json).expect("JSON")).collect();
        assert_eq!(accepted.len(), 2);
        assert_eq!((&accepted[0]["changed"], &accepted[0]["new"], &accepted[0]["gone"]), (&serde_json::json!(["search"]), &serde_json::json!(["read"]), &serde_json::json!([])));
    }

    async fn nobody_accepts_for_an_npc_of_another(store: Store) {
        let setup = Setup::new(store).await;
        setup.server(&setup.owner, http("Docs")).await;
        setup.npc(&setup.owner, "Keeper").await;
        setup.private_npc(&setup.owner, "Secret").await;
        setup.npc(&setup.other, "Bare").await;
        for npc in ["Keeper", "Secret"] {
            grant(&setup, &setup.owner, wish(npc, &[], pins(&["search"], "one"))).await;
        }
        let accept = |npc: &str| AcceptPinsRequest { server: "Docs".to_owned(), npc: npc.to_owned(), pins: pins(&["search"], "two") };
        for (npc, code, sentence) in [
            ("Keeper", ErrorCode::PermissionDenied, "only the NPC's owner and the Operator may accept definitions for it"),
            ("Secret", ErrorCode::NotFound, "there is no NPC \"Secret\""),
            ("Bare", ErrorCode::NotFound, "there is no Grant \"mcp:Docs\""),
        ] {
            let list = ListPinsRequest { server: "Docs".to_owned(), npc: npc.to_owned() };
            let listed = refused(setup.servers(&setup.other).list_pins(list).await);
            let accepted = refused(setup.servers(&setup.other).accept_pins(accept(npc)).await);
            for problem in [listed, accepted] {
                assert_eq!((problem.code, problem.sentence.as_str()), (code, sentence));
            }
        }
        let none = setup.servers(&setup.other).accept_pins(accept("")).await.expect("there is nothing to accept");
        assert_eq!(none.into_inner().npcs, [""; 0]);
        let nothing = AcceptPinsRequest { pins: Vec::new(), ..accept("") };
        assert_eq!(refused(setup.servers(&setup.owner).accept_pins(nothing).await).field.as_deref(), Some("pins"));
        assert_eq!(pinned(&setup, &setup.owner, "Keeper").await[0].pins, pins(&["search"], "one"));
    }

    async fn pins_and_tools_that_change_at_once_lose_nothing(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        setup.server(&setup.owner, http("Docs")).await;
        for round in 0..6 {
            let granted = setup.add(&setup.owner, "Keeper", "mcp:Docs").await.expect("a Grant");
            let tools = [format!("tool{round}")];
            let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
            let (saved, narrowed) = tokio::join!(
                save(&setup, &setup.owner, &granted.id, pins(&["search"], "one")),
                grant(&setup, &setup.owner, wish("Keeper", &tools, Vec::new())),
            );
            assert!(saved);
            assert_eq!(narrowed.tools, tools);
            let listed = pinned(&setup, &setup.owner, "Keeper").await.remove(0);
            assert_eq!((listed.pinned, listed.pins.len(), listed.tools), (true, 1, narrowed.tools));
            let remove = RemoveGrantRequest { npc: "Keeper".to_owned(), what: "mcp:Docs".to_owned() };
            setup.grants(&setup.owner).remove_grant(remove).await.expect("it is removed");
        }
    }
}
