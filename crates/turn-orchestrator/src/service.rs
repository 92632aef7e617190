//! What the service does for its callers, and the tasks that it runs beside that.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use coordination::{EventLog, Signal, Signals};
use futures::StreamExt as _;
use kernel::{
    Act, BuiltinTool, Caller, Clock, Decision, GrantKind, PlayerId, ServiceName, TurnId, decide,
    limits::{CLIENT_ID_CHARS, MESSAGE_BYTES},
};
use llm::{ModelName, Provider, Providers};
use runtime::Lifecycle;
use tokio::{
    sync::oneshot,
    time::{MissedTickBehavior, interval, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::{
    Config, Deps, Error,
    config::{HEARTBEAT, LEASE},
    limits::Limits,
    parts::TurnStatus,
    peers::{Fetch, Gateway, Listed, McpGrant, Npc, Registry},
    running::{Running, Stop},
    schema::Schemas,
    store::{Plan, Started, Trigger, TurnStore},
    tool::Toolbox,
    toolset::{FetchState, Gathered, Known, ToolSet, Unpinned},
    turn::Turn,
};

/// The topic on which turns of other processes are aborted. A signal is a turn's id.
const ABORT_TOPIC: &str = "turn.abort";
/// How often another process is told to abort a turn before it counts as out of reach, and how long each time is waited for it.
const ABORT_ATTEMPTS: u32 = 5;
const ABORT_WAIT: Duration = Duration::from_millis(200);
/// How long an aborted turn may take to settle before a deletion that waits for it gives up.
const SETTLE_TIME: Duration = Duration::from_secs(10);
/// Characters of an NPC's name or id in a request: a slug's, and room for how a person may write it.
const NPC_CHARS: usize = 200;

/// The service's state. Nothing of it outlives the process but what the store has.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) store: TurnStore,
    pub(crate) log: Arc<dyn EventLog>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    pub(crate) fetch: Option<Fetch>,
    pub(crate) gateway: Option<Gateway>,
    pub(crate) hard: CancellationToken,
    pub(crate) registry: Registry,
    signals: Arc<dyn Signals>,
    providers: Providers,
    default_model: String,
    toolbox: Toolbox,
    schemas: Arc<Schemas>,
    running: Arc<Running>,
    at_once_per_player: u32,
    lifecycle: Lifecycle,
}

/// What a caller asks to start.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    /// The Conversation's client id, or its id.
    pub(crate) conversation: String,
    /// The NPC's name or id.
    pub(crate) npc: String,
    /// Names this start.
    pub(crate) request: String,
    /// What is answered.
    pub(crate) trigger: Trigger,
}

impl Service {
    pub(crate) fn new(config: Config, deps: Deps, lifecycle: &Lifecycle) -> Result<Self, Error> {
        config.check()?;
        let owner = format!("{}:{}", ServiceName::TurnOrchestrator, uuid::Uuid::new_v4());
        Ok(Self {
            store: TurnStore::new(deps.store, Arc::clone(&deps.clock), owner),
            log: deps.coordination.log,
            clock: deps.clock,
            limits: Limits::of(&config),
            fetch: deps.fetch.map(Fetch::new),
            gateway: deps.gateway.map(Gateway::new),
            hard: lifecycle.hard(),
            registry: Registry::new(deps.registry),
            signals: deps.coordination.signals,
            providers: deps.providers,
            default_model: config.default_model,
            toolbox: Toolbox::compile().map_err(Error::Setting)?,
            schemas: Arc::default(),
            running: Arc::default(),
            at_once_per_player: config.at_once_per_player,
            lifecycle: lifecycle.clone(),
        })
    }

    /// Starts what runs beside the calls: the heartbeat, and the ear for aborts.
    pub(crate) fn attend(self: &Arc<Self>) {
        let heart = Arc::clone(self);
        self.lifecycle
            .spawn_background("turn heartbeat", async move { heart.beat().await });
        let ear = Arc::clone(self);
        self.lifecycle
            .spawn_background("turn aborts", async move { ear.listen().await });
    }

