//! SQLite's one writer: it groups the jobs that wait into one commit.
//!
//! Where several share a transaction, each runs inside a savepoint, so that one that fails takes nothing else with it. No job is answered before the commit of
//! its group. Whatever leaves the connection in doubt (a failed commit, a transaction that SQLite itself rolled back) fails the
//! whole group and replaces the connection: sqlx counts transactions, and would take the next one for a nested one.

use std::{panic::AssertUnwindSafe, path::PathBuf, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use sea_orm::{
    ConnectionTrait as _, DatabaseConnection, DbErr, SqliteTransactionMode, TransactionOptions,
    TransactionTrait as _,
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{CLOSE_TIME, Error, Transaction, WAIT_TIME, sqlite};

/// Jobs of one commit.
const GROUP: usize = 64;
/// Jobs that may wait.
const QUEUE: usize = 1_024;

#[derive(Debug)]
pub(crate) struct Writer {
    jobs: mpsc::Sender<Box<dyn Job>>,
}

impl Writer {
    pub(crate) fn start(
        connection: DatabaseConnection,
        file: PathBuf,
        reader: DatabaseConnection,
        lock: sqlite::Lock,
        tracker: &TaskTracker,
        ended: CancellationToken,
    ) -> Self {
        let (jobs, waiting) = mpsc::channel(QUEUE);
        let worker = Worker {
            connection: Some(connection),
            file,
            waiting,
        };
        tracker.spawn(async move {
            worker.run(ended, reader).await;
            drop(lock);
        });
        Self { jobs }
    }

    pub(crate) async fn write<T, E, F>(&self, limit: Duration, job: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t Transaction) -> BoxFuture<'t, Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let work: Box<dyn Job> = Box::new(Work {
            job: Some(job),
            limit,
            result: None,
            answer,
        });
        match tokio::time::timeout(WAIT_TIME, self.jobs.send(work)).await {
            Ok(Ok(())) => {}
            Ok(Err(_closed)) => return Err(Error::Closed.into()),
            Err(_elapsed) => return Err(Error::Overloaded.into()),
        }
        answered
            .await
            .unwrap_or_else(|_gone| Err(Error::Closed.into()))
    }
}

/// What becomes of a job's savepoint.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Keep,
    Undo,
}

/// A job whose types are forgotten.
trait Job: Send {
    /// Whether anybody still waits for it.
    fn is_wanted(&self) -> bool;
    /// Runs it, once, and keeps its result.
    fn run<'j>(&'j mut self, tx: &'j Transaction) -> BoxFuture<'j, Fate>;
    /// Answers: with its own result if its group was committed or it had failed anyway, else with the group's failure.
    fn settle(self: Box<Self>, group: Result<(), DbErr>);
}

struct Work<T, E, F> {
    job: Option<F>,
    limit: Duration,
    result: Option<Result<T, E>>,
    answer: oneshot::Sender<Result<T, E>>,
}

impl<T, E, F> Job for Work<T, E, F>
where
    F: for<'t> FnOnce(&'t Transaction) -> BoxFuture<'t, Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    fn is_wanted(&self) -> bool {
        !self.answer.is_closed()
    }

    fn run<'j>(&'j mut self, tx: &'j Transaction) -> BoxFuture<'j, Fate> {
        Box::pin(async move {
            let Some(job) = self.job.take() else {
                return Fate::Undo;
            };
            // What the job holds is dropped in here too: no panic of a job ends the writer.
            let run = async { tokio::time::timeout(self.limit, job(tx)).await };
            let result = match AssertUnwindSafe(run).catch_unwind().await {
                Ok(Ok(result)) => result,
                Ok(Err(_elapsed)) => Err(Error::TooSlow(self.limit).into()),
                Err(_panic) => Err(Error::Panicked.into()),
            };
            let result = match (result, tx.take_failure()) {
                (Ok(_), Some(failure)) => Err(Error::from(failure).into()),
                (result, _) => result,
            };
            let fate = if result.is_ok() {
                Fate::Keep
            } else {
                Fate::Undo
            };
            self.result = Some(result);
            fate
        })
    }

    fn settle(self: Box<Self>, group: Result<(), DbErr>) {
        let answer = match (self.result, group) {
            (Some(Err(error)), _) => Err(error),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (Some(Ok(_)) | None, Err(error)) => Err(Error::from(error).into()),
            (None, Ok(())) => Err(Error::Closed.into()),
        };
        // Whoever asked may have gone; the work is done all the same.
        drop(self.answer.send(answer));
    }
}

struct Worker {
    /// Absent after a failure, until the next group opens it again.
    connection: Option<DatabaseConnection>,
    file: PathBuf,
    waiting: mpsc::Receiver<Box<dyn Job>>,
}

impl Worker {
    async fn run(mut self, ended: CancellationToken, reader: DatabaseConnection) {
        let mut group = Vec::with_capacity(GROUP);
        loop {
            let received = tokio::select! {
                biased;
                () = ended.cancelled(), if !self.waiting.is_closed() => {
                    // What was handed over is still received below.
                    self.waiting.close();
                    continue;
                }
                received = self.waiting.recv_many(&mut group, GROUP) => received,
            };
            if received == 0 {
                break;
            }
            group.retain(|job| job.is_wanted());
            if group.is_empty() {
                continue;
            }
            let outcome = self.commit(&mut group).await;
            if let Err(error) = &outcome {
                tracing::warn!(cause = %error, jobs = group.len(), "a group of database jobs was not committed");
                self.connection = None;
            }
            for job in group.drain(..) {
                job.settle(outcome.clone());
            }
        }
        for connection in self.connection.into_iter().chain([reader]) {
            match tokio::time::timeout(CLOSE_TIME, connection.close()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(cause = %error, "the database was not closed cleanly");
                }
                Err(_elapsed) => {
                    tracing::warn!("connections to SQLite were still in use at the end");
                }
            }
        }
    }

    /// Runs the group as one transaction.
    async fn commit(&mut self, group: &mut [Box<dyn Job>]) -> Result<(), DbErr> {
        let connection = match &self.connection {
            Some(connection) => connection,
            None => self.connection.insert(
                sqlite::connect_writer(&self.file)
                    .await
                    .map_err(|error| DbErr::Custom(error.to_string()))?,
            ),
        };
        let tx = connection
            .begin_with_options(TransactionOptions {
                sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
                ..TransactionOptions::default()
            })
            .await?;
        let tx = Transaction::new(tx);
        // A job that is alone needs no savepoint: each statement is a trip to the thread that holds the connection.
        if let [job] = group {
            return match job.run(&tx).await {
                Fate::Keep => tx.inner.commit().await,
                Fate::Undo => tx.inner.rollback().await,
            };
        }
        for job in group {
            tx.inner.execute_unprepared("SAVEPOINT job").await?;
            if job.run(&tx).await == Fate::Undo {
                tx.inner.execute_unprepared("ROLLBACK TO job").await?;
            }
            tx.inner.execute_unprepared("RELEASE job").await?;
        }
        tx.inner.commit().await
    }
}
