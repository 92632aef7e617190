//! The start of a turn: one transaction, in which the Conversation is found or made, the Messages are written and the one place for a
//! running turn is taken.

use std::{sync::Arc, time::Duration};

use kernel::{Clock, ConversationId, MessageId, NpcId, PlayerId, Timestamp, TurnId};
use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, Condition, ConnectionTrait, EntityTrait, QueryFilter as _,
    QueryOrder as _, sea_query::Expr,
};
use uuid::Uuid;

use super::{
    Role, TurnStore,
    end::abandon,
    entity::{conversation, message, turn},
    part,
    turn::{LimitsColumn, json, read},
};
use crate::{
    Error,
    limits::Limits,
    parts::{Content, Part, Prose, TurnStatus},
};

/// How often a start is tried that lost against another one.
const ATTEMPTS: usize = 3;

/// What a turn is started with.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The Player.
    pub(crate) player: PlayerId,
    /// The NPC.
    pub(crate) npc: NpcId,
    /// The Conversation's client id, or its id.
    pub(crate) conversation: String,
    /// Names this start.
    pub(crate) request: String,
    /// What is answered.
    pub(crate) trigger: Trigger,
    /// The ceilings.
    pub(crate) limits: Limits,
    /// How long this process may be believed to run it.
    pub(crate) lease: Duration,
}

/// What a turn answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// A new Message.
    Submit {
        /// Its id, as the client chose it.
        client_id: String,
        /// Its text.
        text: String,
    },
    /// A Message in place of a stored one and of what followed it.
    Edit {
        /// The stored Message's id, as the client chose it.
        client_id: String,
        /// The new text.
        text: String,
    },
    /// The question before this answer, or before the last one, again.
    Regenerate {
        /// The answer, or the question, by id or client id.
        message: Option<String>,
    },
}

/// A turn that was started, now or by an earlier request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Started {
    /// The turn.
    pub(crate) turn: TurnId,
    /// The Conversation.
    pub(crate) conversation: ConversationId,
    /// The answer that it writes.
    pub(crate) message: MessageId,
    /// Whether an earlier request started it.
    pub(crate) already: bool,
}

/// Where a new answer goes.
struct Branch {
    /// The Message that it follows.
    parent: Option<Uuid>,
    /// Messages from this time on are replaced.
    replaces_from: Option<i64>,
    /// Which revision the Player's Message is; none when it is not written anew.
    revision: Option<i32>,
}

impl TurnStore {
    /// Starts a turn, or finds the one that an earlier request with the same id started.
    pub(crate) async fn start(&self, plan: Plan) -> Result<Started, Error> {
        let plan = Arc::new(plan);
        for _ in 0..ATTEMPTS {
            let (plan, owner, clock) = (
                Arc::clone(&plan),
                Arc::clone(&self.owner),
                Arc::clone(&self.clock),
            );
            let started = self
                .store
                .write(move |tx| Box::pin(async move { start(tx, &plan, &owner, &*clock).await }))
                .await;
            match started {
                Err(Error::Race) => {}
                Err(Error::Store(error))
                    if error.is_taken("conversations_player_id_client_id")
                        || error.is_taken("turns_conversation_id_request_id") => {}
                other => return other,
            }
        }
        Err(Error::Race)
    }
}

