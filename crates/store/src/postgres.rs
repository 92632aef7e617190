//! PostgreSQL: a pool, and one transaction per job.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use kernel::Secret;
use sea_orm::{ConnectOptions, Database, DatabaseConnection, TransactionTrait as _};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    CLOSE_TIME, Error, Transaction, WAIT_TIME,
    error::{Cause, is_conflict},
};

/// How often a job is tried when it loses against other transactions.
const ATTEMPTS: u32 = 3;
/// What is waited before the next attempt, times its number: the winner needs only to commit.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// How long a job that failed waits for its rollback: the statement that it was given up in may run on at the server.
const ROLLBACK_TIME: Duration = Duration::from_secs(1);

pub(crate) async fn open(
    url: &Secret,
    connections: u32,
    tracker: &TaskTracker,
    ended: CancellationToken,
) -> Result<DatabaseConnection, Error> {
    let scheme = url.expose().split("://").next().unwrap_or_default();
    if !matches!(scheme, "postgres" | "postgresql") {
        return Err(Error::Address);
    }
    let mut options = ConnectOptions::new(url.expose());
    options
        .max_connections(connections.max(2))
        .connect_timeout(WAIT_TIME)
        .acquire_timeout(WAIT_TIME)
        .set_application_name("agentsville")
        .sqlx_logging(false);
    let pool = Database::connect(options)
        .await
        .map_err(|error| Error::Open {
            database: "PostgreSQL".to_owned(),
            cause: Cause::from(error),
        })?;
    let closing = pool.clone();
    tracker.spawn(async move {
        ended.cancelled().await;
        if tokio::time::timeout(CLOSE_TIME, closing.close_by_ref())
            .await
            .is_err()
        {
            tracing::warn!("connections to PostgreSQL were still in use at the end");
        }
    });
    Ok(pool)
}

pub(crate) async fn write<T, E, F>(
    pool: &DatabaseConnection,
    limit: Duration,
    job: F,
) -> Result<T, E>
where
    F: for<'t> FnOnce(&'t Transaction) -> BoxFuture<'t, Result<T, E>> + Clone + Send + 'static,
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    let mut attempt = 1;
    loop {
        let tx = Transaction::new(pool.begin().await.map_err(Error::from)?);
        let run = async { tokio::time::timeout(limit, job.clone()(&tx)).await };
        let result = match AssertUnwindSafe(run).catch_unwind().await {
            Ok(Ok(result)) => result,
            Ok(Err(_elapsed)) => Err(Error::TooSlow(limit).into()),
            Err(_panic) => Err(Error::Panicked.into()),
        };
        let failure = tx.take_failure();
        let lost = failure.as_ref().is_some_and(is_conflict);
        let result = match (result, failure) {
            (Ok(_), Some(failure)) => Err(Error::from(failure).into()),
            (result, _) => result,
        };
        let lost = match result {
            Ok(value) => match tx.inner.commit().await {
                Ok(()) => return Ok(value),
                Err(error) if is_conflict(&error) => E::from(Error::Conflict),
                Err(error) => return Err(Error::from(error).into()),
            },
            Err(error) => {
                // A connection that fails here is thrown away by the pool, and the transaction with it; one that is still
                // busy goes back to the pool once its statement ended and was undone.
                match tokio::time::timeout(ROLLBACK_TIME, tx.inner.rollback()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(failure)) => {
                        tracing::debug!(cause = %failure, "a rollback was not answered");
                    }
                    Err(_elapsed) => tracing::debug!("a rollback waits for its statement"),
                }
                if !lost {
                    return Err(error);
                }
                error
            }
        };
        if attempt == ATTEMPTS {
            return Err(lost);
        }
        tokio::time::sleep(RETRY_PAUSE * attempt).await;
        attempt += 1;
    }
}
