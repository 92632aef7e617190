//! A listener, the servers behind it, and those who mint passes for it.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use fetch_proxy::egress;
use kernel::{Caller, Clock, NpcId, PlayerId, ServiceName, SystemClock, Timestamp};
use runtime::{
    Issuer, Lifecycle, Settings, SigningKey, Sources, Trust, process::KeysSettings,
    token::EgressPass,
};
use testkit::{clock::ManualClock, dns::ScriptedDns, origin::Authority};

use super::web::Web;

/// Where the listener runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// In this process.
    InProcess,
    /// In a process of its own, with its own key and public keys of others.
    Binary,
}

/// Whoever may mint something, and one who may not.
pub(super) struct Issuers {
    pub(super) broker: Issuer,
    pub(super) orchestrator: Issuer,
    pub(super) edge: Issuer,
    /// Signs in the broker's name with a key of its own.
    pub(super) forger: Issuer,
    /// The broker, two minutes ago.
    pub(super) late_broker: Issuer,
    key: SigningKey,
}

/// Servers on loopback: `index.test` without TLS and `secure.test` with it, which Sandboxes may reach, and some that they may not.
pub(super) struct World {
    pub(super) dns: ScriptedDns,
    pub(super) authority: Authority,
    pub(super) web: Web,
    pub(super) secure: Web,
    pub(super) issuers: Issuers,
    pub(super) npc: NpcId,
    pub(super) player: PlayerId,
}

