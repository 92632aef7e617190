//! A Village around the service: a real registry on a real store, a fetch-proxy that says what a test tells it to, and a Provider
//! behind a socket.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use coordination::Coordination;
use futures::StreamExt as _;
use kernel::{Caller, Clock, PlayerId, Secret, ServiceName, limits::RPC_MESSAGE_BYTES};
use llm::Providers;
use proto::{
    fetch::v1::{
        FetchRequest, FetchResponse, Page, Refusal, RefusalReason,
        fetch_response::Outcome,
        fetch_service_server::{FetchService, FetchServiceServer},
    },
    registry::v1::{
        AddGrantRequest, AuditRow, AuthenticatePlayerRequest, CreateNpcRequest,
        CreatePlayerRequest, ListAuditRowsRequest, RemoveGrantRequest, UpdateNpcRequest,
        audit_service_client::AuditServiceClient, grant_service_client::GrantServiceClient,
        npc_service_client::NpcServiceClient, player_service_client::PlayerServiceClient,
        resolution_service_client::ResolutionServiceClient,
    },
    turn::v1::{
        AbortTurnRequest, GetConversationRequest, GetConversationResponse, GetMessageRequest,
        Message, RegenerateMessage, StartTurnRequest, StartTurnResponse, SubmitMessage, TurnEvent,
        WatchTurnRequest, abort_turn_request,
        conversation_service_client::ConversationServiceClient, start_turn_request::Trigger,
        turn_service_client::TurnServiceClient, watch_turn_request, watch_turn_response::Item,
    },
};
use runtime::{
    CallerChannel, GrpcServer, GrpcService, Lifecycle, Peer, ServerLayers, Transport, token,
};
use store::Store;
use testkit::{
    clock::ManualClock,
    provider::{ScriptedProvider, Wire},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Request, Response, Status};
use turn_orchestrator::{Config, Deps};

use crate::{
    gateway::{self, Gateway},
    replay::{Replay, timeless},
};

/// The Operator's token in the registry of a test.
const OPERATOR_TOKEN: &str = "the-operator's-token-of-this-test";

/// The fetch-proxy's state.
#[derive(Default)]
pub(crate) struct Fetch {
    pages: Mutex<HashMap<String, Result<Page, Refusal>>>,
    hook: Mutex<Option<Hook>>,
    pub(crate) requests: Mutex<Vec<(Caller, FetchRequest)>>,
    pub(crate) silent: AtomicBool,
}

type Hook = Arc<dyn Fn() -> futures::future::BoxFuture<'static, ()> + Send + Sync>;

/// A Village of a test.
pub(crate) struct Village {
    pub(crate) provider: ScriptedProvider,
    pub(crate) fetch: Arc<Fetch>,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) store: Store,
    pub(crate) coordination: Coordination,
    pub(crate) player: PlayerId,
    pub(crate) operator: PlayerId,
    keys: Arc<token::Village>,
    registry: GrpcService,
    turns: Peer,
    _coordinating: CancellationToken,
}

/// What a Village is made with.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) wire: Wire,
    pub(crate) has_fetch: bool,
    pub(crate) has_gateway: bool,
    pub(crate) coordination: coordination::Config,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            config: Config {
                default_model: "scripted/model".to_owned(),
                ..Config::default()
            },
            wire: Wire::ChatCompletions,
            has_fetch: true,
            has_gateway: true,
            coordination: coordination::Config::in_process(),
        }
    }
}

impl Village {
    pub(crate) async fn new(store: Store) -> Self {
        Self::with(store, Setup::default()).await
    }

    pub(crate) async fn with(store: Store, setup: Setup) -> Self {
        runtime::process::install_crypto();
        let clock = Arc::new(ManualClock::default());
        let provider = ScriptedProvider::start(setup.wire).await;
        let fetch = Arc::new(Fetch::default());
        let gateway = Arc::new(Gateway::default());
        let dynamic: Arc<dyn Clock> = Arc::clone(&clock) as Arc<dyn Clock>;
        let keys = Arc::new(token::Village::generate(&dynamic).unwrap());
        let ended = CancellationToken::new();
        let coordination =
            coordination::connect(&setup.coordination, &TaskTracker::new(), &ended).unwrap();
        let config = tool_registry::Config {
            operator_token: Secret::new(OPERATOR_TOKEN),
            // The second is known to the registry alone.
            providers: vec!["scripted".to_owned(), "scriptd".to_owned()],
            npcs_per_player: 100,
            mcp_servers_per_player: 50,
        };
        let deps = tool_registry::Deps {
            store: store.clone(),
            clock: Arc::clone(&dynamic),
            vault: Arc::new(vault::Vault::new(&Secret::new(OPERATOR_TOKEN)).unwrap()),
            connector: outbound::Connector::new(&outbound::Config::default(), TaskTracker::new())
                .unwrap(),
            signals: Arc::clone(&coordination.signals),
        };
        let registry = tool_registry::build(config, deps, &Lifecycle::new())
            .await
            .unwrap()
            .layered(layers(&keys));
        let (turns, lifecycle) = orchestrator(
            &store,
            &coordination,
            &clock,
            &keys,
            (&registry, &fetch, &gateway),
            (&provider, &setup),
        );
        let mut village = Self {
            provider,
            fetch,
            gateway,
            lifecycle,
            store,
            coordination,
            // Both are known in a moment.
            player: PlayerId::mint(&*clock),
            operator: PlayerId::mint(&*clock),
            clock,
            keys,
            registry,
            turns,
            _coordinating: ended,
        };
        village.operator = village.authenticate(OPERATOR_TOKEN).await;
        village.player = village.new_player("Ada").await;
        village
    }

