//! The Tools of many servers, each with its own outcome.

use std::time::Duration;

use kernel::{Caller, ErrorCode, McpServerId, NpcId, ServiceName, SystemClock};
use proto::{
    mcp::v1::{ListToolsRequest, WantedServer, mcp_service_client::McpServiceClient},
    registry::v1::{CreateMcpServerRequest, McpTransport, UpdateMcpServerRequest},
};
use runtime::status;
use testkit::{mcp::Fault, port::HeldPort};

use super::village::{Shape, Village, all, http, in_both_shapes, scripted, turn};

in_both_shapes!(
    servers_answer_side_by_side_and_a_dead_or_hanging_one_costs_only_its_own_tools,
    a_private_server_serves_only_turns_of_its_owner_whoever_asked_first,
);

async fn servers_answer_side_by_side_and_a_dead_or_hanging_one_costs_only_its_own_tools(
    shape: Shape,
) {
    let village = Village::new(shape).await;
    let (fine, hanging) = (
        scripted([]).await,
        scripted([Fault::NeverAnswers("tools/list")]).await,
    );
    let held = HeldPort::new();
    let docs = village.docs(&fine).await;
    let slow = village.register(&village.ada, http("Slow", &hanging)).await;
    let dead = CreateMcpServerRequest {
        name: "Dead".to_owned(),
        transport: McpTransport::Http.into(),
        url: format!("http://127.0.0.1:{}/mcp", held.number()),
        ..CreateMcpServerRequest::default()
    };
    let dead = village.register(&village.ada, dead).await;
    let wanted = vec![all(&slow), all(&docs), all(&dead)];
    let told = village
        .list_within(&village.ben, wanted, Duration::from_secs(3))
        .await;
    let ids: Vec<&str> = told.iter().map(|server| &*server.server_id).collect();
    assert_eq!(ids, [&*slow.id, &*docs.id, &*dead.id]);
    assert_eq!(told[0].code, "timed-out");
    assert!(told[0].unavailable.contains("did not answer"), "{told:?}");
    assert_eq!((&*told[1].code, &*told[1].unavailable), ("", ""));
    let names: Vec<&str> = told[1].tools.iter().map(|tool| &*tool.full_name).collect();
    assert!(
        names.is_sorted() && names.contains(&"docs__echo"),
        "{names:?}"
    );
    assert_eq!(told[1].tools.len(), testkit::mcp::all_tools().len());
    assert_eq!(told[1].generation, docs.generation);
    assert_eq!(told[2].code, "unreachable");
    assert!(told[0].tools.is_empty() && told[2].tools.is_empty());
}

async fn a_private_server_serves_only_turns_of_its_owner_whoever_asked_first(shape: Shape) {
    let village = Village::new(shape).await;
    let fine = scripted([]).await;
    let request = CreateMcpServerRequest {
        private: true,
        ..http("Diary", &fine)
    };
    let diary = village.register(&village.ada, request).await;
    let no_such = WantedServer {
        server_id: McpServerId::mint(&SystemClock).to_string(),
        ..WantedServer::default()
    };
    for round in 0..2 {
        let hidden = village
            .list(&village.ben, vec![all(&diary), no_such.clone()])
            .await;
        assert_eq!(hidden[0].unavailable, hidden[1].unavailable);
        assert!(hidden[0].tools.is_empty());
        assert_eq!(fine.script().count("tools/list"), usize::from(round > 0));
        let own = village.list(&village.ada, vec![all(&diary)]).await;
        assert!(!own[0].tools.is_empty(), "{own:?}");
    }
    let operator = village.list(&village.operator, vec![all(&diary)]).await;
    assert!(operator[0].tools.is_empty(), "{operator:?}");
}

#[tokio::test]
async fn a_grant_covers_the_tools_that_it_names_and_learns_which_are_not_there() {
    let village = Village::new(Shape::InProcess).await;
    let fine = scripted([Fault::ListsToo(
        serde_json::json!({"name": "broken", "inputSchema": null}),
    )])
    .await;
    let docs = village.docs(&fine).await;
    let wanted = WantedServer {
        tools: ["echo", "gone", "broken"].map(str::to_owned).to_vec(),
        ..all(&docs)
    };
    let told = &village.list(&village.ada, vec![wanted]).await[0];
    let names: Vec<&str> = told.tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["echo"]);
    let withheld: Vec<(&str, &str)> = told
        .withheld
        .iter()
        .map(|tool| (&*tool.name, &*tool.sentence))
        .collect();
    assert_eq!(withheld.len(), 2, "{withheld:?}");
    assert_eq!(withheld[0].0, "broken");
    assert_eq!(withheld[1], ("gone", "Docs does not offer it now."));
    assert_eq!(told.beyond_limit, 0);
}

#[tokio::test]
async fn tools_beyond_the_limit_are_counted() {
    let village = Village::new(Shape::InProcess).await;
    let fine = scripted([Fault::ManyTools(2_000)]).await;
    let docs = village.docs(&fine).await;
    let told = &village.list(&village.ada, vec![all(&docs)]).await[0];
    let listed = 2_000 + testkit::mcp::all_tools().len();
    assert_eq!(told.tools.len(), 64);
    assert_eq!(usize::try_from(told.beyond_limit).unwrap(), listed - 64);
    let few = WantedServer {
        limit: 3,
        ..all(&docs)
    };
    let told = &village.list(&village.ada, vec![few]).await[0];
    assert_eq!(told.tools.len(), 3);
    assert!(told.cached);
}

