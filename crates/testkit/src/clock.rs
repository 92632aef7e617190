//! A clock that stands until a test moves it.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use kernel::{Clock, Timestamp};

/// A clock that stands until a test moves it. Share it in an `Arc`.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that shows this time.
    pub const fn at(time: Timestamp) -> Self {
        Self(AtomicI64::new(time.as_micros()))
    }

    /// Moves it on.
    pub fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.0.fetch_add(by, Ordering::SeqCst);
    }

    /// Sets it, back too.
    pub fn set(&self, time: Timestamp) {
        self.0.store(time.as_micros(), Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    /// 2026-11-18T11:06:40Z.
    fn default() -> Self {
        Self::at(Timestamp::from_micros(1_795_000_000_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}