async fn start(
    tx: &impl ConnectionTrait,
    plan: &Plan,
    owner: &str,
    clock: &dyn Clock,
) -> Result<Started, Error> {
    let found = find(tx, plan.player, &plan.conversation).await?;
    if let Some(conversation) = &found {
        if let Some(earlier) = earlier(tx, conversation, &plan.request).await? {
            return Ok(earlier);
        }
        if conversation.npc_id != plan.npc.as_uuid() {
            return Err(Error::OtherNpc(plan.conversation.clone()));
        }
        if let Some(active) = conversation.active_turn_id {
            make_room(tx, active, clock).await?;
        }
    }
    let now = clock.now().as_micros();
    let (conversation, last) = match found {
        Some(conversation) => (conversation.id, conversation.updated_at),
        None => (insert_conversation(tx, plan, now, clock).await?, i64::MIN),
    };
    // Messages are ordered by their times, which therefore differ and never go back within a Conversation.
    let asked_at = now.max(last.saturating_add(1));
    let answered_at = asked_at + 1;
    let started = Started {
        turn: TurnId::mint(clock),
        conversation: ConversationId::from_uuid(conversation),
        message: MessageId::mint(clock),
        already: false,
    };
    let branch = branch(tx, conversation, &plan.trigger).await?;
    let question = MessageId::mint(clock);
    if let Some(from) = branch.replaces_from {
        let by = if branch.revision.is_some() {
            question
        } else {
            started.message
        };
        message::Entity::update_many()
            .col_expr(message::Column::ReplacedBy, Expr::value(by.as_uuid()))
            .filter(message::Column::ConversationId.eq(conversation))
            .filter(message::Column::ReplacedBy.is_null())
            .filter(message::Column::CreatedAt.gte(from))
            .exec(tx)
            .await?;
    }
    let mut messages = Vec::with_capacity(2);
    let mut parent = branch.parent;
    if let (Some(revision), Trigger::Submit { client_id, .. } | Trigger::Edit { client_id, .. }) =
        (branch.revision, &plan.trigger)
    {
        messages.push(message::ActiveModel {
            id: Set(question.as_uuid()),
            conversation_id: Set(conversation),
            client_id: Set(client_id.clone()),
            revision: Set(revision),
            role: Set(Role::User.as_str().to_owned()),
            parent_id: Set(parent),
            replaced_by: Set(None),
            turn_id: Set(Some(started.turn.as_uuid())),
            status: Set("complete".to_owned()),
            metadata: Set(None),
            created_at: Set(asked_at),
        });
        parent = Some(question.as_uuid());
    }
    messages.push(message::ActiveModel {
        id: Set(started.message.as_uuid()),
        conversation_id: Set(conversation),
        client_id: Set(started.message.to_string()),
        revision: Set(0),
        role: Set(Role::Assistant.as_str().to_owned()),
        parent_id: Set(parent),
        replaced_by: Set(None),
        turn_id: Set(Some(started.turn.as_uuid())),
        status: Set("streaming".to_owned()),
        metadata: Set(None),
        created_at: Set(answered_at),
    });
    insert_messages(tx, messages, &plan.trigger).await?;
    if branch.revision.is_some()
        && let Trigger::Submit { text, .. } | Trigger::Edit { text, .. } = &plan.trigger
    {
        for statement in part::save(tx.get_database_backend(), question, &[said(text, asked_at)]) {
            tx.execute_raw(statement).await?;
        }
    }
    insert_turn(tx, plan, &started, owner, clock).await?;
    take_place(tx, &started, answered_at).await?;
    Ok(started)
}

/// The Player's Conversation of this client id, else the one of this id.
pub(super) async fn find(
    db: &impl ConnectionTrait,
    player: PlayerId,
    text: &str,
) -> Result<Option<conversation::Model>, Error> {
    let of_player =
        || conversation::Entity::find().filter(conversation::Column::PlayerId.eq(player.as_uuid()));
    let by_client_id = of_player()
        .filter(conversation::Column::ClientId.eq(text))
        .one(db)
        .await?;
    if by_client_id.is_some() {
        return Ok(by_client_id);
    }
    let Ok(id) = text.parse::<ConversationId>() else {
        return Ok(None);
    };
    Ok(of_player()
        .filter(conversation::Column::Id.eq(id.as_uuid()))
        .one(db)
        .await?)
}

async fn earlier(
    tx: &impl ConnectionTrait,
    conversation: &conversation::Model,
    request: &str,
) -> Result<Option<Started>, Error> {
    let earlier = turn::Entity::find()
        .filter(turn::Column::ConversationId.eq(conversation.id))
        .filter(turn::Column::RequestId.eq(request))
        .one(tx)
        .await?;
    Ok(earlier.map(|turn| Started {
        turn: TurnId::from_uuid(turn.id),
        conversation: ConversationId::from_uuid(turn.conversation_id),
        message: MessageId::from_uuid(turn.message_id),
        already: true,
    }))
}

