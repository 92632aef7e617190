//! Words shared by all: ids, caller, error codes, secrets, clock, limits.