#[tokio::test]
async fn a_server_that_is_disabled_says_so() {
    let village = Village::new(Shape::InProcess).await;
    let fine = scripted([]).await;
    let docs = village.docs(&fine).await;
    let request = UpdateMcpServerRequest {
        server: docs.id.clone(),
        enabled: Some(false),
        ..UpdateMcpServerRequest::default()
    };
    village
        .servers(&village.ada)
        .update_mcp_server(request)
        .await
        .expect("an edit");
    let told = &village.list(&village.ada, vec![all(&docs)]).await[0];
    assert_eq!(told.code, "disabled");
    assert!(
        told.unavailable.starts_with("Docs is disabled."),
        "{told:?}"
    );
    assert_eq!(fine.accepted(), 0);
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_refused_with_its_field() {
    let village = Village::new(Shape::InProcess).await;
    let fine = scripted([]).await;
    let docs = village.docs(&fine).await;
    let named = |name: String| WantedServer {
        tools: vec![name],
        ..all(&docs)
    };
    let cases = [
        (vec![all(&docs), all(&docs)], "servers"),
        (vec![all(&docs); 257], "servers"),
        (
            vec![WantedServer {
                server_id: "docs".to_owned(),
                ..all(&docs)
            }],
            "servers.server_id",
        ),
        (vec![named(String::new())], "servers.tools"),
        (vec![named("x".repeat(1_025))], "servers.tools"),
    ];
    for (servers, field) in cases {
        let refused = village
            .gateway(&turn(&village.ada))
            .list_tools(ListToolsRequest { servers })
            .await
            .expect_err("it is refused");
        let problem = status::problem(&refused);
        assert_eq!(problem.code, ErrorCode::InvalidArgument, "{problem:?}");
        assert_eq!(problem.field.as_deref(), Some(field));
    }
    assert_eq!(village.list(&village.ada, Vec::new()).await, Vec::new());
}

#[tokio::test]
async fn whoever_may_see_a_server_lists_its_tools_before_granting_it_and_only_turns_call_them() {
    let village = Village::new(Shape::InProcess).await;
    let fine = scripted([]).await;
    let docs = village.docs(&fine).await;
    for caller in [&village.operator, &village.ada, &village.ben] {
        let listed = village
            .gateway(caller)
            .list_tools(ListToolsRequest {
                servers: vec![all(&docs)],
            })
            .await
            .expect("it is listed")
            .into_inner();
        assert_eq!(listed.servers[0].unavailable, "");
        let refused = village
            .gateway(caller)
            .call_tool(super::village::of(&docs, "echo", "{}"))
            .await
            .expect_err("it is refused");
        assert_eq!(status::problem(&refused).code, ErrorCode::PermissionDenied);
    }
    assert_eq!(fine.script().count("tools/call"), 0);
}

#[tokio::test]
async fn models_and_other_services_neither_list_nor_call() {
    let village = Village::new(Shape::InProcess).await;
    let fine = scripted([]).await;
    let docs = village.docs(&fine).await;
    let player = village.ada.player().expect("a Player");
    let model = Caller::Npc {
        npc: NpcId::mint(&SystemClock),
        player,
    };
    let edge = Caller::Service {
        name: ServiceName::Edge,
        player: Some(player),
    };
    for caller in [model, edge] {
        let mut gateway = village.gateway(&caller);
        let wanted = ListToolsRequest {
            servers: vec![all(&docs)],
        };
        let listed = gateway.list_tools(wanted).await.map(drop);
        let call = gateway.call_tool(super::village::of(&docs, "echo", "{}"));
        let called = call.await.map(drop);
        for outcome in [listed, called] {
            let refused = outcome.expect_err("it is refused");
            assert_eq!(status::problem(&refused).code, ErrorCode::PermissionDenied);
        }
    }
    assert_eq!(fine.accepted(), 0);
}

#[tokio::test]
async fn without_a_registry_each_server_says_so_and_nothing_is_connected() {
    let village = Village::new(Shape::InProcess).await;
    let fine = scripted([]).await;
    let docs = village.docs(&fine).await;
    let (alone, _held) = village.gateway_without_a_registry().await;
    let caller = turn(&village.ada);
    let mut gateway = McpServiceClient::new(alone.channel(&caller, Duration::from_secs(10)));
    let wanted = ListToolsRequest {
        servers: vec![all(&docs)],
    };
    let told = gateway.list_tools(wanted).await.expect("an answer");
    let told = &told.into_inner().servers[0];
    assert_eq!(told.unavailable, "The tool-registry cannot be reached.");
    assert_eq!(told.code, "unreachable");
    let call = super::village::of(&docs, "echo", "{}");
    let mut items = gateway
        .call_tool(call)
        .await
        .expect("a stream")
        .into_inner();
    let refused = items.message().await.expect_err("it is refused");
    assert_eq!(status::problem(&refused).code, ErrorCode::Unavailable);
    assert_eq!(fine.accepted(), 0);
}
