//! Sessions: what a server keeps of one client, and when it forgets it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::Value;
use tokio::sync::mpsc;

use super::{HttpFault, State, lock, streams::Piece};
use crate::mcp::script::{Conversation, Script};

/// One client's session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) conversation: Arc<Conversation>,
    posts: AtomicUsize,
    /// The stream that is open, if one is.
    pub(super) outlet: Mutex<Option<mpsc::UnboundedSender<Piece>>>,
    /// What a later GET is to bring.
    pub(super) kept: Mutex<HashMap<String, Value>>,
}

impl Session {
    pub(super) fn new(script: &Arc<Script>) -> Self {
        Self {
            conversation: Arc::new(script.conversation()),
            posts: AtomicUsize::default(),
            outlet: Mutex::default(),
            kept: Mutex::default(),
        }
    }

    pub(super) fn say(&self, piece: Piece) {
        if let Some(outlet) = lock(&self.outlet).as_ref() {
            // A stream that is gone hears nothing.
            outlet.send(piece).ok();
        }
    }
}

impl State {
    /// The session of this id, or how to say that there is none.
    pub(super) fn session(&self, id: &str) -> (Option<Arc<Session>>, Option<(u16, String)>) {
        let expires = self.fault(|fault| match fault {
            HttpFault::SessionExpiresEvery {
                posts,
                status,
                body,
            } => Some((posts, status, body)),
            _ => None,
        });
        let mut sessions = lock(&self.sessions);
        let session = sessions.get(id).cloned();
        let Some((most, status, body)) = expires else {
            return (session, None);
        };
        let is_expired = session
            .as_ref()
            .is_none_or(|session| session.posts.fetch_add(1, Ordering::SeqCst) >= most);
        if is_expired {
            sessions.remove(id);
            return (None, Some((status, body)));
        }
        (session, None)
    }
}
