//! The same tests against a fetch-proxy in this process, and against its binary alone.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use fetch_proxy::{Deps, build, connector};
use kernel::{Clock, ServiceName, SystemClock};
use reader::Reader;
use runtime::{
    Issuer, Lifecycle, Peer, ServerLayers, Settings, SigningKey, Sources, Transport, token::Village,
};

/// Where the fetch-proxy of a test runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    InProcess,
    AsBinary,
}

/// Makes two tests of each function that takes a [`Shape`].
macro_rules! in_both_shapes {
    ($($name:ident),+ $(,)?) => {
        mod in_process {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::shape::Shape::InProcess).await;
            })+
        }

        mod as_binary {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::shape::Shape::AsBinary).await;
            })+
        }
    };
}
pub(crate) use in_both_shapes;

/// A fetch-proxy that runs, as its callers have it.
pub(crate) struct Running {
    pub(crate) peer: Peer,
    /// The process, if it has one of its own.
    pub(crate) process: Option<Process>,
}

/// A fetch-proxy with these settings.
pub(crate) async fn start(
    shape: Shape,
    environment: Vec<(String, String)>,
    clock: Arc<dyn Clock>,
) -> Running {
    match shape {
        Shape::InProcess => Running {
            peer: in_process(environment, &clock),
            process: None,
        },
        Shape::AsBinary => {
            let started = tokio::task::spawn_blocking(|| as_binary(environment));
            let (peer, process) = started.await.expect("a process");
            Running {
                peer,
                process: Some(process),
            }
        }
    }
}

fn in_process(environment: Vec<(String, String)>, clock: &Arc<dyn Clock>) -> Peer {
    let settings = Settings::load(Sources {
        file: None,
        environment,
    })
    .expect("settings");
    let lifecycle = Lifecycle::new();
    let program = env!("CARGO_BIN_EXE_fetch-proxy").into();
    let deps = Deps {
        connector: connector(&settings, &lifecycle).expect("a connector"),
        reader: Arc::new(Reader::new(reader::Config::default(), program)),
        clock: Arc::clone(clock),
    };
    let config = settings.section("fetch").expect("the section");
    let real: Arc<dyn Clock> = Arc::new(SystemClock);
    let village = Village::generate(&real).expect("keys");
    let service = build(config, deps, &lifecycle).layered(ServerLayers {
        trust: village.trust(),
        longest_call: Duration::from_mins(1),
    });
    Peer::new(
        Transport::in_process(&service),
        village.issuer(ServiceName::TurnOrchestrator),
        ServiceName::FetchProxy,
    )
}

fn as_binary(environment: Vec<(String, String)>) -> (Peer, Process) {
    let own = SigningKey::generate().expect("a key");
    let orchestrator = Issuer::new(
        ServiceName::TurnOrchestrator,
        SigningKey::generate().expect("a key"),
        Arc::new(SystemClock),
    );
    let mut environment = environment;
    let mut set = |name: &str, value: &str| environment.push((name.to_owned(), value.to_owned()));
    set("AGENTSVILLE__GRPC__LISTEN", "127.0.0.1:0");
    set("AGENTSVILLE__ADMIN__LISTEN", "127.0.0.1:0");
    set("AGENTSVILLE__EGRESS__LISTEN", "127.0.0.1:0");
    set("AGENTSVILLE__KEYS__PRIVATE", own.private_key().expose());
    set(
        "AGENTSVILLE__KEYS__TRUST__TURN_ORCHESTRATOR__PUBLIC_KEY",
        &orchestrator.public_key(),
    );
    let mut process = Process::start(&environment);
    let address = process.grpc_address();
    let transport = Transport::remote(&format!("http://{address}"), None).expect("a transport");
    let peer = Peer::new(transport, Arc::new(orchestrator), ServiceName::FetchProxy);
    (peer, process)
}

/// A process that ends with its test.
pub(crate) struct Process(Child);

impl Process {
    /// The binary with this environment and nothing else.
    pub(crate) fn start(environment: &[(String, String)]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_fetch-proxy"))
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        Self(child)
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// The address that the log names as the gRPC listener's. What is logged after that is read, so that the process can log on.
    pub(crate) fn grpc_address(&mut self) -> String {
        let stderr = self.0.stderr.take().expect("a pipe");
        let mut seen = String::new();
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        for line in lines.by_ref() {
            let record: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            if line.contains("gRPC is listening") {
                let address = record
                    .get("address")
                    .or_else(|| record.pointer("/fields/address"));
                let address = address
                    .and_then(serde_json::Value::as_str)
                    .unwrap_or_else(|| panic!("no address in {line}"))
                    .to_owned();
                std::thread::spawn(move || lines.for_each(drop));
                return address;
            }
            seen.push_str(&line);
            seen.push('\n');
        }
        panic!("it ended without listening:\n{seen}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
