//! One schema for SQLite and PostgreSQL, a module per owning service.
