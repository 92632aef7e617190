//! NPCs: the agents of a Village.

use std::str::FromStr;

use kernel::{
    Act, Caller, GrantKind, NpcFacts, NpcId, PlayerId, Timestamp, clean_text, decide,
    limits::PERSONA_BYTES, nearest,
};
use sea_orm::ConnectionTrait;
use serde::Serialize;

use crate::{
    Error, Registry,
    audit::{self, Change},
    error::{Thing, allowed, shown},
    grant::Grant,
    hosts,
    name::{Name, Reference},
    page::{Page, Paged},
    store::{Lock, grant, npc},
};

/// Characters of the longest `PROVIDER/MODEL`.
const MODEL_CHARS: usize = 200;
/// The key that a taken name violates.
const SLUG_KEY: &str = "npcs_slug";
const EDIT_DENIED: &str = "only the NPC's owner and the Operator may change it";

/// An agent. It is serialized for the audit log, in the words of the HTTP surface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Npc {
    pub(crate) id: NpcId,
    #[serde(rename = "ownerId")]
    pub(crate) owner: PlayerId,
    pub(crate) name: String,
    pub(crate) slug: String,
    pub(crate) persona: String,
    pub(crate) model: String,
    pub(crate) private: bool,
    pub(crate) fetch_hosts: Vec<String>,
    pub(crate) sandbox_scope: SandboxScope,
    pub(crate) sandbox_network: SandboxNetwork,
    pub(crate) sandbox_hosts: Vec<String>,
    pub(crate) generation: i64,
    #[serde(serialize_with = "audit::time")]
    pub(crate) created_at: Timestamp,
    #[serde(serialize_with = "audit::time")]
    pub(crate) updated_at: Timestamp,
}

impl Npc {
    pub(crate) const fn facts(&self) -> NpcFacts {
        NpcFacts {
            owner: self.owner,
            private: self.private,
        }
    }
}

/// Who shares a Sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SandboxScope {
    #[default]
    Npc,
    Player,
    Conversation,
}

impl SandboxScope {
    const ALL: [Self; 3] = [Self::Npc, Self::Player, Self::Conversation];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Npc => "npc",
            Self::Player => "player",
            Self::Conversation => "conversation",
        }
    }
}

impl FromStr for SandboxScope {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut all = Self::ALL.into_iter();
        all.find(|scope| scope.as_str() == text).ok_or(())
    }
}

/// What a Sandbox may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SandboxNetwork {
    #[default]
    Off,
    List,
    Web,
}

impl SandboxNetwork {
    const ALL: [Self; 3] = [Self::Off, Self::List, Self::Web];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::List => "list",
            Self::Web => "web",
        }
    }
}

impl FromStr for SandboxNetwork {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut all = Self::ALL.into_iter();
        all.find(|network| network.as_str() == text).ok_or(())
    }
}

/// What a request says of an NPC. Absent is kept, or the default of a new one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields {
    pub(crate) name: Option<String>,
    pub(crate) persona: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) private: Option<bool>,
    pub(crate) fetch_hosts: Option<Vec<String>>,
    pub(crate) sandbox_scope: Option<SandboxScope>,
    pub(crate) sandbox_network: Option<SandboxNetwork>,
    pub(crate) sandbox_hosts: Option<Vec<String>>,
}

/// The same, checked.
#[derive(Debug, Clone)]
struct Checked {
    name: Option<Name>,
    fields: Fields,
}

impl Checked {
    fn put_on(self, npc: &mut Npc) {
        fn put<T>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        if let Some(name) = self.name {
            npc.name = name.text;
            npc.slug = name.slug.to_string();
        }
        let fields = self.fields;
        put(&mut npc.persona, fields.persona);
        put(&mut npc.model, fields.model);
        put(&mut npc.private, fields.private);
        put(&mut npc.fetch_hosts, fields.fetch_hosts);
        put(&mut npc.sandbox_scope, fields.sandbox_scope);
        put(&mut npc.sandbox_network, fields.sandbox_network);
        put(&mut npc.sandbox_hosts, fields.sandbox_hosts);
    }
}

/// A deleted NPC, and the Grants that went with it.
#[derive(Serialize)]
struct Deleted<'d> {
    #[serde(flatten)]
    npc: &'d Npc,
    grants: &'d [Grant],
}

