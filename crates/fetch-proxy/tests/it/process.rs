//! The binary alone: with its own key and another's public key, and no secret besides.

use std::{process::Command, sync::Arc};

use kernel::SystemClock;
use proto::fetch::v1::{
    RefusalReason, fetch_response::Outcome, fetch_service_client::FetchServiceClient,
};

use crate::{
    shape::{self, Shape},
    support::{facts, npc, of},
};

#[tokio::test]
async fn it_serves_with_no_secret_but_its_own_key() {
    let running = shape::start(Shape::AsBinary, Vec::new(), Arc::new(SystemClock)).await;
    let mut client = FetchServiceClient::new(running.peer.as_caller(&npc()));
    let response = client
        .fetch(of("https://127.0.0.1:8443/"))
        .await
        .expect("an answer")
        .into_inner();
    let Some(Outcome::Refusal(refusal)) = response.outcome else {
        panic!("{response:?}");
    };
    assert_eq!(facts(&refusal), (RefusalReason::Blocked, 0, "loopback"));
}

#[tokio::test]
async fn its_own_listeners_are_refused_wherever_they_came_to_be_and_whatever_is_exempt() {
    let exempt = (
        "AGENTSVILLE__OUTBOUND__ALLOW".to_owned(),
        r#"[{ to = "127.0.0.0/8", for = ["fetch"] }]"#.to_owned(),
    );
    let running = shape::start(Shape::AsBinary, vec![exempt], Arc::new(SystemClock)).await;
    let process = running.process.as_ref().expect("a process");
    let ports = listening_ports(process.id());
    assert_eq!(ports.len(), 3, "gRPC, admin and egress: {ports:?}");
    let mut client = FetchServiceClient::new(running.peer.as_caller(&npc()));
    for port in ports {
        let response = client
            .fetch(of(&format!("https://127.0.0.1:{port}/")))
            .await
            .expect("an answer")
            .into_inner();
        let Some(Outcome::Refusal(refusal)) = response.outcome else {
            panic!("{response:?}");
        };
        assert_eq!(facts(&refusal), (RefusalReason::Blocked, 0, "own-listener"));
    }
}

/// The TCP ports that a process listens on, by the sockets that it has open (proc(5)).
fn listening_ports(process: u32) -> Vec<u16> {
    let sockets: Vec<String> = std::fs::read_dir(format!("/proc/{process}/fd"))
        .expect("Linux")
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .map(|link| link.to_string_lossy().into_owned())
        .collect();
    let table = std::fs::read_to_string(format!("/proc/{process}/net/tcp")).expect("Linux");
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let is_own = sockets.contains(&format!("socket:[{}]", columns.get(9)?));
            let (_address, port) = columns.get(1)?.split_once(':')?;
            let is_listening = columns.get(3) == Some(&"0A");
            (is_own && is_listening).then(|| u16::from_str_radix(port, 16).ok())?
        })
        .collect()
}

#[test]
fn it_refuses_to_start_with_settings_that_it_cannot_read_and_says_which() {
    let output = Command::new(env!("CARGO_BIN_EXE_fetch-proxy"))
        .env_clear()
        .env("AGENTSVILLE__ADMIN__LISTEN", "127.0.0.1:0")
        .env("AGENTSVILLE__EGRESS__LISTEN", "127.0.0.1:0")
        .env("AGENTSVILLE__GRPC__LISTEN", "127.0.0.1:0")
        .env("AGENTSVILLE__OUTBOUND__ALLOW", r#"["*"]"#)
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("outbound.allow"), "{said}");
}
