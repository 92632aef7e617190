//! The binary alone, on a database that was migrated, and on one that was not.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use kernel::{Clock, ServiceName, SystemClock};
use proto::registry::v1::{
    AuthenticatePlayerRequest, resolution_service_client::ResolutionServiceClient,
};
use runtime::{Issuer, Peer, SigningKey, Transport};
use store::Store;
use tempfile::TempDir;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::support::service;

/// A process that ends with its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn command(data_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tool-registry"));
    command
        .env_clear()
        .env("AGENTSVILLE__DATA_DIR", data_dir)
        .env("AGENTSVILLE__GRPC__LISTEN", "127.0.0.1:0")
        .env("AGENTSVILLE__ADMIN__LISTEN", "127.0.0.1:0");
    command
}

/// The address that the log names as the gRPC listener's.
fn grpc_address(process: &mut Process) -> String {
    let stderr = process.0.stderr.take().expect("a pipe");
    let mut seen = String::new();
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        if line.contains("gRPC is listening") {
            let record: serde_json::Value = serde_json::from_str(&line).expect("a JSON line");
            let address = record
                .get("address")
                .or_else(|| record.pointer("/fields/address"));
            let address = address.and_then(serde_json::Value::as_str);
            return address.expect("an address").to_owned();
        }
        seen.push_str(&line);
        seen.push('\n');
    }
    panic!("it ended without listening:\n{seen}");
}

async fn migrate(data_dir: &Path) {
    let (tracker, ended) = (TaskTracker::new(), CancellationToken::new());
    let config = store::Config::sqlite(data_dir);
    let store = Store::connect(&config, &tracker, ended.clone())
        .await
        .expect("the store opens");
    store::migrate::<migrations::Migrator>(&store, migrations::SCHEMA)
        .await
        .expect("the migrations run");
    ended.cancel();
    tracker.close();
    tracker.wait().await;
}

#[tokio::test]
async fn sqlite_it_serves_alone_and_makes_the_operators_token() {
    let directory = TempDir::new().expect("a directory");
    let data_dir = directory.path().join("data");
    migrate(&data_dir).await;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let edge = SigningKey::generate().expect("a key");
    let edge = Issuer::new(ServiceName::Edge, edge, clock);
    let own = SigningKey::generate().expect("a key");
    let process = command(&data_dir)
        .env("AGENTSVILLE__KEYS__PRIVATE", own.private_key().expose())
        .env(
            "AGENTSVILLE__KEYS__TRUST__EDGE__PUBLIC_KEY",
            edge.public_key(),
        )
        .stderr(Stdio::piped())
        .spawn();
    let mut process = Process(process.expect("the binary starts"));
    let address = grpc_address(&mut process);

    let token = std::fs::read_to_string(data_dir.join("operator.token")).expect("a token");
    let transport = Transport::remote(&format!("http://{address}"), None).expect("a transport");
    let peer = Peer::new(transport, Arc::new(edge), ServiceName::ToolRegistry);
    let caller = service(ServiceName::Edge, None);
    let mut client = ResolutionServiceClient::new(peer.as_caller(&caller));
    let holder = client
        .authenticate_player(AuthenticatePlayerRequest { token })
        .await
        .expect("an answer")
        .into_inner()
        .player
        .expect("a Player");
    assert!(holder.operator);
}

#[test]
fn sqlite_it_never_migrates_and_says_who_does() {
    let directory = TempDir::new().expect("a directory");
    let output = command(directory.path())
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("run `agentsville migrate`"), "{said}");
}

#[tokio::test]
async fn sqlite_it_does_not_start_with_a_root_secret_that_can_be_guessed() {
    let directory = TempDir::new().expect("a directory");
    let data_dir = directory.path().join("data");
    migrate(&data_dir).await;
    let output = command(&data_dir)
        .env("BETTER_AUTH_SECRET", "hunter2")
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the root secret has 7 bytes"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}
