//! A Village of processes: all in one on SQLite, or each service alone on PostgreSQL and Redis.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{
    database::{Schema, TestDatabase},
    provider::{ScriptedProvider, Wire},
};

use crate::process::{Service, program};

/// The Operator's token of every Village here.
pub(crate) const OPERATOR_TOKEN: &str = "operator-token-of-a-test-0123456789abcdef";
/// The root secret of every Village here.
const ROOT_SECRET: &str = "root-secret-of-a-test-0123456789abcdef";
/// A Village that does not answer by then never will.
const START: Duration = Duration::from_mins(1);

/// How a Village is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `agentsville serve`, SQLite, no Redis.
    Embedded,
    /// Each service and the edge a process, PostgreSQL and Redis.
    Split,
}

/// What a test may set.
#[derive(Default)]
pub(crate) struct Options {
    /// `AGENTSVILLE__…` settings, for every process.
    pub(crate) settings: Vec<(&'static str, String)>,
}

/// A running Village, its Provider on both wires, and a Player's tools to use it.
pub(crate) struct Village {
    pub(crate) chat_completions: ScriptedProvider,
    pub(crate) anthropic: ScriptedProvider,
    url: String,
    http: reqwest::Client,
    services: BTreeMap<&'static str, Service>,
    data: TempDir,
    database: Option<TestDatabase>,
    redis_url: String,
}

impl Village {
    pub(crate) async fn start(shape: Shape) -> Self {
        Self::start_with(shape, Options::default()).await
    }

    pub(crate) async fn start_with(shape: Shape, options: Options) -> Self {
        // Another test of this process may have been first.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut village = Self {
            chat_completions: ScriptedProvider::start(Wire::ChatCompletions).await,
            anthropic: ScriptedProvider::start(Wire::Anthropic).await,
            url: String::new(),
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            services: BTreeMap::new(),
            data: TempDir::new().unwrap(),
            database: None,
            redis_url: String::new(),
        };
        let edge = match shape {
            Shape::Embedded => village.start_embedded(&options),
            Shape::Split => village.start_split(&options).await,
        };
        village.url = format!("http://{}", edge.address("HTTP listens").await);
        village.wait_until_it_answers().await;
        village
    }

    /// Ends every process and drops the database.
    pub(crate) async fn finish(mut self) {
        self.services.clear();
        if let Some(database) = self.database.take() {
            database.finish().await;
        }
    }

    /// Gives the process that serves HTTP.
    fn start_embedded(&mut self, options: &Options) -> &mut Service {
        let mut command = self.command("agentsville", options);
        command
            .arg("serve")
            .env("AGENTSVILLE__OPERATOR_TOKEN", OPERATOR_TOKEN)
            .env("BETTER_AUTH_SECRET", ROOT_SECRET);
        self.with_providers(&mut command);
        with_path(&mut command);
        self.run("agentsville", command)
    }

    /// From right to left: who is asked says where it listens, and then those start that ask. Gives the process that serves HTTP.
    async fn start_split(&mut self, options: &Options) -> &mut Service {
        let database = TestDatabase::postgres(Schema::Empty).await;
        let database_url = database.config().url.expose().to_owned();
        self.database = Some(database);
        let redis_url = testkit::redis::url();
        self.redis_url.clone_from(&redis_url);

        let migrated = program("agentsville")
            .arg("migrate")
            .env("DATABASE_URL", &database_url)
            .env("AGENTSVILLE__DATA_DIR", self.data.path())
            .output()
            .unwrap();
        assert!(migrated.status.success(), "{migrated:?}");

        let keys = keys(self.data.path());
        let service = |village: &Self, name: &str| {
            let mut command = village.command(name, options);
            command.arg("--config").arg(&keys[name]);
            command
        };

        let mut command = service(self, "tool-registry");
        command
            .env("DATABASE_URL", &database_url)
            .env("REDIS_URL", &redis_url)
            .env("AGENTSVILLE__OPERATOR_TOKEN", OPERATOR_TOKEN)
            .env("BETTER_AUTH_SECRET", ROOT_SECRET);
        self.run("tool-registry", command);

        // It holds no secret but its own key: no database, no Redis, no Provider, no root secret.
        let command = service(self, "fetch-proxy");
        self.run("fetch-proxy", command);

        let registry = self.peer("tool-registry").await;

        // It unseals credentials, and knows no database and no Provider.
        let mut command = service(self, "mcp-gateway");
        command
            .env("REDIS_URL", &redis_url)
            .env("BETTER_AUTH_SECRET", ROOT_SECRET)
            .env("AGENTSVILLE__PEERS__TOOL_REGISTRY", &registry);
        with_path(&mut command);
        self.run("mcp-gateway", command);

        let fetch = self.peer("fetch-proxy").await;
        let gateway = self.peer("mcp-gateway").await;

        let mut command = service(self, "turn-orchestrator");
        command
            .env("DATABASE_URL", &database_url)
            .env("REDIS_URL", &redis_url)
            .env("AGENTSVILLE__PEERS__TOOL_REGISTRY", &registry)
            .env("AGENTSVILLE__PEERS__FETCH_PROXY", &fetch)
            .env("AGENTSVILLE__PEERS__MCP_GATEWAY", &gateway);
        self.with_providers(&mut command);
        self.run("turn-orchestrator", command);

        let turns = self.peer("turn-orchestrator").await;

        let mut command = service(self, "edge");
        command
            .env("AGENTSVILLE__PEERS__TOOL_REGISTRY", &registry)
            .env("AGENTSVILLE__PEERS__MCP_GATEWAY", &gateway)
            .env("AGENTSVILLE__PEERS__TURN_ORCHESTRATOR", &turns);
        self.run("edge", command)
    }

