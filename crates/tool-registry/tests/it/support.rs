//! A registry in this process, and those who call it.

use std::{sync::Arc, time::Duration};

use coordination::{Coordination, Signal, SignalStream};
use futures::{FutureExt as _, StreamExt as _};
use kernel::{Caller, ErrorCode, NpcId, PlayerId, Secret, ServiceName};
use proto::registry::v1::{
    AddGrantRequest, AuthenticatePlayerRequest, CreateMcpServerRequest, CreateNpcRequest,
    CreatePlayerRequest, Grant, ListAuditRowsRequest, McpServer, McpTransport, NamedSecret, Npc,
    audit_service_client::AuditServiceClient, grant_service_client::GrantServiceClient,
    mcp_server_resolution_service_client::McpServerResolutionServiceClient,
    mcp_server_service_client::McpServerServiceClient, npc_service_client::NpcServiceClient,
    player_service_client::PlayerServiceClient, resolution_service_client::ResolutionServiceClient,
};
use runtime::{
    CallerChannel, GrpcService, Lifecycle, Peer, ServerLayers, Transport,
    status::{Problem, problem},
    token::Village,
};
use sea_orm::ConnectionTrait as _;
use store::Store;
use testkit::{clock::ManualClock, dns::ScriptedDns};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Response, Status};
use tool_registry::{Config, Deps, Error, build};
use vault::Vault;

pub(crate) const OPERATOR_TOKEN: &str = "an operator token of 32 bytes...";
/// NPCs that one Player may own here.
pub(crate) const NPCS: u64 = 4;
/// MCP Servers that one Player may own here.
pub(crate) const SERVERS: u64 = 8;
/// The root secret, unless a test has another.
pub(crate) const ROOT_SECRET: &str = "a root secret of 32 bytes, at least";
/// A name that DNS answers with a public address.
pub(crate) const HOST: &str = "mcp.example.com";

pub(crate) fn config(operator_token: &str) -> Config {
    Config {
        operator_token: Secret::new(operator_token),
        providers: vec!["anthropic".to_owned(), "openai".to_owned()],
        npcs_per_player: NPCS,
        mcp_servers_per_player: SERVERS,
    }
}

/// The vault under a root secret.
pub(crate) fn vault(secret: &str) -> Arc<Vault> {
    Arc::new(Vault::new(&Secret::new(secret)).expect("a vault"))
}

/// Signals inside this process.
pub(crate) fn coordination() -> Coordination {
    let config = coordination::Config::in_process();
    coordination::connect(&config, &TaskTracker::new(), &CancellationToken::new())
        .expect("signals in process")
}

/// A way out that asks this DNS server, with these exemptions from the guard.
pub(crate) fn connector(dns: &ScriptedDns, allow: &[&str]) -> outbound::Connector {
    runtime::process::install_crypto();
    let config = serde_json::json!({ "nameserver": dns.address().to_string(), "allow": allow });
    let config: outbound::Config = serde_json::from_value(config).expect("settings");
    outbound::Connector::new(&config, TaskTracker::new()).expect("a connector")
}

/// A registry with an Operator and two Players.
pub(crate) struct Setup {
    pub(crate) operator: Caller,
    pub(crate) owner: Caller,
    pub(crate) other: Caller,
    pub(crate) store: Store,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) dns: ScriptedDns,
    pub(crate) coordination: Coordination,
    service: GrpcService,
    village: Village,
}

impl Setup {
    pub(crate) async fn new(store: Store) -> Self {
        Self::exempting(store, &[]).await
    }

    /// With exemptions from the guard.
    pub(crate) async fn exempting(store: Store, allow: &[&str]) -> Self {
        let mut setup = Self::under(store, ROOT_SECRET, allow).await;
        setup.owner = setup.new_player("Ada").await.0;
        setup.other = setup.new_player("Ben").await.0;
        setup
    }

    /// The same database under another root secret. It has the Operator, and whoever `like` has.
    pub(crate) async fn rotated(like: &Self, secret: &str) -> Self {
        let mut setup = Self::under(like.store.clone(), secret, &[]).await;
        setup.owner = like.owner.clone();
        setup.other = like.other.clone();
        setup
    }

    async fn under(store: Store, secret: &str, allow: &[&str]) -> Self {
        let clock = Arc::new(ManualClock::default());
        let dns = ScriptedDns::start().await;
        dns.host(HOST, &["93.184.216.34"]);
        let mut setup = Self::empty(store, clock, dns, secret, allow)
            .await
            .expect("the registry is built");
        setup.operator =
            Caller::Operator(setup.holder(OPERATOR_TOKEN).await.expect("the Operator"));
        setup
    }

