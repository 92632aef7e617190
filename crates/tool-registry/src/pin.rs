//! Pins: the Tool definitions of a server as they were when it was granted, or accepted since.
//!
//! A server may change what its Tools say at any time, after somebody read them and decided. Whoever builds a Tool set compares
//! what is listed with what is pinned; only people replace pins, by granting with what they saw, or by accepting it.

use std::collections::BTreeMap;

use kernel::{Act, Caller, GrantKind, JsonText, NpcId, ServiceName, ToolDefinition, decide};
use serde::Serialize;
use store::Micros;

use crate::{
    Error, Registry,
    audit::Change,
    error::{Thing, allowed, shown},
    grant::Grant,
    mcp_server::McpServer,
    name::Reference,
    npc::Npc,
    store::{Lock, grant, mcp_server, npc, pin},
};

/// Pins of one Grant.
const MAX_PINS: usize = 4_096;
/// Pins of all Grants of one NPC, so that all of them fit into the answer that a turn begins with.
const MAX_PINS_OF_NPC: u64 = 8_192;
/// Pins of one answer to people.
const MAX_PINS_OF_ANSWER: u64 = 16_384;
/// Bytes of a Tool's name at its server.
const TOOL_NAME_BYTES: usize = 512;
/// Bytes of a definition that is kept; of a larger one only its hash is.
const DEFINITION_BYTES: usize = 64 * 1_024;
/// Bytes of all definitions in one answer to people; the rest comes without.
const ANSWER_BYTES: usize = 4 * 1_024 * 1_024;
/// Names of Tools that a row of the audit log tells of one kind.
const TOLD: usize = 64;

const ACCEPT_DENIED: &str = "only the NPC's owner and the Operator may accept definitions for it";

/// One pinned definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pin {
    pub(crate) tool: String,
    /// SHA-256 in lower-case hexadecimal.
    pub(crate) hash: String,
    /// Canonical JSON.
    pub(crate) definition: Option<JsonText>,
}

/// A definition as a request has it.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    pub(crate) tool: String,
    pub(crate) hash: String,
    pub(crate) definition: String,
}

impl Pin {
    /// Reads definitions that somebody saw. Where the definition itself is given, it must be what the hash says.
    pub(crate) fn parse_all(field: &'static str, given: Vec<Given>) -> Result<Vec<Self>, Error> {
        if given.len() > MAX_PINS {
            let count = given.len();
            return Err(Error::invalid(
                field,
                format_args!("{count} definitions are too many; at most {MAX_PINS} are allowed"),
            ));
        }
        let mut pins: BTreeMap<String, Self> = BTreeMap::new();
        for given in given {
            let pin = Self::parse(field, given)?;
            if let Some(twice) = pins.insert(pin.tool.clone(), pin) {
                return Err(Error::invalid(
                    field,
                    format_args!("{:?} is given twice", shown(&twice.tool)),
                ));
            }
        }
        Ok(pins.into_values().collect())
    }

    fn parse(field: &'static str, given: Given) -> Result<Self, Error> {
        let refuse = |what: &str| {
            let tool = shown(&given.tool);
            Error::invalid(field, format_args!("{tool:?} {what}"))
        };
        if given.tool.is_empty() || given.tool.len() > TOOL_NAME_BYTES || given.tool.contains('\0')
        {
            return Err(refuse(&format!(
                "is no Tool's name; one has 1 to {TOOL_NAME_BYTES} bytes and no NUL"
            )));
        }
        let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if given.hash.len() != 64 || !given.hash.bytes().all(digit) {
            return Err(refuse(
                "has no SHA-256 in lower-case hexadecimal for its definition_hash",
            ));
        }
        let definition = if given.definition.is_empty() || given.definition.len() > DEFINITION_BYTES
        {
            None
        } else {
            let read = JsonText::parse(&given.definition)
                .ok()
                .and_then(|json| serde_json::from_str::<ToolDefinition>(json.as_str()).ok())
                .ok_or_else(|| {
                    refuse("has a definition_json that is no JSON object with name, description and inputSchema")
                })?;
            if read.name != given.tool {
                return Err(refuse("has the definition of another Tool"));
            }
            let canonical = read.canonical();
            if ToolDefinition::hash_of(&canonical) != given.hash {
                return Err(refuse(
                    "has a definition whose hash is another one; list its Tools again",
                ));
            }
            Some(canonical)
        };
        Ok(Self {
            tool: given.tool,
            hash: given.hash,
            definition,
        })
    }
}

/// What one Grant pinned.
#[derive(Debug)]
pub(crate) struct GrantPins {
    pub(crate) grant: Grant,
    pub(crate) npc: Npc,
    pub(crate) pins: Vec<Pin>,
}

