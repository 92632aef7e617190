//! The binary alone: with its own key and another's public key, and no secret besides.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use kernel::{Caller, Clock, NpcId, PlayerId, ServiceName, SystemClock};
use proto::fetch::v1::{
    RefusalReason, fetch_response::Outcome, fetch_service_client::FetchServiceClient,
};
use runtime::{Issuer, Peer, SigningKey, Transport};

use crate::support::{facts, of};

/// A process that ends with its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn start(environment: &[(&str, &str)]) -> Process {
    let child = Command::new(env!("CARGO_BIN_EXE_fetch-proxy"))
        .env_clear()
        .envs(environment.iter().copied())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    Process(child)
}

/// The address that the log names as the gRPC listener's.
fn grpc_address(process: &mut Process) -> String {
    let stderr = process.0.stderr.take().expect("a pipe");
    let mut seen = String::new();
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        let record: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        if line.contains("gRPC is listening") {
            let address = record
                .get("address")
                .or_else(|| record.pointer("/fields/address"));
            return address
                .and_then(serde_json::Value::as_str)
                .unwrap_or_else(|| panic!("no address in {line}"))
                .to_owned();
        }
        seen.push_str(&line);
        seen.push('\n');
    }
    panic!("it ended without listening:\n{seen}");
}

#[tokio::test]
async fn it_serves_with_no_secret_but_its_own_key() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let own = SigningKey::generate().expect("a key");
    let orchestrator = Issuer::new(
        ServiceName::TurnOrchestrator,
        SigningKey::generate().expect("a key"),
        Arc::clone(&clock),
    );
    let mut process = start(&[
        ("AGENTSVILLE__GRPC__LISTEN", "127.0.0.1:0"),
        ("AGENTSVILLE__ADMIN__LISTEN", "127.0.0.1:0"),
        ("AGENTSVILLE__EGRESS__LISTEN", "127.0.0.1:0"),
        ("AGENTSVILLE__KEYS__PRIVATE", own.private_key().expose()),
        (
            "AGENTSVILLE__KEYS__TRUST__TURN_ORCHESTRATOR__PUBLIC_KEY",
            &orchestrator.public_key(),
        ),
    ]);
    let address = grpc_address(&mut process);

    let transport = Transport::remote(&format!("http://{address}"), None).expect("a transport");
    let peer = Peer::new(transport, Arc::new(orchestrator), ServiceName::FetchProxy);
    let npc = Caller::Npc {
        npc: NpcId::mint(&*clock),
        player: PlayerId::mint(&*clock),
    };
    let mut client = FetchServiceClient::new(peer.as_caller(&npc));
    let response = client
        .fetch(of(&format!("https://{address}/")))
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
