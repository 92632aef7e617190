//! Turns as rows: reading them, writing what they do, and their leases.

use std::{sync::Arc, time::Duration};

use kernel::{ConversationId, MessageId, NpcId, PlayerId, Timestamp, TurnId};
use llm::Usage;
use sea_orm::{
    ColumnTrait as _, ConnectionTrait as _, EntityTrait, QueryFilter as _, QueryOrder as _,
    QuerySelect as _, QueryTrait as _, sea_query::Expr,
};
use serde::{Deserialize, Serialize};
use store::Transaction;
use uuid::Uuid;

use super::{
    Message, Turn, TurnStore, conversation,
    entity::turn::{Column, Entity, Model},
    media, part,
};
use crate::{
    Error,
    limits::{Limit, Limits},
    parts::{FinishReason, TurnStatus, Written},
};

/// Turns of dead owners that one sweep settles.
const SWEPT: u64 = 100;

/// The `limits` column: the ceilings that the turn started with, and which of them it met.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LimitsColumn {
    steps: u32,
    calls_per_step: usize,
    time_seconds: u64,
    #[serde(default)]
    met: Vec<Limit>,
}

impl LimitsColumn {
    pub(super) fn of(limits: &Limits, met: &[Limit]) -> Self {
        Self {
            steps: limits.steps,
            calls_per_step: limits.calls_per_step,
            time_seconds: limits.time.as_secs(),
            met: met.to_vec(),
        }
    }
}

/// The `usage` column. What a Provider did not tell is absent.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct UsageColumn {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    input: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    output: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    cached_input: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    reasoning: Option<u64>,
}

impl From<Usage> for UsageColumn {
    fn from(usage: Usage) -> Self {
        Self {
            input: usage.input,
            output: usage.output,
            cached_input: usage.cached_input,
            reasoning: usage.reasoning,
        }
    }
}

impl From<UsageColumn> for Usage {
    fn from(column: UsageColumn) -> Self {
        Self {
            input: column.input,
            output: column.output,
            cached_input: column.cached_input,
            reasoning: column.reasoning,
        }
    }
}

/// JSON for a column. Our own types always serialize.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_never| "null".to_owned())
}

pub(super) fn read(row: Model) -> Result<Turn, Error> {
    let limits: LimitsColumn =
        serde_json::from_str(&row.limits).map_err(|_invalid| Error::Stored {
            what: "limits of a turn",
        })?;
    let usage = match &row.usage {
        None => Usage::default(),
        Some(text) => serde_json::from_str::<UsageColumn>(text)
            .map_err(|_invalid| Error::Stored {
                what: "usage of a turn",
            })?
            .into(),
    };
    Ok(Turn {
        id: TurnId::from_uuid(row.id),
        conversation: ConversationId::from_uuid(row.conversation_id),
        message: MessageId::from_uuid(row.message_id),
        npc: NpcId::from_uuid(row.npc_id),
        player: PlayerId::from_uuid(row.player_id),
        status: TurnStatus::of(&row.status).ok_or(Error::Stored {
            what: "status of a turn",
        })?,
        lease_until: Timestamp::from_micros(row.lease_until),
        step: u32::try_from(row.step).unwrap_or(0),
        last_event: u64::try_from(row.last_event).unwrap_or(0),
        limits: limits.met,
        usage,
        finish: row.finish_reason.as_deref().and_then(FinishReason::of),
        sentence: row.error,
        started_at: Timestamp::from_micros(row.started_at),
        ended_at: row.ended_at.map(Timestamp::from_micros),
    })
}

