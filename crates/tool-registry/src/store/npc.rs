//! The table `npcs`.

use kernel::{NpcId, PlayerId};
use sea_orm::{
    Condition, ConnectionTrait, IntoActiveModel, PaginatorTrait as _, QueryOrder as _,
    QuerySelect as _, entity::prelude::*,
};
use store::{Json, Micros, Text};

use super::{Lock, SUGGESTED_FROM, list as stored_list, paged, read_list};
use crate::{
    Error,
    name::Reference,
    npc::Npc,
    page::{Page, Paged},
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "npcs")]
#[expect(
    clippy::struct_field_names,
    reason = "sea-orm calls a row a model, and an NPC has one of another kind"
)]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) owner: Uuid,
    pub(crate) name: Text,
    pub(crate) slug: String,
    pub(crate) persona: Text,
    pub(crate) model: Text,
    pub(crate) private: bool,
    pub(crate) fetch_hosts: Json,
    pub(crate) sandbox_scope: String,
    pub(crate) sandbox_network: String,
    pub(crate) sandbox_hosts: Json,
    pub(crate) generation: i64,
    pub(crate) created_at: Micros,
    pub(crate) updated_at: Micros,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    /// About how long it is in an answer.
    fn bytes(&self) -> usize {
        let lists = [&self.fetch_hosts, &self.sandbox_hosts];
        let lists: usize = lists.iter().map(|list| list.0.as_str().len()).sum();
        self.name.as_str().len() + self.persona.as_str().len() + self.model.as_str().len() + lists
    }
}

impl From<&Npc> for Model {
    fn from(npc: &Npc) -> Self {
        Self {
            id: npc.id.as_uuid(),
            owner: npc.owner.as_uuid(),
            name: npc.name.as_str().into(),
            slug: npc.slug.clone(),
            persona: npc.persona.as_str().into(),
            model: npc.model.as_str().into(),
            private: npc.private,
            fetch_hosts: stored_list(&npc.fetch_hosts),
            sandbox_scope: npc.sandbox_scope.as_str().to_owned(),
            sandbox_network: npc.sandbox_network.as_str().to_owned(),
            sandbox_hosts: stored_list(&npc.sandbox_hosts),
            generation: npc.generation,
            created_at: npc.created_at.into(),
            updated_at: npc.updated_at.into(),
        }
    }
}

impl TryFrom<Model> for Npc {
    type Error = Error;

    fn try_from(row: Model) -> Result<Self, Error> {
        let damaged = || Error::Damaged {
            table: "npcs",
            id: row.id.to_string(),
        };
        Ok(Self {
            id: NpcId::from_uuid(row.id),
            owner: PlayerId::from_uuid(row.owner),
            private: row.private,
            fetch_hosts: read_list(&row.fetch_hosts).map_err(|_source| damaged())?,
            sandbox_scope: row.sandbox_scope.parse().map_err(|()| damaged())?,
            sandbox_network: row.sandbox_network.parse().map_err(|()| damaged())?,
            sandbox_hosts: read_list(&row.sandbox_hosts).map_err(|_source| damaged())?,
            generation: row.generation,
            created_at: row.created_at.timestamp(),
            updated_at: row.updated_at.timestamp(),
            name: row.name.into_string(),
            slug: row.slug,
            persona: row.persona.into_string(),
            model: row.model.into_string(),
        })
    }
}

pub(crate) async fn find(
    db: &impl ConnectionTrait,
    reference: &Reference,
    lock: Lock,
) -> Result<Option<Npc>, Error> {
    let select = match reference {
        Reference::Id(id) => Entity::find_by_id(*id),
        Reference::Slug(slug) => Entity::find().filter(Column::Slug.eq(slug)),
        Reference::Nothing => return Ok(None),
    };
    let row = lock.on(select).one(db).await?;
    row.map(Npc::try_from).transpose()
}

/// Those of these ids that exist.
pub(crate) async fn all(
    db: &impl ConnectionTrait,
    ids: impl IntoIterator<Item = Uuid>,
) -> Result<Vec<Npc>, Error> {
    let ids: Vec<Uuid> = ids.into_iter().collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = Entity::find().filter(Column::Id.is_in(ids)).all(db).await?;
    rows.into_iter().map(Npc::try_from).collect()
}

/// What this Player may see; everything, if none is given.
fn visible(seen_by: Option<PlayerId>) -> Condition {
    match seen_by {
        None => Condition::all(),
        Some(player) => Condition::any()
            .add(Column::Private.eq(false))
            .add(Column::Owner.eq(player.as_uuid())),
    }
}

/// The newest names that this Player may see, for suggestions.
pub(crate) async fn names(
    db: &impl ConnectionTrait,
    seen_by: Option<PlayerId>,
) -> Result<Vec<String>, DbErr> {
    let select = Entity::find()
        .select_only()
        .column(Column::Name)
        .filter(visible(seen_by));
    select
        .order_by_desc(Column::Id)
        .limit(SUGGESTED_FROM)
        .into_tuple()
        .all(db)
        .await
}

/// Newest first; only what this Player may see, if one is given.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    seen_by: Option<PlayerId>,
    page: Page,
) -> Result<Paged<Npc>, Error> {
    let select = Entity::find().filter(visible(seen_by));
    let rows = paged(select, Column::Id, page).all(db).await?;
    let Paged { rows, next } = page.cut(rows, |row| row.id, Model::bytes);
    Ok(Paged {
        rows: rows
            .into_iter()
            .map(Npc::try_from)
            .collect::<Result<_, _>>()?,
        next,
    })
}

pub(crate) async fn count_owned(db: &impl ConnectionTrait, owner: PlayerId) -> Result<u64, DbErr> {
    Entity::find()
        .filter(Column::Owner.eq(owner.as_uuid()))
        .count(db)
        .await
}

pub(crate) async fn insert(db: &impl ConnectionTrait, npc: &Npc) -> Result<(), DbErr> {
    Entity::insert(Model::from(npc).into_active_model().reset_all())
        .exec_without_returning(db)
        .await?;
    Ok(())
}

pub(crate) async fn update(db: &impl ConnectionTrait, npc: &Npc) -> Result<(), DbErr> {
    let row = Model::from(npc).into_active_model().reset_all();
    row.update(db).await?;
    Ok(())
}

/// Its Grants go with it by the foreign key.
pub(crate) async fn delete(db: &impl ConnectionTrait, id: NpcId) -> Result<(), DbErr> {
    Entity::delete_by_id(id.as_uuid()).exec(db).await?;
    Ok(())
}
