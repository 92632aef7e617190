//! A gateway, a real registry on a real database, and those who call them.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use coordination::Coordination;
use kernel::{Caller, Clock, PlayerId, Secret, ServiceName, SystemClock};
use mcp_gateway::{Config, Deps};
use outbound::Connector;
use proto::{
    mcp::v1::{
        CallProgress, CallResult, CallToolRequest, ListToolsRequest, ServerTools, WantedServer,
        call_tool_response::Item, mcp_service_client::McpServiceClient,
    },
    registry::v1::{
        AuthenticatePlayerRequest, CreateMcpServerRequest, CreatePlayerRequest, McpServer,
        McpTransport, mcp_server_service_client::McpServerServiceClient,
        player_service_client::PlayerServiceClient,
        resolution_service_client::ResolutionServiceClient,
    },
};
use runtime::{
    CallerChannel, GrpcService, Host, Issuer, Lifecycle, Peer, ServerLayers, SigningKey, Transport,
    host::Keys,
    status::{self, Problem},
    token,
};
use testkit::{
    database::{Schema, TestDatabase},
    mcp::{Eras, Fault, Manner, Script, ScriptedMcp, Speaks},
    port::HeldPort,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::Status;
use vault::Vault;

/// The Operator's token.
const OPERATOR_TOKEN: &str = "an operator token of 32 bytes...";
/// The root secret, of the registry and of the gateway.
const ROOT_SECRET: &str = "a root secret of 32 bytes, at least";
/// How long a call of a test may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the gateway of a test runs.
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
                super::$name(crate::service::village::Shape::InProcess).await;
            })+
        }

        mod as_binary {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::service::village::Shape::AsBinary).await;
            })+
        }
    };
}
pub(crate) use in_both_shapes;

/// What a test may choose.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) shape: Shape,
    /// What the gateway's guard lets through besides what is public. The registry's lets loopback through always.
    pub(crate) allow: &'static str,
    /// The gateway's root secret.
    pub(crate) secret: &'static str,
}

impl Setup {
    pub(crate) const fn of(shape: Shape) -> Self {
        Self {
            shape,
            allow: "127.0.0.0/8",
            secret: ROOT_SECRET,
        }
    }
}

/// A Village with an Operator and two Players.
pub(crate) struct Village {
    pub(crate) operator: Caller,
    pub(crate) ada: Caller,
    pub(crate) ben: Caller,
    pub(crate) lifecycle: Lifecycle,
    registry: GrpcService,
    gateway: Transport,
    keys: Arc<token::Village>,
    _process: Option<Process>,
    _coordination: Coordination,
    _database: TestDatabase,
}

impl Village {
    pub(crate) async fn new(shape: Shape) -> Self {
        Self::with(Setup::of(shape)).await
    }