    /// Starts a turn. The task that runs it belongs to the process, not to the call.
    pub(crate) async fn start(
        self: &Arc<Self>,
        caller: &Caller,
        start: Start,
    ) -> Result<Started, Error> {
        let player = player_of(caller)?;
        check(&start)?;
        if self.lifecycle.soft().is_cancelled() {
            return Err(Error::ShuttingDown);
        }
        let npc = self.registry.resolve(&start.npc, player).await?;
        allowed(decide(caller, Act::TalkToNpc(npc.facts)), "NPC", &start.npc)?;
        let (model, provider) = self.model_of(&npc)?;
        let request = match &start.trigger {
            Trigger::Edit { .. } => {
                self.store
                    .edit_request(player, &start.conversation, &start.request)
                    .await?
            }
            Trigger::Submit { .. } | Trigger::Regenerate { .. } => start.request,
        };
        // Whoever starts turns and goes away holds places all the same.
        let place = self
            .running
            .place(player, self.at_once_per_player)
            .ok_or(Error::TooManyTurns(self.at_once_per_player))?;
        let plan = Plan {
            player,
            npc: npc.id,
            conversation: start.conversation,
            request,
            trigger: start.trigger,
            limits: self.limits,
            lease: LEASE,
        };
        let (answer, answered) = oneshot::channel();
        let service = Arc::clone(self);
        // A caller that goes away ends its call and not what it started: from here on this is the process's own task. It is on the
        // tracker itself, because at the hard stop a turn settles before it ends, and its panic is its own affair.
        self.lifecycle.tracker().spawn(
            async move {
                let started = service.store.start(plan).await;
                let turn = match &started {
                    Ok(started) if !started.already => Some(Turn {
                        guard: service.running.add(started.turn, place),
                        service,
                        started: started.clone(),
                        player,
                        npc,
                        model,
                        provider,
                    }),
                    Ok(_) | Err(_) => None,
                };
                // Whoever asked may have gone.
                drop(answer.send(started));
                if let Some(turn) = turn {
                    turn.run().await;
                }
            }
            .in_current_span(),
        );
        answered.await.unwrap_or(Err(Error::ShuttingDown))
    }

    /// What an NPC can do now, by the very function that a turn's Tool set is built with.
    pub(crate) async fn describe(&self, caller: &Caller, npc: &str) -> Result<ToolSet, Error> {
        let player = player_of(caller)?;
        bounded("npc", npc, NPC_CHARS)?;
        let resolved = self.registry.resolve(npc, player).await?;
        allowed(decide(caller, Act::SeeNpc(resolved.facts)), "NPC", npc)?;
        Ok(self.tools(&resolved, player).await.tools)
    }

    /// The Tool set of an NPC now, for this Player.
    pub(crate) async fn tools(&self, npc: &Npc, player: PlayerId) -> Gathered {
        let is_fetching = npc.grants.iter().any(|grant| {
            grant.kind == GrantKind::Tool && grant.target == BuiltinTool::FetchUrl.as_str()
        });
        let fetch = async {
            match &self.fetch {
                Some(fetch) if is_fetching => fetch.state().await,
                Some(_) => FetchState::Ready,
                None => FetchState::Unavailable("This Village runs no fetch-proxy.".to_owned()),
            }
        };
        let servers: Vec<&McpGrant> = npc
            .grants
            .iter()
            .filter_map(|grant| grant.server.as_ref())
            .filter(|server| server.enabled)
            .collect();
        let listed = async {
            match &self.gateway {
                Some(gateway) => gateway.list(&servers, player).await,
                None => Listed::default(),
            }
        };
        let (fetch, listed) = tokio::join!(fetch, listed);
        self.schemas.warm(listed.schemas()).await;
        let known = Known {
            toolbox: &self.toolbox,
            schemas: &self.schemas,
            fetch: &fetch,
            listed: &listed,
        };
        ToolSet::build(&npc.grants, &known)
    }

    /// Pins what was listed for Grants that have no pins yet. The turn does not wait for it; the next one tries again.
    pub(crate) fn pin(self: &Arc<Self>, player: PlayerId, unpinned: Vec<Unpinned>) {
        if unpinned.is_empty() {
            return;
        }
        let service = Arc::clone(self);
        self.lifecycle.tracker().spawn(
            async move {
                for unpinned in unpinned {
                    let (grant, pins) = (unpinned.grant, unpinned.pins());
                    if let Err(error) = service.registry.save_pins(player, grant, pins).await {
                        tracing::warn!(%grant, error = %error, "the definitions of an MCP Server's Tools were not pinned");
                    }
                }
            }
            .in_current_span(),
        );
    }

