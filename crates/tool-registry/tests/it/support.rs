//! A registry in this process, and those who call it.

use std::{sync::Arc, time::Duration};

use kernel::{Caller, ErrorCode, NpcId, PlayerId, Secret, ServiceName};
use proto::registry::v1::{
    AddGrantRequest, AuthenticatePlayerRequest, CreateNpcRequest, CreatePlayerRequest, Grant,
    ListAuditRowsRequest, Npc, audit_service_client::AuditServiceClient,
    grant_service_client::GrantServiceClient, npc_service_client::NpcServiceClient,
    player_service_client::PlayerServiceClient, resolution_service_client::ResolutionServiceClient,
};
use runtime::{
    CallerChannel, GrpcService, Lifecycle, Peer, ServerLayers, Transport,
    status::{Problem, problem},
    token::Village,
};
use store::Store;
use testkit::clock::ManualClock;
use tonic::{Response, Status};
use tool_registry::{Config, Deps, Error, build};

pub(crate) const OPERATOR_TOKEN: &str = "an operator token of 32 bytes...";
/// NPCs that one Player may own here.
pub(crate) const NPCS: u64 = 4;

pub(crate) fn config(operator_token: &str) -> Config {
    Config {
        operator_token: Secret::new(operator_token),
        providers: vec!["anthropic".to_owned(), "openai".to_owned()],
        npcs_per_player: NPCS,
    }
}

/// A registry with an Operator and two Players.
pub(crate) struct Setup {
    pub(crate) operator: Caller,
    pub(crate) owner: Caller,
    pub(crate) other: Caller,
    pub(crate) store: Store,
    pub(crate) clock: Arc<ManualClock>,
    service: GrpcService,
    village: Village,
}

impl Setup {
    pub(crate) async fn new(store: Store) -> Self {
        let clock = Arc::new(ManualClock::default());
        let mut setup = Self::empty(store, clock)
            .await
            .expect("the registry is built");
        setup.operator =
            Caller::Operator(setup.holder(OPERATOR_TOKEN).await.expect("the Operator"));
        setup.owner = setup.new_player("Ada").await.0;
        setup.other = setup.new_player("Ben").await.0;
        setup
    }

    async fn empty(store: Store, clock: Arc<ManualClock>) -> Result<Self, Error> {
        let village = Village::generate(&(Arc::clone(&clock) as _)).expect("keys");
        let deps = Deps {
            store: store.clone(),
            clock: Arc::clone(&clock) as _,
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
            tools: Vec::new(),
        };
        let added = self.grants(caller).add_grant(request).await;
        let added = added.map_err(|status| problem(&status))?;
        Ok(added.into_inner().grant.expect("a Grant"))
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
