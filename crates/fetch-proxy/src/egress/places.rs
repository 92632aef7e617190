//! How many tunnels and requests are served at the same time: in all, and for one NPC on behalf of one Player.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{denial::Denial, identity::Whose};

/// The places of a process.
#[derive(Debug)]
pub(super) struct Places {
    all: Arc<Semaphore>,
    each: usize,
    taken: Mutex<HashMap<Whose, usize>>,
}

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    whose: Whose,
    _one_of_all: OwnedSemaphorePermit,
}

impl Places {
    /// So many in all, and so many for each.
    pub(super) fn new(all: usize, each: usize) -> Arc<Self> {
        Arc::new(Self {
            all: Arc::new(Semaphore::new(all)),
            each,
            taken: Mutex::default(),
        })
    }

    /// A place, if there is one.
    pub(super) fn take(self: &Arc<Self>, whose: Whose) -> Result<Place, Denial> {
        let one_of_all = Arc::clone(&self.all)
            .try_acquire_owned()
            .map_err(|_full| Denial::busy())?;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(whose).or_default();
        if *count >= self.each {
            return Err(Denial::too_many());
        }
        *count += 1;
        Ok(Place {
            places: Arc::clone(self),
            whose,
            _one_of_all: one_of_all,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self
            .places
            .taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = taken.entry(self.whose) {
            if *count.get() <= 1 {
                count.remove();
            } else {
                *count.get_mut() -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kernel::{Clock, NpcId, PlayerId, SystemClock};

    use super::*;

    fn whose() -> Whose {
        let clock: &dyn Clock = &SystemClock;
        Whose {
            npc: NpcId::mint(clock),
            player: PlayerId::mint(clock),
        }
    }

    #[test]
    fn one_npc_cannot_take_the_places_of_another_nor_more_than_there_are() {
        let places = Places::new(3, 2);
        let (greedy, modest) = (whose(), whose());
        let first = places.take(greedy).expect("a place");
        let _second = places.take(greedy).expect("a place");
        assert_eq!(
            places.take(greedy).expect_err("no place").rule,
            "too-many-tunnels"
        );
        let _third = places.take(modest).expect("a place");
        assert_eq!(places.take(whose()).expect_err("no place").rule, "busy");
        drop(first);
        let _fourth = places.take(greedy).expect("a place again");
    }

    #[test]
    fn nothing_is_remembered_of_those_who_left() {
        let places = Places::new(3, 2);
        drop(places.take(whose()));
        assert!(places.taken.lock().expect("it is whole").is_empty());
        assert_eq!(places.all.available_permits(), 3);
    }
}
