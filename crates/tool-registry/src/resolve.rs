//! All that a turn needs of an NPC, in one answer.

use kernel::{Act, Caller, GrantKind, ServiceName, decide};
use sea_orm::ConnectionTrait;

use crate::{
    Error, Registry,
    error::{Thing, allowed},
    grant::Grant,
    mcp_server::McpServer,
    name::Reference,
    npc::Npc,
    pin::Pin,
    store::{Lock, grant, npc, pin, player},
};

const DENIED: &str = "only turn-orchestrator resolves NPCs, for the Player whose turn it is";

/// An NPC with its Grants, by kind and then by name.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) npc: Npc,
    pub(crate) grants: Vec<ResolvedGrant>,
}

/// A Grant and its target, which exists and may be seen by the turn's Player.
#[derive(Debug)]
pub(crate) struct ResolvedGrant {
    pub(crate) grant: Grant,
    pub(crate) target: ResolvedTarget,
}

/// What a turn must know of a target.
#[derive(Debug)]
pub(crate) enum ResolvedTarget {
    Tool(String),
    Family(String),
    McpServer(Box<ResolvedServer>),
    Colleague {
        name: String,
        slug: String,
        id: String,
    },
}

/// A server, and what of it was pinned.
#[derive(Debug)]
pub(crate) struct ResolvedServer {
    pub(crate) server: McpServer,
    /// Those of the Tools that the Grant covers, by name.
    pub(crate) pins: Vec<Pin>,
}

impl ResolvedGrant {
    /// Grants come by kind, and then by name.
    fn order(&self) -> (GrantKind, &str, &str) {
        let kind = self.grant.kind;
        match &self.target {
            ResolvedTarget::Tool(name) | ResolvedTarget::Family(name) => (kind, name, ""),
            ResolvedTarget::McpServer(resolved) => {
                (kind, &resolved.server.name, &self.grant.target)
            }
            ResolvedTarget::Colleague { name, id, .. } => (kind, name, id),
        }
    }
}

impl Registry {
    /// For turn-orchestrator, on behalf of the Player whose turn it is. What that Player may not see is not there.
    pub(crate) async fn resolve(&self, caller: &Caller, given: &str) -> Result<Resolved, Error> {
        let snapshot = self.store.snapshot().await?;
        let turn_of = self.turn_of(&snapshot, caller).await?;
        let reference = Reference::parse(given, "npc")?;
        let hidden = || Error::not_found(Thing::Npc, given);
        let npc = npc::find(&snapshot, &reference, Lock::None).await?;
        let npc = npc.ok_or_else(hidden)?;
        let decision = match &turn_of {
            Caller::Operator(_) => decide(&turn_of, Act::TalkToNpc(npc.facts())),
            Caller::Player(_) | Caller::Npc { .. } | Caller::Service { .. } => {
                decide(caller, Act::ResolveNpc(npc.facts()))
            }
        };
        allowed(decision, hidden, DENIED)?;
        let grants = grant::of_npc(&snapshot, npc.id).await?;
        let colleagues = self.colleagues(&snapshot, &grants).await?;
        let servers = self.servers(&snapshot, &grants).await?;
        let usable =
            |server: &McpServer| decide(&turn_of, Act::UseMcpServer(server.facts())).allows();
        let to_servers = grants.iter().filter(|grant| {
            let server = servers.get(&grant.target);
            grant.kind == GrantKind::Mcp && server.is_some_and(usable)
        });
        let mut pins = pin::of_grants(&snapshot, to_servers.map(|grant| grant.id)).await?;
        let mut grants: Vec<ResolvedGrant> = grants
            .into_iter()
            .filter_map(|grant| {
                let target = match grant.kind {
                    GrantKind::Tool => ResolvedTarget::Tool(grant.target.clone()),
                    GrantKind::Family => ResolvedTarget::Family(grant.target.clone()),
                    GrantKind::Mcp => {
                        let server = servers.get(&grant.target).filter(|server| usable(server))?;
                        let mut pins = pins.remove(&grant.id).unwrap_or_default();
                        pins.retain(|pin| {
                            grant.tools.is_empty() || grant.tools.contains(&pin.tool)
                        });
                        let server = server.clone();
                        ResolvedTarget::McpServer(Box::new(ResolvedServer { server, pins }))
                    }
                    GrantKind::Npc => {
                        let colleague = colleagues.get(&grant.target)?;
                        let decision = decide(&turn_of, Act::TalkToNpc(colleague.facts()));
                        decision.allows().then(|| ResolvedTarget::Colleague {
                            name: colleague.name.clone(),
                            slug: colleague.slug.clone(),
                            id: colleague.id.to_string(),
                        })?
                    }
                };
                Some(ResolvedGrant { grant, target })
            })
            .collect();
        grants.sort_by(|a, b| a.order().cmp(&b.order()));
        Ok(Resolved { npc, grants })
    }

    /// Whose turn it is. A service's token says which Player, and not whether that is the Operator; the table does.
    pub(crate) async fn turn_of(
        &self,
        db: &impl ConnectionTrait,
        caller: &Caller,
    ) -> Result<Caller, Error> {
        let id = match caller {
            Caller::Service {
                name: ServiceName::TurnOrchestrator,
                player: Some(player),
            } => *player,
            Caller::Service { .. } => return Ok(caller.clone()),
            Caller::Operator(_) | Caller::Player(_) | Caller::Npc { .. } => {
                return Err(Error::Denied(DENIED));
            }
        };
        match player::by_id(db, id, Lock::None).await? {
            Some(row) if row.revoked_at.is_some() => Err(Error::Denied("this Player was revoked")),
            Some(row) if row.kind == player::OPERATOR => Ok(Caller::Operator(id)),
            Some(_) | None => Ok(Caller::Player(id)),
        }
    }
}
