//! HTTP for web clients.
