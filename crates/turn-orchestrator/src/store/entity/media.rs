//! `media`.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "media")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) message_id: Uuid,
    pub(crate) call_id: Uuid,
    pub(crate) position: i32,
    pub(crate) kind: String,
    pub(crate) media_type: String,
    pub(crate) bytes: i64,
    pub(crate) data: Vec<u8>,
    pub(crate) created_at: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
