//! The database: pools, transactions, one writer, migration runner.
//!
//! A [`Store`] is SQLite in a data directory or PostgreSQL behind an address, and code above it does not ask which:
//!
//! - reads go to [`Store::reader`], or to [`Store::snapshot`] where several reads must agree;
//! - every change is a job of [`Store::write`]: one transaction, all or nothing, and no answer before its commit;
//! - times, JSON and text are stored through [`Micros`], [`Json`] and [`Text`], so that a value has one fate on both databases;
//! - [`migrate`] and [`check_schema`] keep code and schema together.
//!
//! **Invariants.** On SQLite one process holds the directory's lock, and one task writes; what it is given while it commits is
//! grouped into the next commit. On PostgreSQL transactions run at READ COMMITTED: compare-and-swap (`UPDATE … WHERE version = ?`
//! and the count of rows) is what decides races, never a read followed by a write.
//!
//! **Architecture invariant:** nothing here knows a table of a service.

mod column;
mod connect;
mod directory;
mod error;
mod postgres;
mod schema;
mod sqlite;
mod transaction;
mod writer;

pub use column::{Json, Micros, Text};
pub use connect::{Config, Engine, Settings, Store};
pub use directory::prepare_data_dir;
pub use error::{Cause, Error};
pub use schema::{SchemaProblem, SchemaVersion, check_schema, migrate};
pub use sqlite::DATABASE as SQLITE_FILE;
pub use transaction::Transaction;

use std::time::Duration;

/// How long one job may hold the writer or a transaction: what is slower would hold up everybody else.
pub const JOB_TIME: Duration = Duration::from_secs(10);
/// How long a job waits for the writer's queue or for a connection.
pub const WAIT_TIME: Duration = Duration::from_secs(5);
/// How long the end waits for connections that are still in use.
const CLOSE_TIME: Duration = Duration::from_secs(5);