    async fn empty(
        store: Store,
        clock: Arc<ManualClock>,
        dns: ScriptedDns,
        secret: &str,
        allow: &[&str],
    ) -> Result<Self, Error> {
        let village = Village::generate(&(Arc::clone(&clock) as _)).expect("keys");
        let coordination = coordination();
        let deps = Deps {
            store: store.clone(),
            clock: Arc::clone(&clock) as _,
            vault: vault(secret),
            connector: connector(&dns, allow),
            signals: Arc::clone(&coordination.signals),
        };
        let server = build(config(OPERATOR_TOKEN), deps, &Lifecycle::new()).await?;
        let nobody = Caller::Player(PlayerId::mint(&*clock));
        Ok(Self {
            operator: nobody.clone(),
            owner: nobody.clone(),
            other: nobody,
            store,
            service: server.layered(ServerLayers {
                trust: village.trust(),
                longest_call: Duration::from_mins(1),
            }),
            village,
            clock,
            dns,
            coordination,
        })
    }

    fn channel(&self, caller: &Caller) -> CallerChannel {
        // Time goes on between calls, so that what comes later is newer.
        self.clock.advance(Duration::from_millis(1));
        let issuer = match caller {
            Caller::Operator(_) | Caller::Player(_) => ServiceName::Edge,
            Caller::Npc { .. } => ServiceName::TurnOrchestrator,
            Caller::Service { name, .. } => *name,
        };
        let transport = Transport::in_process(&self.service);
        let issuer = self.village.issuer(issuer);
        Peer::new(transport, issuer, ServiceName::ToolRegistry).as_caller(caller)
    }

    pub(crate) fn npcs(&self, caller: &Caller) -> NpcServiceClient<CallerChannel> {
        NpcServiceClient::new(self.channel(caller))
    }

    pub(crate) fn grants(&self, caller: &Caller) -> GrantServiceClient<CallerChannel> {
        GrantServiceClient::new(self.channel(caller))
    }

    pub(crate) fn servers(&self, caller: &Caller) -> McpServerServiceClient<CallerChannel> {
        McpServerServiceClient::new(self.channel(caller))
    }

    pub(crate) fn mcp_resolution(
        &self,
        caller: &Caller,
    ) -> McpServerResolutionServiceClient<CallerChannel> {
        McpServerResolutionServiceClient::new(self.channel(caller))
    }

    /// What is announced of MCP Servers from now on.
    pub(crate) async fn announcements(&self) -> Announcements {
        Announcements(self.coordination.signals.subscribe("mcp-servers").await)
    }

    pub(crate) async fn server(
        &self,
        owner: &Caller,
        request: CreateMcpServerRequest,
    ) -> McpServer {
        let created = self.servers(owner).create_mcp_server(request).await;
        let server = created.expect("an MCP Server").into_inner().server;
        server.expect("an MCP Server")
    }

    pub(crate) fn players(&self, caller: &Caller) -> PlayerServiceClient<CallerChannel> {
        PlayerServiceClient::new(self.channel(caller))
    }

    pub(crate) fn audit(&self, caller: &Caller) -> AuditServiceClient<CallerChannel> {
        AuditServiceClient::new(self.channel(caller))
    }

    pub(crate) fn resolution(&self, caller: &Caller) -> ResolutionServiceClient<CallerChannel> {
        ResolutionServiceClient::new(self.channel(caller))
    }

    /// Whose token this is.
    pub(crate) async fn holder(&self, token: &str) -> Result<PlayerId, Problem> {
        let edge = service(ServiceName::Edge, None);
        let request = AuthenticatePlayerRequest {
            token: token.to_owned(),
        };
        let answer = self.resolution(&edge).authenticate_player(request).await;
        let player = answer
            .map_err(|status| problem(&status))?
            .into_inner()
            .player;
        Ok(player.expect("a Player").id.parse().expect("an id"))
    }

    /// A new Player, and its token.
    pub(crate) async fn new_player(&self, name: &str) -> (Caller, String) {
        let request = CreatePlayerRequest {
            name: name.to_owned(),
        };
        let created = self.players(&self.operator).create_player(request).await;
        let created = created.expect("a Player").into_inner();
        let id = created.player.expect("a Player").id;
        (Caller::Player(id.parse().expect("an id")), created.token)
    }

