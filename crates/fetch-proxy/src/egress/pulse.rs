//! Whether a connection still moves, seen at the client's side, through which every byte goes, and whether it is in use.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// When a client's connection was opened, and when a byte last went over it.
#[derive(Debug)]
pub(super) struct Pulse {
    born: Instant,
    /// Milliseconds from then to the last byte.
    last: AtomicU64,
    cut: OnceLock<Cut>,
    /// Tunnels and requests that have begun and not come to a good end.
    serving: AtomicUsize,
}

/// Why a connection that somebody would still use is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// Nothing moved for too long.
    Idle,
    /// It is too old.
    Lifetime,
}

impl Cut {
    /// The word in records.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Lifetime => "lifetime",
        }
    }
}

impl Pulse {
    /// A connection that was opened now.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            born: Instant::now(),
            last: AtomicU64::new(0),
            cut: OnceLock::new(),
            serving: AtomicUsize::new(0),
        })
    }

    /// A byte went over it.
    pub(super) fn beat(&self) {
        let age = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(age, Ordering::Relaxed);
    }

    /// Something begins to be served.
    pub(super) fn begin(&self) {
        self.serving.fetch_add(1, Ordering::Relaxed);
    }

    /// It came to a good end: what the client has of it is all that there is.
    pub(super) fn finish(&self) {
        self.serving.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether something was not served to its end.
    pub(super) fn is_serving(&self) -> bool {
        self.serving.load(Ordering::Relaxed) > 0
    }

    /// When the connection is so old.
    pub(super) fn grown(&self, age: Duration) -> Instant {
        self.born + age
    }

    /// Waits until nothing moved for so long.
    pub(super) async fn is_silent(&self, idle: Duration) -> Cut {
        loop {
            let silent = self.silent_after(idle);
            if Instant::now() >= silent {
                return Cut::Idle;
            }
            sleep_until(silent).await;
        }
    }

    /// Waits until nothing moved for so long, or until a time.
    pub(super) async fn stops(&self, idle: Duration, old: Instant) -> Cut {
        tokio::select! {
            cut = self.is_silent(idle) => cut,
            () = sleep_until(old) => Cut::Lifetime,
        }
    }

    fn silent_after(&self, idle: Duration) -> Instant {
        self.born + Duration::from_millis(self.last.load(Ordering::Relaxed)) + idle
    }

    /// Notes why it is ended, for those whose work is ended with it.
    pub(super) fn end(&self, cut: Cut) {
        self.cut.get_or_init(|| cut);
    }

    /// Why it was ended, if it was.
    pub(super) fn cut(&self) -> Option<Cut> {
        self.cut.get().copied()
    }
}
