//! Table A of the requirements, for the verbs of MCP Servers: every cell.

use kernel::{Caller, ErrorCode, ServiceName};
use proto::registry::v1::*;
use store::Store;
use testkit::on_every_database;

use crate::support::{Setup, code, http, private_http, refused, service, stdio};

type Cell = Result<(), ErrorCode>;

const NO: Cell = Err(ErrorCode::PermissionDenied);
const HIDDEN: Cell = Err(ErrorCode::NotFound);
const YES: Cell = Ok(());

/// Everybody who may call, and what they are.
fn everybody(setup: &Setup) -> [(&'static str, Caller); 6] {
    let owner = setup.owner.player();
    [
        ("operator", setup.operator.clone()),
        ("owner", setup.owner.clone()),
        ("other", setup.other.clone()),
        ("model", setup.model()),
        ("turns", service(ServiceName::TurnOrchestrator, owner)),
        ("gateway", service(ServiceName::McpGateway, owner)),
    ]
}

/// The servers that a cell is about, each made anew: a Player's public and private one, and a Player's that the Operator made
/// a command, public and private.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Public,
    Private,
    Stdio,
    PrivateStdio,
}

async fn make(setup: &Setup, kind: Kind) -> McpServer {
    let private = matches!(kind, Kind::Private | Kind::PrivateStdio);
    let request = if private {
        private_http("Docs")
    } else {
        http("Docs")
    };
    let server = setup
        .server(
            &setup.owner,
            CreateMcpServerRequest {
                private: false,
                ..request
            },
        )
        .await;
    let mut edit = UpdateMcpServerRequest {
        server: server.id.clone(),
        private: Some(private),
        ..UpdateMcpServerRequest::default()
    };
    if matches!(kind, Kind::Stdio | Kind::PrivateStdio) {
        edit.transport = McpTransport::Stdio.into();
        edit.command = Some("npx".to_owned());
    }
    let edited = setup
        .servers(&setup.operator)
        .update_mcp_server(edit)
        .await
        .expect("it is changed");
    edited.into_inner().server.expect("a server")
}

/// Deletes what is left of it. The Operator may delete all.
async fn clear(setup: &Setup, server: &McpServer) {
    let request = DeleteMcpServerRequest {
        server: server.id.clone(),
    };
    drop(
        setup
            .servers(&setup.operator)
            .delete_mcp_server(request)
            .await,
    );
}