/// What became other of a Grant's pins, for the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Repinned {
    grant: Grant,
    pins: usize,
    changed: Vec<String>,
    new: Vec<String>,
    gone: Vec<String>,
}

impl Repinned {
    fn of(grant: &Grant, before: &[Pin], after: &[Pin]) -> Self {
        let hashes = |pins: &[Pin]| -> BTreeMap<String, String> {
            let pins = pins.iter();
            pins.map(|pin| (pin.tool.clone(), pin.hash.clone()))
                .collect()
        };
        let (old, new) = (hashes(before), hashes(after));
        let told = |names: &mut dyn Iterator<Item = &String>| names.take(TOLD).cloned().collect();
        Self {
            grant: grant.clone(),
            pins: after.len(),
            changed: told(&mut new.iter().filter_map(|(tool, hash)| {
                old.get(tool)
                    .is_some_and(|known| known != hash)
                    .then_some(tool)
            })),
            new: told(&mut new.keys().filter(|tool| !old.contains_key(*tool))),
            gone: told(&mut old.keys().filter(|tool| !new.contains_key(*tool))),
        }
    }

    fn is_nothing(&self) -> bool {
        self.changed.is_empty() && self.new.is_empty() && self.gone.is_empty()
    }
}

impl Registry {
    /// Pins definitions for a Grant, in the place of what it has, and says so in the audit log. The Grant is locked. None, if
    /// nothing became other.
    pub(crate) async fn pin(
        &self,
        tx: &store::Transaction,
        actor: &str,
        action: &'static str,
        grant: Grant,
        pins: &[Pin],
    ) -> Result<Option<Grant>, Error> {
        let others = pin::count_of_npc_but(tx, grant.npc, grant.id).await?;
        if others + pins.len() as u64 > MAX_PINS_OF_NPC {
            return Err(Error::TooMany(format!(
                "the MCP Servers of this NPC would have more than {MAX_PINS_OF_NPC} Tools together; take one away first"
            )));
        }
        let before = pin::of_grant(tx, grant.id).await?;
        let repinned = Repinned::of(&grant, &before, pins);
        if grant.pinned_at.is_some() && repinned.is_nothing() {
            return Ok(None);
        }
        let after = Grant {
            pinned_at: Some(self.clock.now()),
            ..grant.clone()
        };
        pin::replace(tx, grant.id, pins).await?;
        grant::set_pinned(tx, grant.id, Micros::now(&*self.clock)).await?;
        let repinned = Repinned {
            grant: after.clone(),
            ..repinned
        };
        let change = Change {
            action,
            subject_kind: "grant",
            subject_id: grant.id.as_uuid(),
            before: None,
            after: Some(&repinned),
        };
        self.record(tx, actor, change).await?;
        Ok(Some(after))
    }

    /// The pins of the Grants to a server that the caller may edit, by NPC name; of one NPC's, if one is named.
    pub(crate) async fn pins(
        &self,
        caller: &Caller,
        server: &str,
        npc: &str,
    ) -> Result<Vec<GrantPins>, Error> {
        let snapshot = self.store.snapshot().await?;
        let server = self
            .visible_server(&snapshot, caller, server, Lock::None)
            .await?;
        let editable = self.editable(&snapshot, caller, &server, npc).await?;
        let ids = editable.iter().map(|(grant, _)| grant.id);
        if pin::count(&snapshot, ids).await? > MAX_PINS_OF_ANSWER {
            return Err(Error::TooMany(format!(
                "the pins of all NPCs that have {:?} do not fit into one answer; ask for one NPC's",
                server.name
            )));
        }
        let mut answer = Vec::with_capacity(editable.len());
        let mut room = ANSWER_BYTES;
        for (grant, npc) in editable {
            let mut pins = pin::of_grant(&snapshot, grant.id).await?;
            for pin in &mut pins {
                let bytes = pin
                    .definition
                    .as_ref()
                    .map_or(0, |json| json.as_str().len());
                match room.checked_sub(bytes) {
                    Some(left) => room = left,
                    None => pin.definition = None,
                }
            }
            answer.push(GrantPins { grant, npc, pins });
        }
        Ok(answer)
    }

    /// Accepts definitions as they were seen, and names the NPCs for which that changed something.
    pub(crate) async fn accept_pins(
        &self,
        caller: &Caller,
        server: &str,
        npc: &str,
        pins: Vec<Pin>,
    ) -> Result<Vec<String>, Error> {
        if pins.is_empty() {
            return Err(Error::invalid(
                "pins",
                "there are none; list the server's Tools first, and give all that it has",
            ));
        }
        let (registry, caller) = (self.clone(), caller.clone());
        let (server, npc) = (server.to_owned(), npc.to_owned());
        self.store
            .write(move |tx| {
                Box::pin(async move {
                    registry.active(tx, &caller, Lock::Shared).await?;
                    let server = registry
                        .visible_server(tx, &caller, &server, Lock::Shared)
                        .await?;
                    let mut changed = Vec::new();
                    for (grant, npc) in registry.editable(tx, &caller, &server, &npc).await? {
                        let locked = grant::by_id(tx, grant.id.as_uuid(), Lock::Exclusive).await?;
                        let Some(locked) = locked else { continue };
                        let label = caller.label();
                        let done = registry.pin(tx, &label, "grant.accept", locked, &pins);
                        if done.await?.is_some() {
                            changed.push(npc.name);
                        }
                    }
                    Ok(changed)
                })
            })
            .await
    }

