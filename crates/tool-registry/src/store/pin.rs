//! The table `tool_pins`.

use std::collections::HashMap;

use kernel::{GrantId, NpcId};
use sea_orm::{
    ActiveValue::Set, ConnectionTrait, PaginatorTrait as _, QueryOrder as _, QuerySelect as _,
    QueryTrait as _, entity::prelude::*,
};
use store::Json;

use super::grant;
use crate::pin::Pin;

/// Rows of one statement: each has four values, and SQLite takes 32,766 of them.
const ROWS_TOGETHER: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "tool_pins")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) grant_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    /// Without a NUL: nobody is let in with one.
    pub(crate) tool_name: String,
    pub(crate) definition_hash: String,
    pub(crate) definition: Option<Json>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The pins of these Grants, by Tool name and without definitions.
pub(crate) async fn of_grants(
    db: &impl ConnectionTrait,
    grants: impl IntoIterator<Item = GrantId>,
) -> Result<HashMap<GrantId, Vec<Pin>>, DbErr> {
    let ids: Vec<Uuid> = grants.into_iter().map(GrantId::as_uuid).collect();
    let mut pins: HashMap<GrantId, Vec<Pin>> = HashMap::new();
    if ids.is_empty() {
        return Ok(pins);
    }
    let rows: Vec<(Uuid, String, String)> = Entity::find()
        .select_only()
        .columns([Column::GrantId, Column::ToolName, Column::DefinitionHash])
        .filter(Column::GrantId.is_in(ids))
        .order_by_asc(Column::ToolName)
        .into_tuple()
        .all(db)
        .await?;
    for (grant, tool, hash) in rows {
        let pin = Pin {
            tool,
            hash,
            definition: None,
        };
        pins.entry(GrantId::from_uuid(grant)).or_default().push(pin);
    }
    Ok(pins)
}

/// The pins of one Grant, by Tool name, definitions included.
pub(crate) async fn of_grant(db: &impl ConnectionTrait, grant: GrantId) -> Result<Vec<Pin>, DbErr> {
    let rows = Entity::find()
        .filter(Column::GrantId.eq(grant.as_uuid()))
        .order_by_asc(Column::ToolName)
        .all(db)
        .await?;
    let pins = rows.into_iter().map(|row| Pin {
        tool: row.tool_name,
        hash: row.definition_hash,
        definition: row.definition.map(|json| json.0),
    });
    Ok(pins.collect())
}

/// How many pins these Grants have together.
pub(crate) async fn count(
    db: &impl ConnectionTrait,
    grants: impl IntoIterator<Item = GrantId>,
) -> Result<u64, DbErr> {
    let ids: Vec<Uuid> = grants.into_iter().map(GrantId::as_uuid).collect();
    Entity::find()
        .filter(Column::GrantId.is_in(ids))
        .count(db)
        .await
}

/// How many pins this NPC's Grants have together, but for this one.
pub(crate) async fn count_of_npc_but(
    db: &impl ConnectionTrait,
    npc: NpcId,
    grant: GrantId,
) -> Result<u64, DbErr> {
    let others = grant::Entity::find()
        .select_only()
        .column(grant::Column::Id)
        .filter(grant::Column::NpcId.eq(npc.as_uuid()))
        .filter(grant::Column::Id.ne(grant.as_uuid()));
    Entity::find()
        .filter(Column::GrantId.in_subquery(others.into_query()))
        .count(db)
        .await
}

/// Puts these pins in the place of all that a Grant has.
pub(crate) async fn replace(
    db: &impl ConnectionTrait,
    grant: GrantId,
    pins: &[Pin],
) -> Result<(), DbErr> {
    Entity::delete_many()
        .filter(Column::GrantId.eq(grant.as_uuid()))
        .exec(db)
        .await?;
    for pins in pins.chunks(ROWS_TOGETHER) {
        let rows = pins.iter().map(|pin| ActiveModel {
            grant_id: Set(grant.as_uuid()),
            tool_name: Set(pin.tool.clone()),
            definition_hash: Set(pin.hash.clone()),
            definition: Set(pin.definition.clone().map(Json)),
        });
        Entity::insert_many(rows).exec_without_returning(db).await?;
    }
    Ok(())
}
