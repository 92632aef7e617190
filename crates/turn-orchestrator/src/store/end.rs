//! The end of a turn, by its owner or in place of a dead one. Both settle every Part in the transaction that ends the turn.

use std::sync::Arc;

use kernel::{Clock, ConversationId, JsonText, MessageId, TurnId};
use llm::Usage;
use sea_orm::{
    ColumnTrait as _, ConnectionTrait, EntityTrait, QueryFilter as _,
    sea_query::{Expr, ExprTrait as _},
};

use super::{
    OWNER_DIED, Turn, TurnStore,
    entity::{conversation, message, part, turn},
    turn::{LimitsColumn, UsageColumn, json, write},
};
use crate::{
    Error,
    limits::Limits,
    parts::{FinishReason, TurnEnd, TurnStatus, Written},
};

/// What is written when a turn ends by its owner.
#[derive(Debug)]
pub(crate) struct Ending {
    /// The turn.
    pub(crate) turn: TurnId,
    /// Its Conversation.
    pub(crate) conversation: ConversationId,
    /// Its Message.
    pub(crate) message: MessageId,
    /// The last changes.
    pub(crate) written: Written,
    /// How it ended.
    pub(crate) end: TurnEnd,
    /// Tokens of all its steps.
    pub(crate) usage: Usage,
    /// The ceilings that it had.
    pub(crate) limits: Limits,
}

impl TurnStore {
    /// Ends a turn of this process.
    pub(crate) async fn end(&self, ending: Ending) -> Result<(), Error> {
        let owner = Arc::clone(&self.owner);
        let ending = Arc::new(ending);
        let at = self.clock.now();
        let now = at.as_micros();
        self.store
            .write(move |tx| {
                Box::pin(async move {
                    write(tx, &owner, ending.turn, ending.message, &ending.written, at).await?;
                    let end = &ending.end;
                    let limits = json(&LimitsColumn::of(&ending.limits, &end.limits));
                    let usage = json(&UsageColumn::from(ending.usage));
                    turn::Entity::update_many()
                        .col_expr(turn::Column::Limits, Expr::value(limits))
                        .col_expr(turn::Column::Usage, Expr::value(usage))
                        .col_expr(turn::Column::Status, Expr::value(end.status.as_str()))
                        .col_expr(turn::Column::FinishReason, Expr::value(end.finish.as_str()))
                        .col_expr(turn::Column::Error, Expr::value(end.sentence.clone()))
                        .col_expr(turn::Column::EndedAt, Expr::value(now))
                        .filter(turn::Column::Id.eq(ending.turn.as_uuid()))
                        .exec(tx)
                        .await?;
                    let released = Released {
                        turn: ending.turn,
                        conversation: ending.conversation,
                        message: ending.message,
                        status: end.status,
                    };
                    release(tx, &released, now).await
                })
            })
            .await
    }

    /// Ends a turn in place of its dead owner. `false`: it is not running any more, or its owner lives after all.
    pub(crate) async fn end_abandoned(&self, turn: &Turn) -> Result<bool, Error> {
        let turn = turn.clone();
        let clock = Arc::clone(&self.clock);
        self.store
            .write(move |tx| Box::pin(async move { abandon(tx, &turn, &*clock).await }))
            .await
    }
}

/// Settles a turn whose lease is over as interrupted.
pub(super) async fn abandon(
    tx: &impl ConnectionTrait,
    abandoned: &Turn,
    clock: &dyn Clock,
) -> Result<bool, Error> {
    let now = clock.now().as_micros();
    let ended = turn::Entity::update_many()
        .col_expr(
            turn::Column::Status,
            Expr::value(TurnStatus::Interrupted.as_str()),
        )
        .col_expr(
            turn::Column::FinishReason,
            Expr::value(FinishReason::Other.as_str()),
        )
        .col_expr(turn::Column::Error, Expr::value(OWNER_DIED))
        .col_expr(turn::Column::EndedAt, Expr::value(now))
        .filter(turn::Column::Id.eq(abandoned.id.as_uuid()))
        .filter(turn::Column::Status.eq(TurnStatus::Running.as_str()))
        .filter(turn::Column::LeaseUntil.lt(now))
        .exec(tx)
        .await?
        .rows_affected;
    if ended == 0 {
        return Ok(false);
    }
    settle_parts(tx, abandoned.message, now).await?;
    let released = Released {
        turn: abandoned.id,
        conversation: abandoned.conversation,
        message: abandoned.message,
        status: TurnStatus::Interrupted,
    };
    release(tx, &released, now).await?;
    Ok(true)
}

