//! What a child has spent.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A stretch of this process's time on a core. Wall time would make the outcome depend on what else the machine does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    since: Duration,
}

impl Effort {
    /// A stretch that begins now.
    pub(crate) fn begin() -> Self {
        Self { since: now() }
    }

    /// What was spent since it began.
    pub(crate) fn spent(self) -> Duration {
        now().saturating_sub(self.since)
    }
}

/// Time of a core that this process has taken in all.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}
