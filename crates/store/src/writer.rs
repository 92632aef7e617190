//! SQLite's one writer: it groups the jobs that wait into one commit.
//!
//! Jobs of a group share a transaction. When one of them fails, all is undone and each runs again in a transaction of its own, so
//! that it takes nothing else with it; failures are rare, and savepoints would cost every job two trips to the connection's
//! thread. No job is answered before the commit that holds it. Whatever leaves the connection in doubt (a failed commit, a transaction that SQLite itself rolled back) fails the
//! whole group and replaces the connection: sqlx counts transactions, and would take the next one for a nested one.

use std::{panic::AssertUnwindSafe, path::PathBuf, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use sea_orm::{
    DatabaseConnection, DbErr, SqliteTransactionMode, TransactionOptions, TransactionTrait as _,
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
        F: for<'t> FnOnce(&'t Transaction) -> BoxFuture<'t, Result<T, E>> + Clone + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let work: Box<dyn Job> = Box::new(Work {
            job,
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

/// What becomes of what a job did.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Keep,
    Undo,
}

/// What became of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Together {
    /// All of it is committed.
    Committed,
    /// One job failed, and nothing is.
    OneFailed,
}

/// A job whose types are forgotten.
trait Job: Send {
    /// Whether anybody still waits for it.
    fn is_wanted(&self) -> bool;
    /// Runs it and keeps its result. It may run again, after what it did was undone.
    fn run<'j>(&'j mut self, tx: &'j Transaction) -> BoxFuture<'j, Fate>;
    /// Answers: with its own result if its group was committed or it had failed anyway, else with the group's failure.
    fn settle(self: Box<Self>, group: Result<(), DbErr>);
}

struct Work<T, E, F> {
    job: F,
    limit: Duration,
    result: Option<Result<T, E>>,
    answer: oneshot::Sender<Result<T, E>>,
}

impl<T, E, F> Job for Work<T, E, F>
where
    F: for<'t> FnOnce(&'t Transaction) -> BoxFuture<'t, Result<T, E>> + Clone + Send + 'static,
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    fn is_wanted(&self) -> bool {
        !self.answer.is_closed()
    }

    fn run<'j>(&'j mut self, tx: &'j Transaction) -> BoxFuture<'j, Fate> {
        Box::pin(async move {
            // What the job holds is cloned and dropped in here: no panic of a job ends the writer.
            let job = &mut self.job;
            let limit = self.limit;
            let run = async move {
                let job = job.clone();
                tokio::time::timeout(limit, job(tx)).await
            };
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
            match self.commit_together(&mut group).await {
                Ok(Together::Committed) => {
                    for job in group.drain(..) {
                        job.settle(Ok(()));
                    }
                }
                Ok(Together::OneFailed) => {
                    for mut job in group.drain(..) {
                        let outcome = self.commit(&mut *job).await;
                        job.settle(self.in_doubt(outcome, 1));
                    }
                }
                Err(error) => {
                    let outcome = self.in_doubt(Err(error), group.len());
                    for job in group.drain(..) {
                        job.settle(outcome.clone());
                    }
                }
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

    /// Gives up a connection that failed: what became of its transaction is not known.
    fn in_doubt(&mut self, outcome: Result<(), DbErr>, jobs: usize) -> Result<(), DbErr> {
        if let Err(error) = &outcome {
            tracing::warn!(cause = %error, jobs, "database jobs were not committed");
            self.connection = None;
        }
        outcome
    }

    /// Runs the group as one transaction, which is undone at the first job that fails.
    async fn commit_together(&mut self, group: &mut [Box<dyn Job>]) -> Result<Together, DbErr> {
        if let [job] = group {
            return self.commit(&mut **job).await.map(|()| Together::Committed);
        }
        let tx = self.begin().await?;
        for job in group {
            if job.run(&tx).await == Fate::Undo {
                tx.inner.rollback().await?;
                return Ok(Together::OneFailed);
            }
        }
        tx.inner.commit().await?;
        Ok(Together::Committed)
    }

    /// Runs one job as one transaction.
    async fn commit(&mut self, job: &mut dyn Job) -> Result<(), DbErr> {
        let tx = self.begin().await?;
        match job.run(&tx).await {
            Fate::Keep => tx.inner.commit().await,
            Fate::Undo => tx.inner.rollback().await,
        }
    }

    async fn begin(&mut self) -> Result<Transaction, DbErr> {
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
        Ok(Transaction::new(tx))
    }
}
