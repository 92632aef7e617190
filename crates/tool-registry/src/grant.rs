//! Grants: what an NPC may use.

mod wish;

use std::collections::HashMap;

use kernel::{
    Act, Caller, GrantId, GrantKind, GrantWhat, NpcId, Timestamp, decide, limits::GRANTS_PER_NPC,
};
use sea_orm::ConnectionTrait;
use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::{
    Error, Registry,
    audit::{self, Change},
    error::{Thing, allowed, shown},
    mcp_server::McpServer,
    name::Reference,
    npc::Npc,
    pin::Pin,
    store::{Lock, grant, mcp_server, npc},
};

pub(crate) use wish::Wish;

const DENIED: &str = "only the NPC's owner and the Operator may change its Grants";

/// One row of the one table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Grant {
    pub(crate) id: GrantId,
    #[serde(rename = "npcId")]
    pub(crate) npc: NpcId,
    #[serde(serialize_with = "word")]
    pub(crate) kind: GrantKind,
    /// The Tool's or family's name, or the id of the server or colleague.
    pub(crate) target: String,
    /// Empty: all.
    pub(crate) tools: Vec<String>,
    #[serde(serialize_with = "audit::time")]
    pub(crate) created_at: Timestamp,
    /// When the server's Tool definitions were pinned, if they are.
    #[serde(
        serialize_with = "audit::time_if_any",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) pinned_at: Option<Timestamp>,
}

impl Grant {
    /// That it is taken away, for the audit log.
    pub(crate) const fn removed(&self) -> Change<'_, Self> {
        Change {
            action: "grant.remove",
            subject_kind: "grant",
            subject_id: self.id.as_uuid(),
            before: Some(self),
            after: None,
        }
    }

    /// The id of the server that it is to, if it is to one.
    pub(crate) fn server_id(&self) -> Option<Uuid> {
        match self.kind {
            GrantKind::Mcp => self.target.parse().ok(),
            GrantKind::Tool | GrantKind::Family | GrantKind::Npc => None,
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
fn word<S: Serializer>(kind: &GrantKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.as_str())
}

/// A Grant with what its target is called now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedGrant {
    pub(crate) grant: Grant,
    /// As a person writes it: `npc:Keeper`.
    pub(crate) what: String,
}

impl Registry {
    /// Granting what is granted already changes nothing but its Tools.
    pub(crate) async fn add_grant(&self, caller: &Caller, wish: Wish) -> Result<NamedGrant, Error> {
        let (registry, caller) = (self.clone(), caller.clone());
        self.store
            .write(move |tx| {
                Box::pin(async move {
                    registry.active(tx, &caller, Lock::Shared).await?;
                    let npc = registry.locked_npc(tx, &wish.npc).await?;
                    may_change(&caller, &npc, &wish.npc)?;
                    let target = registry.target(tx, &caller, &npc, &wish.what).await?;
                    let kind = wish.what.kind();
                    let lock = Lock::Exclusive;
                    let known = grant::of_npc_to(tx, npc.id, kind, &target.id, lock).await?;
                    if let Some(known) = known {
                        let was_pinned = known.pinned_at.is_some();
                        let same_tools = known.tools == wish.tools;
                        let grant = registry.narrow(tx, &caller, known, wish.tools).await?;
                        // Pins are replaced with a new choice of Tools, or by accepting others: not by granting once more.
                        let seen = if was_pinned && same_tools {
                            Vec::new()
                        } else {
                            wish.seen
                        };
                        let grant = registry.pin_seen(tx, &caller, grant, &seen).await?;
                        return Ok(target.names(grant));
                    }
                    let count = grant::count(tx, npc.id).await?;
                    if count >= GRANTS_PER_NPC as u64 {
                        return Err(Error::TooMany(format!(
                            "an NPC may have {GRANTS_PER_NPC} Grants; remove one first"
                        )));
                    }
                    let fresh = Grant {
                        id: GrantId::mint(&*registry.clock),
                        npc: npc.id,
                        kind,
                        target: target.id.clone(),
                        tools: wish.tools,
                        created_at: registry.clock.now(),
                        pinned_at: None,
                    };
                    grant::insert(tx, &fresh).await?;
                    let change = Change {
                        action: "grant.add",
                        subject_kind: "grant",
                        subject_id: fresh.id.as_uuid(),
                        before: None,
                        after: Some(&fresh),
                    };
                    registry.record(tx, &caller.label(), change).await?;
                    let fresh = registry.pin_seen(tx, &caller, fresh, &wish.seen).await?;
                    Ok(target.names(fresh))
                })
            })
            .await
    }

    pub(crate) async fn grant(&self, caller: &Caller, id: &str) -> Result<NamedGrant, Error> {
        let snapshot = self.store.snapshot().await?;
        let (grant, npc) = self
            .grant_and_npc(&snapshot, caller, id, Lock::None)
            .await?;
        let hidden = || Error::not_found(Thing::Grant, id);
        let decision = decide(caller, Act::SeeNpc(npc.facts()));
        allowed(decision, hidden, "only Players see Grants")?;
        let mut named = self.named(&snapshot, caller, vec![grant]).await?;
        named.pop().ok_or_else(hidden)
    }

