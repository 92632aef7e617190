//! Tests of servers, before anything is granted.

use kernel::{Caller, ErrorCode, NpcId, ServiceName, SystemClock};
use proto::{
    mcp::v1::{TestServerRequest, TestServerResponse, test_server_request::Server},
    registry::v1::{
        CreateMcpServerRequest, GetMcpServerRequest, McpEra, McpTransport, NamedSecret,
    },
};
use runtime::status::{Problem, problem};
use testkit::mcp::{Eras, Fault, HttpFault, Manner, Script, ScriptedMcp, Speaks};

use super::village::{Setup, Shape, Village, http, in_both_shapes, scripted, turn};

in_both_shapes!(
    a_server_that_is_not_saved_shows_its_tools,
    a_saved_servers_test_is_kept,
    a_private_address_is_refused_before_anything_is_opened,
);

fn unsaved(request: CreateMcpServerRequest) -> TestServerRequest {
    TestServerRequest {
        server: Some(Server::Unsaved(request)),
    }
}

fn saved(name: &str) -> TestServerRequest {
    TestServerRequest {
        server: Some(Server::Saved(name.to_owned())),
    }
}

fn stdio() -> CreateMcpServerRequest {
    CreateMcpServerRequest {
        transport: McpTransport::Stdio.into(),
        command: "agentsville-no-such-command".to_owned(),
        ..CreateMcpServerRequest::default()
    }
}

async fn test(
    village: &Village,
    caller: &Caller,
    request: TestServerRequest,
) -> Result<TestServerResponse, Problem> {
    let answer = village.gateway(caller).test_server(request).await;
    answer
        .map(tonic::Response::into_inner)
        .map_err(|status| problem(&status))
}

async fn a_server_that_is_not_saved_shows_its_tools(shape: Shape) {
    let village = Village::new(shape).await;
    for (eras, era, version) in [
        (Eras::Legacy, McpEra::Legacy, testkit::mcp::LEGACY),
        (Eras::Modern, McpEra::Modern, testkit::mcp::MODERN),
    ] {
        let script = Script::new(eras);
        let server = ScriptedMcp::start(script, Speaks::Http(Manner::Json)).await;
        let mut request = http("", &server);
        request.headers = vec![NamedSecret {
            name: "x-key".to_owned(),
            value: "planted".to_owned(),
        }];
        let told = test(&village, &village.ada, unsaved(request))
            .await
            .expect("an answer");
        let result = told.result.clone().expect("a result");
        assert!(result.ok, "{result:?}");
        assert_eq!((&*result.code, &*result.sentence), ("", ""));
        assert_eq!((result.era(), &*result.protocol_version), (era, version));
        assert_eq!(result.transport(), McpTransport::Http);
        assert!(result.latency_micros > 0 && result.at_micros > 0);
        let names: Vec<&str> = told.tools.iter().map(|tool| &*tool.full_name).collect();
        assert!(names.contains(&"server__echo"), "{names:?}");
        assert_eq!(result.tools as usize, told.tools.len());
        let echo = told
            .tools
            .iter()
            .find(|tool| tool.name == "echo")
            .expect("echo");
        assert_eq!(echo.description, "Says what it is told.");
        assert!(!format!("{told:?}").contains("planted"));
    }
}

async fn a_saved_servers_test_is_kept(shape: Shape) {
    let village = Village::new(shape).await;
    let fine = scripted([]).await;
    let docs = village.docs(&fine).await;
    let told = test(&village, &village.ben, saved("Docs"))
        .await
        .expect("an answer");
    assert!(
        told.result.as_ref().is_some_and(|result| result.ok),
        "{told:?}"
    );
    assert!(told.tools.iter().any(|tool| tool.full_name == "docs__echo"));
    fine.script().set_faults([Fault::Http(HttpFault::Answers {
        status: 401,
        headers: Vec::new(),
        body: String::new(),
    })]);
    let told = test(&village, &village.ada, saved(&docs.id))
        .await
        .expect("an answer");
    let result = told.result.expect("a result");
    assert!(!result.ok && !result.sentence.is_empty() && !result.next_step.is_empty());
    let request = GetMcpServerRequest {
        server: docs.id.clone(),
    };
    let kept = village.servers(&village.ada).get_mcp_server(request).await;
    let kept = kept
        .expect("the server")
        .into_inner()
        .server
        .expect("a server");
    assert_eq!(kept.last_test, Some(result));
    assert_eq!(kept.generation, docs.generation);
}

async fn a_private_address_is_refused_before_anything_is_opened(shape: Shape) {
    let setup = Setup {
        allow: "192.0.2.1/32",
        ..Setup::of(shape)
    };
    let village = Village::with(setup).await;
    let inside = scripted([]).await;
    let told = test(&village, &village.ada, unsaved(http("", &inside)))
        .await
        .expect("an answer");
    let open = told.result.expect("a result");
    assert_eq!(
        (open.ok, &*open.code),
        (false, "private-address"),
        "{open:?}"
    );
    // Nobody listens there, and the answer is the same.
    let held = testkit::port::HeldPort::new();
    let mut request = http("", &inside);
    request.url = format!("http://127.0.0.1:{}/mcp", held.number());
    let told = test(&village, &village.ada, unsaved(request))
        .await
        .expect("an answer");
    let closed = told.result.expect("a result");
    assert_eq!((closed.code, closed.sentence), (open.code, open.sentence));
    // A row that was saved while the address was allowed is refused as well.
    village.docs(&inside).await;
    let told = test(&village, &village.ada, saved("docs"))
        .await
        .expect("an answer");
    assert_eq!(told.result.expect("a result").code, "private-address");
    assert_eq!(inside.accepted(), 0);
}

