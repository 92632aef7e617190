//! The table `players`.

use kernel::PlayerId;
use sea_orm::{ConnectionTrait, IntoActiveModel, QueryOrder as _, QuerySelect, entity::prelude::*};
use store::{Micros, Text};

use super::{Lock, SUGGESTED_FROM, paged};
use crate::{
    Error,
    name::Reference,
    page::{Page, Paged},
    player::Player,
};

/// What `kind` holds for the Operator.
pub(crate) const OPERATOR: &str = "operator";
/// What `kind` holds for everybody else.
pub(crate) const PLAYER: &str = "player";

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "players")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) name: Text,
    pub(crate) slug: String,
    pub(crate) kind: String,
    pub(crate) token_hash: Option<String>,
    pub(crate) created_at: Micros,
    pub(crate) revoked_at: Option<Micros>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl From<Model> for Player {
    fn from(row: Model) -> Self {
        Self {
            id: PlayerId::from_uuid(row.id),
            operator: row.kind == OPERATOR,
            name: row.name.into_string(),
            slug: row.slug,
            created_at: row.created_at.timestamp(),
            revoked_at: row.revoked_at.map(Micros::timestamp),
        }
    }
}

pub(crate) async fn find(
    db: &impl ConnectionTrait,
    reference: &Reference,
    lock: Lock,
) -> Result<Option<Model>, DbErr> {
    let select = match reference {
        Reference::Id(id) => Entity::find_by_id(*id),
        Reference::Slug(slug) => Entity::find().filter(Column::Slug.eq(slug)),
        Reference::Nothing => return Ok(None),
    };
    lock.on(select).one(db).await
}

pub(crate) async fn by_id(
    db: &impl ConnectionTrait,
    id: PlayerId,
    lock: Lock,
) -> Result<Option<Model>, DbErr> {
    lock.on(Entity::find_by_id(id.as_uuid())).one(db).await
}

pub(crate) async fn by_token_hash(
    db: &impl ConnectionTrait,
    hash: &str,
) -> Result<Option<Model>, DbErr> {
    Entity::find()
        .filter(Column::TokenHash.eq(hash))
        .filter(Column::RevokedAt.is_null())
        .one(db)
        .await
}

pub(crate) async fn operator(
    db: &impl ConnectionTrait,
    lock: Lock,
) -> Result<Option<Model>, DbErr> {
    let select = Entity::find().filter(Column::Kind.eq(OPERATOR)).limit(1);
    lock.on(select).one(db).await
}

/// The newest names, for suggestions.
pub(crate) async fn names(db: &impl ConnectionTrait) -> Result<Vec<String>, DbErr> {
    let select = Entity::find().select_only().column(Column::Name);
    select
        .order_by_desc(Column::Id)
        .limit(SUGGESTED_FROM)
        .into_tuple()
        .all(db)
        .await
}

pub(crate) async fn list(db: &impl ConnectionTrait, page: Page) -> Result<Paged<Player>, Error> {
    let rows = paged(Entity::find(), Column::Id, page).all(db).await?;
    let Paged { rows, next } = page.cut(rows, |row| row.id, |row| row.name.as_str().len());
    Ok(Paged {
        rows: rows.into_iter().map(Player::from).collect(),
        next,
    })
}

pub(crate) async fn insert(db: &impl ConnectionTrait, row: Model) -> Result<(), DbErr> {
    Entity::insert(row.into_active_model().reset_all())
        .exec_without_returning(db)
        .await?;
    Ok(())
}

pub(crate) async fn update(db: &impl ConnectionTrait, row: Model) -> Result<(), DbErr> {
    row.into_active_model().reset_all().update(db).await?;
    Ok(())
}
