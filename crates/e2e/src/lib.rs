//! The whole system, embedded and split.
