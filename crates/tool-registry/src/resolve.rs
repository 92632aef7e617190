//! All that a turn needs of an NPC, in one answer.

use kernel::{Act, Caller, GrantKind, ServiceName, decide};
use sea_orm::ConnectionTrait;

use crate::{
    Error, Registry,
    error::{Thing, allowed},
    grant::Grant,
    name::Reference,
    npc::Npc,
    store::{Lock, grant, npc, player},
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
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ResolvedTarget {
    Tool(String),
    Family(String),
    Colleague {
        name: String,
        slug: String,
        id: String,
    },
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
        let mut grants: Vec<ResolvedGrant> = grants
            .into_iter()
            .filter_map(|grant| {
                let target = match grant.kind {
                    GrantKind::Tool => ResolvedTarget::Tool(grant.target.clone()),
                    GrantKind::Family => ResolvedTarget::Family(grant.target.clone()),
                    GrantKind::Mcp => return None,
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
        grants.sort_by(|a, b| a.target.cmp(&b.target));
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
