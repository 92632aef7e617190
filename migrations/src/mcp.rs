//! Tables for MCP Servers: the servers themselves and the pins of their Tool definitions (tool-registry's), and media that their Tools
//! gave (turn-orchestrator's).

use sea_orm_migration::prelude::*;

use crate::index::{index, unique};

/// MCP Servers, pins, media.
pub(crate) struct McpServers;

impl MigrationName for McpServers {
    fn name(&self) -> &'static str {
        "m0003_mcp"
    }
}

#[async_trait::async_trait]
#[expect(
    elided_lifetimes_in_paths,
    reason = "the trait leaves it out, and async-trait binds one that is written differently"
)]
impl MigrationTrait for McpServers {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        servers(manager).await?;
        pins(manager).await?;
        media(manager).await
    }
}

async fn servers(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let table = Table::create()
        .table("mcp_servers")
        .col(ColumnDef::new("id").uuid().not_null().primary_key())
        .col(ColumnDef::new("owner").uuid().not_null())
        .col(ColumnDef::new("name").text().not_null())
        .col(ColumnDef::new("slug").text().not_null())
        // stdio | http | sse
        .col(ColumnDef::new("transport").text().not_null())
        // For http and sse, with the values of its query masked; empty for stdio
        .col(ColumnDef::new("url").text().not_null())
        // A JSON array of the names of its query's parameters
        .col(ColumnDef::new("query_names").text().not_null())
        // The whole URL, sealed; null when its query has no values
        .col(ColumnDef::new("sealed_url").text())
        // For stdio; empty otherwise
        .col(ColumnDef::new("command").text().not_null())
        // A JSON array
        .col(ColumnDef::new("arguments").text().not_null())
        .col(ColumnDef::new("working_directory").text().not_null())
        // JSON arrays of names; the values are sealed, each as one JSON object by name, or null when there are none
        .col(ColumnDef::new("header_names").text().not_null())
        .col(ColumnDef::new("sealed_headers").text())
        .col(ColumnDef::new("environment_names").text().not_null())
        .col(ColumnDef::new("sealed_environment").text())
        .col(ColumnDef::new("private").boolean().not_null())
        .col(ColumnDef::new("enabled").boolean().not_null())
        // strict | warn | off
        .col(ColumnDef::new("pinning").text().not_null())
        // legacy | modern; null while it is not known
        .col(ColumnDef::new("era").text())
        // The Connector preset that it came from; empty for a plain server
        .col(ColumnDef::new("preset").text().not_null())
        // JSON; null before the first test
        .col(ColumnDef::new("last_test").text())
        // Counted up by every edit
        .col(ColumnDef::new("generation").big_integer().not_null())
        // Counted up by every change of a sealed value
        .col(
            ColumnDef::new("credentials_generation")
                .big_integer()
                .not_null(),
        )
        .col(ColumnDef::new("created_at").big_integer().not_null())
        .col(ColumnDef::new("updated_at").big_integer().not_null())
        .foreign_key(
            ForeignKey::create()
                .name("fk_mcp_servers_owner")
                .from("mcp_servers", "owner")
                .to("players", "id")
                .on_delete(ForeignKeyAction::Restrict),
        )
        .to_owned();
    manager.create_table(table).await?;
    unique(manager, "mcp_servers", &["slug"]).await?;
    index(manager, "mcp_servers", &["owner"]).await
}

async fn pins(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let since = Table::alter()
        .table("grants")
        // When Tool definitions were pinned; null while they are not
        .add_column(ColumnDef::new("pinned_at").big_integer())
        .to_owned();
    manager.alter_table(since).await?;
    let table = Table::create()
        .table("tool_pins")
        .col(ColumnDef::new("grant_id").uuid().not_null())
        .col(ColumnDef::new("tool_name").text().not_null())
        // SHA-256 of the canonical definition, in hexadecimal
        .col(ColumnDef::new("definition_hash").text().not_null())
        // The canonical definition, to show what changed; null when it was too large to be kept
        .col(ColumnDef::new("definition").text())
        .primary_key(
            Index::create()
                .name("tool_pins_pkey")
                .col("grant_id")
                .col("tool_name")
                .primary(),
        )
        .foreign_key(
            ForeignKey::create()
                .name("fk_tool_pins_grant_id")
                .from("tool_pins", "grant_id")
                .to("grants", "id")
                .on_delete(ForeignKeyAction::Cascade),
        )
        .to_owned();
    manager.create_table(table).await
}

async fn media(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let table = Table::create()
        .table("media")
        .col(ColumnDef::new("id").uuid().not_null().primary_key())
        .col(ColumnDef::new("message_id").uuid().not_null())
        // The Tool call that gave it
        .col(ColumnDef::new("call_id").uuid().not_null())
        // Its place among what the call gave
        .col(ColumnDef::new("position").integer().not_null())
        // image | audio | resource
        .col(ColumnDef::new("kind").text().not_null())
        // As the Tool's server says; untrusted
        .col(ColumnDef::new("media_type").text().not_null())
        .col(ColumnDef::new("bytes").big_integer().not_null())
        .col(ColumnDef::new("data").blob().not_null())
        .col(ColumnDef::new("created_at").big_integer().not_null())
        .foreign_key(
            ForeignKey::create()
                .name("fk_media_message_id")
                .from("media", "message_id")
                .to("messages", "id")
                .on_delete(ForeignKeyAction::Cascade),
        )
        .to_owned();
    manager.create_table(table).await?;
    index(manager, "media", &["message_id"]).await
}