    /// Newest first.
    pub(crate) async fn grants(
        &self,
        caller: &Caller,
        given: &str,
    ) -> Result<Vec<NamedGrant>, Error> {
        let snapshot = self.store.snapshot().await?;
        let npc = self.visible_npc(&snapshot, caller, given).await?;
        let grants = grant::of_npc(&snapshot, npc.id).await?;
        self.named(&snapshot, caller, grants).await
    }

    pub(crate) async fn update_grant(
        &self,
        caller: &Caller,
        id: &str,
        tools: Vec<String>,
    ) -> Result<NamedGrant, Error> {
        let (registry, caller, id) = (self.clone(), caller.clone(), id.to_owned());
        self.store
            .write(move |tx| {
                Box::pin(async move {
                    registry.active(tx, &caller, Lock::Shared).await?;
                    let (known, npc) = registry
                        .grant_and_npc(tx, &caller, &id, Lock::Exclusive)
                        .await?;
                    let hidden = || Error::not_found(Thing::Grant, &id);
                    let decision = decide(&caller, Act::ChangeGrants(npc.facts()));
                    allowed(decision, hidden, DENIED)?;
                    let tools = wish::check_tools(known.kind, tools)?;
                    let grant = registry.narrow(tx, &caller, known, tools).await?;
                    let mut named = registry.named(tx, &caller, vec![grant]).await?;
                    named.pop().ok_or_else(hidden)
                })
            })
            .await
    }

    /// Works for a colleague, too, that has become private since: what an NPC has, its owner can take away.
    pub(crate) async fn remove_grant(&self, caller: &Caller, wish: Wish) -> Result<Grant, Error> {
        let (registry, caller) = (self.clone(), caller.clone());
        self.store
            .write(move |tx| {
                Box::pin(async move {
                    registry.active(tx, &caller, Lock::Shared).await?;
                    let npc = registry.locked_npc(tx, &wish.npc).await?;
                    may_change(&caller, &npc, &wish.npc)?;
                    let missing = || Error::not_found(Thing::Grant, &wish.what.to_string());
                    let target = match &wish.what {
                        GrantWhat::Tool(tool) => Some(tool.as_str().to_owned()),
                        GrantWhat::Family(family) => Some(family.as_str().to_owned()),
                        GrantWhat::Mcp(given) => {
                            let reference = Reference::parse(given, "what")?;
                            let server = mcp_server::find(tx, &reference, Lock::None).await?;
                            server.map(|server| server.id.to_string())
                        }
                        GrantWhat::Npc(given) => {
                            let reference = Reference::parse(given, "what")?;
                            let colleague = npc::find(tx, &reference, Lock::None).await?;
                            colleague.map(|colleague| colleague.id.to_string())
                        }
                    };
                    let target = target.ok_or_else(missing)?;
                    let (kind, lock) = (wish.what.kind(), Lock::Exclusive);
                    let gone = grant::of_npc_to(tx, npc.id, kind, &target, lock).await?;
                    let gone = gone.ok_or_else(missing)?;
                    grant::delete(tx, gone.id).await?;
                    registry.record(tx, &caller.label(), gone.removed()).await?;
                    Ok(gone)
                })
            })
            .await
    }

    /// What is to be granted, as far as the caller can see it. A server or colleague is locked, so that it is not deleted meanwhile.
    async fn target(
        &self,
        tx: &store::Transaction,
        caller: &Caller,
        npc: &Npc,
        what: &GrantWhat,
    ) -> Result<Target, Error> {
        match what {
            GrantWhat::Tool(tool) => Ok(Target::named(tool.as_str())),
            GrantWhat::Family(family) => Ok(Target::named(family.as_str())),
            GrantWhat::Mcp(given) => {
                let hidden = || Error::not_found(Thing::McpServer, given);
                let reference = Reference::parse(given, "what")?;
                let server = mcp_server::find(tx, &reference, Lock::Shared).await?;
                let server = server.ok_or_else(hidden)?;
                let decision = decide(caller, Act::SeeMcpServer(server.facts()));
                allowed(decision, hidden, DENIED)?;
                Ok(Target {
                    id: server.id.to_string(),
                    name: server.name,
                })
            }
            GrantWhat::Npc(given) => {
                let hidden = || Error::not_found(Thing::Npc, given);
                let reference = Reference::parse(given, "what")?;
                let colleague = npc::find(tx, &reference, Lock::Shared).await?;
                let colleague = colleague.ok_or_else(hidden)?;
                let decision = decide(caller, Act::SeeNpc(colleague.facts()));
                allowed(decision, hidden, DENIED)?;
                if colleague.id == npc.id {
                    return Err(Error::invalid("what", "an NPC is not its own colleague"));
                }
                Ok(Target {
                    id: colleague.id.to_string(),
                    name: colleague.name,
                })
            }
        }
    }

