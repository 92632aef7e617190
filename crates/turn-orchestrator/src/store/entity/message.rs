//! `messages`.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "messages")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) conversation_id: Uuid,
    pub(crate) client_id: String,
    pub(crate) revision: i32,
    pub(crate) role: String,
    pub(crate) parent_id: Option<Uuid>,
    pub(crate) replaced_by: Option<Uuid>,
    pub(crate) turn_id: Option<Uuid>,
    pub(crate) status: String,
    pub(crate) metadata: Option<String>,
    pub(crate) created_at: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