/// A listener. It ends with its test.
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    pub(super) lifecycle: Option<Lifecycle>,
    /// Where the process of its own takes calls.
    pub(super) grpc: Option<SocketAddr>,
    process: Option<Child>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(lifecycle) = &self.lifecycle {
            lifecycle.stop();
        }
        if let Some(process) = &mut self.process {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

impl World {
    pub(super) async fn start() -> Self {
        // As every `main` does.
        runtime::process::install_crypto();
        let (dns, authority) = (ScriptedDns::start().await, Authority::new());
        let web = Web::plain().await;
        let secure = Web::tls(&authority, &["secure.test", "other.secure.test"]).await;
        for name in [
            "index.test",
            "secure.test",
            "other.secure.test",
            "fetched.test",
            "served.test",
            "closed.test",
        ] {
            dns.host(name, &["127.0.0.1"]);
        }
        dns.host("dead.test", &["127.0.0.3"]);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Self {
            dns,
            authority,
            web,
            secure,
            issuers: Issuers::new(&clock),
            npc: NpcId::mint(&*clock),
            player: PlayerId::mint(&*clock),
        }
    }

    /// A listener in this world, with the defaults but for these settings.
    pub(super) async fn proxy(&self, shape: Shape, settings: &[(&str, &str)]) -> Proxy {
        let environment = self.environment(settings);
        match shape {
            Shape::InProcess => Proxy::in_process(environment).await,
            Shape::Binary => Proxy::as_binary(environment),
        }
    }

    /// The settings of such a listener's process.
    pub(super) fn environment(&self, settings: &[(&str, &str)]) -> Vec<(String, String)> {
        let (web, secure) = (self.web.port(), self.secure.port());
        let allow = format!(
            r#"[
                {{to = "index.test:{web}", for = ["egress"]}},
                {{to = "dead.test:{web}", for = ["egress"]}},
                {{to = "127.0.0.1/32:{secure}", for = ["egress"]}},
                {{to = "fetched.test:{web}", for = ["fetch"]}},
                "served.test:{web}",
            ]"#
        )
        .replace('\n', " ")
        .replace(",             ]", "]");
        let dns = self.dns.address().to_string();
        let ca = self.authority.pem_path().display().to_string();
        let own = SigningKey::generate().expect("a key");
        let mut environment: Vec<(String, String)> = [
            ("AGENTSVILLE__GRPC__LISTEN", "127.0.0.1:0"),
            ("AGENTSVILLE__ADMIN__LISTEN", "127.0.0.1:0"),
            ("AGENTSVILLE__EGRESS__LISTEN", "127.0.0.1:0"),
            ("AGENTSVILLE__KEYS__PRIVATE", own.private_key().expose()),
            ("AGENTSVILLE__OUTBOUND__ALLOW", &allow),
            ("AGENTSVILLE__OUTBOUND__NAMESERVER", &dns),
            ("AGENTSVILLE__OUTBOUND__CA_FILE", &ca),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
        for issuer in [
            &self.issuers.broker,
            &self.issuers.orchestrator,
            &self.issuers.edge,
        ] {
            let name = issuer.name().replace('-', "_").to_uppercase();
            environment.push((
                format!("AGENTSVILLE__KEYS__TRUST__{name}__PUBLIC_KEY"),
                issuer.public_key(),
            ));
        }
        for (name, value) in settings {
            environment.retain(|(known, _)| known != name);
            environment.push(((*name).to_owned(), (*value).to_owned()));
        }
        environment
    }

    /// A pass of the broker for these hosts.
    pub(super) fn pass(&self, hosts: &[&str]) -> EgressPass {
        EgressPass {
            npc: self.npc,
            player: self.player,
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        }
    }

    /// A token that leads to every public host.
    pub(super) fn token(&self) -> String {
        self.token_for(&[])
    }

    /// A token that leads to these hosts.
    pub(super) fn token_for(&self, hosts: &[&str]) -> String {
        self.issuers
            .broker
            .mint_egress(&self.pass(hosts))
            .expect("a token")
    }

    pub(super) fn as_npc(&self) -> Caller {
        Caller::Npc {
            npc: self.npc,
            player: self.player,
        }
    }

    /// `index.test` with its port.
    pub(super) fn index(&self) -> String {
        format!("index.test:{}", self.web.port())
    }

    /// `secure.test` with its port.
    pub(super) fn secure(&self) -> String {
        format!("secure.test:{}", self.secure.port())
    }
}

impl Issuers {
    fn new(clock: &Arc<dyn Clock>) -> Self {
        let key = || SigningKey::generate().expect("a key");
        let broker = key();
        let named = |service, key| Issuer::new(service, key, Arc::clone(clock));
        let earlier = clock.now().as_micros() - 120_000_000;
        let earlier: Arc<dyn Clock> = Arc::new(ManualClock::at(Timestamp::from_micros(earlier)));
        Self {
            broker: named(ServiceName::SandboxBroker, broker.clone()),
            orchestrator: named(ServiceName::TurnOrchestrator, key()),
            edge: named(ServiceName::Edge, key()),
            forger: named(ServiceName::SandboxBroker, key()),
            late_broker: Issuer::new(ServiceName::SandboxBroker, broker.clone(), earlier),
            key: broker,
        }
    }

    /// The broker's key, for tokens that no issuer mints.
    pub(super) fn broker_key(&self) -> &SigningKey {
        &self.key
    }
}

impl Proxy {
    async fn in_process(environment: Vec<(String, String)>) -> Self {
        let settings = Settings::load(Sources {
            file: None,
            environment,
        })
        .expect("settings");
        let lifecycle = Lifecycle::new();
        let trust = Trust::new(Arc::new(SystemClock));
        let keys: KeysSettings = settings.section("keys").expect("the section");
        keys.add_to(&trust).expect("keys");
        let tls: runtime::tls::TlsSettings = settings.section("tls").expect("the section");
        let deps = egress::Deps {
            connector: fetch_proxy::connector(&settings, &lifecycle).expect("a connector"),
            trust: Arc::new(trust),
            keys: keys.origin(),
            tls: tls.server().expect("TLS"),
        };
        let config = settings.section("egress").expect("the section");
        let address = egress::listen(config, deps, &lifecycle)
            .await
            .expect("it listens")
            .expect("an address");
        Self {
            address,
            lifecycle: Some(lifecycle),
            grpc: None,
            process: None,
        }
    }

    fn as_binary(environment: Vec<(String, String)>) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_fetch-proxy"))
            .env_clear()
            .envs(environment)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let log = process.stderr.take().expect("a pipe");
        let mut lines = BufReader::new(log).lines().map_while(Result::ok);
        let mut seen = String::new();
        let mut named = |what: &str| -> SocketAddr {
            for line in lines.by_ref() {
                seen.push_str(&line);
                seen.push('\n');
                if !line.contains(what) {
                    continue;
                }
                let record: serde_json::Value = serde_json::from_str(&line).expect("JSON");
                let address = record
                    .get("address")
                    .or_else(|| record.pointer("/fields/address"))
                    .and_then(serde_json::Value::as_str);
                let address = address.unwrap_or_else(|| panic!("no address in {line}"));
                return address.parse().expect("an address");
            }
            panic!("it ended without listening:\n{seen}");
        };
        let address = named("egress is listening");
        let grpc = named("gRPC is listening");
        // A pipe that nobody reads would stop the process in the end.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            address,
            lifecycle: None,
            grpc: Some(grpc),
            process: Some(process),
        }
    }

    /// The proxy as programs take it: with a token as somebody's password.
    pub(super) fn url(&self, token: &str) -> String {
        format!("http://npc:{token}@{}", self.address)
    }

    /// The id of the process, if it is one of its own.
    pub(super) fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Waits until the process of its own has ended, and says how.
    pub(super) fn wait(&mut self) -> Option<std::process::ExitStatus> {
        let mut process = self.process.take()?;
        process.wait().ok()
    }
}

/// The output of a program that has a minute, with no environment but what is said here.
pub(super) async fn run(program: &str, arguments: &[&str]) -> (bool, String) {
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", path)
        .env("LC_ALL", "C.UTF-8")
        .env("HOME", std::env::temp_dir())
        .args(arguments)
        .stdin(Stdio::null());
    let named = format!("{program} {arguments:?}");
    let running = tokio::task::spawn_blocking(move || command.output());
    let output = tokio::time::timeout(Duration::from_mins(1), running)
        .await
        .unwrap_or_else(|_elapsed| panic!("{named} did not end"))
        .expect("it ran")
        .unwrap_or_else(|error| {
            panic!("{program} cannot be started ({error}); install it: scripts/setup does")
        });
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output.status.success(), said)
}

/// A folder that goes with its test.
pub(super) fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().to_owned();
    (folder, path)
}