    /// Starts one more gateway, orchestrator and edge of a split Village, beside the same registry, database and Redis. Gives the URL of that edge.
    pub(crate) async fn start_replica(&mut self) -> String {
        let registry = self.peer("tool-registry").await;
        let database_url = self
            .database
            .as_ref()
            .unwrap()
            .config()
            .url
            .expose()
            .to_owned();
        let service = |village: &Self, name: &str| {
            let mut command = village.command(name, &Options::default());
            command
                .arg("--config")
                .arg(village.data.path().join(format!("{name}.toml")))
                .env("DATABASE_URL", &database_url)
                .env("REDIS_URL", &village.redis_url)
                .env("AGENTSVILLE__OUTBOUND__ALLOW", r#"["127.0.0.0/8"]"#)
                .env("AGENTSVILLE__PEERS__TOOL_REGISTRY", &registry);
            command
        };
        let mut command = service(self, "mcp-gateway");
        command
            .env_remove("DATABASE_URL")
            .env("BETTER_AUTH_SECRET", ROOT_SECRET);
        with_path(&mut command);
        self.run("mcp-gateway of the replica", command);
        let gateway = self.peer("mcp-gateway of the replica").await;
        let mut command = service(self, "turn-orchestrator");
        command.env("AGENTSVILLE__PEERS__MCP_GATEWAY", &gateway);
        self.with_providers(&mut command);
        self.run("turn-orchestrator of the replica", command);
        let turns = self.peer("turn-orchestrator of the replica").await;
        let mut command = service(self, "edge");
        command
            .env("AGENTSVILLE__PEERS__MCP_GATEWAY", &gateway)
            .env("AGENTSVILLE__PEERS__TURN_ORCHESTRATOR", &turns);
        let edge = self.run("edge of the replica", command);
        format!("http://{}", edge.address("HTTP listens").await)
    }

    /// What those who ask this service are told about where it is, once it listens.
    async fn peer(&mut self, service: &str) -> String {
        format!("http://{}", self.grpc_address(service).await)
    }

    /// A process of this Village, which picks its own ports.
    fn command(&self, name: &str, options: &Options) -> Command {
        let mut command = program(name);
        command
            .env("AGENTSVILLE__DATA_DIR", self.data.path().join("data"))
            .env("AGENTSVILLE__EDGE__LISTEN", "127.0.0.1:0")
            .env("AGENTSVILLE__GRPC__LISTEN", "127.0.0.1:0")
            .env("AGENTSVILLE__ADMIN__LISTEN", "127.0.0.1:0")
            .env("AGENTSVILLE__EGRESS__LISTEN", "127.0.0.1:0")
            .envs(options.settings.iter().map(|(key, value)| (key, value)));
        command
    }

    fn with_providers(&self, command: &mut Command) {
        command
            .env("OPENAI_BASE_URL", self.chat_completions.base_url())
            .env("OPENAI_API_KEY", "key-of-a-test")
            .env("ANTHROPIC_BASE_URL", self.anthropic.base_url())
            .env("ANTHROPIC_API_KEY", "key-of-a-test");
    }

    fn run(&mut self, name: &'static str, command: Command) -> &mut Service {
        let log = self.data.path().join(format!("{name}.log"));
        let service = Service::start(command, log);
        self.services.entry(name).insert_entry(service).into_mut()
    }

    async fn wait_until_it_answers(&mut self) {
        let answered = tokio::time::timeout(START, async {
            loop {
                // The edge may be there before those that it asks.
                let listen = |service: &Service| service.logged().contains("gRPC is listening");
                let request = self.request(Method::GET, "/v1/me");
                if self.services.values().all(listen)
                    && request
                        .send()
                        .await
                        .is_ok_and(|response| response.status() == 200)
                {
                    return;
                }
                self.services.values_mut().for_each(Service::assert_running);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        assert!(answered.await.is_ok(), "the Village does not answer");
    }

    /// Where one of its processes serves gRPC: `agentsville` is all of the house.
    pub(crate) async fn grpc_address(&mut self, service: &str) -> String {
        let service = self.services.get_mut(service).unwrap();
        service.grpc_address().await
    }

    /// What every process has logged so far.
    pub(crate) fn logged(&self) -> String {
        self.services.values().map(Service::logged).collect()
    }

    /// A request by the Operator.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.request_as(OPERATOR_TOKEN, method, path)
    }

    /// A request by whoever holds the token.
    pub(crate) fn request_as(&self, token: &str, method: Method, path: &str) -> RequestBuilder {
        self.request_at(&self.url, token, method, path)
    }

    /// A request by whoever holds the token, to one edge of several.
    pub(crate) fn request_at(
        &self,
        url: &str,
        token: &str,
        method: Method,
        path: &str,
    ) -> RequestBuilder {
        self.http
            .request(method, format!("{url}{path}"))
            .bearer_auth(token)
    }

    /// Runs the command line as the Operator.
    pub(crate) fn cli(&self, arguments: &[&str]) -> Output {
        program("agentsville")
            .args(["--server", &self.url])
            .args(arguments)
            .env("AGENTSVILLE_TOKEN", OPERATOR_TOKEN)
            .output()
            .unwrap()
    }

    /// Runs the command line with `--json`, expects it to succeed, and reads the one value that it prints.
    pub(crate) fn cli_json(&self, arguments: &[&str]) -> Value {
        // In front: what comes after `--` is a command's.
        let output = self.cli(&[&["--json"], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// An NPC of the Operator that runs on this model.
    pub(crate) fn npc(&self, name: &str, model: &str) {
        self.cli_json(&["npc", "create", name, "--model", model]);
    }

    /// Waits until an NPC is offered a Tool.
    pub(crate) async fn until_offered(&self, npc: &str, tool: &str) {
        let offered = tokio::time::timeout(START, async {
            loop {
                let listed = self.cli_json(&["npc", "tools", npc]);
                let mut tools = listed["tools"].as_array().unwrap().iter();
                if tools.any(|offered| offered["name"] == tool) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        assert!(offered.await.is_ok(), "{npc} is not offered {tool}");
    }

    /// Says something to an NPC, and returns the chunks of the answer once it is whole.
    pub(crate) async fn chat(&self, npc: &str, conversation: &str, text: &str) -> Vec<Value> {
        let response = self
            .start_chat(
                npc,
                conversation,
                &format!("{conversation}-{}", text.len()),
                text,
            )
            .await;
        let status = response.status();
        let body = response.text().await.unwrap();
        assert_eq!(status, 200, "{body}");
        chunks(&body)
    }

    /// Starts a turn, and returns the answer as it begins to stream.
    pub(crate) async fn start_chat(
        &self,
        npc: &str,
        conversation: &str,
        message: &str,
        text: &str,
    ) -> reqwest::Response {
        let message =
            json!({"id": message, "role": "user", "parts": [{"type": "text", "text": text}]});
        let body = json!({
            "id": conversation,
            "messages": [message],
            "trigger": "submit-message",
            "npc": npc,
        });
        self.request(Method::POST, "/v1/chat")
            .json(&body)
            .send()
            .await
            .unwrap()
    }

    /// A Conversation as a client reads it back.
    pub(crate) async fn conversation(&self, id: &str) -> Value {
        let path = format!("/v1/conversations/{id}");
        let response = self.request(Method::GET, &path).send().await.unwrap();
        assert_eq!(response.status(), 200);
        response.json().await.unwrap()
    }
}

/// The chunks of a UI message stream.
pub(crate) fn chunks(body: &str) -> Vec<Value> {
    body.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

/// The first chunk of this type.
pub(crate) fn chunk<'c>(chunks: &'c [Value], kind: &str) -> &'c Value {
    chunks
        .iter()
        .find(|chunk| chunk["type"] == kind)
        .unwrap_or_else(|| panic!("no {kind} in {chunks:#?}"))
}

/// Commands of MCP Servers are looked for where those of this test are.
fn with_path(command: &mut Command) {
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
}

/// The settings file of each service with its keys, as `agentsville keys` prints them.
fn keys(folder: &Path) -> BTreeMap<String, std::path::PathBuf> {
    let output = program("agentsville").arg("keys").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.split("\n# ---- ")
        .skip(1)
        .map(|section| {
            let (name, settings) = section.split_once(".toml ----\n").unwrap();
            let path = folder.join(format!("{name}.toml"));
            fs::write(&path, settings).unwrap();
            (name.to_owned(), path)
        })
        .collect()
}