/// Ends the turn that holds the place if its owner is dead, and refuses if it lives.
async fn make_room(
    tx: &impl ConnectionTrait,
    active: Uuid,
    clock: &dyn Clock,
) -> Result<(), Error> {
    let Some(active) = turn::Entity::find_by_id(active).one(tx).await? else {
        return Err(Error::Race);
    };
    let active = read(active)?;
    if active.status == TurnStatus::Running && active.lease_until >= clock.now() {
        return Err(Error::TurnRuns(active.id));
    }
    // It ended since the Conversation was read, or somebody else is settling it: both are seen at the next try.
    if active.status != TurnStatus::Running || !abandon(tx, &active, clock).await? {
        return Err(Error::Race);
    }
    tracing::warn!(turn = %active.id, "a turn whose owner died was settled by the next one");
    Ok(())
}

async fn insert_conversation(
    tx: &impl ConnectionTrait,
    plan: &Plan,
    now: i64,
    clock: &dyn Clock,
) -> Result<Uuid, Error> {
    match &plan.trigger {
        Trigger::Submit { .. } => {}
        Trigger::Edit { .. } | Trigger::Regenerate { .. } => {
            return Err(Error::NotFound {
                what: "Conversation",
                name: plan.conversation.clone(),
            });
        }
    }
    let id = ConversationId::mint(clock).as_uuid();
    conversation::Entity::insert(conversation::ActiveModel {
        id: Set(id),
        player_id: Set(plan.player.as_uuid()),
        npc_id: Set(plan.npc.as_uuid()),
        client_id: Set(plan.conversation.clone()),
        title: Set(None),
        active_turn_id: Set(None),
        created_at: Set(now),
        updated_at: Set(now),
    })
    .exec_without_returning(tx)
    .await?;
    Ok(id)
}

/// Finds where the answer goes.
async fn branch(
    tx: &impl ConnectionTrait,
    conversation: Uuid,
    trigger: &Trigger,
) -> Result<Branch, Error> {
    let current = || {
        message::Entity::find()
            .filter(message::Column::ConversationId.eq(conversation))
            .filter(message::Column::ReplacedBy.is_null())
    };
    let last = || current().order_by_desc(message::Column::CreatedAt);
    match trigger {
        Trigger::Submit { .. } => Ok(Branch {
            parent: last().one(tx).await?.map(|message| message.id),
            replaces_from: None,
            revision: Some(0),
        }),
        Trigger::Edit { client_id, .. } => {
            let stored = current()
                .filter(message::Column::ClientId.eq(client_id))
                .filter(message::Column::Role.eq(Role::User.as_str()))
                .one(tx)
                .await?
                .ok_or_else(|| Error::NotFound {
                    what: "Message",
                    name: client_id.clone(),
                })?;
            // Earlier edits of it have lower revisions: the current one has the highest.
            Ok(Branch {
                parent: stored.parent_id,
                replaces_from: Some(stored.created_at),
                revision: Some(stored.revision.saturating_add(1)),
            })
        }
        Trigger::Regenerate { message: None } => {
            let answer = last().one(tx).await?.ok_or(Error::NothingToRegenerate)?;
            again(tx, conversation, answer).await
        }
        Trigger::Regenerate {
            message: Some(named),
        } => {
            let mut by_name = Condition::any().add(message::Column::ClientId.eq(named));
            if let Ok(id) = named.parse::<MessageId>() {
                by_name = by_name.add(message::Column::Id.eq(id.as_uuid()));
            }
            let answer =
                current()
                    .filter(by_name)
                    .one(tx)
                    .await?
                    .ok_or_else(|| Error::NotFound {
                        what: "Message",
                        name: named.clone(),
                    })?;
            again(tx, conversation, answer).await
        }
    }
}

