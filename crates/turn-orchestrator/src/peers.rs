//! The other services, as this one speaks of them.

mod gateway;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use kernel::{
    Caller, ErrorCode, GrantId, GrantKind, McpServerId, NpcFacts, NpcId, PlayerId, ServiceName,
    Timestamp, limits::RPC_MESSAGE_BYTES,
};
use proto::{
    fetch::v1::{
        FetchRequest, PageForm, PageOrigin, RefusalReason, fetch_response::Outcome as FetchOutcome,
        fetch_service_client::FetchServiceClient,
    },
    registry::v1::{
        McpServerTarget, Pinning as WirePinning, RecordAuditRowRequest, ResolveNpcRequest,
        SavePinsRequest, ToolPin, audit_service_client::AuditServiceClient,
        mcp_server_resolution_service_client::McpServerResolutionServiceClient,
        resolution_service_client::ResolutionServiceClient, resolved_grant::Target,
    },
};
use runtime::{Peer, status};
use tokio::time::Instant;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::{Error, tool::Context, toolset::FetchState};

pub(crate) use gateway::{
    CALL_DEADLINE, Called, Gateway, Listed, ListedTool, NAME_BYTES, NO_GATEWAY, ServerList,
    TOOLS_PER_SERVER, Wanted, end_sentence,
};

/// How long the registry may take at the start of a turn.
const REGISTRY_DEADLINE: Duration = Duration::from_secs(5);
/// How long the fetch-proxy may take for a page: longer than it gives itself.
const FETCH_DEADLINE: Duration = Duration::from_secs(30);
/// How long the fetch-proxy may take to say that it is there.
const HEALTH_DEADLINE: Duration = Duration::from_secs(2);
/// How long "it is there" is believed.
const READY_FOR: Duration = Duration::from_secs(15);
/// How long "it is not there" is believed: turns should not each wait for it.
const UNAVAILABLE_FOR: Duration = Duration::from_secs(3);

/// An NPC, as a turn needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Npc {
    /// Its id.
    pub(crate) id: NpcId,
    /// Its name.
    pub(crate) name: String,
    /// What decisions need to know of it.
    pub(crate) facts: NpcFacts,
    /// Who it is.
    pub(crate) persona: String,
    /// `PROVIDER/MODEL`; empty for the Village's default.
    pub(crate) model: String,
    /// Hosts that it may fetch from; empty for every public one.
    pub(crate) fetch_hosts: Arc<[String]>,
    /// Its Grants.
    pub(crate) grants: Vec<Grant>,
}

/// A Grant, as a Tool set needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Its kind.
    pub(crate) kind: GrantKind,
    /// The name of its target.
    pub(crate) target: String,
    /// What a turn must know of an MCP Server.
    pub(crate) server: Option<McpGrant>,
}

/// A Grant of an MCP Server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct McpGrant {
    /// The Grant.
    pub(crate) id: GrantId,
    /// The server.
    pub(crate) server: McpServerId,
    /// The first half of its Tools' names.
    pub(crate) slug: String,
    /// Counts its changes.
    pub(crate) generation: u64,
    /// Whether it is enabled.
    pub(crate) enabled: bool,
    /// The Tools that the Grant covers, by their names at the server. Empty: all of them.
    pub(crate) tools: BTreeSet<String>,
    /// What happens when definitions change.
    pub(crate) pinning: Pinning,
    /// The hashes of the definitions that were pinned, by Tool; none before anything was.
    pub(crate) pins: Option<BTreeMap<String, String>>,
}

/// What happens when a server's definitions are not those that were pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pinning {
    /// Changed Tools are withheld, new ones are marked.
    Strict,
    /// Both are marked.
    Warn,
    /// Nothing is compared.
    Off,
}

impl Grant {
    /// As a person writes it.
    pub(crate) fn what(&self) -> String {
        format!("{}:{}", self.kind, self.target)
    }
}

/// The tool-registry.
#[derive(Debug, Clone)]
pub(crate) struct Registry(Peer);

impl Registry {
    pub(crate) const fn new(peer: Peer) -> Self {
        Self(peer)
    }

