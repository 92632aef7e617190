//! Conversations and Messages: reading, listing, deleting.

use std::collections::HashMap;

use kernel::{ConversationId, MessageId, NpcId, PlayerId, Timestamp, TurnId};
use sea_orm::{
    ColumnTrait as _, Condition, ConnectionTrait, EntityTrait, QueryFilter as _, QueryOrder as _,
    QuerySelect as _, sea_query::Expr,
};
use uuid::Uuid;

use super::{
    Conversation, Message, Role, TurnStore,
    entity::{conversation, message, turn},
    media, part, start,
};
use crate::{
    Error,
    parts::{Content, Part},
};

/// Messages that a model reads at most.
const HISTORY_MESSAGES: u64 = 400;
/// Bytes of Parts that a model reads at most: more than any model's context.
const HISTORY_BYTES: usize = 4 * 1_024 * 1_024;
/// Bytes of Parts in one answer of ours, below the bound on gRPC messages.
const ANSWER_BYTES: usize = 6 * 1_024 * 1_024;

/// Messages in one answer of ours.
const ANSWER_MESSAGES: u64 = 10_000;
/// Messages whose Parts are read at once: each may have megabytes, and most do not fit then.
const READ_AT_ONCE: usize = 32;
/// What a Message counts besides its Parts, and a Part besides its text.
const OVERHEAD: usize = 256;
/// How often one edit of a Message may be made again, with others in between, and still be told from a retry.
const EQUAL_EDITS: usize = 100;

/// Where a page of a list goes on: a time and an id, which together are unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page {
    at: i64,
    id: Uuid,
}

impl Page {
    /// The token that a client hands back.
    pub(crate) fn token(self) -> String {
        format!("{}.{}", self.at, self.id)
    }

    /// Reads a token that a client handed back.
    pub(crate) fn parse(token: &str) -> Option<Self> {
        let (at, id) = token.split_once('.')?;
        Some(Self {
            at: at.parse().ok()?,
            id: Uuid::try_parse(id).ok()?,
        })
    }
}

/// What a model is told of a Conversation.
#[derive(Debug)]
pub(crate) struct History {
    /// The Messages of the current branch, oldest first; begins with one of the Player's.
    pub(crate) messages: Vec<Message>,
    /// Whether earlier ones did not fit.
    pub(crate) shortened: bool,
}

impl TurnStore {
    /// The Conversation of this client id of the Player, else the one of this id, whoever's it is: who may read it is for the
    /// caller to decide.
    pub(crate) async fn find(&self, player: PlayerId, text: &str) -> Result<Conversation, Error> {
        let db = self.store.reader();
        if let Some(own) = start::find(db, player, text).await? {
            return Ok(read(own));
        }
        let missing = || Error::NotFound {
            what: "Conversation",
            name: text.chars().take(200).collect(),
        };
        let id = text.parse::<ConversationId>().map_err(|_no_id| missing())?;
        conversation::Entity::find_by_id(id.as_uuid())
            .one(db)
            .await?
            .map(read)
            .ok_or_else(missing)
    }

    /// A Conversation by its id.
    pub(crate) async fn conversation(&self, id: ConversationId) -> Result<Conversation, Error> {
        conversation::Entity::find_by_id(id.as_uuid())
            .one(self.store.reader())
            .await?
            .map(read)
            .ok_or_else(|| Error::NotFound {
                what: "Conversation",
                name: id.to_string(),
            })
    }

    /// A page of a Player's Conversations, newest first.
    pub(crate) async fn conversations(
        &self,
        player: PlayerId,
        rows: u32,
        from: Option<Page>,
    ) -> Result<(Vec<Conversation>, Option<Page>), Error> {
        let (at, id) = (conversation::Column::UpdatedAt, conversation::Column::Id);
        let mut query = conversation::Entity::find()
            .filter(conversation::Column::PlayerId.eq(player.as_uuid()));
        if let Some(from) = from {
            query = query.filter(
                Condition::any()
                    .add(at.lt(from.at))
                    .add(Condition::all().add(at.eq(from.at)).add(id.lt(from.id))),
            );
        }
        let mut found = query
            .order_by_desc(at)
            .order_by_desc(id)
            .limit(u64::from(rows) + 1)
            .all(self.store.reader())
            .await?;
        let next = cut(&mut found, rows, |row| Page {
            at: row.updated_at,
            id: row.id,
        });
        Ok((found.into_iter().map(read).collect(), next))
    }

