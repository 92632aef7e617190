//! What a job works with.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, ExecResult, QueryResult, Statement,
};

/// Statements that begin or end transactions, on either database.
const CONTROL: [&str; 7] = [
    "BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "PREPARE",
];

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

    /// Runs statements in order and counts the rows that they changed together. On SQLite this is one trip to the thread that
    /// holds the connection, however many they are; elsewhere, one trip for each.
    pub async fn execute_together(&self, statements: Vec<Statement>) -> Result<u64, DbErr> {
        if self.get_database_backend() == DbBackend::Sqlite {
            let Some(joined) = join(statements) else {
                return Ok(0);
            };
            return Ok(self.execute_raw(joined).await?.rows_affected());
        }
        let mut changed = 0;
        for statement in statements {
            changed += self.execute_raw(statement).await?.rows_affected();
        }
        Ok(changed)
    }

    /// A job does not end its own transaction: what other jobs did would be committed or undone with it.
    fn refuse_control(sql: &str) -> Result<(), DbErr> {
        let word = sql
            .trim_start()
            .split(|c: char| !c.is_ascii_alphabetic())
            .next();
        let word = word.unwrap_or_default();
        if CONTROL
            .iter()
            .any(|control| control.eq_ignore_ascii_case(word))
        {
            return Err(DbErr::Custom(format!(
                "a job may not run {word}: whoever opened its transaction ends it"
            )));
        }
        Ok(())
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

/// One text of several statements. SQLite's driver gives each its share of the values, in order.
fn join(statements: Vec<Statement>) -> Option<Statement> {
    statements.into_iter().reduce(|mut joined, next| {
        joined.sql.push(';');
        joined.sql.push_str(&next.sql);
        joined.values = match (joined.values, next.values) {
            (Some(mut first), Some(second)) => {
                first.0.extend(second.0);
                Some(first)
            }
            (first, second) => first.or(second),
        };
        joined
    })
}

#[async_trait]
impl ConnectionTrait for Transaction {
    fn get_database_backend(&self) -> DbBackend {
        self.inner.get_database_backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.note(Self::refuse_control(&statement.sql))?;
        self.note(self.inner.execute_raw(statement).await)
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.note(Self::refuse_control(sql))?;
        self.note(self.inner.execute_unprepared(sql).await)
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.note(Self::refuse_control(&statement.sql))?;
        self.note(self.inner.query_one_raw(statement).await)
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.note(Self::refuse_control(&statement.sql))?;
        self.note(self.inner.query_all_raw(statement).await)
    }
}