/// Gives every open Part its terminal state.
async fn settle_parts(
    tx: &impl ConnectionTrait,
    message: MessageId,
    now: i64,
) -> Result<(), Error> {
    let message = message.as_uuid();
    let of_message = || part::Entity::update_many().filter(part::Column::MessageId.eq(message));
    of_message()
        .col_expr(part::Column::State, Expr::value("done"))
        .col_expr(part::Column::EndedAt, Expr::value(now))
        .filter(part::Column::Kind.is_in(["text", "reasoning"]))
        .filter(part::Column::State.eq("streaming"))
        .exec(tx)
        .await?;
    of_message()
        .col_expr(part::Column::State, Expr::value("done"))
        .col_expr(part::Column::Outcome, Expr::value("interrupted"))
        .col_expr(part::Column::Error, Expr::value(OWNER_DIED))
        .col_expr(part::Column::EndedAt, Expr::value(now))
        .filter(part::Column::Kind.eq("tool"))
        .filter(part::Column::State.eq("running"))
        .exec(tx)
        .await?;
    // What a model had written of arguments is no JSON yet, and becomes a JSON string.
    let streaming = part::Entity::find()
        .filter(part::Column::MessageId.eq(message))
        .filter(part::Column::Kind.eq("tool"))
        .filter(part::Column::State.eq("streaming"))
        .all(tx)
        .await?;
    for row in streaming {
        let input = JsonText::of(&row.input.unwrap_or_default());
        of_message()
            .col_expr(part::Column::State, Expr::value("refused"))
            .col_expr(part::Column::Outcome, Expr::value("interrupted"))
            .col_expr(part::Column::Error, Expr::value(OWNER_DIED))
            .col_expr(part::Column::Input, Expr::value(input.as_str()))
            .col_expr(part::Column::EndedAt, Expr::value(now))
            .filter(part::Column::Position.eq(row.position))
            .exec(tx)
            .await?;
    }
    Ok(())
}

/// A turn that is not running any more.
struct Released {
    turn: TurnId,
    conversation: ConversationId,
    message: MessageId,
    status: TurnStatus,
}

/// Lets the Conversation go, so that the next turn can start.
async fn release(tx: &impl ConnectionTrait, released: &Released, now: i64) -> Result<(), Error> {
    let word = match released.status {
        TurnStatus::Finished => "complete",
        TurnStatus::Running
        | TurnStatus::Aborted
        | TurnStatus::Failed
        | TurnStatus::Interrupted => released.status.as_str(),
    };
    message::Entity::update_many()
        .col_expr(message::Column::Status, Expr::value(word))
        .filter(message::Column::Id.eq(released.message.as_uuid()))
        .exec(tx)
        .await?;
    // Messages are ordered by time within a Conversation, and this is what the next one's time is counted from: it never goes back.
    let later = Expr::case(
        Expr::col(conversation::Column::UpdatedAt).lt(now),
        Expr::value(now),
    )
    .finally(Expr::col(conversation::Column::UpdatedAt));
    conversation::Entity::update_many()
        .col_expr(
            conversation::Column::ActiveTurnId,
            Expr::value(Option::<uuid::Uuid>::None),
        )
        .col_expr(conversation::Column::UpdatedAt, later.into())
        .filter(conversation::Column::Id.eq(released.conversation.as_uuid()))
        .filter(conversation::Column::ActiveTurnId.eq(released.turn.as_uuid()))
        .exec(tx)
        .await?;
    Ok(())
}