    /// The Messages of the current branch, oldest first. Of a Conversation beyond what one answer carries, the newest.
    pub(crate) async fn branch(&self, id: ConversationId) -> Result<Vec<Message>, Error> {
        let tx = self.store.snapshot().await?;
        let rows = current(id).limit(ANSWER_MESSAGES).all(&tx).await?;
        let mut messages = fitting(&tx, rows, ANSWER_BYTES).await?;
        media::attach(&tx, &mut messages).await?;
        messages.reverse();
        Ok(messages)
    }

    /// What a model reads before it writes `answer`.
    pub(crate) async fn history(
        &self,
        id: ConversationId,
        answer: MessageId,
    ) -> Result<History, Error> {
        let db = self.store.reader();
        let mut rows = current(id)
            .filter(message::Column::Id.ne(answer.as_uuid()))
            .limit(HISTORY_MESSAGES + 1)
            .all(db)
            .await?;
        let most = usize::try_from(HISTORY_MESSAGES).unwrap_or(usize::MAX);
        let many = rows.len() > most;
        rows.truncate(most);
        let count = rows.len();
        let mut messages = fitting(db, rows, HISTORY_BYTES).await?;
        let large = messages.len() < count;
        messages.reverse();
        // A history begins with a question, and an answer without its question says little.
        let begin = messages
            .iter()
            .position(|message| message.role == Role::User)
            .unwrap_or(messages.len());
        messages.drain(..begin);
        Ok(History {
            messages,
            shortened: many || large,
        })
    }

    /// A page of all Messages, oldest first.
    pub(crate) async fn messages(
        &self,
        id: ConversationId,
        rows: u32,
        from: Option<Page>,
    ) -> Result<(Vec<Message>, Option<Page>), Error> {
        let (at, key) = (message::Column::CreatedAt, message::Column::Id);
        let mut query =
            message::Entity::find().filter(message::Column::ConversationId.eq(id.as_uuid()));
        if let Some(from) = from {
            query = query.filter(
                Condition::any()
                    .add(at.gt(from.at))
                    .add(Condition::all().add(at.eq(from.at)).add(key.gt(from.id))),
            );
        }
        let db = self.store.reader();
        let mut found = query
            .order_by_asc(at)
            .order_by_asc(key)
            .limit(u64::from(rows) + 1)
            .all(db)
            .await?;
        let place = |row: &message::Model| Page {
            at: row.created_at,
            id: row.id,
        };
        let mut next = cut(&mut found, rows, place);
        let places: Vec<Page> = found.iter().map(place).collect();
        let mut messages = fitting(db, found, ANSWER_BYTES).await?;
        media::attach(db, &mut messages).await?;
        if messages.len() < places.len() {
            next = messages
                .len()
                .checked_sub(1)
                .and_then(|last| places.get(last).copied());
        }
        Ok((messages, next))
    }

    /// The request id of an edit. The same edit again is a retry, and returns the same turn, unless another edit took its place
    /// meanwhile: then it is made anew, and its id is joined with the turn that it made before.
    pub(crate) async fn edit_request(
        &self,
        player: PlayerId,
        conversation: &str,
        request: &str,
    ) -> Result<String, Error> {
        let db = self.store.reader();
        let mut id = request.to_owned();
        let Some(conversation) = start::find(db, player, conversation).await? else {
            return Ok(id);
        };
        for _ in 0..EQUAL_EDITS {
            let earlier = turn::Entity::find()
                .filter(turn::Column::ConversationId.eq(conversation.id))
                .filter(turn::Column::RequestId.eq(&id))
                .one(db)
                .await?;
            let Some(earlier) = earlier else { break };
            let is_replaced = message::Entity::find()
                .filter(message::Column::ConversationId.eq(conversation.id))
                .filter(message::Column::TurnId.eq(earlier.id))
                .filter(message::Column::Role.eq(Role::User.as_str()))
                .filter(message::Column::ReplacedBy.is_not_null())
                .one(db)
                .await?
                .is_some();
            if !is_replaced {
                break;
            }
            id = format!("{request}~{}", earlier.id);
        }
        Ok(id)
    }

