//! The database: pool, transactions, one writer, migration runner.