#[tokio::test]
async fn only_those_test_who_may() {
    let village = Village::new(Shape::InProcess).await;
    let fine = scripted([]).await;
    village.docs(&fine).await;
    let private = CreateMcpServerRequest {
        private: true,
        ..http("Diary", &fine)
    };
    village.register(&village.ada, private).await;
    let command = CreateMcpServerRequest {
        name: "Local".to_owned(),
        ..stdio()
    };
    village.register(&village.operator, command).await;
    let npc = Caller::Npc {
        npc: NpcId::mint(&SystemClock),
        player: village.ada.player().expect("a Player"),
    };
    let edge = Caller::Service {
        name: ServiceName::Edge,
        player: village.ada.player(),
    };
    let turn = turn(&village.ada);
    let denied = Some(ErrorCode::PermissionDenied);
    let missing = Some(ErrorCode::NotFound);
    let web = || unsaved(http("", &fine));
    let rows: [(&str, TestServerRequest, [Option<ErrorCode>; 3]); 5] = [
        ("unsaved http", web(), [None, None, None]),
        ("unsaved stdio", unsaved(stdio()), [None, denied, denied]),
        ("public", saved("Docs"), [None, None, None]),
        ("private", saved("Diary"), [missing, None, missing]),
        ("stdio", saved("Local"), [None, denied, denied]),
    ];
    for (what, request, expected) in rows {
        let callers = [&village.operator, &village.ada, &village.ben];
        for (caller, expected) in callers.into_iter().zip(expected) {
            let code = test(&village, caller, request.clone())
                .await
                .err()
                .map(|p| p.code);
            assert_eq!(code, expected, "{what} by {caller:?}");
        }
        for caller in [&npc, &edge, &turn] {
            let code = test(&village, caller, request.clone())
                .await
                .err()
                .map(|p| p.code);
            assert_eq!(code, denied, "{what} by {caller:?}");
        }
    }
    let hidden = test(&village, &village.ben, saved("Diary"))
        .await
        .expect_err("hidden");
    let absent = test(&village, &village.ben, saved("Dairy"))
        .await
        .expect_err("missing");
    assert_eq!(hidden.sentence.replace("Diary", "Dairy"), absent.sentence);
}

#[tokio::test]
async fn what_is_wrong_with_a_test_is_refused_with_its_field_or_tested_in_words() {
    let village = Village::new(Shape::InProcess).await;
    let fine = scripted([]).await;
    let bad = |request| test(&village, &village.ada, request);
    for (request, field) in [
        (TestServerRequest { server: None }, "server"),
        (unsaved(CreateMcpServerRequest::default()), "transport"),
        (saved(""), "saved"),
        (saved(&"x".repeat(300)), "saved"),
        (
            unsaved(CreateMcpServerRequest {
                command: "ls".to_owned(),
                ..http("", &fine)
            }),
            "command",
        ),
    ] {
        let problem = bad(request).await.expect_err("it is refused");
        assert_eq!(problem.code, ErrorCode::InvalidArgument);
        assert_eq!(problem.field.as_deref(), Some(field));
    }
    let mut request = http("", &fine);
    request.url = "ftp://planted.example/mcp".to_owned();
    let told = bad(unsaved(request)).await.expect("an answer");
    assert_eq!(told.result.expect("a result").code, "bad-url");
}

#[tokio::test]
async fn a_server_that_sends_back_what_it_was_sent_learns_nothing_to_anybody() {
    let events = testkit::events::capture();
    let village = Village::new(Shape::InProcess).await;
    let echoing = scripted([Fault::Http(HttpFault::EchoesAll)]).await;
    let mut request = http("Docs", &echoing);
    request.url = format!("{}?key=planted-query", echoing.url());
    request.headers = vec![NamedSecret {
        name: "authorization".to_owned(),
        value: "Bearer planted-header".to_owned(),
    }];
    let told = test(&village, &village.ada, unsaved(request.clone()))
        .await
        .expect("an answer");
    assert!(!told.result.as_ref().is_some_and(|result| result.ok));
    village.register(&village.ada, request).await;
    let again = test(&village, &village.ada, saved("Docs"))
        .await
        .expect("an answer");
    let told = format!("{told:?} {again:?} {}", events.text());
    assert!(!told.contains("planted"), "{told}");
    let tests = events.of("mcp_connection");
    assert_eq!(tests.len(), 2, "{tests:?}");
    assert!(
        tests.iter().all(|event| event["outcome"] == "error"),
        "{tests:?}"
    );
}
