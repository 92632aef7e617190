//! What a job works with.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, ExecResult, QueryResult, Statement,
};

/// An open transaction. Every sea-orm operation runs on it (`.one(tx)`, `.exec(tx)`, …); it cannot be committed or rolled back
/// from inside, because whoever opened it decides that.
#[derive(Debug)]
pub struct Transaction {
    pub(crate) inner: DatabaseTransaction,
    failure: Mutex<Option<DbErr>>,
}

impl Transaction {
    pub(crate) const fn new(inner: DatabaseTransaction) -> Self {
        Self {
            inner,
            failure: Mutex::new(None),
        }
    }

    /// The first statement that failed since this was last asked. The job may have wrapped that error in one of its own, or have gone
    /// on as if nothing had been: PostgreSQL undoes such a transaction, and answers its COMMIT as if it had not.
    pub(crate) fn take_failure(&self) -> Option<DbErr> {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    fn note<T>(&self, result: Result<T, DbErr>) -> Result<T, DbErr> {
        if let Err(error) = &result {
            self.failure
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert_with(|| error.clone());
        }
        result
    }
}

#[async_trait]
impl ConnectionTrait for Transaction {
    fn get_database_backend(&self) -> DbBackend {
        self.inner.get_database_backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.note(self.inner.execute_raw(statement).await)
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.note(self.inner.execute_unprepared(sql).await)
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.note(self.inner.query_one_raw(statement).await)
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.note(self.inner.query_all_raw(statement).await)
    }
}