on_every_database! {
    async fn who_registers_a_server(store: Store) {
        let setup = Setup::new(store).await;
        for (transport, cells) in [
            ("http", [YES, YES, YES, NO, NO, NO]),
            ("sse", [YES, YES, YES, NO, NO, NO]),
            ("stdio", [YES, NO, NO, NO, NO, NO]),
        ] {
            for ((who, caller), expected) in everybody(&setup).into_iter().zip(cells) {
                let name = format!("{who} {transport}");
                let request = match transport {
                    "stdio" => stdio(&name),
                    "sse" => CreateMcpServerRequest { transport: McpTransport::Sse.into(), ..http(&name) },
                    _ => http(&name),
                };
                assert_eq!(code(setup.servers(&caller).create_mcp_server(request).await), expected, "{name}");
            }
        }
    }

    async fn who_sees_a_server(store: Store) {
        let setup = Setup::new(store).await;
        for (kind, cells) in [
            (Kind::Public, [YES, YES, YES, NO, NO, NO]),
            (Kind::Private, [HIDDEN, YES, HIDDEN, NO, NO, NO]),
            (Kind::Stdio, [YES, YES, YES, NO, NO, NO]),
            (Kind::PrivateStdio, [HIDDEN, YES, HIDDEN, NO, NO, NO]),
        ] {
            let server = make(&setup, kind).await;
            for ((who, caller), expected) in everybody(&setup).into_iter().zip(cells) {
                for given in [&server.id, &server.name] {
                    let seen = setup.servers(&caller).get_mcp_server(GetMcpServerRequest { server: given.clone() }).await;
                    assert_eq!(code(seen), expected, "{who} {kind:?}");
                }
                let pins = setup.servers(&caller).list_pins(ListPinsRequest { server: server.id.clone(), npc: String::new() }).await;
                assert_eq!(code(pins), expected, "{who} {kind:?}");
                let listed = setup.servers(&caller).list_mcp_servers(ListMcpServersRequest::default()).await;
                let sees = listed.as_ref().map(|listed| listed.get_ref().servers.len()).unwrap_or_default();
                assert_eq!(sees, usize::from(expected.is_ok()), "{who} {kind:?}");
            }
            clear(&setup, &server).await;
        }
    }

    async fn who_edits_a_server(store: Store) {
        let setup = Setup::new(store).await;
        for (kind, cells) in [
            (Kind::Public, [YES, YES, NO, NO, NO, NO]),
            (Kind::Private, [HIDDEN, YES, HIDDEN, NO, NO, NO]),
            (Kind::Stdio, [YES, NO, NO, NO, NO, NO]),
            (Kind::PrivateStdio, [HIDDEN, NO, HIDDEN, NO, NO, NO]),
        ] {
            let server = make(&setup, kind).await;
            for ((who, caller), expected) in everybody(&setup).into_iter().zip(cells) {
                for edit in [
                    UpdateMcpServerRequest { pinning: Pinning::Warn.into(), ..UpdateMcpServerRequest::default() },
                    UpdateMcpServerRequest { enabled: Some(false), ..UpdateMcpServerRequest::default() },
                    UpdateMcpServerRequest { name: Some(format!("Docs of {who}")), ..UpdateMcpServerRequest::default() },
                ] {
                    let edit = UpdateMcpServerRequest { server: server.id.clone(), ..edit };
                    assert_eq!(code(setup.servers(&caller).update_mcp_server(edit).await), expected, "{who} {kind:?}");
                }
            }
            clear(&setup, &server).await;
        }
    }

    async fn who_changes_a_server_to_stdio_and_back(store: Store) {
        let setup = Setup::new(store).await;
        for (from, cells) in [
            (Kind::Public, [YES, NO, NO, NO, NO, NO]),
            (Kind::Private, [HIDDEN, NO, HIDDEN, NO, NO, NO]),
            (Kind::Stdio, [YES, NO, NO, NO, NO, NO]),
        ] {
            for ((who, caller), expected) in everybody(&setup).into_iter().zip(cells) {
                let server = make(&setup, from).await;
                let mut edit = UpdateMcpServerRequest { server: server.id.clone(), ..UpdateMcpServerRequest::default() };
                if from == Kind::Stdio {
                    edit.transport = McpTransport::Http.into();
                    edit.url = Some(http("x").url);
                } else {
                    edit.transport = McpTransport::Stdio.into();
                    edit.command = Some("npx".to_owned());
                }
                assert_eq!(code(setup.servers(&caller).update_mcp_server(edit).await), expected, "{who} {from:?}");
                clear(&setup, &server).await;
            }
        }
    }

    async fn who_deletes_a_server(store: Store) {
        let setup = Setup::new(store).await;
        for (kind, cells) in [
            (Kind::Public, [YES, YES, NO, NO, NO, NO]),
            // The Operator may delete what it cannot see.
            (Kind::Private, [YES, YES, HIDDEN, NO, NO, NO]),
            (Kind::Stdio, [YES, NO, NO, NO, NO, NO]),
            (Kind::PrivateStdio, [YES, NO, HIDDEN, NO, NO, NO]),
        ] {
            for by_name in [true, false] {
                for ((who, caller), expected) in everybody(&setup).into_iter().zip(cells) {
                    let server = make(&setup, kind).await;
                    let given = if by_name { server.name.clone() } else { server.id.clone() };
                    let deleted = setup.servers(&caller).delete_mcp_server(DeleteMcpServerRequest { server: given }).await;
                    assert_eq!(code(deleted), expected, "{who} {kind:?}");
                    clear(&setup, &server).await;
                }
            }
        }
    }

    async fn who_grants_a_server(store: Store) {
        let setup = Setup::new(store).await;
        let npcs = [
            (&setup.owner, setup.npc(&setup.owner, "Ada's").await.id),
            (&setup.other, setup.npc(&setup.other, "Ben's").await.id),
            (&setup.operator, setup.npc(&setup.operator, "Operator's").await.id),
        ];
        for (kind, cells) in [
            (Kind::Public, [YES, YES, YES]),
            (Kind::Private, [YES, HIDDEN, HIDDEN]),
            (Kind::Stdio, [YES, YES, YES]),
            (Kind::PrivateStdio, [YES, HIDDEN, HIDDEN]),
        ] {
            let server = make(&setup, kind).await;
            for ((caller, npc), expected) in npcs.iter().zip(cells) {
                for what in [format!("mcp:{}", server.id), "mcp:docs".to_owned()] {
                    let granted = setup.add(caller, npc, &what).await.map(|_| ()).map_err(|problem| problem.code);
                    assert_eq!(granted, expected, "{caller:?} {kind:?}");
                }
            }
            clear(&setup, &server).await;
        }
    }

    async fn who_uses_a_server_in_a_turn(store: Store) {
        let setup = Setup::new(store).await;
        let players = [setup.operator.player(), setup.owner.player(), setup.other.player(), None];
        for (kind, cells) in [
            (Kind::Public, [YES, YES, YES, YES]),
            (Kind::Private, [HIDDEN, YES, HIDDEN, HIDDEN]),
            (Kind::Stdio, [YES, YES, YES, YES]),
            (Kind::PrivateStdio, [HIDDEN, YES, HIDDEN, HIDDEN]),
        ] {
            let server = make(&setup, kind).await;
            for (player, expected) in players.into_iter().zip(cells) {
                for given in [&server.id, &server.name] {
                    let caller = service(ServiceName::McpGateway, player);
                    let resolved = setup.mcp_resolution(&caller).resolve_mcp_server(ResolveMcpServerRequest { server: given.clone() }).await;
                    assert_eq!(code(resolved), expected, "{player:?} {kind:?}");
                }
            }
            clear(&setup, &server).await;
        }
    }

    async fn what_services_are_asked_only_the_right_service_asks(store: Store) {
        let setup = Setup::new(store).await;
        let server = setup.server(&setup.owner, http("Docs")).await;
        let owner = setup.owner.player();
        let gateway = service(ServiceName::McpGateway, owner);
        let turns = service(ServiceName::TurnOrchestrator, owner);
        let callers = [
            setup.operator.clone(),
            setup.owner.clone(),
            setup.model(),
            service(ServiceName::Edge, owner),
            service(ServiceName::TurnOrchestrator, None),
            turns.clone(),
            gateway.clone(),
        ];
        for caller in callers {
            let mut resolution = setup.mcp_resolution(&caller);
            let expected = if caller == gateway { YES } else { NO };
            let id = server.id.clone();
            assert_eq!(code(resolution.resolve_mcp_server(ResolveMcpServerRequest { server: id.clone() }).await), expected, "{caller:?}");
            let result = SaveTestResultRequest { server_id: id.clone(), generation: 1, result: Some(McpTestResult::default()) };
            assert_eq!(code(resolution.save_test_result(result).await), expected, "{caller:?}");
            let era = SaveEraRequest { server_id: id, generation: 1, era: McpEra::Modern.into() };
            assert_eq!(code(resolution.save_era(era).await), expected, "{caller:?}");
            let pins = SavePinsRequest { grant_id: server.id.clone(), pins: Vec::new() };
            let expected = if caller == turns { YES } else { NO };
            assert_eq!(code(resolution.save_pins(pins).await), expected, "{caller:?}");
        }
    }

    async fn only_the_operator_asks_how_sealed_rows_stand(store: Store) {
        let setup = Setup::new(store).await;
        for ((who, caller), expected) in everybody(&setup).into_iter().zip([YES, NO, NO, NO, NO, NO]) {
            let status = setup.servers(&caller).get_secrets_status(GetSecretsStatusRequest {}).await;
            assert_eq!(code(status), expected, "{who}");
        }
    }

    async fn a_hidden_server_is_missing_in_the_same_words(store: Store) {
        let setup = Setup::new(store).await;
        let private = setup.server(&setup.owner, private_http("Secret")).await;
        setup.npc(&setup.other, "Keeper").await;
        let sentences = |given: String| {
            let setup = &setup;
            async move {
                let mut servers = setup.servers(&setup.other);
                let get = refused(servers.get_mcp_server(GetMcpServerRequest { server: given.clone() }).await);
                let edit = UpdateMcpServerRequest { server: given.clone(), url: Some("not a URL".to_owned()), ..UpdateMcpServerRequest::default() };
                let edit = refused(servers.update_mcp_server(edit).await);
                let delete = refused(servers.delete_mcp_server(DeleteMcpServerRequest { server: given.clone() }).await);
                let pins = refused(servers.list_pins(ListPinsRequest { server: given.clone(), npc: String::new() }).await);
                let accept = AcceptPinsRequest { server: given.clone(), npc: String::new(), pins: crate::pin::pins(&["search"], "one") };
                let accept = refused(servers.accept_pins(accept).await);
                let grant = setup.add(&setup.other, "Keeper", &format!("mcp:{given}")).await.expect_err("hidden");
                for problem in [get, edit, delete, pins, accept, grant] {
                    assert_eq!((problem.code, problem.sentence), (ErrorCode::NotFound, format!("there is no MCP Server {given:?}")));
                }
            }
        };
        for given in [private.name.clone(), private.id.clone(), "Missing".to_owned(), setup.owner.player().expect("a Player").to_string()] {
            sentences(given).await;
        }
        // The Operator cannot see it, and is told no more than that.
        let get = refused(setup.servers(&setup.operator).get_mcp_server(GetMcpServerRequest { server: "Secret".to_owned() }).await);
        assert_eq!(get.sentence, "there is no MCP Server \"Secret\"");
    }

    async fn a_denial_says_who_may(store: Store) {
        let setup = Setup::new(store).await;
        let server = setup.server(&setup.owner, http("Docs")).await;
        let edit = UpdateMcpServerRequest { server: server.id.clone(), enabled: Some(false), ..UpdateMcpServerRequest::default() };
        let other = refused(setup.servers(&setup.other).update_mcp_server(edit.clone()).await);
        assert_eq!(other.sentence, "only the MCP Server's owner and the Operator may change it");
        let stdio_now = UpdateMcpServerRequest { transport: McpTransport::Stdio.into(), command: Some("npx".to_owned()), ..edit };
        let owner = refused(setup.servers(&setup.owner).update_mcp_server(stdio_now).await);
        assert_eq!(owner.sentence, "only the Operator may register, change or delete a stdio server: its command runs as the Village's own user");
        assert_eq!(refused(setup.servers(&setup.owner).create_mcp_server(stdio("X")).await).sentence, owner.sentence);
    }

    async fn what_tells_of_the_host_is_for_whoever_may_change_it(store: Store) {
        let setup = Setup::new(store).await;
        let request = CreateMcpServerRequest { working_directory: "/srv/docs".to_owned(), ..stdio("Docs") };
        let server = setup.server(&setup.operator, request).await;
        for (caller, arguments, folder) in [(&setup.operator, 2, "/srv/docs"), (&setup.owner, 0, "")] {
            let read = setup.servers(caller).get_mcp_server(GetMcpServerRequest { server: server.id.clone() }).await.expect("a server");
            let listed = setup.servers(caller).list_mcp_servers(ListMcpServersRequest::default()).await.expect("a list");
            for shown in [read.into_inner().server.expect("a server"), listed.into_inner().servers.remove(0)] {
                assert_eq!((shown.command.as_str(), shown.arguments.len(), shown.working_directory.as_str()), ("npx", arguments, folder));
            }
        }
    }
}
