//! Answers of DNS that are still good.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kernel::{Clock, Timestamp};

/// How long an answer may be kept, whatever it says: an address that was public an hour ago may be ours now.
pub(super) const MAX_TTL: Duration = Duration::from_mins(1);
/// Names that are kept.
const NAMES: usize = 1_024;

/// Names with their addresses, for as long as DNS allows and no longer than [`MAX_TTL`]. The addresses are judged again each time.
#[derive(Debug)]
pub(super) struct Memory {
    clock: Arc<dyn Clock>,
    names: Mutex<HashMap<String, Known>>,
}

#[derive(Debug)]
struct Known {
    addresses: Vec<IpAddr>,
    until: Timestamp,
}

impl Known {
    /// A clock that was set back must not keep it alive.
    fn is_good(&self, now: Timestamp) -> bool {
        now < self.until && self.until.since(now) <= MAX_TTL
    }
}

impl Memory {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            names: Mutex::default(),
        }
    }

    pub(super) fn recall(&self, name: &str) -> Option<Vec<IpAddr>> {
        let now = self.clock.now();
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names
            .get(name)
            .filter(|known| known.is_good(now))
            .map(|known| known.addresses.clone())
    }

    pub(super) fn keep(&self, name: &str, addresses: &[IpAddr], ttl: Duration) {
        if ttl.is_zero() {
            return;
        }
        let now = self.clock.now();
        let known = Known {
            addresses: addresses.to_vec(),
            until: now.plus(ttl.min(MAX_TTL)),
        };
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= NAMES {
            names.retain(|_name, known| known.is_good(now));
        }
        // A flood of names that are all good: to ask again costs little.
        if names.len() >= NAMES {
            names.clear();
        }
        names.insert(name.to_owned(), known);
    }
}

#[cfg(test)]
mod tests {
    use testkit::clock::ManualClock;

    use super::*;

    fn memory() -> (Arc<ManualClock>, Memory) {
        let clock = Arc::new(ManualClock::default());
        let memory = Memory::new(Arc::clone(&clock) as Arc<dyn Clock>);
        (clock, memory)
    }

    fn address() -> [IpAddr; 1] {
        [IpAddr::from([93, 184, 216, 34])]
    }

    #[test]
    fn an_answer_is_kept_for_its_time_and_a_huge_time_is_a_minute() {
        for (ttl, kept) in [(5, 5), (60, 60), (4_294_967_295, 60)] {
            let (clock, memory) = memory();
            memory.keep("a.test", &address(), Duration::from_secs(ttl));
            clock.advance(Duration::from_micros(kept * 1_000_000 - 1));
            assert_eq!(memory.recall("a.test"), Some(address().to_vec()), "{ttl}");
            clock.advance(Duration::from_micros(1));
            assert_eq!(memory.recall("a.test"), None, "{ttl}");
        }
    }

    #[test]
    fn an_answer_without_time_is_not_kept() {
        let (_clock, memory) = memory();
        memory.keep("a.test", &address(), Duration::ZERO);
        assert_eq!(memory.recall("a.test"), None);
    }

    #[test]
    fn a_clock_that_is_set_back_keeps_no_answer_alive() {
        let (clock, memory) = memory();
        memory.keep("a.test", &address(), MAX_TTL);
        clock.set(Timestamp::from_micros(0));
        assert_eq!(memory.recall("a.test"), None);
    }

    #[test]
    fn a_flood_of_names_is_kept_within_bounds() {
        let (clock, memory) = memory();
        for n in 0..3 * NAMES {
            memory.keep(&format!("{n}.test"), &address(), MAX_TTL);
            clock.advance(Duration::from_micros(1));
        }
        let kept = memory.names.lock().expect("no panic").len();
        assert!(kept <= NAMES, "{kept}");
        let last = format!("{}.test", 3 * NAMES - 1);
        assert_eq!(memory.recall(&last), Some(address().to_vec()));
    }
}