impl Registry {
    pub(crate) async fn create_npc(&self, caller: &Caller, fields: Fields) -> Result<Npc, Error> {
        let denied = "only Players create NPCs";
        let decision = decide(caller, Act::CreateNpc);
        allowed(decision, || Error::Denied(denied), denied)?;
        let name = fields.name.clone();
        let checked = self.check(Fields {
            name: Some(name.clone().unwrap_or_default()),
            ..fields
        })?;
        let registry = self.clone();
        let caller = caller.clone();
        let created = self
            .store
            .write(move |tx| {
                Box::pin(async move {
                    // The Player's row is locked, so that two at once do not pass the bound together.
                    let owner = registry.active(tx, &caller, Lock::Exclusive).await?.id;
                    let bound = registry.config.npcs_per_player;
                    if npc::count_owned(tx, owner).await? >= bound {
                        return Err(Error::TooMany(format!(
                            "a Player may own {bound} NPCs; delete one first, or ask the Operator to raise limits.npcs_per_player"
                        )));
                    }
                    let now = registry.clock.now();
                    let mut fresh = Npc {
                        id: NpcId::mint(&*registry.clock),
                        owner,
                        name: String::new(),
                        slug: String::new(),
                        persona: String::new(),
                        model: String::new(),
                        private: false,
                        fetch_hosts: Vec::new(),
                        sandbox_scope: SandboxScope::default(),
                        sandbox_network: SandboxNetwork::default(),
                        sandbox_hosts: Vec::new(),
                        generation: 1,
                        created_at: now,
                        updated_at: now,
                    };
                    checked.put_on(&mut fresh);
                    npc::insert(tx, &fresh).await?;
                    let change = Change {
                        action: "npc.create",
                        subject_kind: "npc",
                        subject_id: fresh.id.as_uuid(),
                        before: None,
                        after: Some(&fresh),
                    };
                    registry.record(tx, &caller.label(), change).await?;
                    Ok(fresh)
                })
            })
            .await;
        created.map_err(|error: Error| error.or_taken(SLUG_KEY, name.as_deref()))
    }

    pub(crate) async fn npc(&self, caller: &Caller, given: &str) -> Result<Npc, Error> {
        self.visible_npc(self.store.reader(), caller, given).await
    }

    pub(crate) async fn npcs(&self, caller: &Caller, page: Page) -> Result<Paged<Npc>, Error> {
        let seen_by = match caller {
            Caller::Operator(_) => None,
            Caller::Player(player) => Some(*player),
            Caller::Npc { .. } | Caller::Service { .. } => {
                return Err(Error::Denied("only Players list NPCs"));
            }
        };
        npc::list(self.store.reader(), seen_by, page).await
    }

    pub(crate) async fn update_npc(
        &self,
        caller: &Caller,
        given: &str,
        fields: Fields,
    ) -> Result<Npc, Error> {
        // Whoever may not change it is told so before anything is said of the fields.
        let seen = self.visible_npc(self.store.reader(), caller, given).await?;
        may_edit(caller, &seen, given)?;
        let name = fields.name.clone();
        let checked = self.check(fields)?;
        let (registry, caller, given) = (self.clone(), caller.clone(), given.to_owned());
        let updated = self
            .store
            .write(move |tx| {
                Box::pin(async move {
                    registry.active(tx, &caller, Lock::Shared).await?;
                    let before = registry.locked_npc(tx, &given).await?;
                    may_edit(&caller, &before, &given)?;
                    let mut after = before.clone();
                    checked.put_on(&mut after);
                    if after == before {
                        return Ok(before);
                    }
                    after.generation += 1;
                    after.updated_at = registry.clock.now();
                    npc::update(tx, &after).await?;
                    let change = Change {
                        action: "npc.update",
                        subject_kind: "npc",
                        subject_id: after.id.as_uuid(),
                        before: Some(&before),
                        after: Some(&after),
                    };
                    registry.record(tx, &caller.label(), change).await?;
                    Ok(after)
                })
            })
            .await;
        updated.map_err(|error: Error| error.or_taken(SLUG_KEY, name.as_deref()))
    }

