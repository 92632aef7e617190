//! The cache against a registry that says what a test tells it to.

use std::sync::atomic::AtomicUsize;

use coordination::Coordination;
use futures::future::join_all;
use kernel::{Clock, Secret, SystemClock};
use proto::registry::v1::{
    McpServer, McpTransport, ResolveMcpServerRequest, ResolveMcpServerResponse, SaveEraRequest,
    SaveEraResponse, SavePinsRequest, SavePinsResponse, SaveTestResultRequest,
    SaveTestResultResponse,
    mcp_server_resolution_service_server::{
        McpServerResolutionService, McpServerResolutionServiceServer,
    },
};
use runtime::{GrpcServer, Peer, ServerLayers, Transport, token};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Request, Response, Status};
use vault::Vault;

use super::{entries::MAX_SERVERS, *};
use crate::{ClientDeps, Config, Handling};

/// What the registry has, and what was asked of it.
#[derive(Debug)]
struct Told {
    server: Mutex<Option<McpServer>>,
    away: AtomicBool,
    asked: AtomicUsize,
    eras: Mutex<Vec<SaveEraRequest>>,
    /// One for each answer that it may give.
    gate: Semaphore,
}

#[derive(Debug)]
struct Scripted(Arc<Told>);

#[async_trait::async_trait]
impl McpServerResolutionService for Scripted {
    async fn resolve_mcp_server(
        &self,
        request: Request<ResolveMcpServerRequest>,
    ) -> Result<Response<ResolveMcpServerResponse>, Status> {
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        let player = runtime::caller(&request)?.player();
        // What it has when it is asked is what it answers later.
        let server = self.0.server.lock().unwrap().clone();
        self.0.gate.acquire().await.unwrap().forget();
        if self.0.away.load(Ordering::SeqCst) {
            return Err(Status::unavailable("away"));
        }
        let visible = server.filter(|server| {
            !server.private || player.is_some_and(|player| player.to_string() == server.owner_id)
        });
        let server = visible.ok_or_else(|| Status::not_found("none"))?;
        Ok(Response::new(ResolveMcpServerResponse {
            server: Some(server),
            ..ResolveMcpServerResponse::default()
        }))
    }

    async fn save_test_result(
        &self,
        _request: Request<SaveTestResultRequest>,
    ) -> Result<Response<SaveTestResultResponse>, Status> {
        Ok(Response::new(SaveTestResultResponse::default()))
    }

    async fn save_era(
        &self,
        request: Request<SaveEraRequest>,
    ) -> Result<Response<SaveEraResponse>, Status> {
        self.0.eras.lock().unwrap().push(request.into_inner());
        Ok(Response::new(SaveEraResponse::default()))
    }

    async fn save_pins(
        &self,
        _request: Request<SavePinsRequest>,
    ) -> Result<Response<SavePinsResponse>, Status> {
        Err(Status::unimplemented("not asked by gateways"))
    }
}

/// The time between two things that happen one after the other.
const TICK: Duration = Duration::from_micros(1);

struct World {
    told: Arc<Told>,
    servers: Servers,
    coordination: Coordination,
    id: McpServerId,
    owner: PlayerId,
    other: PlayerId,
}

impl World {
    async fn new() -> Self {
        runtime::process::install_crypto();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let (id, owner, other) = (
            McpServerId::mint(&*clock),
            PlayerId::mint(&*clock),
            PlayerId::mint(&*clock),
        );
        let server = McpServer {
            id: id.to_string(),
            name: "Docs".to_owned(),
            slug: "docs".to_owned(),
            owner_id: owner.to_string(),
            transport: McpTransport::Http.into(),
            url: "https://docs.test/mcp".to_owned(),
            enabled: true,
            generation: 1,
            ..McpServer::default()
        };
        let told = Arc::new(Told {
            server: Mutex::new(Some(server)),
            away: AtomicBool::new(false),
            asked: AtomicUsize::new(0),
            eras: Mutex::default(),
            gate: Semaphore::new(1_000),
        });
        let keys = token::Village::generate(&clock).unwrap();
        let service = Scripted(Arc::clone(&told));
        let registry = GrpcServer::new(ServiceName::ToolRegistry)
            .add(McpServerResolutionServiceServer::new(service))
            .layered(ServerLayers {
                trust: keys.trust(),
                longest_call: Duration::from_mins(1),
            });
        let peer = Peer::new(
            Transport::in_process(&registry),
            keys.issuer(ServiceName::McpGateway),
            ServiceName::ToolRegistry,
        );
        let vault = Arc::new(Vault::new(&Secret::new("v".repeat(32))).unwrap());
        let outbound = outbound::Config::default();
        let clients = Clients::new(
            Arc::new(Config::default()),
            ClientDeps {
                connector: outbound::Connector::new(&outbound, TaskTracker::new()).unwrap(),
                program: "/nowhere".into(),
                tracker: TaskTracker::new(),
                ended: CancellationToken::new(),
                handling: Handling::Decline,
            },
        );
        let lifecycle = Lifecycle::new();
        let servers = Servers::new(Registry::new(peer, vault), clients, lifecycle.clone());
        let config = coordination::Config::in_process();
        let coordination =
            coordination::connect(&config, &TaskTracker::new(), &CancellationToken::new()).unwrap();
        let signals = coordination.signals.subscribe(TOPIC).await;
        lifecycle.spawn_background("announcements", servers.clone().listen(signals));
        Self {
            told,
            servers,
            coordination,
            id,
            owner,
            other,
        }
    }

