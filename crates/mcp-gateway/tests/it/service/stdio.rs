//! Commands on this host: tested, called, and ended, whatever ends the gateway.

use std::{fs, path::PathBuf, time::Duration};

use proto::{
    mcp::v1::{CallEnd, Content, TestServerRequest, content::Kind, test_server_request::Server},
    registry::v1::{CreateMcpServerRequest, McpTransport, NamedSecret},
};

use super::village::{Shape, Village, all, in_both_shapes};

in_both_shapes!(
    a_command_is_tested_and_called,
    a_command_that_ends_is_quoted_without_its_secrets,
);

/// `examples/stdio_peer.rs`, which cargo builds with the tests.
fn peer() -> String {
    let tests = std::env::current_exe().expect("this program");
    let target = tests.parent().and_then(|deps| deps.parent());
    let program: PathBuf = target.expect("a folder").join("examples/stdio_peer");
    assert!(
        program.exists(),
        "{} is not there; build it with `cargo build -p mcp-gateway --examples`",
        program.display()
    );
    program.to_str().expect("UTF-8").to_owned()
}

/// A word that only this test's processes have.
fn marker(test: &str, shape: Shape) -> String {
    format!("{test}-{shape:?}-{}", std::process::id())
}

fn command(name: &str, command: &str, arguments: &[&str]) -> CreateMcpServerRequest {
    CreateMcpServerRequest {
        name: name.to_owned(),
        transport: McpTransport::Stdio.into(),
        command: command.to_owned(),
        arguments: arguments.iter().map(|&text| text.to_owned()).collect(),
        ..CreateMcpServerRequest::default()
    }
}

fn with_key(request: CreateMcpServerRequest, key: &str) -> CreateMcpServerRequest {
    let key = NamedSecret {
        name: "KEY".to_owned(),
        value: key.to_owned(),
    };
    CreateMcpServerRequest {
        environment: vec![key],
        ..request
    }
}

/// A server in the manner of `npx`: its wrapper ignores SIGTERM, and forks one into a session of its own that ignores everything.
fn stubborn(name: &str, marker: &str) -> CreateMcpServerRequest {
    let text = format!(
        "trap '' TERM; setsid sh -c \"trap '' TERM; while :; do sleep 1000; done\" {marker} & \"$0\" legacy; while :; do sleep 1000; done; : {marker}"
    );
    command(name, "/bin/sh", &["-c", &text, &peer()])
}

fn unsaved(request: CreateMcpServerRequest) -> TestServerRequest {
    TestServerRequest {
        server: Some(Server::Unsaved(request)),
    }
}

/// How many processes have this in a file of theirs: `cmdline`, `environ`.
fn count(file: &str, marker: &str) -> usize {
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    processes
        .filter(|process| {
            let text = fs::read(process.path().join(file)).unwrap_or_default();
            String::from_utf8_lossy(&text).contains(marker)
        })
        .count()
}

async fn until_none(marker: &str) {
    let none = async {
        while count("cmdline", marker) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_mins(1), none).await;
    assert!(ended.is_ok(), "{} are left", count("cmdline", marker));
}

fn text(content: &[Content]) -> Option<&str> {
    if let Kind::Text(text) = content.first()?.kind.as_ref()? {
        return Some(text);
    }
    None
}

async fn a_command_is_tested_and_called(shape: Shape) {
    let village = Village::new(shape).await;
    let secret = marker("planted", shape);
    for era in ["legacy", "modern", "both"] {
        let request = with_key(command("", &peer(), &[era]), &secret);
        let told = village
            .gateway(&village.operator)
            .test_server(unsaved(request))
            .await
            .expect("an answer")
            .into_inner();
        let result = told.result.clone().expect("a result");
        assert!(result.ok, "{era}: {result:?}");
        assert_eq!(result.transport(), McpTransport::Stdio);
        assert!(told.tools.iter().any(|tool| tool.name == "echo"));
        assert!(!format!("{told:?}").contains(&secret));
    }
    let request = with_key(command("Local", &peer(), &["both"]), &secret);
    let local = village.register(&village.operator, request).await;
    let called = village
        .call(&village.operator, &local, "echo", r#"{"text":"Grüße"}"#)
        .await;
    assert_eq!(called.end(), CallEnd::Ok, "{called:?}");
    assert_eq!(text(&called.content), Some("Grüße"));
    // The server's own process, and no other: not the gateway's, not the supervisor's.
    assert_eq!(count("environ", &secret), 1);
    assert_eq!(count("cmdline", &secret), 0);
}

async fn a_command_that_ends_is_quoted_without_its_secrets(shape: Shape) {
    let village = Village::new(shape).await;
    let secret = marker("planted", shape);
    let text = "echo \"fatal: the key $KEY is not valid\" >&2; exit 3";
    let request = with_key(command("", "/bin/sh", &["-c", text]), &secret);
    let told = village
        .gateway(&village.operator)
        .test_server(unsaved(request))
        .await
        .expect("an answer")
        .into_inner();
    let result = told.result.expect("a result");
    assert_eq!(result.code, "exited");
    assert_eq!(
        result.sentence,
        "/bin/sh exited with status 3; it last wrote: fatal: the key ••• is not valid"
    );
    assert!(!result.next_step.is_empty());
}

#[tokio::test]
async fn a_command_whose_server_is_deleted_is_ended() {
    let village = Village::new(Shape::InProcess).await;
    let marker = marker("deleted", Shape::InProcess);
    let request = stubborn("Local", &marker);
    let local = village.register(&village.operator, request).await;
    let listed = village.list(&village.operator, vec![all(&local)]).await;
    assert_eq!(listed[0].unavailable, "");
    assert!(count("cmdline", &marker) >= 2);
    village
        .servers(&village.operator)
        .delete_mcp_server(proto::registry::v1::DeleteMcpServerRequest {
            server: local.id.clone(),
        })
        .await
        .expect("it is deleted");
    until_none(&marker).await;
}

#[tokio::test]
async fn a_gateway_that_is_killed_leaves_no_process() {
    let shape = Shape::AsBinary;
    let village = Village::new(shape).await;
    let marker = marker("killed", shape);
    for name in ["One", "Two", "Three"] {
        let request = stubborn(name, &marker);
        let server = village.register(&village.operator, request).await;
        let listed = village.list(&village.operator, vec![all(&server)]).await;
        assert_eq!(listed[0].unavailable, "", "{name}");
    }
    assert!(count("cmdline", &marker) >= 6);
    // With the Village its gateway's process is killed: SIGKILL, so that it can do nothing more.
    drop(village);
    until_none(&marker).await;
}

#[tokio::test]
async fn a_gateway_that_ends_in_order_leaves_no_process() {
    let village = Village::new(Shape::InProcess).await;
    let marker = marker("ended", Shape::InProcess);
    let request = stubborn("Local", &marker);
    let server = village.register(&village.operator, request).await;
    let listed = village.list(&village.operator, vec![all(&server)]).await;
    assert_eq!(listed[0].unavailable, "");
    village.lifecycle.stop();
    until_none(&marker).await;
}