    /// Stops one turn of the caller's. Returns its id if it was running.
    pub(crate) async fn abort(&self, caller: &Caller, turn: TurnId) -> Result<Vec<TurnId>, Error> {
        let found = self.store.turn(turn).await?;
        allowed(
            decide(caller, Act::ChangeConversation(found.player)),
            "turn",
            &turn.to_string(),
        )?;
        if found.status != TurnStatus::Running {
            return Ok(Vec::new());
        }
        self.stop(turn).await?;
        Ok(vec![turn])
    }

    /// Stops every running turn of an NPC: for the Operator, and for the edge once the NPC's Grants have changed.
    pub(crate) async fn abort_npc(
        &self,
        caller: &Caller,
        npc: kernel::NpcId,
    ) -> Result<Vec<TurnId>, Error> {
        match caller {
            Caller::Operator(_)
            | Caller::Service {
                name: ServiceName::Edge,
                ..
            } => {}
            Caller::Player(_) | Caller::Npc { .. } | Caller::Service { .. } => {
                return Err(Error::Denied(
                    "only the Operator may stop all turns of an NPC; stop your own by its id",
                ));
            }
        }
        let running = self.store.running_of(npc).await?;
        let ids: Vec<TurnId> = running.iter().map(|turn| turn.id).collect();
        let stopped = futures::future::join_all(ids.iter().map(|id| self.stop(*id))).await;
        stopped.into_iter().collect::<Result<(), Error>>()?;
        Ok(ids)
    }

    /// Stops a turn, here or in the process that runs it. Returns when it is told, or settled in place of a dead owner.
    async fn stop(&self, turn: TurnId) -> Result<(), Error> {
        if let Some(handle) = self.running.get(turn) {
            handle.stop(Stop::Aborted);
            return Ok(());
        }
        let payload = Bytes::from(turn.to_string());
        for _ in 0..ABORT_ATTEMPTS {
            let told = self.signals.publish(ABORT_TOPIC, payload.clone()).await;
            if let Err(error) = told {
                tracing::warn!(%turn, error = %error, "another process could not be told to abort a turn");
            }
            sleep(ABORT_WAIT).await;
            let now = self.store.turn(turn).await?;
            if now.status != TurnStatus::Running {
                return Ok(());
            }
            if now.lease_until < self.clock.now() {
                self.settle(&now).await?;
                return Ok(());
            }
        }
        Err(Error::OutOfReach(turn))
    }

    /// Stops a turn and waits until it is settled.
    pub(crate) async fn stop_and_wait(&self, turn: TurnId) -> Result<(), Error> {
        let local = self.running.get(turn);
        self.stop(turn).await?;
        let Some(handle) = local else {
            return Ok(());
        };
        tokio::time::timeout(SETTLE_TIME, handle.ended())
            .await
            .map_err(|_elapsed| Error::TurnRuns(turn))
    }

    /// The model of an NPC, and who serves it.
    fn model_of(&self, npc: &Npc) -> Result<(ModelName, Arc<dyn Provider>), Error> {
        let name = if npc.model.is_empty() {
            &self.default_model
        } else {
            &npc.model
        };
        if name.is_empty() {
            return Err(Error::NoModel(npc.name.clone()));
        }
        let model: ModelName = name
            .parse()
            .map_err(|error: llm::InvalidModelName| Error::Model(error.to_string()))?;
        let provider = self
            .providers
            .resolve(&model)
            .map_err(|error| Error::Model(error.to_string()))?;
        Ok((model, provider))
    }

