//! The audit log: who changed what. A row is written in the transaction of its change.

use kernel::{Act, AuditId, Caller, JsonText, Timestamp, decide};
use sea_orm::ConnectionTrait;
use serde::{Serialize, Serializer};
use store::{Json, Micros};
use uuid::Uuid;

use crate::{
    Error, Registry,
    error::{allowed, shown},
    page::{Page, Paged},
    store::audit::{self, Model},
};

/// Characters of a text that another service writes into a row.
const WORD_CHARS: usize = 64;
/// Characters of an actor's label: the kind, a colon and an id or name.
const ACTOR_CHARS: usize = 64;

/// What was changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change<'c, T> {
    /// `npc.create`, `grant.remove`, …
    pub(crate) action: &'static str,
    /// `npc`, `grant`, `player`.
    pub(crate) subject_kind: &'static str,
    pub(crate) subject_id: Uuid,
    /// The thing before; its serialized form has no secrets.
    pub(crate) before: Option<&'c T>,
    /// The thing after.
    pub(crate) after: Option<&'c T>,
}

/// A row that another service asks for.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) actor: String,
    pub(crate) action: String,
    pub(crate) subject_kind: String,
    pub(crate) subject_id: String,
}

/// A time as people and programs read it everywhere else: RFC 3339.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands fields over by reference"
)]
pub(crate) fn time<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

/// The same, of a time that may not have come.
#[expect(clippy::ref_option, reason = "serde hands fields over by reference")]
pub(crate) fn time_if_any<S: Serializer>(
    at: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    at.as_ref().map(ToString::to_string).serialize(serializer)
}

impl Registry {
    pub(crate) async fn record<T: Serialize + Sync>(
        &self,
        tx: &impl ConnectionTrait,
        actor: &str,
        change: Change<'_, T>,
    ) -> Result<(), Error> {
        let json = |value: Option<&T>| value.map(|value| Json(JsonText::of(value)));
        let row = Model {
            id: AuditId::mint(&*self.clock).as_uuid(),
            at: Micros::now(&*self.clock),
            actor: actor.into(),
            action: change.action.into(),
            subject_kind: change.subject_kind.into(),
            subject_id: change.subject_id.to_string().into(),
            before: json(change.before),
            after: json(change.after),
        };
        Ok(audit::insert(tx, row).await?)
    }

    /// Newest first. The Operator's.
    pub(crate) async fn list_audit(
        &self,
        caller: &Caller,
        page: Page,
    ) -> Result<Paged<Model>, Error> {
        let denied = "only the Operator may read the audit log";
        allowed(
            decide(caller, Act::Administer),
            || Error::Denied(denied),
            denied,
        )?;
        audit::list(self.store.reader(), page).await
    }

    /// Writes a row for what another service owns.
    pub(crate) async fn record_entry(
        &self,
        caller: &Caller,
        entry: Entry,
    ) -> Result<AuditId, Error> {
        entry.check(caller)?;
        let id = AuditId::mint(&*self.clock);
        let row = Model {
            id: id.as_uuid(),
            at: Micros::now(&*self.clock),
            actor: entry.actor.into(),
            action: entry.action.into(),
            subject_kind: entry.subject_kind.into(),
            subject_id: entry.subject_id.into(),
            before: None,
            after: None,
        };
        self.store
            .write(move |tx| {
                Box::pin(async move {
                    audit::insert(tx, row).await?;
                    Ok(id)
                })
            })
            .await
    }
}

impl Entry {
    /// A service writes rows for itself and for the Player on whose behalf it acts, and for nobody else.
    fn check(&self, caller: &Caller) -> Result<(), Error> {
        let Caller::Service { player, .. } = caller else {
            return Err(Error::Denied("only services write audit rows"));
        };
        let for_player = player.is_some_and(|player| {
            self.actor == Caller::Player(player).label()
                || self.actor == Caller::Operator(player).label()
        });
        if self.actor.chars().count() > ACTOR_CHARS || !(for_player || self.actor == caller.label())
        {
            return Err(Error::invalid(
                "actor",
                format_args!(
                    "{:?} is neither the calling service nor whom it acts for",
                    shown(&self.actor)
                ),
            ));
        }
        for (field, text) in [
            ("action", &self.action),
            ("subject_kind", &self.subject_kind),
            ("subject_id", &self.subject_id),
        ] {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            if text.is_empty() || text.len() > WORD_CHARS || !text.chars().all(plain) {
                return Err(Error::invalid(
                    field,
                    format_args!(
                        "{:?} is not 1 to {WORD_CHARS} of letters, digits and . _ -",
                        shown(text)
                    ),
                ));
            }
        }
        Ok(())
    }
}
