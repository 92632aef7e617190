//! Failures of the database, classed.

use std::{fmt, path::PathBuf, time::Duration};

use kernel::ErrorCode;
use sea_orm::{DbErr, RuntimeErr, SqlErr, sqlx};

use crate::SchemaProblem;

/// What the database said. It is for the log: `Debug` shows no more than `Display`, because a driver's `Debug` shows stored values.
#[derive(Clone)]
pub struct Cause(DbErr);

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Cause {}

impl From<DbErr> for Cause {
    fn from(error: DbErr) -> Self {
        Self(error)
    }
}

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address names a database that there is no driver for. The address itself may hold a password, so it is not shown.
    #[error(
        "the database address is not one that can be used; set DATABASE_URL to postgres://USER:PASSWORD@HOST/DATABASE, or leave it out for SQLite"
    )]
    Address,
    /// The data directory cannot be used.
    #[error("the data directory {} cannot be used: {source}; make it writable for this user, or set AGENTSVILLE__DATA_DIR", path.display())]
    DataDir {
        /// The directory or file that failed.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The data directory is somebody else's, or serves others too.
    #[error("{} cannot be the data directory: it {why}, and closing it (0700) would lock them out; set AGENTSVILLE__DATA_DIR to a directory of its own", path.display())]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// What it is.
        why: &'static str,
    },
    /// Another process holds the data directory.
    #[error("the data directory {} is in use by another AgentsVille process{}; stop that one, or set another AGENTSVILLE__DATA_DIR", path.display(), process.map(|id| format!(" (process {id})")).unwrap_or_default())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that holds it, when it could be read.
        process: Option<u32>,
    },
    /// The database could not be opened.
    #[error("the database {database} cannot be opened: {cause}")]
    Open {
        /// `PostgreSQL`, or the SQLite file.
        database: String,
        /// What the driver said.
        cause: Cause,
    },
    /// The schema does not fit this release.
    #[error(transparent)]
    Schema(#[from] SchemaProblem),
    /// A row with this key exists already.
    #[error("a row with the same {key} exists already")]
    Unique {
        /// The key that is taken, as `table_column_column`: what a unique index is named by, without its prefix.
        key: String,
    },
    /// A row that this one refers to does not exist, or one that is referred to was to go.
    #[error("a row that is referred to does not exist")]
    ForeignKey,
    /// It lost against another transaction; nothing was changed.
    #[error("another change came first; try again")]
    Conflict,
    /// The queue or the pool stayed full for [`crate::WAIT_TIME`].
    #[error("the database is overloaded; try again in a moment")]
    Overloaded,
    /// The job took too long and was undone.
    #[error("the database took longer than {} s; nothing was changed", .0.as_secs())]
    TooSlow(Duration),
    /// The store was shut down.
    #[error("the database is shut down")]
    Closed,
    /// The job panicked and was undone.
    #[error("a database job failed by a fault in the program; nothing was changed")]
    Panicked,
    /// The database cannot be reached.
    #[error("the database cannot be reached; try again in a moment")]
    Unreachable(#[source] Cause),
    /// Anything else.
    #[error("the database refused: {0}")]
    Query(Cause),
}

impl Error {
    /// The class that a caller of a service is told.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Unique { .. } => ErrorCode::AlreadyExists,
            Self::ForeignKey => ErrorCode::NotFound,
            Self::Conflict => ErrorCode::Aborted,
            Self::Overloaded | Self::Closed | Self::Unreachable(_) => ErrorCode::Unavailable,
            Self::TooSlow(_) => ErrorCode::DeadlineExceeded,
            Self::Schema(_) | Self::InUse { .. } => ErrorCode::FailedPrecondition,
            Self::Address
            | Self::DataDir { .. }
            | Self::NotOurs { .. }
            | Self::Open { .. }
            | Self::Panicked
            | Self::Query(_) => ErrorCode::Internal,
        }
    }

    /// Whether the key that is taken is this one: `table_column_column`.
    pub fn is_taken(&self, key: &str) -> bool {
        matches!(self, Self::Unique { key: taken } if taken == key)
    }
}

