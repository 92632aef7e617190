//! How many streams one Player holds open.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kernel::PlayerId;

use crate::{auth::Authenticated, problem::Problem};

/// When to try again: streams end when their turns do.
const RETRY: Duration = Duration::from_secs(5);

/// Counts open streams. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct StreamCount {
    most: usize,
    open: Arc<Mutex<HashMap<PlayerId, usize>>>,
}

/// One open stream, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    count: StreamCount,
    player: PlayerId,
}

impl StreamCount {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            open: Arc::default(),
        }
    }

    /// Takes a place for one more stream. `None` for a caller that is no Player, which the edge does not let in.
    pub(super) fn take(&self, who: &Authenticated) -> Result<Option<Place>, Problem> {
        let Some(player) = who.player_id() else {
            return Ok(None);
        };
        let mut open = self.lock();
        let count = open.entry(player).or_default();
        if *count >= self.most {
            return Err(Problem::too_many(
                format!(
                    "{} streams are open with this token, which is the most; close one, or wait for a turn to end",
                    self.most
                ),
                RETRY,
            ));
        }
        *count += 1;
        Ok(Some(Place {
            count: self.clone(),
            player,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PlayerId, usize>> {
        // Counts are changed in one step.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.count.lock();
        if let Some(count) = open.get_mut(&self.player) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.player);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kernel::{Caller, SystemClock};

    use super::*;

    fn somebody() -> Authenticated {
        Authenticated {
            caller: Caller::Player(PlayerId::mint(&SystemClock)),
            player: Arc::default(),
        }
    }

    #[test]
    fn places_are_counted_for_each_player_and_given_back() {
        let count = StreamCount::new(2);
        let (one, other) = (somebody(), somebody());
        let first = count.take(&one).unwrap();
        let _second = count.take(&one).unwrap();
        assert!(count.take(&one).is_err());
        assert!(count.take(&other).is_ok());
        drop(first);
        assert!(count.take(&one).is_ok());
        drop(count.take(&other));
        assert!(!count.lock().contains_key(&other.player_id().unwrap()));
    }
}
