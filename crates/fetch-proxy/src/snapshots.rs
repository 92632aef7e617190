//! Texts of pages, kept for a moment so that their next pieces are of the same page.
//!
//! **Architecture invariant:** a snapshot is seen by the NPC that fetched it, for the Player whom it fetched it for, and by nobody
//! else, not even as a difference in time.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kernel::{Clock, Timestamp};
use url::Url;

use crate::{admission::Owner, fetch::Snapshot};

/// Snapshots of one owner.
const PER_OWNER: usize = 16;
/// One owner's part of the bytes: one in this many.
const OWNERS: usize = 4;

#[derive(Debug)]
pub(crate) struct Snapshots {
    shelves: Mutex<Shelves>,
    life: Duration,
    bytes: usize,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct Shelves {
    /// Each owner's, the oldest first.
    by_owner: HashMap<Owner, Vec<Kept>>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    snapshot: Arc<Snapshot>,
    bytes: usize,
    until: Timestamp,
}

impl Snapshots {
    pub(crate) fn new(life: Duration, bytes: usize, clock: Arc<dyn Clock>) -> Self {
        Self {
            shelves: Mutex::default(),
            life,
            bytes,
            clock,
        }
    }

    /// The owner's snapshot of what this URL was asked for last, or of a page that it turned out to be the URL of.
    pub(crate) fn find(&self, owner: Owner, url: &Url) -> Option<Arc<Snapshot>> {
        let now = self.clock.now();
        let shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let own = shelves.by_owner.get(&owner)?;
        own.iter()
            .rev()
            .find(|kept| now < kept.until && is_of(&kept.snapshot, url))
            .map(|kept| Arc::clone(&kept.snapshot))
    }

    /// Forgets the owner's snapshots that [`Self::find`] would find: what comes next is another page.
    pub(crate) fn forget(&self, owner: Owner, url: &Url) {
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        shelves.drop_where(owner, |kept| is_of(&kept.snapshot, url));
    }

    /// Keeps a snapshot in place of an earlier one, if it fits at all. What goes for it is the owner's own, and after that what
    /// is of whoever has most.
    pub(crate) fn keep(&self, owner: Owner, snapshot: Arc<Snapshot>) {
        let bytes = snapshot.bytes();
        let share = self.bytes / OWNERS;
        let now = self.clock.now();
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        shelves.drop_old(now);
        shelves.drop_where(owner, |kept| is_of(&kept.snapshot, &snapshot.asked));
        if self.life.is_zero() || bytes > share {
            return;
        }
        while shelves.count_of(owner) >= PER_OWNER || shelves.bytes_of(owner) + bytes > share {
            shelves.drop_oldest(owner);
        }
        while shelves.bytes + bytes > self.bytes {
            let Some(richest) = shelves.richest() else {
                break;
            };
            shelves.drop_oldest(richest);
        }
        shelves.bytes += bytes;
        shelves.by_owner.entry(owner).or_default().push(Kept {
            snapshot,
            bytes,
            until: now.plus(self.life),
        });
    }
}

impl Shelves {
    fn count_of(&self, owner: Owner) -> usize {
        self.by_owner.get(&owner).map_or(0, Vec::len)
    }

    fn bytes_of(&self, owner: Owner) -> usize {
        self.by_owner
            .get(&owner)
            .map_or(0, |own| own.iter().map(|kept| kept.bytes).sum())
    }

    fn richest(&self) -> Option<Owner> {
        let owners = self.by_owner.keys().copied();
        owners.max_by_key(|&owner| self.bytes_of(owner))
    }

    fn drop_oldest(&mut self, owner: Owner) {
        let mut is_first = true;
        self.drop_where(owner, |_| std::mem::take(&mut is_first));
    }

    fn drop_where(&mut self, owner: Owner, mut is_over: impl FnMut(&Kept) -> bool) {
        let Some(own) = self.by_owner.get_mut(&owner) else {
            return;
        };
        let before: usize = own.iter().map(|kept| kept.bytes).sum();
        own.retain(|kept| !is_over(kept));
        let after: usize = own.iter().map(|kept| kept.bytes).sum();
        if own.is_empty() {
            self.by_owner.remove(&owner);
        }
        self.bytes -= before - after;
    }

    fn drop_old(&mut self, now: Timestamp) {
        let mut bytes = 0;
        self.by_owner.retain(|_, own| {
            own.retain(|kept| now < kept.until);
            bytes += own.iter().map(|kept| kept.bytes).sum::<usize>();
            !own.is_empty()
        });
        self.bytes = bytes;
    }
}

/// Whether a continuation of this URL would be of that page.
fn is_of(snapshot: &Snapshot, url: &Url) -> bool {
    is_same_page(&snapshot.asked, url) || is_same_page(&snapshot.url, url)
}

/// Two URLs that are sent as the same request.
fn is_same_page(one: &Url, other: &Url) -> bool {
    let sent = |url: &Url| url.as_str().len() - url.fragment().map_or(0, |part| part.len() + 1);
    one.as_str()[..sent(one)] == other.as_str()[..sent(other)]
}

#[cfg(test)]
mod tests;