    /// The model of an NPC in a turn of this Player.
    pub(crate) fn model(&self) -> Caller {
        Caller::Npc {
            npc: NpcId::mint(&*self.clock),
            player: self.owner.player().expect("a Player"),
        }
    }

    pub(crate) async fn npc(&self, owner: &Caller, name: &str) -> Npc {
        self.create(owner, named(name)).await
    }

    pub(crate) async fn private_npc(&self, owner: &Caller, name: &str) -> Npc {
        let request = CreateNpcRequest {
            private: true,
            ..named(name)
        };
        self.create(owner, request).await
    }

    pub(crate) async fn create(&self, owner: &Caller, request: CreateNpcRequest) -> Npc {
        let created = self.npcs(owner).create_npc(request).await;
        created.expect("an NPC").into_inner().npc.expect("an NPC")
    }

    pub(crate) async fn add(
        &self,
        caller: &Caller,
        npc: &str,
        what: &str,
    ) -> Result<Grant, Problem> {
        let request = AddGrantRequest {
            npc: npc.to_owned(),
            what: what.to_owned(),
            ..AddGrantRequest::default()
        };
        let added = self.grants(caller).add_grant(request).await;
        let added = added.map_err(|status| problem(&status))?;
        Ok(added.into_inner().grant.expect("a Grant"))
    }

    /// How many rows a query finds.
    pub(crate) async fn rows(&self, query: &str) -> usize {
        let backend = self.store.reader().get_database_backend();
        let query = sea_orm::Statement::from_string(backend, query);
        let rows = self.store.reader().query_all_raw(query).await;
        rows.expect("rows").len()
    }

    /// What was done, newest first: action and actor.
    pub(crate) async fn audited(&self) -> Vec<(String, String)> {
        let rows = self
            .audit(&self.operator)
            .list_audit_rows(ListAuditRowsRequest::default())
            .await
            .expect("the audit log")
            .into_inner()
            .rows;
        rows.into_iter()
            .map(|row| (row.action, row.actor))
            .collect()
    }
}

/// Announcements that were made and not read.
pub(crate) struct Announcements(SignalStream);

impl Announcements {
    /// All that came so far, as JSON.
    pub(crate) fn so_far(&mut self) -> Vec<serde_json::Value> {
        let mut all = Vec::new();
        while let Some(Some(signal)) = self.0.next().now_or_never() {
            match signal {
                Signal::Message(payload) => {
                    all.push(serde_json::from_slice(&payload).expect("JSON"));
                }
                Signal::Missed => all.push("missed".into()),
            }
        }
        all
    }
}

/// A server over HTTP.
pub(crate) fn http(name: &str) -> CreateMcpServerRequest {
    CreateMcpServerRequest {
        name: name.to_owned(),
        transport: McpTransport::Http.into(),
        url: format!("https://{HOST}/mcp"),
        ..CreateMcpServerRequest::default()
    }
}

/// A private one.
pub(crate) fn private_http(name: &str) -> CreateMcpServerRequest {
    CreateMcpServerRequest {
        private: true,
        ..http(name)
    }
}

/// A command.
pub(crate) fn stdio(name: &str) -> CreateMcpServerRequest {
    CreateMcpServerRequest {
        name: name.to_owned(),
        transport: McpTransport::Stdio.into(),
        command: "npx".to_owned(),
        arguments: vec!["-y".to_owned(), "server".to_owned()],
        ..CreateMcpServerRequest::default()
    }
}

/// One secret.
pub(crate) fn secret(name: &str, value: &str) -> Vec<NamedSecret> {
    vec![NamedSecret {
        name: name.to_owned(),
        value: value.to_owned(),
    }]
}

pub(crate) fn service(name: ServiceName, player: Option<PlayerId>) -> Caller {
    Caller::Service { name, player }
}

pub(crate) fn named(name: &str) -> CreateNpcRequest {
    CreateNpcRequest {
        name: name.to_owned(),
        ..CreateNpcRequest::default()
    }
}

/// Why a call was refused.
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<Response<T>, Status>) -> Problem {
    problem(&result.expect_err("it is refused"))
}

/// How a call went.
pub(crate) fn code<T>(result: Result<Response<T>, Status>) -> Result<(), ErrorCode> {
    result.map(|_| ()).map_err(|status| problem(&status).code)
}