/// The branch that begins with another answer in place of this Message if it is an answer, else after it.
async fn again(
    tx: &impl ConnectionTrait,
    conversation: Uuid,
    named: message::Model,
) -> Result<Branch, Error> {
    if named.role == Role::User.as_str() {
        return Ok(Branch {
            parent: Some(named.id),
            replaces_from: Some(named.created_at + 1),
            revision: None,
        });
    }
    let question = message::Entity::find()
        .filter(message::Column::ConversationId.eq(conversation))
        .filter(message::Column::ReplacedBy.is_null())
        .filter(message::Column::CreatedAt.lt(named.created_at))
        .order_by_desc(message::Column::CreatedAt)
        .one(tx)
        .await?
        .filter(|question| question.role == Role::User.as_str())
        .ok_or(Error::NothingToRegenerate)?;
    Ok(Branch {
        parent: Some(question.id),
        replaces_from: Some(named.created_at),
        revision: None,
    })
}

async fn insert_messages(
    tx: &impl ConnectionTrait,
    messages: Vec<message::ActiveModel>,
    trigger: &Trigger,
) -> Result<(), Error> {
    let inserted = message::Entity::insert_many(messages)
        .exec_without_returning(tx)
        .await
        .map_err(store::Error::from);
    match (inserted, trigger) {
        (Ok(_), _) => Ok(()),
        (Err(error), Trigger::Submit { client_id, .. } | Trigger::Edit { client_id, .. })
            if error.is_taken("messages_conversation_id_client_id_revision") =>
        {
            Err(Error::MessageExists(client_id.clone()))
        }
        (Err(error), _) => Err(error.into()),
    }
}

async fn insert_turn(
    tx: &impl ConnectionTrait,
    plan: &Plan,
    started: &Started,
    owner: &str,
    clock: &dyn Clock,
) -> Result<(), Error> {
    let now = clock.now();
    turn::Entity::insert(turn::ActiveModel {
        id: Set(started.turn.as_uuid()),
        conversation_id: Set(started.conversation.as_uuid()),
        message_id: Set(started.message.as_uuid()),
        npc_id: Set(plan.npc.as_uuid()),
        player_id: Set(plan.player.as_uuid()),
        request_id: Set(plan.request.clone()),
        status: Set(TurnStatus::Running.as_str().to_owned()),
        owner: Set(owner.to_owned()),
        lease_until: Set(now.plus(plan.lease).as_micros()),
        step: Set(0),
        last_event: Set(0),
        limits: Set(json(&LimitsColumn::of(&plan.limits, &[]))),
        usage: Set(None),
        finish_reason: Set(None),
        error: Set(None),
        started_at: Set(now.as_micros()),
        ended_at: Set(None),
    })
    .exec_without_returning(tx)
    .await?;
    Ok(())
}

/// Takes the Conversation's one place for a running turn: whoever comes second changes no row.
async fn take_place(
    tx: &impl ConnectionTrait,
    started: &Started,
    answered_at: i64,
) -> Result<(), Error> {
    let taken = conversation::Entity::update_many()
        .col_expr(
            conversation::Column::ActiveTurnId,
            Expr::value(started.turn.as_uuid()),
        )
        .col_expr(conversation::Column::UpdatedAt, Expr::value(answered_at))
        .filter(conversation::Column::Id.eq(started.conversation.as_uuid()))
        .filter(conversation::Column::ActiveTurnId.is_null())
        .exec(tx)
        .await?
        .rows_affected;
    if taken == 0 {
        return Err(Error::Race);
    }
    Ok(())
}

/// What the Player said, as the one Part of a Message.
fn said(text: &str, at: i64) -> Part {
    let at = Timestamp::from_micros(at);
    Part {
        position: 0,
        step: 0,
        content: Content::Text(Prose {
            text: text.to_owned(),
            ..Prose::default()
        }),
        started_at: at,
        ended_at: Some(at),
        last_event: 0,
    }
}
