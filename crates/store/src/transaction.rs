//! What a job works with.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, ExecResult, QueryResult, Statement,
};

use crate::error::is_conflict;

/// An open transaction. Every sea-orm operation runs on it (`.one(tx)`, `.exec(tx)`, …); it cannot be committed or rolled back
/// from inside, because whoever opened it decides that.
#[derive(Debug)]
pub struct Transaction {
    pub(crate) inner: DatabaseTransaction,
    conflict: AtomicBool,
}

impl Transaction {
    pub(crate) const fn new(inner: DatabaseTransaction) -> Self {
        Self {
            inner,
            conflict: AtomicBool::new(false),
        }
    }

    /// Whether a statement lost against another transaction. The job may have wrapped that error in one of its own.
    pub(crate) fn lost(&self) -> bool {
        self.conflict.load(Ordering::Relaxed)
    }

    fn note<T>(&self, result: Result<T, DbErr>) -> Result<T, DbErr> {
        if let Err(error) = &result
            && is_conflict(error)
        {
            self.conflict.store(true, Ordering::Relaxed);
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
