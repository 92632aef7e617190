//! MCP Servers: what is taken, what is shown, what changes and who is told.

use kernel::ErrorCode;
use proto::registry::v1::*;
use serde_json::json;
use store::Store;
use testkit::{dns::Answer, dns::Family, on_every_database};

use crate::support::{HOST, SERVERS, Setup, http, private_http, refused, secret, stdio};

fn edit(server: &McpServer) -> UpdateMcpServerRequest {
    UpdateMcpServerRequest {
        server: server.id.clone(),
        ..UpdateMcpServerRequest::default()
    }
}

async fn update(setup: &Setup, request: UpdateMcpServerRequest) -> McpServer {
    let updated = setup.servers(&setup.owner).update_mcp_server(request).await;
    let server = updated.expect("it is changed").into_inner().server;
    server.expect("a server")
}

async fn get(setup: &Setup, server: &str) -> McpServer {
    let request = GetMcpServerRequest {
        server: server.to_owned(),
    };
    let read = setup.servers(&setup.owner).get_mcp_server(request).await;
    read.expect("it is there")
        .into_inner()
        .server
        .expect("a server")
}

on_every_database! {
    async fn a_server_is_shown_with_names_and_never_with_values(store: Store) {
        let setup = Setup::new(store).await;
        let request = CreateMcpServerRequest {
            url: format!("https://{HOST}/mcp?api_key=s3cret&x="),
            headers: [secret("X-B", "s3cret-b"), secret("Authorization", "Bearer s3cret")].concat(),
            private: true,
            pinning: Pinning::Warn.into(),
            ..http("My Docs")
        };
        let created = setup.server(&setup.owner, request).await;
        let expected = McpServer {
            id: created.id.clone(),
            name: "My Docs".to_owned(),
            slug: "my-docs".to_owned(),
            owner_id: setup.owner.player().expect("a Player").to_string(),
            transport: McpTransport::Http.into(),
            url: format!("https://{HOST}/mcp?api_key=***&x="),
            query_names: vec!["api_key".to_owned()],
            header_names: vec!["Authorization".to_owned(), "X-B".to_owned()],
            private: true,
            enabled: true,
            pinning: Pinning::Warn.into(),
            generation: 1,
            credentials_readable: true,
            created_at_micros: created.created_at_micros,
            ..McpServer::default()
        };
        assert_eq!(created, expected);
        assert_eq!(get(&setup, "my docs").await, expected);
        let command = CreateMcpServerRequest { environment: secret("TOKEN", "s3cret"), ..stdio("Files") };
        let command = setup.server(&setup.operator, command).await;
        assert_eq!((command.command.as_str(), command.arguments.as_slice()), ("npx", &["-y".to_owned(), "server".to_owned()][..]));
        assert_eq!((command.environment_names.as_slice(), command.pinning()), (&["TOKEN".to_owned()][..], Pinning::Strict));
    }

    async fn what_cannot_be_is_refused_with_the_field_before_anything_is_written(store: Store) {
        let setup = Setup::new(store).await;
        let good = http("Docs");
        let sse = CreateMcpServerRequest { transport: McpTransport::Sse.into(), ..good.clone() };
        let command = stdio("Docs");
        let cases = [
            ("name", CreateMcpServerRequest { name: String::new(), ..good.clone() }),
            ("name", CreateMcpServerRequest { name: "D\u{43e}cs".to_owned(), ..good.clone() }),
            ("name", CreateMcpServerRequest { name: "x".repeat(65), ..good.clone() }),
            ("transport", CreateMcpServerRequest { transport: 0, ..good.clone() }),
            ("transport", CreateMcpServerRequest { transport: 99, ..good.clone() }),
            ("pinning", CreateMcpServerRequest { pinning: 99, ..good.clone() }),
            ("url", CreateMcpServerRequest { url: String::new(), ..good.clone() }),
            ("url", CreateMcpServerRequest { url: "nonsense".to_owned(), ..sse.clone() }),
            ("url", CreateMcpServerRequest { url: format!("https://ada:s3cret@{HOST}/"), ..good.clone() }),
            ("headers", CreateMcpServerRequest { headers: secret("Host", "x"), ..sse.clone() }),
            ("headers", CreateMcpServerRequest { headers: secret("X-A", "s3cret\r\nX-B: 1"), ..good.clone() }),
            ("command", CreateMcpServerRequest { command: "npx".to_owned(), ..good.clone() }),
            ("arguments", CreateMcpServerRequest { arguments: vec!["x".to_owned()], ..sse.clone() }),
            ("environment", CreateMcpServerRequest { environment: secret("A", "1"), ..good.clone() }),
            ("working_directory", CreateMcpServerRequest { working_directory: "/srv".to_owned(), ..good }),
            ("command", CreateMcpServerRequest { command: String::new(), ..command.clone() }),
            ("url", CreateMcpServerRequest { url: format!("https://{HOST}/"), ..command.clone() }),
            ("headers", CreateMcpServerRequest { headers: secret("X-A", "1"), ..command.clone() }),
            ("working_directory", CreateMcpServerRequest { working_directory: "srv".to_owned(), ..command.clone() }),
            ("environment", CreateMcpServerRequest { environment: secret("LD_PRELOAD", "/x.so"), ..command }),
        ];
        let mut announced = setup.announcements().await;
        let before = setup.audited().await;
        for (field, request) in cases {
            let problem = refused(setup.servers(&setup.operator).create_mcp_server(request).await);
            assert_eq!((problem.code, problem.field.as_deref()), (ErrorCode::InvalidArgument, Some(field)), "{problem:?}");
            assert!(!problem.sentence.contains("s3cret"), "{problem:?}");
        }
        let listed = setup.servers(&setup.operator).list_mcp_servers(ListMcpServersRequest::default()).await.expect("a list");
        assert_eq!(listed.into_inner().servers, []);
        assert_eq!(setup.audited().await, before);
        assert_eq!(announced.so_far(), [json!(null); 0]);
    }

    async fn a_url_inside_the_villages_network_is_refused_on_save(store: Store) {
        let setup = Setup::new(store).await;
        setup.dns.host("inside.example.com", &["10.1.2.3"]);
        setup.dns.host("both.example.com", &["93.184.216.34", "127.0.0.1"]);
        setup.dns.script("broken.example.com", Family::V4, [Answer::ServFail]);
        let server = setup.server(&setup.owner, http("Docs")).await;
        for (url, said) in [
            ("http://127.0.0.1:8080/mcp", "127.0.0.1"),
            ("http://[::1]/mcp", "::1"),
            ("http://2130706433/mcp", "127.0.0.1"),
            ("http://169.254.169.254/latest", "169.254.169.254"),
            ("http://10.0.0.1/", "10.0.0.1"),
            ("http://localhost/mcp", "localhost"),
            ("https://inside.example.com/mcp", "10.1.2.3"),
            ("https://both.example.com/mcp", "127.0.0.1"),
            ("https://nobody.example.com/mcp", "does not resolve"),
            ("https://broken.example.com/mcp", "does not resolve"),
        ] {
            let create = CreateMcpServerRequest { url: url.to_owned(), ..http("Other") };
            let created = refused(setup.servers(&setup.owner).create_mcp_server(create).await);
            let change = UpdateMcpServerRequest { url: Some(url.to_owned()), ..edit(&server) };
            let changed = refused(setup.servers(&setup.owner).update_mcp_server(change).await);
            for problem in [created, changed] {
                assert_eq!((problem.code, problem.field.as_deref()), (ErrorCode::InvalidArgument, Some("url")), "{url}");
                assert!(problem.sentence.contains(said), "{url}: {}", problem.sentence);
            }
        }
        assert_eq!(get(&setup, "Docs").await, server);
    }

    async fn an_exemption_opens_an_address(store: Store) {
        let setup = Setup::exempting(store, &["127.0.0.1/32"]).await;
        let request = CreateMcpServerRequest { url: "http://127.0.0.1:9999/mcp".to_owned(), ..http("Docs") };
        setup.server(&setup.owner, request).await;
        let request = CreateMcpServerRequest { url: "http://127.0.0.2:9999/mcp".to_owned(), ..http("Other") };
        assert_eq!(refused(setup.servers(&setup.owner).create_mcp_server(request).await).field.as_deref(), Some("url"));
    }

    async fn a_change_keeps_what_it_does_not_name_and_raises_the_generation(store: Store) {
        let setup = Setup::new(store).await;
        let before = setup.server(&setup.owner, CreateMcpServerRequest { headers: secret("X-Key", "s3cret"), ..http("Docs") }).await;
        let disabled = update(&setup, UpdateMcpServerRequest { enabled: Some(false), ..edit(&before) }).await;
        assert_eq!(disabled, McpServer { enabled: false, generation: 2, ..before.clone() });
        let again = update(&setup, UpdateMcpServerRequest { enabled: Some(false), ..edit(&before) }).await;
        assert_eq!(again, disabled);
        let replaced = NamedSecretList { secrets: secret("Authorization", "Bearer s3cret") };
        let replaced = update(&setup, UpdateMcpServerRequest { headers: Some(replaced), ..edit(&before) }).await;
        assert_eq!((replaced.header_names.as_slice(), replaced.generation), (&["Authorization".to_owned()][..], 3));
        let cleared = update(&setup, UpdateMcpServerRequest { headers: Some(NamedSecretList::default()), ..edit(&before) }).await;
        assert_eq!((cleared.header_names, cleared.generation, cleared.credentials_readable), (Vec::new(), 4, true));
    }

    async fn kept_headers_go_elsewhere_only_when_their_owner_sends_them(store: Store) {
        let setup = Setup::new(store).await;
        setup.dns.host("elsewhere.example.com", &["93.184.216.35"]);
        let server = setup.server(&setup.owner, CreateMcpServerRequest { headers: secret("X-Key", "s3cret"), ..http("Docs") }).await;
        let moved = UpdateMcpServerRequest { url: Some("https://elsewhere.example.com/mcp".to_owned()), ..edit(&server) };
        let problem = refused(setup.servers(&setup.operator).update_mcp_server(moved.clone()).await);
        assert_eq!(problem.field.as_deref(), Some("headers"));
        assert_eq!(
            problem.sentence,
            "headers: the headers that are set are another Player's, and would be sent to https://elsewhere.example.com; replace them, or clear them"
        );
        assert_eq!(get(&setup, "Docs").await, server);
        let by_owner = update(&setup, moved.clone()).await;
        assert_eq!(by_owner.credentials_sentence, "the headers that were kept go to https://elsewhere.example.com from now on");
        // It is said once.
        assert_eq!(get(&setup, "Docs").await.credentials_sentence, "");
        let back = UpdateMcpServerRequest { url: Some(server.url.clone()), headers: Some(NamedSecretList::default()), ..moved };
        setup.servers(&setup.operator).update_mcp_server(back).await.expect("nothing of the owner's goes along");
    }

    async fn changes_at_the_same_time_lose_none(store: Store) {
        let setup = Setup::new(store).await;
        let server = setup.server(&setup.owner, http("Docs")).await;
        let edits = (0..12).map(|number| {
            let mut servers = setup.servers(&setup.owner);
            let url = Some(format!("https://{HOST}/{number}"));
            let edit = UpdateMcpServerRequest { url, ..edit(&server) };
            async move { servers.update_mcp_server(edit).await }
        });
        for result in futures::future::join_all(edits).await {
            result.expect("every change is made");
        }
        assert_eq!(get(&setup, "Docs").await.generation, 13);
    }

    async fn one_of_two_that_take_a_name_at_once_has_it(store: Store) {
        let setup = Setup::new(store).await;
        for round in 0..4 {
            let (mut first, mut second) = (setup.servers(&setup.owner), setup.servers(&setup.other));
            let (a, b) = tokio::join!(
                first.create_mcp_server(http(&format!("Docs {round}"))),
                second.create_mcp_server(private_http(&format!("docs-{round}"))),
            );
            assert!(a.is_ok() != b.is_ok());
            let problem = refused(if a.is_ok() { b } else { a });
            assert_eq!(problem.code, ErrorCode::AlreadyExists);
            assert!(problem.sentence.contains("is taken; choose another"), "{problem:?}");
        }
        let other = setup.server(&setup.owner, http("Other")).await;
        let rename = UpdateMcpServerRequest { name: Some("docs 0".to_owned()), ..edit(&other) };
        assert_eq!(refused(setup.servers(&setup.owner).update_mcp_server(rename).await).code, ErrorCode::AlreadyExists);
    }

    async fn a_player_owns_no_more_servers_than_the_bound_even_at_the_same_time(store: Store) {
        let setup = Setup::new(store).await;
        let creations = (0..SERVERS + 4).map(|number| {
            let mut servers = setup.servers(&setup.owner);
            async move { servers.create_mcp_server(http(&format!("Docs {number}"))).await }
        });
        let results = futures::future::join_all(creations).await;
        let made = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(made as u64, SERVERS);
        let problem = refused(setup.servers(&setup.owner).create_mcp_server(http("Another")).await);
        assert_eq!(problem.code, ErrorCode::ResourceExhausted);
        setup.server(&setup.other, http("Another")).await;
    }

    async fn lists_come_newest_first_in_pages_of_what_the_caller_sees(store: Store) {
        let setup = Setup::new(store).await;
        for request in [http("A"), private_http("B"), http("C"), http("D")] {
            setup.server(&setup.owner, request).await;
        }
        for (caller, expected) in [(&setup.owner, vec!["D", "C", "B", "A"]), (&setup.other, vec!["D", "C", "A"]), (&setup.operator, vec!["D", "C", "A"])] {
            let mut names = Vec::new();
            let mut token = String::new();
            loop {
                let request = ListMcpServersRequest { page_size: 2, page_token: token };
                let page = setup.servers(caller).list_mcp_servers(request).await.expect("a page").into_inner();
                assert!(page.servers.len() <= 2);
                names.extend(page.servers.into_iter().map(|server| server.name));
                token = page.next_page_token;
                if token.is_empty() {
                    break;
                }
            }
            assert_eq!(names, expected, "{caller:?}");
        }
    }

    async fn a_server_names_the_npcs_that_have_it_as_far_as_the_caller_sees_them(store: Store) {
        let setup = Setup::new(store).await;
        let server = setup.server(&setup.owner, http("Docs")).await;
        setup.npc(&setup.owner, "Smith").await;
        setup.private_npc(&setup.owner, "Secret").await;
        setup.npc(&setup.other, "Baker").await;
        setup.add(&setup.owner, "Smith", "mcp:Docs").await.expect("a Grant");
        setup.add(&setup.owner, "Secret", "mcp:Docs").await.expect("a Grant");
        let narrow = AddGrantRequest { npc: "Baker".to_owned(), what: "mcp:Docs".to_owned(), tools: vec!["search".to_owned()], seen: Vec::new() };
        setup.grants(&setup.other).add_grant(narrow).await.expect("a Grant");
        for (caller, expected) in [(&setup.owner, vec!["Baker", "Secret", "Smith"]), (&setup.other, vec!["Baker", "Smith"]), (&setup.operator, vec!["Baker", "Secret", "Smith"])] {
            let read = setup.servers(caller).get_mcp_server(GetMcpServerRequest { server: server.id.clone() }).await.expect("a server");
            let holders = read.into_inner().server.expect("a server").holders;
            assert_eq!(holders[0].tools, ["search"]);
            assert_eq!(holders.into_iter().map(|holder| holder.npc).collect::<Vec<_>>(), expected, "{caller:?}");
        }
    }

    async fn deleting_a_server_takes_every_grant_to_it_and_its_pins(store: Store) {
        let setup = Setup::new(store).await;
        let server = setup.server(&setup.owner, http("Docs")).await;
        setup.server(&setup.owner, http("Kept")).await;
        for (owner, npc) in [(&setup.owner, "Smith"), (&setup.other, "Baker")] {
            setup.npc(owner, npc).await;
            let seen = crate::pin::pins(&["search", "read"], "one");
            let request = AddGrantRequest { npc: npc.to_owned(), what: "mcp:Docs".to_owned(), tools: Vec::new(), seen };
            setup.grants(owner).add_grant(request).await.expect("a Grant");
            setup.add(owner, npc, "mcp:Kept").await.expect("a Grant");
        }
        let deleted = setup.servers(&setup.owner).delete_mcp_server(DeleteMcpServerRequest { server: "docs".to_owned() }).await.expect("it is deleted").into_inner();
        assert_eq!((deleted.server_id, deleted.grants_removed), (server.id, 2));
        for npc in ["Smith", "Baker"] {
            let listed = setup.grants(&setup.owner).list_grants(ListGrantsRequest { npc: npc.to_owned() }).await.expect("Grants");
            let whats: Vec<String> = listed.into_inner().grants.into_iter().map(|grant| grant.what).collect();
            assert_eq!(whats, ["mcp:Kept"]);
        }
        assert_eq!(setup.rows("SELECT grant_id FROM tool_pins").await, 0);
        // The name is free again.
        setup.server(&setup.other, http("Docs")).await;
    }

    async fn no_grant_dangles_when_its_server_is_deleted_meanwhile(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        for round in 0..8 {
            let server = setup.server(&setup.owner, http(&format!("Docs {round}"))).await;
            let what = format!("mcp:{}", server.id);
            let mut servers = setup.servers(&setup.owner);
            let (_granted, deleted) = tokio::join!(
                setup.add(&setup.owner, "Keeper", &what),
                servers.delete_mcp_server(DeleteMcpServerRequest { server: server.id.clone() }),
            );
            deleted.expect("it is deleted");
        }
        assert_eq!(setup.rows("SELECT id FROM grants").await, 0);
    }

    async fn every_change_is_announced_once_it_is_committed_and_nothing_else_is(store: Store) {
        let setup = Setup::new(store).await;
        let mut announced = setup.announcements().await;
        let server = setup.server(&setup.owner, http("Docs")).await;
        let id = &server.id;
        assert_eq!(announced.so_far(), [json!({"serverId": id, "generation": 1})]);
        update(&setup, UpdateMcpServerRequest { enabled: Some(false), ..edit(&server) }).await;
        assert_eq!(announced.so_far(), [json!({"serverId": id, "generation": 2})]);
        update(&setup, UpdateMcpServerRequest { enabled: Some(false), ..edit(&server) }).await;
        refused(setup.servers(&setup.other).update_mcp_server(edit(&server)).await);
        refused(setup.servers(&setup.owner).create_mcp_server(http("Docs")).await);
        get(&setup, "Docs").await;
        assert_eq!(announced.so_far(), [json!(null); 0]);
        setup.servers(&setup.owner).delete_mcp_server(DeleteMcpServerRequest { server: id.clone() }).await.expect("it is deleted");
        assert_eq!(announced.so_far(), [json!({"serverId": id, "generation": null})]);
    }

    async fn a_change_is_announced_though_who_asked_went_away(store: Store) {
        let setup = Setup::new(store).await;
        let mut announced = setup.announcements().await;
        let server = setup.server(&setup.owner, http("Docs")).await;
        announced.so_far();
        let mut servers = setup.servers(&setup.owner);
        let url = Some(format!("https://{HOST}/new"));
        let change = servers.update_mcp_server(UpdateMcpServerRequest { url, ..edit(&server) });
        // Polled a few times, and then dropped wherever it was.
        let mut change = Box::pin(change);
        for _ in 0..20 {
            if futures::poll!(change.as_mut()).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(change);
        // Whatever became of it: what is stored is what was announced.
        let last = update(&setup, UpdateMcpServerRequest { pinning: Pinning::Off.into(), ..edit(&server) }).await;
        let seen = announced.so_far();
        let generations: Vec<u64> = seen.iter().filter_map(|said| said["generation"].as_u64()).collect();
        assert_eq!(generations, (2..=last.generation).collect::<Vec<_>>());
    }

    async fn every_change_writes_its_row_with_names_and_without_values(store: Store) {
        let setup = Setup::new(store).await;
        let request = CreateMcpServerRequest { url: format!("https://{HOST}/?key=s3cret"), headers: secret("X-Key", "s3cret"), ..http("Docs") };
        let server = setup.server(&setup.owner, request).await;
        setup.npc(&setup.owner, "Keeper").await;
        setup.add(&setup.owner, "Keeper", "mcp:Docs").await.expect("a Grant");
        let private = UpdateMcpServerRequest { private: Some(true), ..edit(&server) };
        update(&setup, private).await;
        // The Operator cannot see it, and may delete it.
        setup.servers(&setup.operator).delete_mcp_server(DeleteMcpServerRequest { server: "Docs".to_owned() }).await.expect("it is deleted");
        let rows = setup.audit(&setup.operator).list_audit_rows(ListAuditRowsRequest::default()).await.expect("rows").into_inner().rows;
        let of_server: Vec<&AuditRow> = rows.iter().filter(|row| row.subject_kind == "mcp_server").collect();
        let said: Vec<(&str, &str)> = of_server.iter().map(|row| (row.action.as_str(), row.actor.as_str())).collect();
        let (owner, operator) = (setup.owner.label(), setup.operator.label());
        assert_eq!(said, [("mcp_server.delete", operator.as_str()), ("mcp_server.update", &owner), ("mcp_server.create", &owner)]);
        assert!(rows.iter().any(|row| row.action == "grant.remove" && row.actor == operator));
        let deleted: serde_json::Value = serde_json::from_str(&of_server[0].before_json).expect("JSON");
        assert_eq!((&deleted["headerNames"], &deleted["url"], &deleted["queryNames"]), (&json!(["X-Key"]), &json!(format!("https://{HOST}/?key=***")), &json!(["key"])));
        assert_eq!(deleted["grants"][0]["npcId"], json!(setup.npcs(&setup.owner).get_npc(GetNpcRequest { npc: "Keeper".to_owned() }).await.expect("an NPC").into_inner().npc.expect("an NPC").id));
        let everything = format!("{rows:?}");
        assert!(!everything.contains("s3cret") && !everything.contains("v1."), "{everything}");
    }

    async fn a_name_that_is_not_found_gets_the_nearest_that_the_caller_sees(store: Store) {
        let setup = Setup::new(store).await;
        setup.server(&setup.owner, http("Documents")).await;
        setup.server(&setup.owner, private_http("Secret Papers")).await;
        for (caller, given, nearest) in [
            (&setup.other, "Documets", "; did you mean \"Documents\"?"),
            (&setup.owner, "Secret Paper", "; did you mean \"Secret Papers\"?"),
            (&setup.other, "Secret Paper", ""),
            (&setup.operator, "Secret Paper", ""),
        ] {
            let problem = refused(setup.servers(caller).get_mcp_server(GetMcpServerRequest { server: given.to_owned() }).await);
            assert_eq!(problem.sentence, format!("there is no MCP Server {given:?}{nearest}"));
        }
    }

    async fn what_a_revoked_player_made_stays_and_the_player_changes_nothing_more(store: Store) {
        let setup = Setup::new(store).await;
        let server = setup.server(&setup.other, http("Docs")).await;
        setup.players(&setup.operator).revoke_player(RevokePlayerRequest { player: "Ben".to_owned() }).await.expect("it is revoked");
        let denied = setup.servers(&setup.other).delete_mcp_server(DeleteMcpServerRequest { server: server.id.clone() }).await;
        assert_eq!(refused(denied).code, ErrorCode::PermissionDenied);
        assert_eq!(get(&setup, "Docs").await.id, server.id);
        setup.servers(&setup.operator).delete_mcp_server(DeleteMcpServerRequest { server: server.id }).await.expect("the Operator may");
    }
}