    /// All that a turn needs of an NPC, for this Player. What the Player may not see is not found.
    pub(crate) async fn resolve(&self, npc: &str, player: PlayerId) -> Result<Npc, Error> {
        let caller = Caller::Service {
            name: ServiceName::TurnOrchestrator,
            player: Some(player),
        };
        let mut client = ResolutionServiceClient::new(self.0.channel(&caller, REGISTRY_DEADLINE))
            .max_decoding_message_size(RPC_MESSAGE_BYTES)
            .max_encoding_message_size(RPC_MESSAGE_BYTES);
        let answer = client
            .resolve_npc(ResolveNpcRequest {
                npc: npc.to_owned(),
            })
            .await
            .map_err(|refused| Error::Peer(status::problem(&refused)))?
            .into_inner();
        let bad = |what| Error::BadPeer {
            peer: "tool-registry",
            what,
        };
        let npc = answer.npc.ok_or_else(|| bad("an NPC"))?;
        let grants = answer
            .grants
            .into_iter()
            .map(|grant| {
                let target = grant.target.ok_or_else(|| bad("a Grant's target"))?;
                let (kind, target, server) = match target {
                    Target::Tool(tool) => (GrantKind::Tool, tool.name, None),
                    Target::Family(family) => (GrantKind::Family, family.name, None),
                    Target::McpServer(target) => {
                        let (name, server) = mcp_grant(&grant.grant_id, target)
                            .ok_or_else(|| bad("an MCP Server's ids that are some"))?;
                        (GrantKind::Mcp, name, Some(server))
                    }
                    Target::Colleague(colleague) => (GrantKind::Npc, colleague.name, None),
                };
                Ok(Grant {
                    kind,
                    target,
                    server,
                })
            })
            .collect::<Result<_, Error>>()?;
        Ok(Npc {
            id: npc
                .id
                .parse()
                .map_err(|_invalid| bad("an NPC's id that is one"))?,
            facts: NpcFacts {
                owner: npc
                    .owner_id
                    .parse()
                    .map_err(|_invalid| bad("an owner's id that is one"))?,
                private: npc.private,
            },
            name: npc.name,
            persona: npc.persona,
            model: npc.model,
            fetch_hosts: npc.fetch_hosts.into(),
            grants,
        })
    }

    /// Pins definitions for a Grant that has no pins yet; `false` when it has some by now, or is gone.
    pub(crate) async fn save_pins(
        &self,
        player: PlayerId,
        grant: GrantId,
        pins: Vec<ToolPin>,
    ) -> Result<bool, Error> {
        let caller = Caller::Service {
            name: ServiceName::TurnOrchestrator,
            player: Some(player),
        };
        let channel = self.0.channel(&caller, REGISTRY_DEADLINE);
        let saved = McpServerResolutionServiceClient::new(channel)
            .max_encoding_message_size(RPC_MESSAGE_BYTES)
            .save_pins(SavePinsRequest {
                grant_id: grant.to_string(),
                pins,
            })
            .await
            .map_err(|refused| Error::Peer(status::problem(&refused)))?;
        Ok(saved.into_inner().saved)
    }

    /// Writes down that this caller did this.
    pub(crate) async fn audit(
        &self,
        caller: &Caller,
        action: &str,
        subject_kind: &str,
        subject_id: &str,
    ) -> Result<(), Error> {
        let service = Caller::Service {
            name: ServiceName::TurnOrchestrator,
            player: caller.player(),
        };
        AuditServiceClient::new(self.0.channel(&service, REGISTRY_DEADLINE))
            .record_audit_row(RecordAuditRowRequest {
                actor: caller.label(),
                action: action.to_owned(),
                subject_kind: subject_kind.to_owned(),
                subject_id: subject_id.to_owned(),
            })
            .await
            .map_err(|refused| Error::Peer(status::problem(&refused)))?;
        Ok(())
    }
}

fn mcp_grant(grant: &str, target: McpServerTarget) -> Option<(String, McpGrant)> {
    let pinning = match target.pinning() {
        WirePinning::Unspecified | WirePinning::Strict => Pinning::Strict,
        WirePinning::Warn => Pinning::Warn,
        WirePinning::Off => Pinning::Off,
    };
    let pins = target.pins.into_iter();
    let pins = pins
        .map(|pin| (pin.tool_name, pin.definition_hash))
        .collect();
    let server = McpGrant {
        id: grant.parse().ok()?,
        server: target.server_id.parse().ok()?,
        slug: target.slug,
        generation: target.generation,
        enabled: target.enabled,
        tools: target.tools.into_iter().collect(),
        pinning,
        pins: target.pinned.then_some(pins),
    };
    Some((target.name, server))
}

/// A page that was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    /// Where the chain of redirects ended.
    pub(crate) final_url: String,
    /// The HTTP status.
    pub(crate) status: u32,
    /// What the body is after a look at it; empty if there was none.
    pub(crate) media_type: String,
    /// How its characters were written; empty for what is not text.
    pub(crate) charset: String,
    /// What the text is of the body.
    pub(crate) form: PageForm,
    /// The page's title. It is whoever's who wrote the page.
    pub(crate) title: String,
    /// What redirected, in order.
    pub(crate) passed_urls: Vec<String>,
    /// The text from `start_index` on.
    pub(crate) text: String,
    /// Where `text` starts, in characters.
    pub(crate) start_index: u64,
    /// Where to go on.
    pub(crate) next_start_index: Option<u64>,
    /// Characters of the whole text, as far as it was read.
    pub(crate) total_characters: u64,
    /// Whether there is more of it.
    pub(crate) total_is_minimum: bool,
    /// What is missing, each in a sentence without its full stop.
    pub(crate) left_out: Vec<String>,
    /// Where the text comes from.
    pub(crate) origin: PageOrigin,
    /// When it was fetched.
    pub(crate) fetched_at: Timestamp,
}

