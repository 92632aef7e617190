//! What is kept of each server, and when it is new enough.

use std::{collections::HashMap, sync::Arc};

use kernel::{McpServerId, PlayerId};
use tokio::time::Instant;

use super::Work;
use crate::peers::Server;

/// Servers that are known at the same time.
pub(super) const MAX_SERVERS: usize = 4_096;

#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) by_id: HashMap<McpServerId, Entry>,
    pub(super) attempts: u64,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) known: Option<Known>,
    /// The last announcement: which generation it named, and when it came.
    pub(super) announced: Option<(u64, Instant)>,
    /// When announcements may have been lost.
    pub(super) doubted: Option<Instant>,
    pub(super) work: Option<Working>,
    /// For whom there is no such server, and until when that is believed.
    pub(super) hidden: Vec<(Option<PlayerId>, Instant)>,
    pub(super) used: Instant,
}

#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) server: Arc<Server>,
    /// When the registry was asked for it.
    pub(super) at: Instant,
}

#[derive(Debug)]
pub(super) struct Working {
    pub(super) asker: Option<PlayerId>,
    pub(super) attempt: u64,
    pub(super) work: Work,
}

impl Entries {
    /// Makes sure that one more server has room: the one that was not wanted for the longest time makes way.
    pub(super) fn make_room(&mut self, id: McpServerId) {
        if self.by_id.len() < MAX_SERVERS || self.by_id.contains_key(&id) {
            return;
        }
        let unwanted = self
            .by_id
            .iter()
            .filter(|(_, entry)| entry.running().is_none())
            .min_by_key(|(_, entry)| entry.used)
            .map(|(id, _)| *id);
        if let Some(unwanted) = unwanted {
            self.by_id.remove(&unwanted);
        }
    }
}

impl Entry {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            known: None,
            announced: None,
            doubted: None,
            work: None,
            hidden: Vec::new(),
            used: now,
        }
    }

    /// Whether it is at least what was announced last, or was asked for since.
    pub(super) fn is_as_announced(&self, known: &Known) -> bool {
        self.announced.is_none_or(|(generation, at)| {
            known.server.target.generation >= generation || known.at > at
        })
    }

    pub(super) fn is_current(&self, known: &Known) -> bool {
        self.is_as_announced(known) && self.doubted.is_none_or(|at| known.at > at)
    }

    /// The question that is being asked. One from before an announcement may bring what was before it, and is then asked again.
    pub(super) fn running(&self) -> Option<&Working> {
        self.work
            .as_ref()
            .filter(|working| working.work.peek().is_none())
    }
}
