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