    pub(crate) async fn with(setup: Setup) -> Self {
        runtime::process::install_crypto();
        let database = TestDatabase::sqlite(Schema::Migrated).await;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let keys = Arc::new(token::Village::generate(&clock).expect("keys"));
        let lifecycle = Lifecycle::new();
        let coordination = coordination::connect(
            &coordination::Config::in_process(),
            &TaskTracker::new(),
            &CancellationToken::new(),
        )
        .expect("signals in process");
        let layers = ServerLayers {
            trust: keys.trust(),
            longest_call: Duration::from_mins(2),
        };
        let registry = tool_registry::build(
            tool_registry::Config {
                operator_token: Secret::new(OPERATOR_TOKEN),
                providers: Vec::new(),
                npcs_per_player: 10,
                mcp_servers_per_player: 100,
            },
            tool_registry::Deps {
                store: database.store(),
                clock: Arc::clone(&clock),
                vault: vault(ROOT_SECRET),
                connector: connector("127.0.0.0/8"),
                signals: Arc::clone(&coordination.signals),
            },
            &lifecycle,
        )
        .await
        .expect("a registry")
        .layered(layers.clone());
        let (gateway, process) = match setup.shape {
            Shape::InProcess => {
                let deps = Deps {
                    registry: Peer::new(
                        Transport::in_process(&registry),
                        keys.issuer(ServiceName::McpGateway),
                        ServiceName::ToolRegistry,
                    ),
                    connector: connector(setup.allow),
                    vault: vault(setup.secret),
                    signals: Arc::clone(&coordination.signals),
                    clock,
                    program: env!("CARGO_BIN_EXE_mcp-gateway").into(),
                };
                let built = mcp_gateway::build(Config::default(), deps, &lifecycle).await;
                let service = built.expect("a gateway").layered(layers);
                (Transport::in_process(&service), None)
            }
            Shape::AsBinary => {
                let (way, process) = as_binary(&setup, &registry, &keys).await;
                (way, Some(process))
            }
        };
        let nobody = Caller::Player(PlayerId::mint(&SystemClock));
        let mut village = Self {
            operator: nobody.clone(),
            ada: nobody.clone(),
            ben: nobody,
            lifecycle,
            registry,
            gateway,
            keys,
            _process: process,
            _coordination: coordination,
            _database: database,
        };
        village.operator = Caller::Operator(village.holder(OPERATOR_TOKEN).await);
        village.ada = village.new_player("Ada").await;
        village.ben = village.new_player("Ben").await;
        village
    }

    fn issuer(&self, caller: &Caller) -> Arc<Issuer> {
        self.keys.issuer(match caller {
            Caller::Operator(_) | Caller::Player(_) => ServiceName::Edge,
            Caller::Npc { .. } => ServiceName::TurnOrchestrator,
            Caller::Service { name, .. } => *name,
        })
    }

    fn registry(&self, caller: &Caller) -> CallerChannel {
        let transport = Transport::in_process(&self.registry);
        Peer::new(transport, self.issuer(caller), ServiceName::ToolRegistry).as_caller(caller)
    }

    pub(crate) fn servers(&self, caller: &Caller) -> McpServerServiceClient<CallerChannel> {
        McpServerServiceClient::new(self.registry(caller))
    }

    /// The gateway, for calls that may take so long.
    pub(crate) fn gateway_within(
        &self,
        caller: &Caller,
        patience: Duration,
    ) -> McpServiceClient<CallerChannel> {
        let peer = Peer::new(
            self.gateway.clone(),
            self.issuer(caller),
            ServiceName::McpGateway,
        );
        McpServiceClient::new(peer.channel(caller, patience))
            .max_decoding_message_size(kernel::limits::RPC_MESSAGE_BYTES)
    }

    pub(crate) fn gateway(&self, caller: &Caller) -> McpServiceClient<CallerChannel> {
        self.gateway_within(caller, PATIENCE)
    }

    /// Another gateway, whose registry nobody reaches as long as the port is held.
    pub(crate) async fn gateway_without_a_registry(&self) -> (Peer, HeldPort) {
        let held = HeldPort::new();
        let nowhere = Transport::remote(&format!("http://127.0.0.1:{}", held.number()), None);
        let coordination = coordination::connect(
            &coordination::Config::in_process(),
            &TaskTracker::new(),
            &CancellationToken::new(),
        )
        .expect("signals in process");
        let deps = Deps {
            registry: Peer::new(
                nowhere.expect("a transport"),
                self.keys.issuer(ServiceName::McpGateway),
                ServiceName::ToolRegistry,
            ),
            connector: connector("127.0.0.0/8"),
            vault: vault(ROOT_SECRET),
            signals: coordination.signals,
            clock: Arc::new(SystemClock),
            program: env!("CARGO_BIN_EXE_mcp-gateway").into(),
        };
        let built = mcp_gateway::build(Config::default(), deps, &self.lifecycle).await;
        let service = built.expect("a gateway").layered(ServerLayers {
            trust: self.keys.trust(),
            longest_call: Duration::from_mins(2),
        });
        let gateway = Peer::new(
            Transport::in_process(&service),
            self.keys.issuer(ServiceName::TurnOrchestrator),
            ServiceName::McpGateway,
        );
        (gateway, held)
    }

