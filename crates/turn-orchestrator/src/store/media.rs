//! Media as rows: written with the results that name them, and read without their bytes unless these are asked for.

use std::collections::HashMap;

use kernel::{CallId, ConversationId, MediaId, MessageId, Timestamp};
use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, ConnectionTrait, DbBackend, EntityTrait, QueryFilter as _,
    QueryOrder as _, QuerySelect as _, QueryTrait as _, Statement, sea_query::OnConflict,
};
use uuid::Uuid;

use super::{
    Message, TurnStore,
    entity::{
        media::{ActiveModel, Column, Entity},
        message,
    },
};
use crate::{
    Error,
    parts::{Content, Media, MediaKind, NewMedia},
};

/// Statements that write media, one row each; a row that is stored already is written again, and counts again.
pub(super) fn save(
    backend: DbBackend,
    message: MessageId,
    media: &[NewMedia],
    now: Timestamp,
) -> impl Iterator<Item = Statement> {
    media.iter().map(move |new| {
        Entity::insert(ActiveModel {
            id: Set(new.media.id.as_uuid()),
            message_id: Set(message.as_uuid()),
            call_id: Set(new.call.as_uuid()),
            position: Set(i32::try_from(new.position).unwrap_or(i32::MAX)),
            kind: Set(new.media.kind.as_str().to_owned()),
            media_type: Set(new.media.media_type.clone()),
            bytes: Set(i64::try_from(new.media.bytes).unwrap_or(i64::MAX)),
            data: Set(new.data.to_vec()),
            created_at: Set(now.as_micros()),
        })
        .on_conflict(
            OnConflict::column(Column::Id)
                .update_column(Column::Position)
                .to_owned(),
        )
        .build(backend)
    })
}

/// Says in the Parts of these Messages what their calls gave. Without a call there is nothing to look for.
pub(super) async fn attach(
    db: &impl ConnectionTrait,
    messages: &mut [Message],
) -> Result<(), Error> {
    let called: Vec<Uuid> = messages
        .iter()
        .filter(|message| {
            let mut parts = message.parts.iter();
            parts.any(|part| matches!(part.content, Content::Call(_)))
        })
        .map(|message| message.id.as_uuid())
        .collect();
    if called.is_empty() {
        return Ok(());
    }
    let rows: Vec<(Uuid, Uuid, String, String, i64)> = columns()
        .filter(Column::MessageId.is_in(called))
        .order_by_asc(Column::Position)
        .into_tuple()
        .all(db)
        .await?;
    let mut given: HashMap<CallId, Vec<Media>> = HashMap::new();
    for (id, call, kind, media_type, bytes) in rows {
        given
            .entry(CallId::from_uuid(call))
            .or_default()
            .push(read(id, &kind, media_type, bytes));
    }
    for part in messages.iter_mut().flat_map(|message| &mut message.parts) {
        if let Content::Call(call) = &mut part.content {
            call.media = given.remove(&call.id).unwrap_or_default();
        }
    }
    Ok(())
}

/// All but the bytes and where it belongs.
fn columns() -> sea_orm::Select<Entity> {
    Entity::find().select_only().columns([
        Column::Id,
        Column::CallId,
        Column::Kind,
        Column::MediaType,
        Column::Bytes,
    ])
}

fn read(id: Uuid, kind: &str, media_type: String, bytes: i64) -> Media {
    Media {
        id: MediaId::from_uuid(id),
        kind: MediaKind::of(kind),
        media_type,
        bytes: u64::try_from(bytes).unwrap_or(0),
    }
}

fn missing(id: MediaId) -> Error {
    Error::NotFound {
        what: "media",
        name: id.to_string(),
    }
}

impl TurnStore {
    /// Media without their bytes, and the Conversation that they belong to.
    pub(crate) async fn media(&self, id: MediaId) -> Result<(Media, ConversationId), Error> {
        let db = self.store.reader();
        let row: Option<(Uuid, Uuid, String, String, i64, Uuid)> = columns()
            .column(Column::MessageId)
            .filter(Column::Id.eq(id.as_uuid()))
            .into_tuple()
            .one(db)
            .await?;
        let (row_id, _call, kind, media_type, bytes, message) = row.ok_or_else(|| missing(id))?;
        let conversation: Option<Uuid> = message::Entity::find_by_id(message)
            .select_only()
            .column(message::Column::ConversationId)
            .into_tuple()
            .one(db)
            .await?;
        let conversation = conversation.ok_or_else(|| missing(id))?;
        Ok((
            read(row_id, &kind, media_type, bytes),
            ConversationId::from_uuid(conversation),
        ))
    }

    /// The bytes of media.
    pub(crate) async fn media_data(&self, id: MediaId) -> Result<Vec<u8>, Error> {
        Entity::find_by_id(id.as_uuid())
            .select_only()
            .column(Column::Data)
            .into_tuple()
            .one(self.store.reader())
            .await?
            .ok_or_else(|| missing(id))
    }
}
