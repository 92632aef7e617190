//! Tables of turn-orchestrator: Conversations, Messages, their Parts, Turns.

use sea_orm_migration::prelude::*;

use crate::index::{index, unique};

/// Conversations, Messages, Parts, Turns.
pub(crate) struct Founding;

impl MigrationName for Founding {
    fn name(&self) -> &'static str {
        "m0002_turn"
    }
}

#[async_trait::async_trait]
#[expect(
    elided_lifetimes_in_paths,
    reason = "the trait leaves it out, and async-trait binds one that is written differently"
)]
impl MigrationTrait for Founding {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        conversations(manager).await?;
        messages(manager).await?;
        parts(manager).await?;
        turns(manager).await
    }
}

async fn conversations(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let table = Table::create()
        .table("conversations")
        .col(ColumnDef::new("id").uuid().not_null().primary_key())
        .col(ColumnDef::new("player_id").uuid().not_null())
        .col(ColumnDef::new("npc_id").uuid().not_null())
        // The id that the client chose
        .col(ColumnDef::new("client_id").text().not_null())
        .col(ColumnDef::new("title").text())
        // Compare-and-swap from null: one running turn per Conversation. No foreign key: a Turn refers to its Conversation.
        .col(ColumnDef::new("active_turn_id").uuid())
        .col(ColumnDef::new("created_at").big_integer().not_null())
        .col(ColumnDef::new("updated_at").big_integer().not_null())
        .to_owned();
    manager.create_table(table).await?;
    unique(manager, "conversations", &["player_id", "client_id"]).await?;
    index(manager, "conversations", &["player_id", "updated_at"]).await?;
    index(manager, "conversations", &["npc_id", "updated_at"]).await
}

async fn messages(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let table = Table::create()
        .table("messages")
        .col(ColumnDef::new("id").uuid().not_null().primary_key())
        .col(ColumnDef::new("conversation_id").uuid().not_null())
        // The id that the client chose; an edit keeps it and counts the revision up
        .col(ColumnDef::new("client_id").text().not_null())
        .col(ColumnDef::new("revision").integer().not_null())
        // user | assistant
        .col(ColumnDef::new("role").text().not_null())
        // The Message that this one follows; null for the first. Two with one parent are two branches.
        .col(ColumnDef::new("parent_id").uuid())
        // The Message that stands in its place in the model's history; null while it stands itself
        .col(ColumnDef::new("replaced_by").uuid())
        // The Turn that wrote it, or that it started
        .col(ColumnDef::new("turn_id").uuid())
        // streaming | complete | aborted | failed | interrupted
        .col(ColumnDef::new("status").text().not_null())
        // JSON, or null
        .col(ColumnDef::new("metadata").text())
        .col(ColumnDef::new("created_at").big_integer().not_null())
        .foreign_key(
            ForeignKey::create()
                .name("fk_messages_conversation_id")
                .from("messages", "conversation_id")
                .to("conversations", "id")
                .on_delete(ForeignKeyAction::Cascade),
        )
        .to_owned();
    manager.create_table(table).await?;
    let key = ["conversation_id", "client_id", "revision"];
    unique(manager, "messages", &key).await?;
    index(manager, "messages", &["conversation_id", "created_at"]).await?;
    index(manager, "messages", &["parent_id"]).await
}

async fn parts(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let table = Table::create()
        .table("parts")
        .col(ColumnDef::new("message_id").uuid().not_null())
        // Fixed at the Part's first delta
        .col(ColumnDef::new("position").integer().not_null())
        .col(ColumnDef::new("step").integer().not_null())
        // text | reasoning | tool | notice …
        .col(ColumnDef::new("kind").text().not_null())
        // streaming | running | done
        .col(ColumnDef::new("state").text().not_null())
        .col(ColumnDef::new("text").text().not_null().default(""))
        // Ours, and unique; the Provider's own may repeat
        .col(ColumnDef::new("call_id").uuid())
        .col(ColumnDef::new("wire_call_id").text())
        .col(ColumnDef::new("tool_name").text())
        // JSON
        .col(ColumnDef::new("input").text())
        // JSON
        .col(ColumnDef::new("output").text())
        .col(ColumnDef::new("error").text())
        // ok | error | denied | interrupted; null while it runs
        .col(ColumnDef::new("outcome").text())
        // JSON that the Provider wants back as it was
        .col(ColumnDef::new("provider_meta").text())
        .col(ColumnDef::new("started_at").big_integer().not_null())
        .col(ColumnDef::new("ended_at").big_integer())
        // The last event of the log that this row contains
        .col(
            ColumnDef::new("last_event")
                .big_integer()
                .not_null()
                .default(0),
        )
        .primary_key(
            Index::create()
                .name("parts_pkey")
                .col("message_id")
                .col("position")
                .primary(),
        )
        .foreign_key(
            ForeignKey::create()
                .name("fk_parts_message_id")
                .from("parts", "message_id")
                .to("messages", "id")
                .on_delete(ForeignKeyAction::Cascade),
        )
        .to_owned();
    manager.create_table(table).await?;
    unique(manager, "parts", &["call_id"]).await
}

async fn turns(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let table = Table::create()
        .table("turns")
        .col(ColumnDef::new("id").uuid().not_null().primary_key())
        .col(ColumnDef::new("conversation_id").uuid().not_null())
        // The answer that it writes
        .col(ColumnDef::new("message_id").uuid().not_null())
        .col(ColumnDef::new("npc_id").uuid().not_null())
        .col(ColumnDef::new("player_id").uuid().not_null())
        // A start that is retried with it is the same Turn
        .col(ColumnDef::new("request_id").text().not_null())
        // running | finished | aborted | failed | interrupted
        .col(ColumnDef::new("status").text().not_null())
        // The process that runs it, and until when it may be believed to
        .col(ColumnDef::new("owner").text().not_null())
        .col(ColumnDef::new("lease_until").big_integer().not_null())
        .col(ColumnDef::new("step").integer().not_null().default(0))
        .col(
            ColumnDef::new("last_event")
                .big_integer()
                .not_null()
                .default(0),
        )
        // JSON: the ceilings that it started with
        .col(ColumnDef::new("limits").text().not_null())
        // JSON: tokens and the like; null until something is known
        .col(ColumnDef::new("usage").text())
        .col(ColumnDef::new("finish_reason").text())
        .col(ColumnDef::new("error").text())
        .col(ColumnDef::new("started_at").big_integer().not_null())
        .col(ColumnDef::new("ended_at").big_integer())
        .foreign_key(
            ForeignKey::create()
                .name("fk_turns_conversation_id")
                .from("turns", "conversation_id")
                .to("conversations", "id")
                .on_delete(ForeignKeyAction::Cascade),
        )
        .to_owned();
    manager.create_table(table).await?;
    unique(manager, "turns", &["conversation_id", "request_id"]).await?;
    index(manager, "turns", &["npc_id", "status"]).await?;
    // The sweeper asks for running Turns whose lease is over.
    index(manager, "turns", &["status", "lease_until"]).await?;
    index(manager, "turns", &["player_id", "started_at"]).await
}