    /// Pins what a turn listed first, for a Grant that has no pins. The first one wins; for the others, and where there is no such
    /// Grant for this turn's Player, nothing is saved.
    pub(crate) async fn save_pins(
        &self,
        caller: &Caller,
        grant_id: &str,
        pins: Vec<Pin>,
    ) -> Result<bool, Error> {
        let Caller::Service {
            name: ServiceName::TurnOrchestrator,
            player: Some(_),
        } = caller
        else {
            return Err(Error::Denied(
                "only turn-orchestrator pins what a turn lists, for the Player whose turn it is",
            ));
        };
        let Reference::Id(id) = Reference::parse(grant_id, "grant_id")? else {
            return Ok(false);
        };
        if pins.is_empty() {
            return Ok(false);
        }
        let (registry, caller) = (self.clone(), caller.clone());
        self.store
            .write(move |tx| {
                Box::pin(async move {
                    let Some(grant) = grant::by_id(tx, id, Lock::Exclusive).await? else {
                        return Ok(false);
                    };
                    if grant.pinned_at.is_some() || !registry.may_use(tx, &caller, &grant).await? {
                        return Ok(false);
                    }
                    let label = caller.label();
                    let done = registry.pin(tx, &label, "grant.pin", grant, &pins).await?;
                    Ok(done.is_some())
                })
            })
            .await
    }

    /// Whether this turn's Player may talk to the Grant's NPC and use its server.
    async fn may_use(
        &self,
        tx: &store::Transaction,
        caller: &Caller,
        grant: &Grant,
    ) -> Result<bool, Error> {
        let turn_of = self.turn_of(tx, caller).await?;
        let npc = Reference::Id(grant.npc.as_uuid());
        let Some(npc) = npc::find(tx, &npc, Lock::None).await? else {
            return Ok(false);
        };
        let Some(server) = server_of(tx, grant).await? else {
            return Ok(false);
        };
        Ok(decide(&turn_of, Act::TalkToNpc(npc.facts())).allows()
            && decide(&turn_of, Act::UseMcpServer(server.facts())).allows())
    }

    /// The Grants to a server whose NPC the caller may edit, by NPC name; that of one NPC, if one is named.
    async fn editable(
        &self,
        db: &impl sea_orm::ConnectionTrait,
        caller: &Caller,
        server: &McpServer,
        npc: &str,
    ) -> Result<Vec<(Grant, Npc)>, Error> {
        let target = server.id.to_string();
        if !npc.is_empty() {
            let named = self.visible_npc(db, caller, npc).await?;
            let decision = decide(caller, Act::ChangeGrants(named.facts()));
            allowed(
                decision,
                || Error::not_found(Thing::Npc, npc),
                ACCEPT_DENIED,
            )?;
            let missing = || Error::not_found(Thing::Grant, &format!("mcp:{}", server.name));
            let grant = grant::of_npc_to(db, named.id, GrantKind::Mcp, &target, Lock::None).await?;
            return Ok(vec![(grant.ok_or_else(missing)?, named)]);
        }
        let all = grant::to_target(db, GrantKind::Mcp, &target).await?;
        let npcs = npc::all(db, all.iter().map(|grant| grant.npc.as_uuid())).await?;
        let mut npcs: BTreeMap<NpcId, Npc> = npcs.into_iter().map(|npc| (npc.id, npc)).collect();
        let mut editable: Vec<(Grant, Npc)> = all
            .into_iter()
            .filter_map(|grant| npcs.remove(&grant.npc).map(|npc| (grant, npc)))
            .filter(|(_, npc)| decide(caller, Act::ChangeGrants(npc.facts())).allows())
            .collect();
        editable.sort_by(|(_, a), (_, b)| (&a.name, a.id).cmp(&(&b.name, b.id)));
        Ok(editable)
    }
}

/// The server that a Grant is to.
async fn server_of(
    db: &impl sea_orm::ConnectionTrait,
    grant: &Grant,
) -> Result<Option<McpServer>, Error> {
    match grant.server_id() {
        Some(id) => mcp_server::find(db, &Reference::Id(id), Lock::None).await,
        None => Ok(None),
    }
}