    async fn authenticate(&self, token: &str) -> PlayerId {
        let edge = Caller::Service {
            name: ServiceName::Edge,
            player: None,
        };
        ResolutionServiceClient::new(self.registry(&edge))
            .authenticate_player(AuthenticatePlayerRequest {
                token: token.to_owned(),
            })
            .await
            .unwrap()
            .into_inner()
            .player
            .unwrap()
            .id
            .parse()
            .unwrap()
    }

    /// The registry, as somebody calls it.
    pub(crate) fn registry(&self, caller: &Caller) -> CallerChannel {
        let transport = Transport::in_process(&self.registry);
        Peer::new(
            transport,
            self.keys.issuer(ServiceName::Edge),
            ServiceName::ToolRegistry,
        )
        .as_caller(caller)
    }

    /// Another Player.
    pub(crate) async fn new_player(&self, name: &str) -> PlayerId {
        PlayerServiceClient::new(self.registry(&self.operator()))
            .create_player(CreatePlayerRequest {
                name: name.to_owned(),
            })
            .await
            .unwrap()
            .into_inner()
            .player
            .unwrap()
            .id
            .parse()
            .unwrap()
    }

    /// Rows that say that somebody read a Conversation, oldest first.
    pub(crate) async fn audited(&self) -> Vec<AuditRow> {
        let mut rows = AuditServiceClient::new(self.registry(&self.operator()))
            .list_audit_rows(ListAuditRowsRequest::default())
            .await
            .unwrap()
            .into_inner()
            .rows;
        rows.retain(|row| row.action == "conversation.read");
        rows.reverse();
        rows
    }

    /// Another replica of the service, on the same database and the same log.
    pub(crate) fn replica(&self, setup: &Setup) -> (Peer, Lifecycle) {
        orchestrator(
            &self.store,
            &self.coordination,
            &self.clock,
            &self.keys,
            (&self.registry, &self.fetch, &self.gateway),
            (&self.provider, setup),
        )
    }

    /// Calls go to another replica from now on.
    pub(crate) fn move_to(&mut self, replica: Peer) {
        self.turns = replica;
    }

    /// Adds an NPC of the test's Player.
    pub(crate) async fn npc(&self, name: &str, grants: &[&str]) -> String {
        let npc = NpcServiceClient::new(self.registry(&self.player()))
            .create_npc(CreateNpcRequest {
                name: name.to_owned(),
                persona: format!("{name} keeps the gate."),
                ..CreateNpcRequest::default()
            })
            .await
            .unwrap()
            .into_inner()
            .npc
            .unwrap();
        for &grant in grants {
            GrantServiceClient::new(self.registry(&self.player()))
                .add_grant(AddGrantRequest {
                    npc: name.to_owned(),
                    what: grant.to_owned(),
                    tools: Vec::new(),
                    seen: Vec::new(),
                })
                .await
                .unwrap();
        }
        npc.id
    }

    /// Changes an NPC.
    pub(crate) async fn edit_npc(&self, edit: UpdateNpcRequest) {
        NpcServiceClient::new(self.registry(&self.player()))
            .update_npc(edit)
            .await
            .unwrap();
    }

    /// Takes a Grant away.
    pub(crate) async fn revoke(&self, npc: &str, what: &str) {
        GrantServiceClient::new(self.registry(&self.player()))
            .remove_grant(RemoveGrantRequest {
                npc: npc.to_owned(),
                what: what.to_owned(),
            })
            .await
            .unwrap();
    }

    pub(crate) fn operator(&self) -> Caller {
        Caller::Operator(self.operator)
    }

    pub(crate) fn player(&self) -> Caller {
        Caller::Player(self.player)
    }

    pub(crate) fn channel(&self, caller: &Caller) -> CallerChannel {
        self.turns.channel(caller, Duration::from_mins(1))
    }

