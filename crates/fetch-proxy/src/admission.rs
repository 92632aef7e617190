//! Whose turn it is to fetch: bounds on what runs at the same time, and on what waits.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use kernel::{NpcId, PlayerId};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use crate::Config;

/// For whom a page is fetched: nothing of one is ever shown to, or paid for by, another.
pub(crate) type Owner = (NpcId, PlayerId);

/// Fetches that wait for one host, for each that may run there: what waits there holds a place.
const WAITING_PER_PLACE: usize = 4;
/// One owner's part of the queue: one in this many.
const OWNERS: usize = 8;
/// Keys that are remembered before those that nobody uses are forgotten.
const KEYS: usize = 1_024;

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// Too many wait already.
    QueueIsFull,
    /// It did not come to this one's turn in time.
    TooLate,
}

/// Gives out places.
#[derive(Debug)]
pub(crate) struct Admission {
    everyone: Arc<Lane>,
    owners: Lanes<Owner>,
    hosts: Lanes<String>,
    at_once_per_npc: usize,
    at_once_per_host: usize,
    queue: usize,
}

/// A place among the fetches that run. Dropping it makes room.
#[derive(Debug)]
pub(crate) struct Place {
    _of_owner: Held,
    _of_everyone: Held,
}

/// A place among the fetches that are at one host.
#[derive(Debug)]
pub(crate) struct HostPlace {
    _of_host: Held,
}

/// A permit, and the lane that it is of, which others find as long as somebody is in it.
#[derive(Debug)]
struct Held {
    _permit: OwnedSemaphorePermit,
    _lane: Arc<Lane>,
}

#[derive(Debug)]
struct Lane {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct Lanes<K>(Mutex<HashMap<K, Weak<Lane>>>);

/// Counts one that waits, until it is dropped.
struct Waiting<'l>(&'l AtomicUsize);

impl Admission {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            everyone: Arc::new(Lane::new(config.at_once)),
            owners: Lanes::default(),
            hosts: Lanes::default(),
            at_once_per_npc: config.at_once_per_npc,
            at_once_per_host: config.at_once_per_host,
            queue: config.queue,
        }
    }

    /// A place for a fetch. An owner's own come one after another, so that nobody's crowd stands before another's only fetch.
    pub(crate) async fn enter(&self, owner: Owner, deadline: Instant) -> Result<Place, NoPlace> {
        let lane = self.owners.lane(owner, self.at_once_per_npc);
        let share = self.queue.div_ceil(OWNERS);
        let of_owner = lane.enter(share, deadline).await?;
        let of_everyone = self.everyone.enter(self.queue, deadline).await?;
        Ok(Place {
            _of_owner: of_owner,
            _of_everyone: of_everyone,
        })
    }

    /// A place at a host, for a fetch that has one already.
    pub(crate) async fn enter_host(
        &self,
        host: &str,
        deadline: Instant,
    ) -> Result<HostPlace, NoPlace> {
        let lane = self.hosts.lane(host.to_owned(), self.at_once_per_host);
        let most = self.at_once_per_host * WAITING_PER_PLACE;
        Ok(HostPlace {
            _of_host: lane.enter(most, deadline).await?,
        })
    }
}

impl Lane {
    fn new(places: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(places)),
            waiting: AtomicUsize::new(0),
        }
    }

    async fn enter(
        self: &Arc<Self>,
        most_waiting: usize,
        deadline: Instant,
    ) -> Result<Held, NoPlace> {
        let held = |permit| Held {
            _permit: permit,
            _lane: Arc::clone(self),
        };
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(held(permit));
        }
        let _waiting = Waiting::begin(&self.waiting, most_waiting).ok_or(NoPlace::QueueIsFull)?;
        match timeout_at(deadline, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(held(permit)),
            // Nobody closes it.
            Ok(Err(_closed)) => Err(NoPlace::QueueIsFull),
            Err(_elapsed) => Err(NoPlace::TooLate),
        }
    }
}

impl<'l> Waiting<'l> {
    fn begin(count: &'l AtomicUsize, most: usize) -> Option<Self> {
        let one = Self(count);
        let before = count.fetch_add(1, Ordering::Relaxed);
        (before < most).then_some(one)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<K> Default for Lanes<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> Lanes<K> {
    fn lane(&self, key: K, places: usize) -> Arc<Lane> {
        let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get(&key).and_then(Weak::upgrade) {
            return lane;
        }
        if lanes.len() >= KEYS {
            lanes.retain(|_, lane| lane.strong_count() > 0);
        }
        let lane = Arc::new(Lane::new(places));
        lanes.insert(key, Arc::downgrade(&lane));
        lane
    }
}

#[cfg(test)]
mod tests;
