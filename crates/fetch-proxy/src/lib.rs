//! Guarded outbound fetch.
