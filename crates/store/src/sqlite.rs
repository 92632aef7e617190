//! SQLite: one directory, one process, one file, some readers, one writer.

use std::{
    fs::{File, OpenOptions, Permissions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use sea_orm::{
    ConnectOptions, Database, DatabaseConnection,
    sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{Config, Error, WAIT_TIME, directory::prepare_data_dir, error::Cause, writer::Writer};

/// The file in the data directory.
pub const DATABASE: &str = "agentsville.db";
const LOCK: &str = "agentsville.lock";
/// Readers beside the writer. Each is a thread with a cache of its own, and reads of a local file wait for nothing but the processor.
const MAX_READERS: u32 = 4;
/// What the write-ahead log is cut back to after a checkpoint.
const JOURNAL_BYTES: &str = "67108864";

/// The directory's lock. It is free again when this is dropped, also by a crash.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

pub(crate) async fn open(
    config: &Config,
    tracker: &TaskTracker,
    ended: CancellationToken,
) -> Result<(DatabaseConnection, Writer), Error> {
    let directory = config.data_dir.clone();
    let prepared = tokio::task::spawn_blocking(move || prepare(&directory)).await;
    let (file, lock) = prepared.map_err(|_panic| Error::Panicked)??;
    let first = connect_writer(&file).await?;
    let reader = connect(&file, config.connections.clamp(2, MAX_READERS), Use::Read).await?;
    let writer = Writer::start(first, file, reader.clone(), lock, tracker, ended);
    Ok((reader, writer))
}

/// The one connection that writes.
pub(crate) async fn connect_writer(file: &Path) -> Result<DatabaseConnection, Error> {
    connect(file, 1, Use::Write).await
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Write,
}

async fn connect(file: &Path, connections: u32, purpose: Use) -> Result<DatabaseConnection, Error> {
    let path = file.to_owned();
    let mut options = ConnectOptions::new("sqlite::memory:");
    options
        .max_connections(connections)
        .min_connections(1)
        .acquire_timeout(WAIT_TIME)
        .idle_timeout(None)
        .max_lifetime(None)
        // A connection to a file does not go stale, and each test is a trip to its thread.
        .test_before_acquire(false)
        .sqlx_logging(false)
        .map_sqlx_sqlite_opts(move |options| {
            let options = options
                .filename(&path)
                .in_memory(false)
                .shared_cache(false)
                .create_if_missing(false)
                .synchronous(SqliteSynchronous::Normal)
                .busy_timeout(WAIT_TIME)
                .foreign_keys(true);
            match purpose {
                Use::Read => options.pragma("query_only", "on"),
                Use::Write => options
                    .journal_mode(SqliteJournalMode::Wal)
                    .pragma("journal_size_limit", JOURNAL_BYTES),
            }
        });
    Database::connect(options)
        .await
        .map_err(|error| Error::Open {
            database: file.display().to_string(),
            cause: Cause::from(error),
        })
}

/// Makes the directory and the file, both for this user alone, and takes the lock.
fn prepare(directory: &Path) -> Result<(PathBuf, Lock), Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::DataDir { path, source }
    };
    prepare_data_dir(directory)?;
    let lock = lock(directory)?;
    let file = directory.join(DATABASE);
    // The write-ahead log takes its mode from this file.
    private_file(&file).map_err(failed(&file))?;
    Ok((file, lock))
}

fn lock(directory: &Path) -> Result<Lock, Error> {
    let path = directory.join(LOCK);
    let mut file = private_file(&path).map_err(|source| Error::DataDir {
        path: path.clone(),
        source,
    })?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let process = match (&file).take(16).read_to_string(&mut holder) {
                Ok(_) => holder.trim().parse().ok(),
                Err(_) => None,
            };
            return Err(Error::InUse {
                path: directory.to_owned(),
                process,
            });
        }
        Err(TryLockError::Error(source)) => return Err(Error::DataDir { path, source }),
    }
    // Only for the sentence that a second process is given.
    let written = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()));
    match written {
        Ok(()) => Ok(Lock { _file: file }),
        Err(source) => Err(Error::DataDir { path, source }),
    }
}

fn private_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}