    /// Pins what the granter saw, if anything.
    async fn pin_seen(
        &self,
        tx: &store::Transaction,
        caller: &Caller,
        grant: Grant,
        seen: &[Pin],
    ) -> Result<Grant, Error> {
        if seen.is_empty() {
            return Ok(grant);
        }
        let actor = caller.label();
        let pinned = self.pin(tx, &actor, "grant.pin", grant.clone(), seen);
        Ok(pinned.await?.unwrap_or(grant))
    }

    /// Changes which Tools a Grant covers, if they are others.
    async fn narrow(
        &self,
        tx: &store::Transaction,
        caller: &Caller,
        before: Grant,
        tools: Vec<String>,
    ) -> Result<Grant, Error> {
        if before.tools == tools {
            return Ok(before);
        }
        let after = Grant {
            tools,
            ..before.clone()
        };
        grant::update(tx, &after).await?;
        let change = Change {
            action: "grant.update",
            subject_kind: "grant",
            subject_id: after.id.as_uuid(),
            before: Some(&before),
            after: Some(&after),
        };
        self.record(tx, &caller.label(), change).await?;
        Ok(after)
    }

    async fn grant_and_npc(
        &self,
        db: &impl ConnectionTrait,
        caller: &Caller,
        id: &str,
        lock: Lock,
    ) -> Result<(Grant, Npc), Error> {
        let hidden = || Error::not_found(Thing::Grant, id);
        let id: Uuid = match Reference::parse(id, "grant_id")? {
            Reference::Id(id) => id,
            Reference::Slug(_) | Reference::Nothing => return Err(hidden()),
        };
        let found = grant::by_id(db, id, lock).await?.ok_or_else(hidden)?;
        let npc = Reference::Id(found.npc.as_uuid());
        let npc = npc::find(db, &npc, Lock::None).await?.ok_or_else(hidden)?;
        let decision = decide(caller, Act::SeeNpc(npc.facts()));
        allowed(decision, hidden, "only Players see Grants")?;
        Ok((found, npc))
    }

    /// Puts names to targets. A server or colleague that the caller may not see is left out.
    async fn named(
        &self,
        db: &impl ConnectionTrait,
        caller: &Caller,
        grants: Vec<Grant>,
    ) -> Result<Vec<NamedGrant>, Error> {
        let colleagues = self.colleagues(db, &grants).await?;
        let servers = self.servers(db, &grants).await?;
        let named = grants.into_iter().filter_map(|grant| {
            let name = match grant.kind {
                GrantKind::Tool | GrantKind::Family => grant.target.clone(),
                GrantKind::Mcp => {
                    let server = servers.get(&grant.target)?;
                    let decision = decide(caller, Act::SeeMcpServer(server.facts()));
                    decision.allows().then(|| server.name.clone())?
                }
                GrantKind::Npc => {
                    let colleague = colleagues.get(&grant.target)?;
                    let decision = decide(caller, Act::SeeNpc(colleague.facts()));
                    decision.allows().then(|| colleague.name.clone())?
                }
            };
            let what = format!("{}:{name}", grant.kind);
            Some(NamedGrant { grant, what })
        });
        Ok(named.collect())
    }

    /// The servers among the targets, by the target's text.
    pub(crate) async fn servers(
        &self,
        db: &impl ConnectionTrait,
        grants: &[Grant],
    ) -> Result<HashMap<String, McpServer>, Error> {
        let servers = mcp_server::all(db, grants.iter().filter_map(Grant::server_id)).await?;
        Ok(servers
            .into_iter()
            .map(|server| (server.id.to_string(), server))
            .collect())
    }

    /// The colleagues among the targets, by the target's text.
    pub(crate) async fn colleagues(
        &self,
        db: &impl ConnectionTrait,
        grants: &[Grant],
    ) -> Result<HashMap<String, Npc>, Error> {
        let ids = grants
            .iter()
            .filter(|grant| grant.kind == GrantKind::Npc)
            .filter_map(|grant| grant.target.parse::<Uuid>().ok());
        let colleagues = npc::all(db, ids).await?;
        Ok(colleagues
            .into_iter()
            .map(|npc| (npc.id.to_string(), npc))
            .collect())
    }
}

/// A target that exists.
#[derive(Debug)]
struct Target {
    /// As the table keeps it.
    id: String,
    /// As a person calls it.
    name: String,
}

impl Target {
    fn named(name: &str) -> Self {
        Self {
            id: name.to_owned(),
            name: name.to_owned(),
        }
    }

    fn names(&self, grant: Grant) -> NamedGrant {
        NamedGrant {
            what: format!("{}:{}", grant.kind, self.name),
            grant,
        }
    }
}

fn may_change(caller: &Caller, npc: &Npc, given: &str) -> Result<(), Error> {
    let decision = decide(caller, Act::ChangeGrants(npc.facts()));
    allowed(
        decision,
        || Error::not_found(Thing::Npc, &shown(given)),
        DENIED,
    )
}
