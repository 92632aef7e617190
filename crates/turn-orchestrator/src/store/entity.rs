//! Rows, private to this service.

pub(super) mod conversation;
pub(super) mod media;
pub(super) mod message;
pub(super) mod part;
pub(super) mod turn;