/// What came of a fetch.
#[derive(Debug)]
pub(crate) enum Fetched {
    /// A page.
    Page(Box<Page>),
    /// None, and why.
    Refused(String),
    /// This NPC may not fetch, and why.
    Denied(String),
}

/// The fetch-proxy. Cheap to clone; clones share what is known of its state.
#[derive(Debug, Clone)]
pub(crate) struct Fetch {
    peer: Peer,
    seen: Arc<Mutex<Option<(Instant, FetchState)>>>,
}

impl Fetch {
    pub(crate) fn new(peer: Peer) -> Self {
        Self {
            peer,
            seen: Arc::default(),
        }
    }

    /// Whether it answers, looked up at most every few seconds. A peer that has no health service answers all the same.
    pub(crate) async fn state(&self) -> FetchState {
        if let Some((until, state)) = &*self.seen.lock().unwrap_or_else(PoisonError::into_inner)
            && Instant::now() < *until
        {
            return state.clone();
        }
        let caller = Caller::Service {
            name: ServiceName::TurnOrchestrator,
            player: None,
        };
        let asked = HealthClient::new(self.peer.channel(&caller, HEALTH_DEADLINE))
            .check(HealthCheckRequest::default())
            .await;
        let state = match asked {
            Ok(answer) if answer.get_ref().status() == ServingStatus::NotServing => {
                FetchState::Unavailable("The fetch-proxy is not ready.".to_owned())
            }
            Ok(_) => FetchState::Ready,
            Err(refused)
                if matches!(
                    status::problem(&refused).code,
                    ErrorCode::Unavailable | ErrorCode::DeadlineExceeded
                ) =>
            {
                FetchState::Unavailable("The fetch-proxy cannot be reached.".to_owned())
            }
            Err(_answered) => FetchState::Ready,
        };
        self.remember(state.clone());
        state
    }

    fn remember(&self, state: FetchState) {
        let believed = match state {
            FetchState::Ready => READY_FOR,
            FetchState::Unavailable(_) => UNAVAILABLE_FOR,
        };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Instant::now() + believed, state));
    }

    /// Fetches a page for the NPC of a turn.
    pub(crate) async fn fetch(&self, url: &str, start_index: u64, context: &Context) -> Fetched {
        let caller = Caller::Npc {
            npc: context.npc,
            player: context.player,
        };
        let answer = FetchServiceClient::new(self.peer.channel(&caller, FETCH_DEADLINE))
            .max_decoding_message_size(RPC_MESSAGE_BYTES)
            .max_encoding_message_size(RPC_MESSAGE_BYTES)
            .fetch(FetchRequest {
                url: url.to_owned(),
                start_index,
                allowed_hosts: context.fetch_hosts.to_vec(),
            })
            .await;
        let outcome = match answer {
            Ok(answer) => answer.into_inner().outcome,
            Err(refused) => return self.failed(&refused),
        };
        match outcome {
            Some(FetchOutcome::Page(page)) => Fetched::Page(Box::new(Page {
                form: page.form(),
                origin: page.origin(),
                final_url: page.final_url,
                status: page.status,
                media_type: if page.media_type.is_empty() {
                    page.content_type
                } else {
                    page.media_type
                },
                charset: page.charset,
                title: page.title,
                passed_urls: page.passed_urls,
                text: page.text,
                start_index: page.start_index,
                next_start_index: page.next_start_index,
                total_characters: page.total_characters,
                total_is_minimum: page.total_is_minimum,
                left_out: page.left_out,
                fetched_at: Timestamp::from_micros(page.fetched_at_micros),
            })),
            Some(FetchOutcome::Refusal(refusal)) => {
                let sentence = if refusal.sentence.is_empty() {
                    format!(
                        "the page was refused ({}).",
                        RefusalReason::try_from(refusal.reason)
                            .unwrap_or_default()
                            .as_str_name()
                    )
                } else {
                    refusal.sentence
                };
                Fetched::Refused(sentence)
            }
            None => Fetched::Refused("the fetch-proxy gave no answer.".to_owned()),
        }
    }

    fn failed(&self, refused: &tonic::Status) -> Fetched {
        let problem = status::problem(refused);
        match problem.code {
            ErrorCode::PermissionDenied => Fetched::Denied(problem.sentence),
            ErrorCode::Unavailable => {
                self.remember(FetchState::Unavailable(
                    "The fetch-proxy cannot be reached.".to_owned(),
                ));
                Fetched::Refused("the fetch-proxy cannot be reached; go on without it.".to_owned())
            }
            ErrorCode::DeadlineExceeded => Fetched::Refused(format!(
                "the fetch-proxy took longer than {} seconds.",
                FETCH_DEADLINE.as_secs()
            )),
            ErrorCode::InvalidArgument
            | ErrorCode::Unauthenticated
            | ErrorCode::NotFound
            | ErrorCode::AlreadyExists
            | ErrorCode::FailedPrecondition
            | ErrorCode::ResourceExhausted
            | ErrorCode::Aborted
            | ErrorCode::Internal => Fetched::Refused(problem.sentence),
        }
    }
}
