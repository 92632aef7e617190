//! Tables of tool-registry: Players, NPCs, Grants, the audit log.

use sea_orm_migration::prelude::*;

use crate::index::{index, unique};

/// Players, NPCs, Grants, audit.
pub(crate) struct Founding;

impl MigrationName for Founding {
    fn name(&self) -> &'static str {
        "m0001_registry"
    }
}

#[async_trait::async_trait]
#[expect(
    elided_lifetimes_in_paths,
    reason = "the trait leaves it out, and async-trait binds one that is written differently"
)]
impl MigrationTrait for Founding {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        players(manager).await?;
        npcs(manager).await?;
        grants(manager).await?;
        audit(manager).await
    }
}

async fn players(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let table = Table::create()
        .table("players")
        .col(ColumnDef::new("id").uuid().not_null().primary_key())
        .col(ColumnDef::new("name").text().not_null())
        .col(ColumnDef::new("slug").text().not_null())
        // operator | player
        .col(ColumnDef::new("kind").text().not_null())
        // SHA-256 of the bearer token, in base64url
        .col(ColumnDef::new("token_hash").text())
        .col(ColumnDef::new("created_at").big_integer().not_null())
        .col(ColumnDef::new("revoked_at").big_integer())
        .to_owned();
    manager.create_table(table).await?;
    unique(manager, "players", &["slug"]).await?;
    unique(manager, "players", &["token_hash"]).await
}

async fn npcs(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let table = Table::create()
        .table("npcs")
        .col(ColumnDef::new("id").uuid().not_null().primary_key())
        .col(ColumnDef::new("owner").uuid().not_null())
        .col(ColumnDef::new("name").text().not_null())
        .col(ColumnDef::new("slug").text().not_null())
        .col(ColumnDef::new("persona").text().not_null())
        // PROVIDER/MODEL, or empty for the Village's default
        .col(ColumnDef::new("model").text().not_null())
        .col(ColumnDef::new("private").boolean().not_null())
        // A JSON array of host names
        .col(ColumnDef::new("fetch_hosts").text().not_null())
        // npc | player | conversation
        .col(ColumnDef::new("sandbox_scope").text().not_null())
        // off | list | web
        .col(ColumnDef::new("sandbox_network").text().not_null())
        // A JSON array of host names
        .col(ColumnDef::new("sandbox_hosts").text().not_null())
        // Counted up by every edit
        .col(ColumnDef::new("generation").big_integer().not_null())
        .col(ColumnDef::new("created_at").big_integer().not_null())
        .col(ColumnDef::new("updated_at").big_integer().not_null())
        .foreign_key(
            ForeignKey::create()
                .name("fk_npcs_owner")
                .from("npcs", "owner")
                .to("players", "id")
                .on_delete(ForeignKeyAction::Restrict),
        )
        .to_owned();
    manager.create_table(table).await?;
    unique(manager, "npcs", &["slug"]).await?;
    index(manager, "npcs", &["owner"]).await
}

async fn grants(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let table = Table::create()
        .table("grants")
        .col(ColumnDef::new("id").uuid().not_null().primary_key())
        .col(ColumnDef::new("npc_id").uuid().not_null())
        // tool | family | mcp | npc
        .col(ColumnDef::new("kind").text().not_null())
        // A built-in Tool's or family's name, else the id of the MCP Server or NPC, hyphenated. Deleting such a target deletes
        // its grants in the same transaction; one column for all kinds cannot carry a foreign key.
        .col(ColumnDef::new("target").text().not_null())
        // A JSON array of the Tools granted of a server; null is all of them
        .col(ColumnDef::new("tools").text())
        .col(ColumnDef::new("created_at").big_integer().not_null())
        .foreign_key(
            ForeignKey::create()
                .name("fk_grants_npc_id")
                .from("grants", "npc_id")
                .to("npcs", "id")
                .on_delete(ForeignKeyAction::Cascade),
        )
        .to_owned();
    manager.create_table(table).await?;
    unique(manager, "grants", &["npc_id", "kind", "target"]).await?;
    index(manager, "grants", &["kind", "target"]).await
}

async fn audit(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let table = Table::create()
        .table("audit")
        .col(ColumnDef::new("id").uuid().not_null().primary_key())
        .col(ColumnDef::new("at").big_integer().not_null())
        // operator:ID | player:ID | npc:ID | service:NAME
        .col(ColumnDef::new("actor").text().not_null())
        .col(ColumnDef::new("action").text().not_null())
        .col(ColumnDef::new("subject_kind").text().not_null())
        .col(ColumnDef::new("subject_id").text().not_null())
        // JSON without secrets
        .col(ColumnDef::new("before").text())
        .col(ColumnDef::new("after").text())
        .to_owned();
    manager.create_table(table).await?;
    index(manager, "audit", &["subject_kind", "subject_id"]).await
}