    /// Renews the leases of this process's turns, and settles what dead owners left.
    async fn beat(&self) {
        let mut ticks = interval(HEARTBEAT);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let own = self.running.ids();
            if !own.is_empty()
                && let Err(error) = self.store.renew(own.clone(), LEASE).await
            {
                tracing::warn!(error = %error, "leases of running turns were not renewed");
            }
            match self.store.abandoned().await {
                Ok(abandoned) => {
                    for turn in abandoned.iter().filter(|turn| !own.contains(&turn.id)) {
                        if let Err(error) = self.settle(turn).await {
                            tracing::warn!(turn = %turn.id, error = %error, "a dead owner's turn was not settled");
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(error = %error, "dead owners' turns were not looked for");
                }
            }
        }
    }

    /// Ends a turn in place of its dead owner, and lets its watchers go.
    async fn settle(&self, turn: &crate::store::Turn) -> Result<(), Error> {
        if self.store.end_abandoned(turn).await? {
            tracing::warn!(turn = %turn.id, "a turn whose owner died was settled as interrupted");
            if let Err(error) = self.log.close(turn.id, turn.last_event).await {
                tracing::debug!(error = %error, "the turn's log was not closed");
            }
        }
        Ok(())
    }

    /// Stops turns of this process that other processes are asked to abort. A signal that was missed is sent again.
    async fn listen(&self) {
        let mut signals = self.signals.subscribe(ABORT_TOPIC).await;
        while let Some(signal) = signals.next().await {
            let Signal::Message(payload) = signal else {
                continue;
            };
            let turn = std::str::from_utf8(&payload)
                .ok()
                .and_then(|text| text.parse::<TurnId>().ok());
            if let Some(handle) = turn.and_then(|turn| self.running.get(turn)) {
                handle.stop(Stop::Aborted);
            }
        }
    }
}

/// The Player who calls. Models and services start nothing.
pub(crate) fn player_of(caller: &Caller) -> Result<PlayerId, Error> {
    match caller {
        Caller::Operator(player) | Caller::Player(player) => Ok(*player),
        Caller::Npc { .. } | Caller::Service { .. } => {
            Err(Error::Denied("only Players and the Operator may do this"))
        }
    }
}

/// A decision as a result: what must not be seen is not found.
pub(crate) fn allowed(decision: Decision, what: &'static str, name: &str) -> Result<(), Error> {
    match decision {
        Decision::Allow | Decision::AllowAudited | Decision::AllowWithoutContent => Ok(()),
        Decision::Deny => Err(Error::Denied("this belongs to another Player")),
        Decision::Hide => Err(Error::NotFound {
            what,
            name: name.chars().take(200).collect(),
        }),
    }
}

/// Refuses a text that is empty, too long, or has control characters in it.
pub(crate) fn bounded(field: &'static str, text: &str, most: usize) -> Result<(), Error> {
    let sentence = if text.is_empty() {
        format!("{field} is empty")
    } else if text.chars().take(most + 1).count() > most {
        format!("{field} is longer than {most} characters")
    } else if text.chars().any(char::is_control) {
        format!("{field} has control characters in it")
    } else {
        return Ok(());
    };
    Err(Error::Invalid { field, sentence })
}

/// Bounds, before anything else is done.
fn check(start: &Start) -> Result<(), Error> {
    bounded(
        "conversation_client_id",
        &start.conversation,
        CLIENT_ID_CHARS,
    )?;
    bounded("npc", &start.npc, NPC_CHARS)?;
    // The edge joins two ids and a hash into one.
    bounded("request_id", &start.request, 4 * CLIENT_ID_CHARS)?;
    match &start.trigger {
        Trigger::Submit { client_id, text } | Trigger::Edit { client_id, text } => {
            bounded("submit.client_id", client_id, CLIENT_ID_CHARS)?;
            if text.trim().is_empty() {
                return Err(Error::Invalid {
                    field: "submit.text",
                    sentence: "the Message has no text".to_owned(),
                });
            }
            if text.len() > MESSAGE_BYTES {
                return Err(Error::Invalid {
                    field: "submit.text",
                    sentence: format!(
                        "the Message is {} bytes long; at most {MESSAGE_BYTES} are allowed",
                        text.len()
                    ),
                });
            }
            Ok(())
        }
        Trigger::Regenerate {
            message: Some(message),
        } => bounded("regenerate.message_id", message, CLIENT_ID_CHARS),
        Trigger::Regenerate { message: None } => Ok(()),
    }
}
