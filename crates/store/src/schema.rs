//! Keeps code and schema together.
//!
//! The table `village_schema` holds one row: the version that the schema has, and the oldest version of code that still runs on it.
//! Migrations first expand and contract a release later, so that the previous release runs beside the new one.

use std::time::Duration;

use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement};
use sea_orm_migration::MigratorTrait;

use crate::{Engine, Error, Store, Transaction};

/// How long a migration may take, waiting for another one included.
const MIGRATION_TIME: Duration = Duration::from_mins(10);
/// The advisory lock of migrations: the first eight bytes of SHA-256("agentsville migrate"), as PostgreSQL's lock key.
const LOCK_KEY: i64 = 0x34bd_66f9_8915_3cd2;

/// The version of a schema, counted up by one a release that changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaVersion {
    /// What the migrations of this release lead to.
    pub version: i32,
    /// The oldest version of code that runs on that schema.
    pub min_compatible: i32,
}

/// Why this release does not run on the schema that is there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaProblem {
    /// There is none.
    #[error("the database has no schema yet; run `agentsville migrate` with the same DATABASE_URL")]
    Missing,
    /// It is older than the code.
    #[error(
        "the database has schema {found}, and this release needs {needed}; run `agentsville migrate` of this release"
    )]
    TooOld {
        /// The version that is there.
        found: i32,
        /// The version that is needed.
        needed: i32,
    },
    /// It is newer, and no longer runs with this code.
    #[error(
        "the database has schema {found}, which runs with releases of schema {min_compatible} and later, and this one is of {ours}; start a newer release"
    )]
    TooNew {
        /// The version that is there.
        found: i32,
        /// The oldest that runs on it.
        min_compatible: i32,
        /// What this code was made for.
        ours: i32,
    },
}

/// Brings the schema up to this release's version: everything in one transaction, or nothing. Several may call it at once, also
/// from several machines: they take their turns, and those that find the work done are content. A schema that is newer
/// than this release is left alone when this release runs on it.
///
/// # Errors
/// [`SchemaProblem::TooNew`], or a migration failed and nothing was changed.
pub async fn migrate<M: MigratorTrait>(store: &Store, ours: SchemaVersion) -> Result<(), Error> {
    let engine = store.engine();
    let before = store
        .write_within(MIGRATION_TIME, move |tx| {
            Box::pin(async move {
                if engine == Engine::Postgres {
                    let lock = format!("SELECT pg_advisory_xact_lock({LOCK_KEY})");
                    tx.execute_unprepared(&lock).await?;
                }
                let found = read(tx).await?;
                if let Some(found) = found
                    && found.version > ours.version
                {
                    judge(Some(found), ours)?;
                    return Ok::<_, Error>(Some(found));
                }
                apply::<M>(tx).await?;
                record(tx, ours).await?;
                Ok(found)
            })
        })
        .await?;
    match before {
        Some(found) if found.version > ours.version => tracing::info!(
            schema = found.version,
            "the schema is newer than this release, which runs on it"
        ),
        Some(found) if found.version == ours.version => {
            tracing::debug!(schema = ours.version, "the schema is up to date");
        }
        Some(_) | None => {
            tracing::info!(schema = ours.version, "the schema was brought up to date");
        }
    }
    Ok(())
}

/// Checks that this release runs on the schema that is there. For services that never migrate.
///
/// # Errors
/// [`SchemaProblem`], in words; or the database does not answer.
pub async fn check_schema(store: &Store, ours: SchemaVersion) -> Result<(), Error> {
    let found = read(store.reader()).await?;
    judge(found, ours)
}

fn judge(found: Option<SchemaVersion>, ours: SchemaVersion) -> Result<(), Error> {
    let Some(found) = found else {
        return Err(SchemaProblem::Missing.into());
    };
    if found.version < ours.version {
        return Err(SchemaProblem::TooOld {
            found: found.version,
            needed: ours.version,
        }
        .into());
    }
    if found.min_compatible > ours.version {
        return Err(SchemaProblem::TooNew {
            found: found.version,
            min_compatible: found.min_compatible,
            ours: ours.version,
        }
        .into());
    }
    Ok(())
}

async fn apply<M: MigratorTrait>(tx: &Transaction) -> Result<(), DbErr> {
    M::up(&tx.inner, None).await
}

async fn read(database: &impl ConnectionTrait) -> Result<Option<SchemaVersion>, DbErr> {
    let backend = database.get_database_backend();
    let known = if backend == DbBackend::Postgres {
        "SELECT to_regclass('village_schema') IS NOT NULL AS known"
    } else {
        "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'village_schema') AS known"
    };
    let known = database
        .query_one_raw(Statement::from_string(backend, known))
        .await?;
    let known = match known {
        Some(row) => row.try_get::<bool>("", "known")?,
        None => false,
    };
    if !known {
        return Ok(None);
    }
    let row = database
        .query_one_raw(Statement::from_string(
            backend,
            "SELECT version, min_compatible FROM village_schema WHERE id = 1",
        ))
        .await?;
    row.map(|row| {
        Ok(SchemaVersion {
            version: row.try_get("", "version")?,
            min_compatible: row.try_get("", "min_compatible")?,
        })
    })
    .transpose()
}

async fn record(tx: &Transaction, ours: SchemaVersion) -> Result<(), DbErr> {
    tx.execute_unprepared(
        "CREATE TABLE IF NOT EXISTS village_schema \
         (id integer PRIMARY KEY CHECK (id = 1), version integer NOT NULL, min_compatible integer NOT NULL)",
    )
    .await?;
    let SchemaVersion {
        version,
        min_compatible,
    } = ours;
    tx.execute_unprepared(&format!(
        "INSERT INTO village_schema (id, version, min_compatible) VALUES (1, {version}, {min_compatible}) \
         ON CONFLICT (id) DO UPDATE SET version = excluded.version, min_compatible = excluded.min_compatible"
    ))
    .await?;
    Ok(())
}