    /// One Message.
    pub(crate) async fn message(&self, id: MessageId) -> Result<Message, Error> {
        message(self.store.reader(), id).await
    }

    /// Deletes a Conversation and all that belongs to it, unless a turn runs in it.
    pub(crate) async fn delete_conversation(&self, id: ConversationId) -> Result<(), Error> {
        self.store
            .write(move |tx| {
                Box::pin(async move {
                    let deleted = conversation::Entity::delete_many()
                        .filter(conversation::Column::Id.eq(id.as_uuid()))
                        .filter(conversation::Column::ActiveTurnId.is_null())
                        .exec(tx)
                        .await?
                        .rows_affected;
                    if deleted > 0 {
                        return Ok(());
                    }
                    refuse_running(tx, id).await
                })
            })
            .await
    }

    /// Deletes a Message and all that followed it, unless a turn runs. The current branch does not follow one that was replaced,
    /// although it is younger. Says how many Messages went.
    pub(crate) async fn delete_message(&self, target: &Message) -> Result<u64, Error> {
        let (id, conversation) = (target.conversation, target.conversation.as_uuid());
        let mut gone = Condition::all()
            .add(message::Column::ConversationId.eq(conversation))
            .add(message::Column::CreatedAt.gte(target.created_at.as_micros()));
        if target.replaced {
            gone = gone.add(message::Column::ReplacedBy.is_not_null());
        }
        self.store
            .write(move |tx| {
                let following = gone.clone();
                Box::pin(async move {
                    // Changing the row keeps a turn from starting while this goes on.
                    let idle = conversation::Entity::update_many()
                        .col_expr(
                            conversation::Column::ActiveTurnId,
                            Expr::value(Option::<Uuid>::None),
                        )
                        .filter(conversation::Column::Id.eq(conversation))
                        .filter(conversation::Column::ActiveTurnId.is_null())
                        .exec(tx)
                        .await?
                        .rows_affected;
                    if idle == 0 {
                        refuse_running(tx, id).await?;
                    }
                    let gone: Vec<Uuid> = message::Entity::find()
                        .select_only()
                        .column(message::Column::Id)
                        .filter(following.clone())
                        .into_tuple()
                        .all(tx)
                        .await?;
                    for gone in gone.chunks(500) {
                        turn::Entity::delete_many()
                            .filter(turn::Column::MessageId.is_in(gone.iter().copied()))
                            .exec(tx)
                            .await?;
                    }
                    Ok(message::Entity::delete_many()
                        .filter(following)
                        .exec(tx)
                        .await?
                        .rows_affected)
                })
            })
            .await
    }
}

/// Says which turn is in the way.
async fn refuse_running(tx: &impl ConnectionTrait, id: ConversationId) -> Result<(), Error> {
    let row = conversation::Entity::find_by_id(id.as_uuid())
        .one(tx)
        .await?
        .ok_or_else(|| Error::NotFound {
            what: "Conversation",
            name: id.to_string(),
        })?;
    Err(row
        .active_turn_id
        .map_or(Error::Race, |turn| Error::TurnRuns(TurnId::from_uuid(turn))))
}

pub(super) async fn message(db: &impl ConnectionTrait, id: MessageId) -> Result<Message, Error> {
    let row = message::Entity::find_by_id(id.as_uuid()).one(db).await?;
    let mut found = with_parts(db, row.into_iter().collect()).await?;
    media::attach(db, &mut found).await?;
    found.into_iter().next().ok_or_else(|| Error::NotFound {
        what: "Message",
        name: id.to_string(),
    })
}