    async fn holder(&self, token: &str) -> PlayerId {
        let edge = Caller::Service {
            name: ServiceName::Edge,
            player: None,
        };
        let request = AuthenticatePlayerRequest {
            token: token.to_owned(),
        };
        let answer = ResolutionServiceClient::new(self.registry(&edge))
            .authenticate_player(request)
            .await
            .expect("the holder of a token");
        let player = answer.into_inner().player.expect("a Player");
        player.id.parse().expect("an id")
    }

    async fn new_player(&self, name: &str) -> Caller {
        let request = CreatePlayerRequest {
            name: name.to_owned(),
        };
        let created = PlayerServiceClient::new(self.registry(&self.operator))
            .create_player(request)
            .await
            .expect("a Player");
        let player = created.into_inner().player.expect("a Player");
        Caller::Player(player.id.parse().expect("an id"))
    }

    /// Registers a server.
    pub(crate) async fn register(
        &self,
        owner: &Caller,
        request: CreateMcpServerRequest,
    ) -> McpServer {
        let created = self.servers(owner).create_mcp_server(request).await;
        let server = created.expect("an MCP Server").into_inner().server;
        server.expect("an MCP Server")
    }

    /// Registers a scripted server for Ada.
    pub(crate) async fn docs(&self, scripted: &ScriptedMcp) -> McpServer {
        self.register(&self.ada, http("Docs", scripted)).await
    }

    /// The Tools of servers, in a turn of this Player.
    pub(crate) async fn list(
        &self,
        player: &Caller,
        wanted: Vec<WantedServer>,
    ) -> Vec<ServerTools> {
        self.list_within(player, wanted, PATIENCE).await
    }

    pub(crate) async fn list_within(
        &self,
        player: &Caller,
        wanted: Vec<WantedServer>,
        patience: Duration,
    ) -> Vec<ServerTools> {
        self.gateway_within(&turn(player), patience)
            .list_tools(ListToolsRequest { servers: wanted })
            .await
            .expect("an answer")
            .into_inner()
            .servers
    }

    /// What comes of a call in a turn of this Player.
    pub(crate) async fn call(
        &self,
        player: &Caller,
        server: &McpServer,
        tool: &str,
        arguments: &str,
    ) -> CallResult {
        self.try_call(player, of(server, tool, arguments))
            .await
            .expect("a result")
            .1
    }

    /// The same, with its progress, or why there is none.
    pub(crate) async fn try_call(
        &self,
        player: &Caller,
        request: CallToolRequest,
    ) -> Result<(Vec<CallProgress>, CallResult), Problem> {
        let told = |status: Status| status::problem(&status);
        let mut client = self.gateway(&turn(player));
        let mut items = client.call_tool(request).await.map_err(told)?.into_inner();
        let mut progress = Vec::new();
        let mut result = None;
        while let Some(item) = items.message().await.map_err(told)? {
            assert_eq!(result, None, "something after the result");
            match item.item.expect("an item") {
                Item::Progress(step) => progress.push(step),
                Item::Result(ended) => result = Some(ended),
            }
        }
        Ok((progress, result.expect("a result")))
    }
}

/// A turn of this Player.
pub(crate) fn turn(player: &Caller) -> Caller {
    Caller::Service {
        name: ServiceName::TurnOrchestrator,
        player: player.player(),
    }
}

pub(crate) fn of(server: &McpServer, tool: &str, arguments: &str) -> CallToolRequest {
    CallToolRequest {
        server_id: server.id.clone(),
        generation: server.generation,
        tool_name: tool.to_owned(),
        arguments_json: arguments.to_owned(),
        call_id: "call-1".to_owned(),
    }
}

/// All Tools of a server.
pub(crate) fn all(server: &McpServer) -> WantedServer {
    WantedServer {
        server_id: server.id.clone(),
        generation: server.generation,
        ..WantedServer::default()
    }
}