    /// Its own Grants go, and everybody's Grants to it.
    pub(crate) async fn delete_npc(&self, caller: &Caller, given: &str) -> Result<NpcId, Error> {
        let (registry, caller, given) = (self.clone(), caller.clone(), given.to_owned());
        self.store
            .write(move |tx| {
                Box::pin(async move {
                    registry.active(tx, &caller, Lock::Shared).await?;
                    let gone = registry.locked_npc(tx, &given).await?;
                    let decision = decide(&caller, Act::DeleteNpc(gone.facts()));
                    allowed(
                        decision,
                        || Error::not_found(Thing::Npc, &given),
                        "only the NPC's owner and the Operator may delete it",
                    )?;
                    let own = grant::of_npc(tx, gone.id).await?;
                    let target = gone.id.to_string();
                    for other in grant::to_target(tx, GrantKind::Npc, &target).await? {
                        grant::delete(tx, other.id).await?;
                        registry
                            .record(tx, &caller.label(), other.removed())
                            .await?;
                    }
                    npc::delete(tx, gone.id).await?;
                    let before = Deleted {
                        npc: &gone,
                        grants: &own,
                    };
                    let change = Change {
                        action: "npc.delete",
                        subject_kind: "npc",
                        subject_id: gone.id.as_uuid(),
                        before: Some(&before),
                        after: None,
                    };
                    registry.record(tx, &caller.label(), change).await?;
                    Ok(gone.id)
                })
            })
            .await
    }

    /// An NPC that the caller may see.
    pub(crate) async fn visible_npc(
        &self,
        db: &impl ConnectionTrait,
        caller: &Caller,
        given: &str,
    ) -> Result<Npc, Error> {
        let reference = Reference::parse(given, "npc")?;
        let hidden = || Error::not_found(Thing::Npc, given);
        let found = npc::find(db, &reference, Lock::None).await?;
        let found = found.ok_or_else(hidden)?;
        let decision = decide(caller, Act::SeeNpc(found.facts()));
        allowed(decision, hidden, "only Players see NPCs")?;
        Ok(found)
    }

    /// An NPC that is about to be changed. The caller decides on it.
    pub(crate) async fn locked_npc(
        &self,
        tx: &store::Transaction,
        given: &str,
    ) -> Result<Npc, Error> {
        let reference = Reference::parse(given, "npc")?;
        npc::find(tx, &reference, Lock::Exclusive)
            .await?
            .ok_or_else(|| Error::not_found(Thing::Npc, given))
    }

    fn check(&self, fields: Fields) -> Result<Checked, Error> {
        let name = fields.name.as_deref().map(Name::parse).transpose()?;
        if let Some(persona) = &fields.persona
            && persona.len() > PERSONA_BYTES
        {
            let bytes = persona.len();
            return Err(Error::invalid(
                "persona",
                format_args!("{bytes} bytes are too many; at most {PERSONA_BYTES} are allowed"),
            ));
        }
        if let Some(model) = &fields.model {
            self.check_model(model)?;
        }
        let list = |field, entries: Option<Vec<String>>| {
            entries
                .map(|entries| hosts::parse(field, &entries))
                .transpose()
        };
        Ok(Checked {
            name,
            fields: Fields {
                persona: fields
                    .persona
                    .map(|persona| clean_text(&persona).into_owned()),
                fetch_hosts: list("fetch_hosts", fields.fetch_hosts)?,
                sandbox_hosts: list("sandbox_hosts", fields.sandbox_hosts)?,
                ..fields
            },
        })
    }

    /// Only an unknown Provider is refused: which models one has, it says itself when it is asked.
    fn check_model(&self, model: &str) -> Result<(), Error> {
        if model.is_empty() {
            return Ok(());
        }
        let invalid = |what: String| Error::invalid("model", what);
        let plain = |c: char| !c.is_control() && !c.is_whitespace();
        if model.chars().count() > MODEL_CHARS || !model.chars().all(plain) {
            return Err(invalid(format!(
                "{:?} is no model name; write PROVIDER/MODEL, at most {MODEL_CHARS} characters without spaces",
                shown(model)
            )));
        }
        let Some((provider, name)) = model.split_once('/') else {
            return Err(invalid(format!(
                "{model:?} names no Provider; write PROVIDER/MODEL"
            )));
        };
        let providers = &self.config.providers;
        if !providers.iter().any(|known| known == provider) {
            let near = nearest(provider, providers.iter().map(String::as_str));
            let near = near.map(|near| format!("; did you mean {near}?"));
            return Err(invalid(format!(
                "there is no Provider {provider:?}{}; there are: {}",
                near.unwrap_or_default(),
                providers.join(", ")
            )));
        }
        if name.is_empty() {
            return Err(invalid(format!(
                "{model:?} names no model; write {provider}/MODEL"
            )));
        }
        Ok(())
    }
}

fn may_edit(caller: &Caller, npc: &Npc, given: &str) -> Result<(), Error> {
    let decision = decide(caller, Act::EditNpc(npc.facts()));
    allowed(
        decision,
        || Error::not_found(Thing::Npc, given),
        EDIT_DENIED,
    )
}
