//! A store, whichever database it is.

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use kernel::Secret;
use sea_orm::{DatabaseConnection, TransactionTrait};
use serde::Deserialize;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{Error, JOB_TIME, Transaction, postgres, sqlite, writer::Writer};

/// The settings' section `database`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// `postgres://…`, or empty for SQLite in the data directory.
    pub url: Secret,
    /// Connections of one process to PostgreSQL, or readers of SQLite.
    pub max_connections: u32,
}

impl Settings {
    /// With the data directory that these settings do not have.
    pub fn in_dir(self, data_dir: impl Into<PathBuf>) -> Config {
        Config {
            url: self.url,
            data_dir: data_dir.into(),
            connections: self.max_connections,
        }
    }
}

/// Where the data is.
#[derive(Debug, Clone)]
pub struct Config {
    /// `postgres://…`, or empty for SQLite in `data_dir`.
    pub url: Secret,
    /// Where SQLite keeps its file. Made when missing; its mode becomes 0700. PostgreSQL does not use it.
    pub data_dir: PathBuf,
    /// The most connections to PostgreSQL, or readers of SQLite beside its one writer (where more than 4 are 4); at least 2. They are
    /// opened as they are needed.
    pub connections: u32,
}

impl Config {
    /// SQLite in this directory.
    pub fn sqlite(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            url: Secret::default(),
            data_dir: data_dir.into(),
            connections: Self::CONNECTIONS,
        }
    }

    /// PostgreSQL at this address.
    pub fn postgres(url: Secret) -> Self {
        Self {
            url,
            data_dir: PathBuf::new(),
            connections: Self::CONNECTIONS,
        }
    }

    /// Connections to PostgreSQL unless set otherwise: three replicas of two services stay below its default of 100.
    pub const CONNECTIONS: u32 = 16;
}

/// Which database it is. For logs and for `check-config`; code does not ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// A file in the data directory.
    Sqlite,
    /// A server.
    Postgres,
}

/// A handle to the database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
enum Inner {
    Sqlite {
        reader: DatabaseConnection,
        writer: Writer,
    },
    Postgres {
        pool: DatabaseConnection,
        ended: CancellationToken,
    },
}

impl Store {
    /// Opens the database. SQLite's file is created when there is none; the schema is not touched (see [`crate::migrate`]).
    ///
    /// When `ended` is cancelled, jobs that were handed over are still done and answered, later ones are refused with
    /// [`Error::Closed`], and the connections close. Cancel it after everything that writes has ended: `Lifecycle::hard`. The work of
    /// the store runs on `tracker` until then, so it must not be the tracker whose end the hard step waits for.
    ///
    /// # Errors
    /// An address without a driver, a directory that cannot be used or is in use, a database that does not answer within
    /// [`crate::WAIT_TIME`].
    pub async fn connect(
        config: &Config,
        tracker: &TaskTracker,
        ended: CancellationToken,
    ) -> Result<Self, Error> {
        if config.url.is_empty() {
            let (reader, writer) = sqlite::open(config, tracker, ended).await?;
            return Ok(Self(Arc::new(Inner::Sqlite { reader, writer })));
        }
        let pool = postgres::open(&config.url, config.connections, tracker, ended.clone()).await?;
        Ok(Self(Arc::new(Inner::Postgres { pool, ended })))
    }

    /// Which database it is.
    pub fn engine(&self) -> Engine {
        match &*self.0 {
            Inner::Sqlite { .. } => Engine::Sqlite,
            Inner::Postgres { .. } => Engine::Postgres,
        }
    }

    /// Where single reads go. On SQLite a write through it is refused by the database.
    pub fn reader(&self) -> &DatabaseConnection {
        match &*self.0 {
            Inner::Sqlite { reader, .. } => reader,
            Inner::Postgres { pool, .. } => pool,
        }
    }

    /// A read-only transaction in which all reads see the same state. Drop it when done; it holds a connection.
    ///
    /// # Errors
    /// The database cannot be reached or has no connection left.
    pub async fn snapshot(&self) -> Result<Transaction, Error> {
        let inner = match &*self.0 {
            Inner::Sqlite { reader, .. } => reader.begin().await?,
            Inner::Postgres { pool, .. } => {
                pool.begin_with_config(
                    Some(sea_orm::IsolationLevel::RepeatableRead),
                    Some(sea_orm::AccessMode::ReadOnly),
                )
                .await?
            }
        };
        Ok(Transaction::new(inner))
    }

    /// Runs a job as one transaction and answers after its commit: `store.write(move |tx| Box::pin(async move { … })).await`.
    /// `Err` from the job undoes what it did, and so does a panic, more than [`JOB_TIME`], or a statement that failed: a job that goes on
    /// after one and answers `Ok` is undone and answered with the statement's error, because PostgreSQL keeps nothing of such a
    /// transaction. What may be there already is inserted with `ON CONFLICT`.
    ///
    /// A job does nothing but use its transaction: on PostgreSQL it is run again, at most three times in all, when a statement
    /// or the commit lost against another transaction (deadlock or serialization failure; such a transaction has changed
    /// nothing). That is why it must be `Clone`, which closures are when all that they captured is.
    ///
    /// When the caller goes away before the job began, it may not be run; once begun on SQLite it is finished.
    ///
    /// # Errors
    /// The job's own error, or the store's made into it.
    pub async fn write<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t Transaction) -> BoxFuture<'t, Result<T, E>> + Clone + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.write_within(JOB_TIME, job).await
    }

    pub(crate) async fn write_within<T, E, F>(&self, limit: Duration, job: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t Transaction) -> BoxFuture<'t, Result<T, E>> + Clone + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        match &*self.0 {
            Inner::Sqlite { writer, .. } => writer.write(limit, job).await,
            Inner::Postgres { pool, ended } => {
                if ended.is_cancelled() {
                    return Err(Error::Closed.into());
                }
                postgres::write(pool, limit, job).await
            }
        }
    }
}
