//! The edge as a process of its own, and without the services behind it.

use std::{process::Stdio, sync::Arc};

use http::Method;
use kernel::{Clock, ServiceName, SystemClock};
use runtime::{Lifecycle, Peer, Transport, token::Village as Keys};
use testkit::port::{HeldPort, listener_in_log};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

use crate::{client::Ask, village::config};

/// The program with nothing from this process's environment.
fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_edge"));
    command
        .env_clear()
        .env("AGENTSVILLE__GRPC__LISTEN", "127.0.0.1:0")
        .env("AGENTSVILLE__ADMIN__LISTEN", "127.0.0.1:0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

#[tokio::test]
async fn it_says_which_service_it_misses() {
    let output = program().output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("AGENTSVILLE__PEERS__TOOL_REGISTRY=http://name:port"),
        "{said}"
    );
}

#[tokio::test]
async fn it_starts_before_its_services_and_without_any_secret() {
    let nobody = HeldPort::new();
    let away = format!("http://{}", nobody.on_loopback());
    let mut edge = program()
        .env("AGENTSVILLE__EDGE__LISTEN", "127.0.0.1:0")
        .env("AGENTSVILLE__PEERS__TOOL_REGISTRY", &away)
        .env("AGENTSVILLE__PEERS__TURN_ORCHESTRATOR", &away)
        .spawn()
        .unwrap();
    // Kept, because the edge goes on to log.
    let mut log = BufReader::new(edge.stderr.take().unwrap()).lines();
    let address = loop {
        let line = log.next_line().await.unwrap();
        let line = line.expect("the edge ended");
        if let Some(address) = listener_in_log(&line, "HTTP listens") {
            break address;
        }
    };
    let document = Ask::new(address, Method::GET, "/v1/openapi.json");
    assert_eq!(document.send().await.status, 200);
    edge.kill().await.unwrap();
}

#[tokio::test]
async fn services_that_are_away_are_told_without_saying_where_they_are() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let keys = Keys::generate(&clock).unwrap();
    let nobody = HeldPort::new();
    let away = |service| {
        let url = format!("http://{}", nobody.on_loopback());
        let transport = Transport::remote(&url, None).unwrap();
        Peer::new(transport, keys.issuer(ServiceName::Edge), service)
    };
    let deps = edge::Deps {
        registry: away(ServiceName::ToolRegistry),
        turns: away(ServiceName::TurnOrchestrator),
        gateway: None,
        clock,
    };
    let edge = edge::build(config(), deps, Lifecycle::new()).unwrap();
    let address = edge.listen().await.unwrap();
    let answer = Ask::new(address, Method::GET, "/v1/me")
        .token("token")
        .send()
        .await;
    let sentence = answer.problem(503);
    let port = nobody.number().to_string();
    assert!(!sentence.contains(&port), "{sentence}");
    assert_eq!(answer.headers["retry-after"], "2");
}