    fn change(&self, change: impl FnOnce(&mut McpServer)) {
        change(self.told.server.lock().unwrap().as_mut().unwrap());
    }

    async fn announce(&self, generation: Option<u64>) {
        let payload =
            serde_json::json!({"serverId": self.id, "generation": generation}).to_string();
        let signals = &self.coordination.signals;
        // What comes later has a later time: here the clock stands still.
        tokio::time::advance(TICK).await;
        signals.publish(TOPIC, payload.into()).await.unwrap();
        // The listener is a task of its own.
        for _turn in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    fn asked(&self) -> usize {
        self.told.asked.load(Ordering::SeqCst)
    }

    async fn get(&self, player: PlayerId) -> Result<u64, Error> {
        self.get_of(player, 0).await
    }

    async fn get_of(&self, player: PlayerId, generation: u64) -> Result<u64, Error> {
        tokio::time::advance(TICK).await;
        let server = self.servers.get(self.id, Some(player), generation).await?;
        Ok(server.target.generation)
    }

    fn missing(&self) -> Result<u64, Error> {
        Err(no_server(self.id))
    }
}

#[tokio::test(start_paused = true)]
async fn everybody_who_waits_shares_one_question_and_nobody_asks_again() {
    let world = World::new().await;
    let all = join_all((0..50).map(|_| world.get(world.other))).await;
    assert!(all.iter().all(|answer| *answer == Ok(1)), "{all:?}");
    assert_eq!(world.asked(), 1);
    assert_eq!(world.get(world.owner).await, Ok(1));
    assert_eq!(world.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_hidden_from_whoever_asked_first_is_there_for_its_owner() {
    let world = World::new().await;
    world.change(|server| server.private = true);
    let (hidden, own) = tokio::join!(world.get(world.other), world.get(world.owner));
    assert_eq!((hidden, own), (world.missing(), Ok(1)));
    // Known now, and still hidden; that costs no question.
    let asked = world.asked();
    assert_eq!(world.get(world.other).await, world.missing());
    assert_eq!(
        world.servers.get(world.id, None, 0).await.err(),
        world.missing().err()
    );
    assert_eq!(world.asked(), asked);
}

#[tokio::test(start_paused = true)]
async fn somebody_from_whom_it_is_hidden_cannot_have_it_forgotten() {
    let world = World::new().await;
    world.change(|server| server.private = true);
    assert_eq!(world.get(world.owner).await, Ok(1));
    tokio::time::advance(OLD).await;
    // What is known is old: the registry is asked, in the owner's name.
    assert_eq!(world.get(world.other).await, world.missing());
    assert_eq!(world.asked(), 2);
    assert_eq!(world.get(world.owner).await, Ok(1));
    assert_eq!(world.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn that_there_is_none_is_believed_for_a_second() {
    let world = World::new().await;
    let server = world.told.server.lock().unwrap().take();
    for _time in 0..10 {
        assert_eq!(world.get(world.other).await, world.missing());
    }
    assert_eq!(world.asked(), 1);
    *world.told.server.lock().unwrap() = server;
    tokio::time::advance(HIDDEN).await;
    assert_eq!(world.get(world.other).await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn an_announcement_has_it_asked_for_anew() {
    let world = World::new().await;
    assert_eq!(world.get(world.other).await, Ok(1));
    world.change(|server| server.generation = 2);
    world.announce(Some(2)).await;
    assert_eq!(world.get(world.other).await, Ok(2));
    let asked = world.asked();
    // What is known already is no news.
    world.announce(Some(2)).await;
    assert_eq!(world.get(world.other).await, Ok(2));
    assert_eq!(world.asked(), asked);
    world.told.server.lock().unwrap().take();
    world.announce(None).await;
    assert_eq!(world.get(world.owner).await, world.missing());
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_before_an_announcement_is_not_used_after_it() {
    let world = World::new().await;
    let gate = world.told.gate.available_permits();
    world.told.gate.forget_permits(gate);
    let asking = world.get(world.other);
    let changing = async {
        while world.asked() == 0 {
            tokio::task::yield_now().await;
        }
        // The answer of the first generation is on its way.
        world.change(|server| server.generation = 2);
        world.announce(Some(2)).await;
        world.told.gate.add_permits(1_000);
    };
    let (answer, ()) = tokio::join!(asking, changing);
    assert_eq!(answer, Ok(2));
}

#[tokio::test(start_paused = true)]
async fn a_newer_generation_than_what_is_known_is_asked_for() {
    let world = World::new().await;
    assert_eq!(world.get(world.other).await, Ok(1));
    world.change(|server| server.generation = 2);
    assert_eq!(world.get(world.other).await, Ok(1));
    assert_eq!(world.get_of(world.other, 2).await, Ok(2));
    assert_eq!(world.get_of(world.other, 1).await, Ok(2));
    assert_eq!(world.asked(), 2);
    // One that does not exist is asked for once each time, and not for ever.
    assert_eq!(world.get_of(world.other, 9).await, Ok(2));
    assert_eq!(world.asked(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_announcement_was_lost_is_noticed_in_time() {
    let world = World::new().await;
    assert_eq!(world.get(world.other).await, Ok(1));
    world.change(|server| server.generation = 2);
    tokio::time::advance(AGING).await;
    // Not waited for by whoever comes first.
    assert_eq!(world.get(world.other).await, Ok(1));
    for _turn in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.get(world.other).await, Ok(2));
    world.change(|server| server.generation = 3);
    tokio::time::advance(OLD).await;
    assert_eq!(world.get(world.other).await, Ok(3));
}

#[tokio::test(start_paused = true)]
async fn after_lost_announcements_nothing_is_used_unasked() {
    let world = World::new().await;
    assert_eq!(world.get(world.other).await, Ok(1));
    world.change(|server| server.generation = 2);
    tokio::time::advance(TICK).await;
    world.servers.doubt();
    assert_eq!(world.get(world.other).await, Ok(2));
    tokio::time::advance(TICK).await;
    world
        .coordination
        .signals
        .publish(TOPIC, "no JSON".into())
        .await
        .unwrap();
    world.change(|server| server.generation = 3);
    for _turn in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.get(world.other).await, Ok(3));
}

#[tokio::test(start_paused = true)]
async fn while_the_registry_is_away_calls_go_on_with_what_did_not_change() {
    let world = World::new().await;
    assert_eq!(world.get(world.other).await, Ok(1));
    world.told.away.store(true, Ordering::SeqCst);
    tokio::time::advance(OLD).await;
    assert_eq!(world.get(world.other).await, Err(Error::RegistryAway));
    let last = |player| world.servers.last_known(world.id, Some(player), 1);
    assert!(last(world.other).is_some());
    tokio::time::advance(REGISTRY_AWAY).await;
    assert!(last(world.other).is_none());

    world.told.away.store(false, Ordering::SeqCst);
    world.change(|server| server.private = true);
    assert_eq!(world.get(world.owner).await, Ok(1));
    world.told.away.store(true, Ordering::SeqCst);
    assert!(last(world.owner).is_some() && last(world.other).is_none());
    world.announce(Some(2)).await;
    assert!(last(world.owner).is_none());
}

#[tokio::test(start_paused = true)]
async fn an_era_is_kept_once() {
    let world = World::new().await;
    let server = world
        .servers
        .get(world.id, Some(world.other), 0)
        .await
        .unwrap();
    assert_eq!(server.target.era, None);
    world.servers.spoken(&server, Era::Modern);
    world.servers.spoken(&server, Era::Modern);
    let known = world
        .servers
        .get(world.id, Some(world.other), 0)
        .await
        .unwrap();
    assert_eq!(known.target.era, Some(Era::Modern));
    world.servers.spoken(&known, Era::Modern);
    for _turn in 0..100 {
        tokio::task::yield_now().await;
    }
    let eras = world.told.eras.lock().unwrap();
    assert_eq!(eras.len(), 1);
    assert_eq!(
        (&*eras[0].server_id, eras[0].generation),
        (&*world.id.to_string(), 1)
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_known_is_bounded_and_what_nobody_wants_goes_first() {
    let world = World::new().await;
    assert_eq!(world.get(world.other).await, Ok(1));
    world.told.server.lock().unwrap().take();
    for _server in 0..MAX_SERVERS + 10 {
        tokio::time::advance(Duration::from_micros(1)).await;
        let id = McpServerId::mint(&SystemClock);
        assert!(world.servers.get(id, None, 0).await.is_err());
    }
    let entries = world.servers.lock();
    assert!(entries.by_id.len() <= MAX_SERVERS);
    assert!(!entries.by_id.contains_key(&world.id));
}