impl From<DbErr> for Error {
    fn from(error: DbErr) -> Self {
        if is_conflict(&error) {
            return Self::Conflict;
        }
        match error.sql_err() {
            Some(SqlErr::UniqueConstraintViolation(message)) => {
                return Self::Unique {
                    key: taken_key(&error, &message),
                };
            }
            Some(SqlErr::ForeignKeyConstraintViolation(_)) => return Self::ForeignKey,
            Some(_) | None => {}
        }
        if is_restricted(&error) {
            return Self::ForeignKey;
        }
        match driver_error(&error) {
            Some(sqlx::Error::PoolTimedOut) => Self::Overloaded,
            Some(sqlx::Error::PoolClosed) => Self::Closed,
            Some(
                sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::Protocol(_)
                | sqlx::Error::WorkerCrashed,
            ) => Self::Unreachable(Cause(error)),
            // Class 57P: an administrator ends or restarts the server; 53300: it takes no more connections.
            Some(sqlx::Error::Database(database))
                if database
                    .code()
                    .is_some_and(|code| code.starts_with("57P") || code == "53300") =>
            {
                Self::Unreachable(Cause(error))
            }
            _ if matches!(
                error,
                DbErr::ConnectionAcquire(sea_orm::ConnAcquireErr::Timeout)
            ) =>
            {
                Self::Overloaded
            }
            _ if matches!(
                error,
                DbErr::ConnectionAcquire(sea_orm::ConnAcquireErr::ConnectionClosed)
            ) =>
            {
                Self::Closed
            }
            _ => Self::Query(Cause(error)),
        }
    }
}

/// Whether the database gave up on a transaction because of another: PostgreSQL's serialization failure and deadlock
/// (SQLSTATE 40001, 40P01), SQLite's busy and locked in all their forms (primary codes 5 and 6).
pub(crate) fn is_conflict(error: &DbErr) -> bool {
    let Some(sqlx::Error::Database(database)) = driver_error(error) else {
        return false;
    };
    let Some(code) = database.code() else {
        return false;
    };
    if database
        .try_downcast_ref::<sqlx::sqlite::SqliteError>()
        .is_some()
    {
        return code
            .parse::<u32>()
            .is_ok_and(|code| matches!(code & 0xFF, 5 | 6));
    }
    code == "40001" || code == "40P01"
}

/// Whether a row is still referred to by others that restrict its deletion, which sea-orm takes for something else: SQLSTATE 23001 of
/// PostgreSQL 18, and `SQLITE_CONSTRAINT_TRIGGER` (1811), since SQLite restricts by a trigger.
fn is_restricted(error: &DbErr) -> bool {
    let Some(sqlx::Error::Database(database)) = driver_error(error) else {
        return false;
    };
    let code = database.code().unwrap_or_default();
    code == "23001" || (code == "1811" && database.message().starts_with("FOREIGN KEY"))
}

fn driver_error(error: &DbErr) -> Option<&sqlx::Error> {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the enum is not ours, and only these variants carry a driver's error"
    )]
    match error {
        DbErr::Conn(RuntimeErr::SqlxError(source))
        | DbErr::Exec(RuntimeErr::SqlxError(source))
        | DbErr::Query(RuntimeErr::SqlxError(source)) => Some(source),
        _ => None,
    }
}

/// PostgreSQL names the index, SQLite the columns (`UNIQUE constraint failed: npcs.slug`). One spelling comes out: `npcs_slug`.
fn taken_key(error: &DbErr, message: &str) -> String {
    let index = match driver_error(error) {
        Some(sqlx::Error::Database(database)) => database.constraint().map(str::to_owned),
        _ => None,
    };
    if let Some(index) = index {
        return index
            .strip_prefix("unique_")
            .map_or_else(|| index.clone(), str::to_owned);
    }
    let columns = message.rsplit(": ").next().unwrap_or_default();
    let mut key = String::new();
    for column in columns.split(", ") {
        if let Some((table, name)) = column.split_once('.') {
            if key.is_empty() {
                key.push_str(table);
            }
            key.push('_');
            key.push_str(name);
        }
    }
    key
}