/// Writes what a running turn did, and fails with [`Error::LeaseLost`] when it is no longer this owner's.
pub(super) async fn write(
    tx: &Transaction,
    owner: &str,
    turn: TurnId,
    message: MessageId,
    written: &Written,
    now: Timestamp,
) -> Result<(), Error> {
    let backend = tx.get_database_backend();
    let touch = Entity::update_many()
        .col_expr(
            Column::LastEvent,
            Expr::value(i64::try_from(written.last_event).unwrap_or(i64::MAX)),
        )
        .col_expr(
            Column::Step,
            Expr::value(i32::try_from(written.step).unwrap_or(i32::MAX)),
        )
        .filter(Column::Id.eq(turn.as_uuid()))
        .filter(Column::Owner.eq(owner))
        .filter(Column::Status.eq(TurnStatus::Running.as_str()))
        .build(backend);
    let mut statements = vec![touch];
    statements.extend(part::save(backend, message, &written.parts));
    statements.extend(media::save(backend, message, &written.media, now));
    let changed = tx.execute_together(statements).await?;
    // Each Part and each of the media changes one row, and the turn is one more, if it is still this owner's.
    let rows = written.parts.len() + written.media.len() + 1;
    if changed == rows as u64 {
        Ok(())
    } else {
        Err(Error::LeaseLost)
    }
}

impl TurnStore {
    /// Writes what a running turn did.
    pub(crate) async fn write(
        &self,
        turn: TurnId,
        message: MessageId,
        written: Written,
    ) -> Result<(), Error> {
        let owner = Arc::clone(&self.owner);
        let written = Arc::new(written);
        let now = self.clock.now();
        self.store
            .write(move |tx| {
                Box::pin(async move { write(tx, &owner, turn, message, &written, now).await })
            })
            .await
    }

    /// A turn, as it stands.
    pub(crate) async fn turn(&self, id: TurnId) -> Result<Turn, Error> {
        Entity::find_by_id(id.as_uuid())
            .one(self.store.reader())
            .await?
            .map_or_else(|| Err(no_turn(id)), read)
    }

    /// A turn and its Message, of the same moment: the Parts contain exactly the events up to the turn's last.
    pub(crate) async fn snapshot(&self, id: TurnId) -> Result<(Turn, Message, String), Error> {
        let tx = self.store.snapshot().await?;
        let turn = Entity::find_by_id(id.as_uuid())
            .one(&tx)
            .await?
            .map_or_else(|| Err(no_turn(id)), read)?;
        let message = conversation::message(&tx, turn.message).await?;
        let client_id = conversation::client_id(&tx, turn.conversation).await?;
        Ok((turn, message, client_id))
    }

    /// The running turns of an NPC.
    pub(crate) async fn running_of(&self, npc: NpcId) -> Result<Vec<Turn>, Error> {
        Entity::find()
            .filter(Column::NpcId.eq(npc.as_uuid()))
            .filter(Column::Status.eq(TurnStatus::Running.as_str()))
            .order_by_asc(Column::StartedAt)
            .all(self.store.reader())
            .await?
            .into_iter()
            .map(read)
            .collect()
    }

    /// Renews the leases of these turns of this process: one write, however many there are.
    pub(crate) async fn renew(&self, turns: Vec<TurnId>, lease: Duration) -> Result<(), Error> {
        let owner = Arc::clone(&self.owner);
        let turns: Arc<[Uuid]> = turns.into_iter().map(TurnId::as_uuid).collect();
        let until = self.clock.now().plus(lease).as_micros();
        self.store
            .write(move |tx| {
                Box::pin(async move {
                    for turns in turns.chunks(500) {
                        Entity::update_many()
                            .col_expr(Column::LeaseUntil, Expr::value(until))
                            .filter(Column::Id.is_in(turns.iter().copied()))
                            .filter(Column::Owner.eq(&*owner))
                            .filter(Column::Status.eq(TurnStatus::Running.as_str()))
                            .exec(tx)
                            .await?;
                    }
                    Ok(())
                })
            })
            .await
    }

    /// Running turns whose owner has not renewed its lease.
    pub(crate) async fn abandoned(&self) -> Result<Vec<Turn>, Error> {
        Entity::find()
            .filter(Column::Status.eq(TurnStatus::Running.as_str()))
            .filter(Column::LeaseUntil.lt(self.clock.now().as_micros()))
            .limit(SWEPT)
            .all(self.store.reader())
            .await?
            .into_iter()
            .map(read)
            .collect()
    }
}

pub(super) fn no_turn(id: TurnId) -> Error {
    Error::NotFound {
        what: "turn",
        name: id.to_string(),
    }
}
