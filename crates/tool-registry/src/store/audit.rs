//! The table `audit`.

use sea_orm::{ConnectionTrait, IntoActiveModel, entity::prelude::*};
use store::{Json, Micros, Text};

use super::paged;
use crate::{
    Error,
    page::{Page, Paged},
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "audit")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) at: Micros,
    pub(crate) actor: Text,
    pub(crate) action: Text,
    pub(crate) subject_kind: Text,
    pub(crate) subject_id: Text,
    pub(crate) before: Option<Json>,
    pub(crate) after: Option<Json>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    /// About how long it is in an answer.
    fn bytes(&self) -> usize {
        let both = [&self.before, &self.after];
        let json = both.into_iter().flatten().map(|json| json.0.as_str().len());
        self.subject_id.as_str().len() + json.sum::<usize>()
    }
}

pub(crate) async fn insert(db: &impl ConnectionTrait, row: Model) -> Result<(), DbErr> {
    Entity::insert(row.into_active_model().reset_all())
        .exec_without_returning(db)
        .await?;
    Ok(())
}

/// Newest first.
pub(crate) async fn list(db: &impl ConnectionTrait, page: Page) -> Result<Paged<Model>, Error> {
    let rows = paged(Entity::find(), Column::Id, page).all(db).await?;
    Ok(page.cut(rows, |row| row.id, Model::bytes))
}