pub(super) async fn client_id(
    db: &impl ConnectionTrait,
    id: ConversationId,
) -> Result<String, Error> {
    let row = conversation::Entity::find_by_id(id.as_uuid())
        .one(db)
        .await?;
    Ok(row.map(|row| row.client_id).unwrap_or_default())
}

/// The current branch, newest first.
fn current(id: ConversationId) -> sea_orm::Select<message::Entity> {
    message::Entity::find()
        .filter(message::Column::ConversationId.eq(id.as_uuid()))
        .filter(message::Column::ReplacedBy.is_null())
        .order_by_desc(message::Column::CreatedAt)
}

/// The first of these Messages with their Parts: as many as fit into `most` bytes, and at least one. The others are not read.
async fn fitting(
    db: &impl ConnectionTrait,
    rows: Vec<message::Model>,
    most: usize,
) -> Result<Vec<Message>, Error> {
    let (mut fitting, mut bytes) = (Vec::new(), 0);
    let mut rows = rows.into_iter();
    loop {
        let batch: Vec<message::Model> = rows.by_ref().take(READ_AT_ONCE).collect();
        if batch.is_empty() {
            return Ok(fitting);
        }
        for message in with_parts(db, batch).await? {
            bytes += OVERHEAD + size(&message.parts);
            if bytes > most && !fitting.is_empty() {
                return Ok(fitting);
            }
            fitting.push(message);
        }
    }
}

/// About how many bytes Parts have.
fn size(parts: &[Part]) -> usize {
    parts
        .iter()
        .map(|part| {
            OVERHEAD
                + match &part.content {
                    Content::Text(prose) | Content::Reasoning(prose) => {
                        prose.text.len()
                            + prose
                                .meta
                                .as_ref()
                                .map_or(0, |meta| meta.meta.as_str().len())
                    }
                    Content::Notice { sentence, .. } => sentence.len(),
                    Content::Call(call) => {
                        call.input.len()
                            + call.progress.outcome().map_or(0, |outcome| {
                                outcome.output().map_or(0, |output| output.as_str().len())
                                    + outcome.sentence().map_or(0, str::len)
                            })
                    }
                }
        })
        .sum()
}

/// Cuts a list to its page, and says where the next one goes on.
fn cut<R>(found: &mut Vec<R>, rows: u32, place: impl Fn(&R) -> Page) -> Option<Page> {
    let rows = usize::try_from(rows).unwrap_or(usize::MAX);
    let more = found.len() > rows;
    found.truncate(rows);
    if more { found.last().map(place) } else { None }
}

async fn with_parts(
    db: &impl ConnectionTrait,
    rows: Vec<message::Model>,
) -> Result<Vec<Message>, Error> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let mut parts: HashMap<Uuid, Vec<Part>> = HashMap::new();
    for (message, part) in part::load(db, rows.iter().map(|row| row.id)).await? {
        parts.entry(message).or_default().push(part);
    }
    rows.into_iter()
        .map(|row| {
            let role = match row.role.as_str() {
                "user" => Role::User,
                "assistant" => Role::Assistant,
                _ => {
                    return Err(Error::Stored {
                        what: "role of a Message",
                    });
                }
            };
            Ok(Message {
                id: MessageId::from_uuid(row.id),
                conversation: ConversationId::from_uuid(row.conversation_id),
                client_id: match role {
                    Role::User => row.client_id,
                    Role::Assistant => String::new(),
                },
                role,
                parts: parts.remove(&row.id).unwrap_or_default(),
                turn: match role {
                    Role::User => None,
                    Role::Assistant => row.turn_id.map(TurnId::from_uuid),
                },
                replaced: row.replaced_by.is_some(),
                created_at: Timestamp::from_micros(row.created_at),
            })
        })
        .collect()
}

fn read(row: conversation::Model) -> Conversation {
    Conversation {
        id: ConversationId::from_uuid(row.id),
        client_id: row.client_id,
        player: PlayerId::from_uuid(row.player_id),
        npc: NpcId::from_uuid(row.npc_id),
        active_turn: row.active_turn_id.map(TurnId::from_uuid),
        created_at: Timestamp::from_micros(row.created_at),
        updated_at: Timestamp::from_micros(row.updated_at),
    }
}
