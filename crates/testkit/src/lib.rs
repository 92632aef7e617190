//! Scripted peers and per-test databases.
