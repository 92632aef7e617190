//! A service that runs alone, as a process of its own.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::Arc,
};

use kernel::{Caller, ServiceName, SystemClock};
use runtime::{Issuer, Peer, SigningKey};
use serde_json::{Map, Value};
use tonic::Code;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;

use crate::support::{LONG, player, remote, word};

/// `examples/lone_service.rs`, which cargo builds with the tests.
fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let target = tests.parent().and_then(|deps| deps.parent()).unwrap();
    let program = target.join("examples/lone_service");
    assert!(
        program.exists(),
        "{} is not there; build it with `cargo build -p runtime --examples`",
        program.display()
    );
    program
}

fn command(environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program());
    command
        .env_clear()
        .env("AGENTSVILLE__GRPC__LISTEN", "127.0.0.1:0")
        .env("AGENTSVILLE__GRPC__REFLECTION", "false")
        .env("AGENTSVILLE__ADMIN__LISTEN", "127.0.0.1:0")
        .env("AGENTSVILLE__PEERS__TOOL_REGISTRY", "http://127.0.0.1:9")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    command(environment).args(arguments).output().unwrap()
}

/// What a run that cannot start says in plain text, after its log lines.
fn complaint(output: &Output) -> String {
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    stderr.lines().last().unwrap_or_default().to_owned()
}

/// A running service, which is ended with the test.
struct Running {
    child: Child,
    log: BufReader<std::process::ChildStderr>,
    grpc: SocketAddr,
    admin: SocketAddr,
}

