//! `turns`.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "turns")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) conversation_id: Uuid,
    pub(crate) message_id: Uuid,
    pub(crate) npc_id: Uuid,
    pub(crate) player_id: Uuid,
    pub(crate) request_id: String,
    pub(crate) status: String,
    pub(crate) owner: String,
    pub(crate) lease_until: i64,
    pub(crate) step: i32,
    pub(crate) last_event: i64,
    pub(crate) limits: String,
    pub(crate) usage: Option<String>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) started_at: i64,
    pub(crate) ended_at: Option<i64>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
