//! The three transports: each makes an `rmcp` transport and tells what went wrong with it in our words.

pub(crate) mod answers;
pub(crate) mod door;
mod events;
pub(crate) mod http;
pub(crate) mod inbound;
pub(crate) mod sse;
pub(crate) mod stdio;

use std::sync::{Arc, Mutex, PoisonError};

use crate::Failure;

/// What went wrong last on one connection. `rmcp` passes on little more than that a transport closed; the transport itself knows why,
/// and notes it here. Cheap to clone; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Trouble(Arc<Mutex<Option<Failure>>>);

impl Trouble {
    /// Notes a failure.
    pub fn note(&self, failure: Failure) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    }

    /// The last failure that was noted.
    pub fn last(&self) -> Option<Failure> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