impl Running {
    fn start(environment: &[(&str, &str)]) -> Self {
        let mut child = command(environment).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut address = |message: &str| loop {
            let mut line = String::new();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "it ended early");
            let line: Map<String, Value> =
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if line["message"] == message {
                break line["address"].as_str().unwrap().parse().unwrap();
            }
        };
        let admin = address("admin is listening");
        let grpc = address("gRPC is listening");
        Self {
            child,
            log,
            grpc,
            admin,
        }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn terminate(mut self) -> (Option<i32>, String) {
        let pid = i32::try_from(self.child.id()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut log = String::new();
        self.log.read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap().code(), log)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ended already, unless the test failed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_serves_until_sigterm_and_ends_with_0() {
    let clock = Arc::new(SystemClock);
    let edge = Arc::new(Issuer::new(
        ServiceName::Edge,
        SigningKey::generate().unwrap(),
        clock,
    ));
    let running = Running::start(&[(
        "AGENTSVILLE__KEYS__TRUST__EDGE__PUBLIC_KEY",
        &edge.public_key(),
    )]);
    let mut health = HealthClient::new(remote(running.grpc))
        .watch(HealthCheckRequest::default())
        .await
        .unwrap()
        .into_inner();
    // It listens a moment before it says that it is ready.
    while health.message().await.unwrap().unwrap().status() != ServingStatus::Serving {}
    let peer = Peer::new(remote(running.grpc), edge, ServiceName::TurnOrchestrator);
    let ask = |channel| async move {
        ServerReflectionClient::new(channel)
            .server_reflection_info(tokio_stream::iter([word("x")]))
            .await
            .map(|_answers| ())
            .map_err(|status| status.code())
    };
    assert_eq!(
        ask(peer.channel(&Caller::Player(player()), LONG)).await,
        Ok(())
    );
    let npc = Caller::Npc {
        npc: "01930000-0000-7000-8000-000000000002".parse().unwrap(),
        player: player(),
    };
    assert_eq!(
        ask(peer.channel(&npc, LONG)).await,
        Err(Code::Unauthenticated),
        "edge may not speak for NPCs"
    );
    assert!(running.get("/healthz").ends_with("\r\n\r\nok\n"));
    assert!(running.get("/readyz").starts_with("HTTP/1.1 200"));
    let metrics = running.get("/metrics");
    assert!(
        metrics.contains("rpc_server_duration_seconds_bucket"),
        "{metrics}"
    );
    assert!(running.get("/").starts_with("HTTP/1.1 404"));
    drop(peer);
    let (code, log) = running.terminate();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("\"message\":\"stopped\""), "{log}");
}

#[tokio::test]
async fn without_trust_it_says_so_on_readyz() {
    let running = Running::start(&[]);
    let ready = running.get("/readyz");
    assert!(
        ready.contains(r#""warnings":["keys.trust is empty: nobody can call this service"]"#),
        "{ready}"
    );
    assert_eq!(running.terminate().0, Some(0));
}

#[test]
fn wrong_usage_ends_with_2_and_help_with_0() {
    let wrong = run(&["serve"], &[]);
    assert_eq!(wrong.status.code(), Some(2));
    assert_eq!(
        complaint(&wrong),
        "turn-orchestrator: there is no argument \"serve\"; --config FILE and --help are all, and the rest are settings"
    );
    let help = run(&["--help"], &[]);
    assert_eq!(help.status.code(), Some(0));
    assert!(
        String::from_utf8(help.stdout)
            .unwrap()
            .contains("Usage: turn-orchestrator [--config FILE]")
    );
}

#[test]
fn what_keeps_it_from_starting_is_a_sentence_and_1() {
    for (environment, sentence) in [
        (
            [("AGENTSVILLE__GRPC__LISTN", "x")],
            "turn-orchestrator: the environment has an unknown setting AGENTSVILLE__GRPC__LISTN; did you mean AGENTSVILLE__GRPC__LISTEN?",
        ),
        (
            [("AGENTSVILLE__GRPC__LISTEN", "localhost")],
            "turn-orchestrator: grpc.listen is \"localhost\", which is not address:port",
        ),
        (
            [("AGENTSVILLE__GRPC__LISTEN", "0.0.0.0:0")],
            "turn-orchestrator: gRPC would listen on 0.0.0.0:0, which others can reach, and no keys are set",
        ),
        (
            [("AGENTSVILLE__PEERS__TOOL_REGISTRY", "")],
            "turn-orchestrator: peers.tool_registry is not set; turn-orchestrator needs tool-registry: set AGENTSVILLE__PEERS__TOOL_REGISTRY=http://name:port",
        ),
        (
            [("AGENTSVILLE__KEYS__PRIVATE", "hunter2")],
            "turn-orchestrator: the private key is not an Ed25519 key",
        ),
        (
            [("AGENTSVILLE__KEYS__TRUST__EDGE__PUBLIC_KEY", "hunter2")],
            "turn-orchestrator: the public key of \"edge\" is not base64",
        ),
        (
            [("AGENTSVILLE__KEYS__TRUST__EDGE__MINTS", r#"["root"]"#)],
            "turn-orchestrator: the setting keys.trust.edge.mints.0 cannot be used: it must be one of operator, player, npc, service",
        ),
        (
            [("AGENTSVILLE__TLS__CERTIFICATE", "/nonexistent")],
            "turn-orchestrator: tls.certificate and tls.key belong together",
        ),
        (
            [("AGENTSVILLE__TELEMETRY__LOG", "a=b=c")],
            "turn-orchestrator: telemetry.log is \"a=b=c\"",
        ),
    ] {
        let output = run(&[], &environment);
        assert_eq!(output.status.code(), Some(1), "{environment:?}");
        let complaint = complaint(&output);
        assert!(complaint.starts_with(sentence), "{complaint}");
        assert!(
            !String::from_utf8(output.stderr)
                .unwrap()
                .contains("hunter2")
        );
    }
    let missing = run(&["--config", "/nonexistent.toml"], &[]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(complaint(&missing).contains("cannot read the settings file /nonexistent.toml"));
}

#[test]
fn secrets_stay_out_of_core_dumps() {
    runtime::process::protect_memory();
    assert_eq!(
        rustix::process::dumpable_behavior().unwrap(),
        rustix::process::DumpableBehavior::NotDumpable
    );
}