/// A request to register a scripted server.
pub(crate) fn http(name: &str, scripted: &ScriptedMcp) -> CreateMcpServerRequest {
    CreateMcpServerRequest {
        name: name.to_owned(),
        transport: McpTransport::Http.into(),
        url: scripted.url(),
        ..CreateMcpServerRequest::default()
    }
}

/// A scripted server of the older era.
pub(crate) async fn scripted(faults: impl IntoIterator<Item = Fault>) -> ScriptedMcp {
    let script = Script::with(Eras::Legacy, faults);
    ScriptedMcp::start(script, Speaks::Http(Manner::Json)).await
}

pub(crate) fn vault(secret: &str) -> Arc<Vault> {
    Arc::new(Vault::new(&Secret::new(secret)).expect("a vault"))
}

fn connector(allow: &str) -> Connector {
    let allow: Vec<&str> = Some(allow)
        .filter(|allow| !allow.is_empty())
        .into_iter()
        .collect();
    let config = serde_json::json!({ "allow": allow });
    let config: outbound::Config = serde_json::from_value(config).expect("settings");
    Connector::new(&config, TaskTracker::new()).expect("a connector")
}

async fn as_binary(
    setup: &Setup,
    registry: &GrpcService,
    keys: &token::Village,
) -> (Transport, Process) {
    let address = Host::new(Lifecycle::new(), Keys::Set)
        .add(registry.clone())
        .listen(([127, 0, 0, 1], 0).into())
        .await
        .expect("the registry listens");
    let own = SigningKey::generate().expect("a key");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let private = own.private_key().expose().to_owned();
    let issuer = Issuer::new(ServiceName::McpGateway, own, clock);
    let mints = token::default_mints(issuer.name());
    keys.trust()
        .add(issuer.name(), &issuer.public_key(), mints)
        .expect("a key that is trusted");
    let trusted = |service| keys.issuer(service).public_key();
    let environment = [
        ("GRPC__LISTEN", "127.0.0.1:0".to_owned()),
        ("ADMIN__LISTEN", "127.0.0.1:0".to_owned()),
        ("SECRET", setup.secret.to_owned()),
        ("PEERS__TOOL_REGISTRY", format!("http://{address}")),
        ("OUTBOUND__ALLOW", format!("[{:?}]", setup.allow)),
        ("KEYS__PRIVATE", private),
        ("KEYS__TRUST__EDGE__PUBLIC_KEY", trusted(ServiceName::Edge)),
        (
            "KEYS__TRUST__TURN_ORCHESTRATOR__PUBLIC_KEY",
            trusted(ServiceName::TurnOrchestrator),
        ),
    ];
    let started = tokio::task::spawn_blocking(move || Process::start(&environment));
    let (process, address) = started.await.expect("a process");
    let way = Transport::remote(&format!("http://{address}"), None).expect("a transport");
    (way, process)
}

/// A process that ends with its test.
pub(crate) struct Process(Child);

impl Process {
    /// The binary with these settings, and the address of its gRPC.
    fn start(settings: &[(&str, String)]) -> (Self, String) {
        let child = Command::new(env!("CARGO_BIN_EXE_mcp-gateway"))
            .env_clear()
            .envs(
                settings
                    .iter()
                    .map(|(key, value)| (format!("AGENTSVILLE__{key}"), value)),
            )
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut process = Self(child);
        let stderr = process.0.stderr.take().expect("a pipe");
        let mut seen = String::new();
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        for line in lines.by_ref() {
            if line.contains("gRPC is listening") {
                let record: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
                let address = record
                    .get("address")
                    .or_else(|| record.pointer("/fields/address"))
                    .and_then(serde_json::Value::as_str)
                    .unwrap_or_else(|| panic!("no address in {line}"))
                    .to_owned();
                std::thread::spawn(move || lines.for_each(drop));
                return (process, address);
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