    pub(crate) fn turns(&self, caller: &Caller) -> TurnServiceClient<CallerChannel> {
        TurnServiceClient::new(self.channel(caller)).max_decoding_message_size(RPC_MESSAGE_BYTES)
    }

    pub(crate) fn conversations(
        &self,
        caller: &Caller,
    ) -> ConversationServiceClient<CallerChannel> {
        ConversationServiceClient::new(self.channel(caller))
            .max_decoding_message_size(RPC_MESSAGE_BYTES)
    }

    /// Starts a turn of the Player's.
    pub(crate) async fn start(
        &self,
        request: StartTurnRequest,
    ) -> Result<StartTurnResponse, Status> {
        self.turns(&self.player())
            .start_turn(request)
            .await
            .map(Response::into_inner)
    }

    /// Says something in a Conversation, and waits for the end of the turn.
    pub(crate) async fn say(&self, conversation: &str, npc: &str, text: &str) -> Done {
        let started = self.start(say(conversation, npc, text)).await.unwrap();
        self.done(started).await
    }

    /// Watches a turn from its first event to its end, and makes sure that what is stored is what was told.
    pub(crate) async fn done(&self, started: StartTurnResponse) -> Done {
        let events = self.events(&started.turn_id).await;
        let replay = Replay::of(&events);
        let message = self.message(&started.message_id).await;
        let stored: Vec<_> = message.parts.iter().cloned().map(timeless).collect();
        assert_eq!(
            stored, replay.parts,
            "stored Parts are what the events told"
        );
        Done {
            started,
            events,
            replay,
            message,
        }
    }

    /// All events of a turn, as they come.
    pub(crate) async fn events(&self, turn: &str) -> Vec<TurnEvent> {
        self.watch(turn, watch_turn_request::From::After(0))
            .await
            .map(|item| match item {
                Item::Event(event) => event,
                Item::Snapshot(snapshot) => panic!("a snapshot: {snapshot:?}"),
            })
            .collect()
            .await
    }

    pub(crate) async fn watch(
        &self,
        turn: &str,
        from: watch_turn_request::From,
    ) -> futures::stream::BoxStream<'static, Item> {
        self.turns(&self.player())
            .watch_turn(WatchTurnRequest {
                target: Some(watch_turn_request::Target::TurnId(turn.to_owned())),
                from: Some(from),
            })
            .await
            .unwrap()
            .into_inner()
            .map(|item| item.unwrap().item.unwrap())
            .boxed()
    }

    pub(crate) async fn message(&self, id: &str) -> Message {
        self.conversations(&self.player())
            .get_message(GetMessageRequest {
                message_id: id.to_owned(),
            })
            .await
            .unwrap()
            .into_inner()
            .message
            .unwrap()
    }

    pub(crate) async fn conversation(&self, text: &str) -> GetConversationResponse {
        self.conversations(&self.player())
            .get_conversation(GetConversationRequest {
                conversation: text.to_owned(),
            })
            .await
            .unwrap()
            .into_inner()
    }

    pub(crate) async fn abort(&self, turn: &str) -> Vec<String> {
        self.turns(&self.player())
            .abort_turn(AbortTurnRequest {
                target: Some(abort_turn_request::Target::TurnId(turn.to_owned())),
            })
            .await
            .unwrap()
            .into_inner()
            .turn_ids
    }
}

/// A turn that has ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) started: StartTurnResponse,
    pub(crate) events: Vec<TurnEvent>,
    pub(crate) replay: Replay,
    pub(crate) message: Message,
}

impl Done {
    /// The Parts, a line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.message.parts.iter().map(crate::replay::line).collect()
    }

    pub(crate) fn ended(&self) -> &proto::turn::v1::TurnEnded {
        self.replay.ended.as_ref().expect("the turn has ended")
    }
}

pub(crate) fn submit(conversation: &str, npc: &str, message: &str, text: &str) -> StartTurnRequest {
    StartTurnRequest {
        conversation_client_id: conversation.to_owned(),
        npc: npc.to_owned(),
        request_id: message.to_owned(),
        trigger: Some(Trigger::Submit(SubmitMessage {
            client_id: message.to_owned(),
            text: text.to_owned(),
            edits: false,
        })),
    }
}

/// Says something, with ids that follow from what is said.
pub(crate) fn say(conversation: &str, npc: &str, text: &str) -> StartTurnRequest {
    submit(conversation, npc, &format!("m-{text}"), text)
}

pub(crate) fn edit(conversation: &str, npc: &str, message: &str, text: &str) -> StartTurnRequest {
    StartTurnRequest {
        request_id: format!("{message}-{text}"),
        trigger: Some(Trigger::Submit(SubmitMessage {
            client_id: message.to_owned(),
            text: text.to_owned(),
            edits: true,
        })),
        ..submit(conversation, npc, message, text)
    }
}

