//! The binary alone.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
};

use store::Store;
use tempfile::TempDir;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// A process that ends with its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn command(data_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turn-orchestrator"));
    command
        .env_clear()
        .env("AGENTSVILLE__DATA_DIR", data_dir)
        .env("AGENTSVILLE__GRPC__LISTEN", "127.0.0.1:0")
        .env("AGENTSVILLE__ADMIN__LISTEN", "127.0.0.1:0")
        .env("AGENTSVILLE__PEERS__TOOL_REGISTRY", "http://127.0.0.1:1")
        .stderr(Stdio::piped());
    command
}

/// Runs it until it gives up by itself, and gives what it said last.
fn last_words(mut command: Command) -> (ExitStatus, String) {
    let mut process = Process(command.spawn().unwrap());
    let mut said = String::new();
    let mut stderr = process.0.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    let status = process.0.wait().unwrap();
    (status, said.lines().last().unwrap_or_default().to_owned())
}

async fn migrated() -> TempDir {
    let directory = TempDir::new().unwrap();
    let (tracker, ended) = (TaskTracker::new(), CancellationToken::new());
    let config = store::Config::sqlite(directory.path().join("data"));
    let store = Store::connect(&config, &tracker, ended.clone())
        .await
        .unwrap();
    store::migrate::<migrations::Migrator>(&store, migrations::SCHEMA)
        .await
        .unwrap();
    drop(store);
    ended.cancel();
    tracker.close();
    tracker.wait().await;
    directory
}

#[tokio::test]
async fn a_database_that_was_not_migrated_is_refused_in_words() {
    let directory = TempDir::new().unwrap();
    let (status, said) = last_words(command(&directory.path().join("data")));
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("agentsville migrate"), "{said}");
}

#[tokio::test]
async fn a_missing_registry_is_named_with_its_setting() {
    let directory = migrated().await;
    let mut command = command(&directory.path().join("data"));
    command.env_remove("AGENTSVILLE__PEERS__TOOL_REGISTRY");
    let (status, said) = last_words(command);
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("AGENTSVILLE__PEERS__TOOL_REGISTRY"), "{said}");
}

#[tokio::test]
async fn a_ceiling_beyond_its_maximum_is_refused_by_name() {
    let directory = migrated().await;
    let mut command = command(&directory.path().join("data"));
    command.env("AGENTSVILLE__TURN__STEPS", "51");
    let (status, said) = last_words(command);
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("turn.steps is 51"), "{said}");
}

#[tokio::test]
async fn it_serves_alone_and_stops_when_it_is_told() {
    let directory = migrated().await;
    let mut process = Process(command(&directory.path().join("data")).spawn().unwrap());
    let stderr = BufReader::new(process.0.stderr.take().unwrap());
    let mut lines = stderr.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("gRPC is listening")));
    let told = Command::new("kill")
        .args(["-TERM", &process.0.id().to_string()])
        .status()
        .unwrap();
    assert!(told.success());
    assert_eq!(process.0.wait().unwrap().code(), Some(0));
}
