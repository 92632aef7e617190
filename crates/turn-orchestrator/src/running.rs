//! The turns that run in this process, and how they are stopped.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use kernel::{PlayerId, TurnId};
use tokio_util::sync::CancellationToken;

/// Why a turn is stopped from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Somebody aborted it.
    Aborted,
    /// The process ends.
    Shutdown,
}

/// A turn of this process, for those that want to stop it.
#[derive(Debug, Default)]
pub(crate) struct Handle {
    stop: CancellationToken,
    why: OnceLock<Stop>,
    ended: CancellationToken,
}

impl Handle {
    /// Stops the turn. The first reason counts.
    pub(crate) fn stop(&self, why: Stop) {
        let _first = self.why.get_or_init(|| why);
        self.stop.cancel();
    }

    /// Waits until somebody stops the turn.
    pub(crate) async fn stopped(&self) -> Stop {
        self.stop.cancelled().await;
        self.why.get().copied().unwrap_or(Stop::Aborted)
    }

    /// Why the turn was stopped, if it was.
    pub(crate) fn why(&self) -> Option<Stop> {
        self.why.get().copied()
    }

    /// Cancelled when the turn is stopped.
    pub(crate) const fn token(&self) -> &CancellationToken {
        &self.stop
    }

    /// Waits until the turn has ended.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

/// The turns of this process.
#[derive(Debug, Default)]
pub(crate) struct Running {
    turns: Mutex<HashMap<TurnId, Arc<Handle>>>,
    /// How many places each Player has taken.
    places: Mutex<HashMap<PlayerId, u32>>,
}

impl Running {
    /// A place for one more turn of this Player, of so many; `None` when all are taken.
    pub(crate) fn place(self: &Arc<Self>, player: PlayerId, places: u32) -> Option<Place> {
        let mut taken = self.places();
        let mine = taken.entry(player).or_default();
        if *mine >= places {
            return None;
        }
        *mine += 1;
        Some(Place {
            running: Arc::clone(self),
            player,
        })
    }

    /// Adds a turn; it is one of them, and keeps its place, until the guard is dropped.
    pub(crate) fn add(self: &Arc<Self>, turn: TurnId, place: Place) -> Guard {
        let handle = Arc::new(Handle::default());
        self.turns().insert(turn, Arc::clone(&handle));
        Guard {
            running: Arc::clone(self),
            turn,
            handle,
            _place: place,
        }
    }

    /// The turn, if it runs here.
    pub(crate) fn get(&self, turn: TurnId) -> Option<Arc<Handle>> {
        self.turns().get(&turn).cloned()
    }

    /// All of them.
    pub(crate) fn ids(&self) -> Vec<TurnId> {
        self.turns().keys().copied().collect()
    }

    fn turns(&self) -> MutexGuard<'_, HashMap<TurnId, Arc<Handle>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn places(&self) -> MutexGuard<'_, HashMap<PlayerId, u32>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A Player's place for one turn. It is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    running: Arc<Running>,
    player: PlayerId,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.running.places();
        if let Some(mine) = taken.get_mut(&self.player) {
            *mine -= 1;
            if *mine == 0 {
                taken.remove(&self.player);
            }
        }
    }
}

/// A turn's place among the running ones.
#[derive(Debug)]
pub(crate) struct Guard {
    running: Arc<Running>,
    turn: TurnId,
    handle: Arc<Handle>,
    _place: Place,
}

impl Guard {
    /// The turn's handle.
    pub(crate) const fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.running.turns().remove(&self.turn);
        self.handle.ended.cancel();
    }
}