pub(crate) fn again(
    conversation: &str,
    npc: &str,
    answer: &str,
    request: &str,
) -> StartTurnRequest {
    StartTurnRequest {
        conversation_client_id: conversation.to_owned(),
        npc: npc.to_owned(),
        request_id: request.to_owned(),
        trigger: Some(Trigger::Regenerate(RegenerateMessage {
            message_id: answer.to_owned(),
        })),
    }
}

fn orchestrator(
    store: &Store,
    coordination: &Coordination,
    clock: &Arc<ManualClock>,
    keys: &token::Village,
    (registry, fetch, gateway): (&GrpcService, &Arc<Fetch>, &Arc<Gateway>),
    (provider, setup): (&ScriptedProvider, &Setup),
) -> (Peer, Lifecycle) {
    let layers = layers(keys);
    let peer = |server: GrpcServer, from: ServiceName| {
        let name = server.name();
        let transport = Transport::in_process(&server.layered(layers.clone()));
        Peer::new(transport, keys.issuer(from), name)
    };
    let lifecycle = Lifecycle::new();
    let deps = Deps {
        store: store.clone(),
        coordination: coordination.clone(),
        providers: providers(provider, setup.wire),
        registry: Peer::new(
            Transport::in_process(registry),
            keys.issuer(ServiceName::TurnOrchestrator),
            ServiceName::ToolRegistry,
        ),
        fetch: setup.has_fetch.then(|| {
            peer(
                GrpcServer::new(ServiceName::FetchProxy)
                    .add(FetchServiceServer::new(Answers(Arc::clone(fetch)))),
                ServiceName::TurnOrchestrator,
            )
        }),
        gateway: setup
            .has_gateway
            .then(|| peer(gateway::server(gateway), ServiceName::TurnOrchestrator)),
        clock: Arc::clone(clock) as Arc<dyn Clock>,
    };
    let server = turn_orchestrator::build(setup.config.clone(), deps, &lifecycle).unwrap();
    (peer(server, ServiceName::Edge), lifecycle)
}

fn layers(keys: &token::Village) -> ServerLayers {
    ServerLayers {
        trust: keys.trust(),
        longest_call: Duration::from_mins(10),
    }
}

fn providers(provider: &ScriptedProvider, wire: Wire) -> Providers {
    let wire = match wire {
        Wire::ChatCompletions => "chat-completions",
        Wire::Anthropic => "anthropic",
    };
    let config = serde_json::from_value(serde_json::json!({
        "wire": wire, "base_url": provider.base_url(), "key": "a-key-of-the-test",
    }))
    .unwrap();
    Providers::from_config(HashMap::from([("scripted".to_owned(), config)])).unwrap()
}

struct Answers<T>(Arc<T>);

impl Fetch {
    pub(crate) fn page(&self, url: &str, text: &str) {
        let page = Page {
            final_url: url.to_owned(),
            status: 200,
            content_type: "text/html".to_owned(),
            text: text.to_owned(),
            total_characters: text.chars().count() as u64,
            ..Page::default()
        };
        self.pages.lock().unwrap().insert(url.to_owned(), Ok(page));
    }

    pub(crate) fn refuse(&self, url: &str, sentence: &str) {
        let refusal = Refusal {
            reason: RefusalReason::Blocked.into(),
            sentence: sentence.to_owned(),
            ..Refusal::default()
        };
        self.pages
            .lock()
            .unwrap()
            .insert(url.to_owned(), Err(refusal));
    }

    /// Runs before every fetch.
    pub(crate) fn before(
        &self,
        hook: impl Fn() -> futures::future::BoxFuture<'static, ()> + Send + Sync + 'static,
    ) {
        *self.hook.lock().unwrap() = Some(Arc::new(hook));
    }
}

#[tonic::async_trait]
impl FetchService for Answers<Fetch> {
    async fn fetch(
        &self,
        request: Request<FetchRequest>,
    ) -> Result<Response<FetchResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let url = request.url.clone();
        self.0.requests.lock().unwrap().push((caller, request));
        let hook = self.0.hook.lock().unwrap().clone();
        if let Some(hook) = hook {
            hook().await;
        }
        if self.0.silent.load(Ordering::SeqCst) {
            return Err(Status::unavailable("down"));
        }
        let outcome = match self.0.pages.lock().unwrap().get(&url) {
            Some(Ok(page)) => Outcome::Page(page.clone()),
            Some(Err(refusal)) => Outcome::Refusal(refusal.clone()),
            None => return Err(Status::not_found("no such page in the script")),
        };
        Ok(Response::new(FetchResponse {
            outcome: Some(outcome),
        }))
    }
}
