//! The table `grants`: one for all kinds.

use kernel::{GrantId, GrantKind, NpcId};
use sea_orm::{
    ConnectionTrait, IntoActiveModel, PaginatorTrait as _, QueryOrder, entity::prelude::*,
};
use store::{Json, Micros, Text};

use super::{Lock, list as stored_list, read_list};
use crate::{Error, grant::Grant};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "grants")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) npc_id: Uuid,
    pub(crate) kind: String,
    pub(crate) target: Text,
    pub(crate) tools: Option<Json>,
    pub(crate) created_at: Micros,
    pub(crate) pinned_at: Option<Micros>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl From<&Grant> for Model {
    fn from(grant: &Grant) -> Self {
        Self {
            id: grant.id.as_uuid(),
            npc_id: grant.npc.as_uuid(),
            kind: grant.kind.as_str().to_owned(),
            target: grant.target.as_str().into(),
            tools: (!grant.tools.is_empty()).then(|| stored_list(&grant.tools)),
            created_at: grant.created_at.into(),
            pinned_at: grant.pinned_at.map(Micros::from),
        }
    }
}

impl TryFrom<Model> for Grant {
    type Error = Error;

    fn try_from(row: Model) -> Result<Self, Error> {
        let damaged = || Error::Damaged {
            table: "grants",
            id: row.id.to_string(),
        };
        let kind = GrantKind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == row.kind)
            .ok_or_else(damaged)?;
        let tools = row.tools.as_ref().map(read_list).transpose();
        Ok(Self {
            id: GrantId::from_uuid(row.id),
            npc: NpcId::from_uuid(row.npc_id),
            kind,
            tools: tools.map_err(|_source| damaged())?.unwrap_or_default(),
            created_at: row.created_at.timestamp(),
            pinned_at: row.pinned_at.map(Micros::timestamp),
            target: row.target.into_string(),
        })
    }
}

pub(crate) async fn by_id(
    db: &impl ConnectionTrait,
    id: Uuid,
    lock: Lock,
) -> Result<Option<Grant>, Error> {
    let row = lock.on(Entity::find_by_id(id)).one(db).await?;
    row.map(Grant::try_from).transpose()
}

pub(crate) async fn of_npc_to(
    db: &impl ConnectionTrait,
    npc: NpcId,
    kind: GrantKind,
    target: &str,
    lock: Lock,
) -> Result<Option<Grant>, Error> {
    let select = Entity::find()
        .filter(Column::NpcId.eq(npc.as_uuid()))
        .filter(Column::Kind.eq(kind.as_str()))
        .filter(Column::Target.eq(target));
    let row = lock.on(select).one(db).await?;
    row.map(Grant::try_from).transpose()
}

/// Newest first.
pub(crate) async fn of_npc(db: &impl ConnectionTrait, npc: NpcId) -> Result<Vec<Grant>, Error> {
    let rows = Entity::find()
        .filter(Column::NpcId.eq(npc.as_uuid()))
        .order_by_desc(Column::Id)
        .all(db)
        .await?;
    rows.into_iter().map(Grant::try_from).collect()
}

/// Everybody's Grants to this target.
pub(crate) async fn to_target(
    db: &impl ConnectionTrait,
    kind: GrantKind,
    target: &str,
) -> Result<Vec<Grant>, Error> {
    let rows = Entity::find()
        .filter(Column::Kind.eq(kind.as_str()))
        .filter(Column::Target.eq(target))
        .order_by_asc(Column::Id)
        .all(db)
        .await?;
    rows.into_iter().map(Grant::try_from).collect()
}

pub(crate) async fn count(db: &impl ConnectionTrait, npc: NpcId) -> Result<u64, DbErr> {
    Entity::find()
        .filter(Column::NpcId.eq(npc.as_uuid()))
        .count(db)
        .await
}

pub(crate) async fn insert(db: &impl ConnectionTrait, grant: &Grant) -> Result<(), DbErr> {
    Entity::insert(Model::from(grant).into_active_model().reset_all())
        .exec_without_returning(db)
        .await?;
    Ok(())
}

pub(crate) async fn update(db: &impl ConnectionTrait, grant: &Grant) -> Result<(), DbErr> {
    let row = Model::from(grant).into_active_model().reset_all();
    row.update(db).await?;
    Ok(())
}

/// Says since when definitions are pinned.
pub(crate) async fn set_pinned(
    db: &impl ConnectionTrait,
    id: GrantId,
    at: Micros,
) -> Result<(), DbErr> {
    Entity::update_many()
        .col_expr(Column::PinnedAt, Expr::value(at))
        .filter(Column::Id.eq(id.as_uuid()))
        .exec(db)
        .await?;
    Ok(())
}

pub(crate) async fn delete(db: &impl ConnectionTrait, id: GrantId) -> Result<(), DbErr> {
    Entity::delete_by_id(id.as_uuid()).exec(db).await?;
    Ok(())
}
