//! One schema for SQLite and PostgreSQL, a module per owning service.
//!
//! A service reads and writes its own tables only. Column types are those that behave alike on both databases: ids are `uuid`,
//! times are microseconds in `bigint`, JSON is `text` in the normal form of `kernel::JsonText`. Unique indexes are named
//! `unique_<table>_<column>_<column>`, which is how `store::Error::Unique` names the key on both databases.
//!
//! Migrations first expand, and contract a release later: a migration that has been released is never changed. [`SCHEMA`] is raised with each
//! release that adds one.

mod index;
mod mcp;
mod registry;
mod turn;

use sea_orm_migration::{MigrationTrait, MigratorTrait};

/// Every migration, in order.
#[derive(Debug, Clone, Copy)]
pub struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(registry::Founding),
            Box::new(turn::Founding),
            Box::new(mcp::McpServers),
        ]
    }
}

/// The version that [`Migrator`] leads to, and the oldest code that still runs on it.
pub const SCHEMA: store::SchemaVersion = store::SchemaVersion {
    version: 2,
    min_compatible: 1,
};
