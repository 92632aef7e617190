//! How often something may happen.

use std::{collections::HashMap, hash::Hash, sync::Mutex, time::Duration};

use kernel::Timestamp;

/// Keys that are remembered. When there are more, those that are idle are forgotten, and then whatever owes least.
const KEYS: usize = 16_384;
const MINUTE: i64 = 60_000_000;

/// So many times a minute for each key, all at once or spread (the generic cell rate algorithm: one number a key).
#[derive(Debug)]
pub(crate) struct Limiter<K> {
    interval: i64,
    due: Mutex<HashMap<K, i64>>,
}

impl<K: Hash + Eq + Clone> Limiter<K> {
    /// At least once a minute.
    pub(crate) fn per_minute(times: u32) -> Self {
        Self {
            interval: MINUTE / i64::from(times.max(1)),
            due: Mutex::default(),
        }
    }

    /// How long the key must wait; nothing when it need not.
    pub(crate) fn wait(&self, key: &K, now: Timestamp) -> Option<Duration> {
        let due = self.lock();
        let due = due.get(key).copied().unwrap_or(0).max(now.as_micros());
        self.over(due, now)
    }

    /// Counts one time, unless the key must wait.
    pub(crate) fn take(&self, key: &K, now: Timestamp) -> Result<(), Duration> {
        let mut dues = self.lock();
        let due = dues.get(key).copied().unwrap_or(0).max(now.as_micros());
        if let Some(wait) = self.over(due, now) {
            return Err(wait);
        }
        if dues.len() >= KEYS && !dues.contains_key(key) {
            forget(&mut dues, now);
        }
        dues.insert(key.clone(), due + self.interval);
        Ok(())
    }

    fn over(&self, due: i64, now: Timestamp) -> Option<Duration> {
        let ahead = due + self.interval - MINUTE - now.as_micros();
        u64::try_from(ahead)
            .ok()
            .filter(|&micros| micros > 0)
            .map(Duration::from_micros)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<K, i64>> {
        // A panic between lock and unlock leaves numbers, which are right or a little low.
        self.due
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn forget<K: Hash + Eq + Clone>(dues: &mut HashMap<K, i64>, now: Timestamp) {
    dues.retain(|_key, due| *due > now.as_micros());
    if dues.len() < KEYS {
        return;
    }
    let mut owed: Vec<i64> = dues.values().copied().collect();
    let (_, middle, _) = owed.select_nth_unstable(KEYS / 2);
    let middle = *middle;
    dues.retain(|_key, due| *due > middle);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn so_many_a_minute_and_then_one_by_one() {
        let limiter = Limiter::per_minute(6);
        for _ in 0..6 {
            assert_eq!(limiter.take(&"a", at(1_000)), Ok(()));
        }
        assert_eq!(limiter.take(&"a", at(1_000)), Err(Duration::from_secs(10)));
        assert_eq!(limiter.wait(&"a", at(1_004)), Some(Duration::from_secs(6)));
        assert_eq!(limiter.take(&"b", at(1_000)), Ok(()));
        assert_eq!(limiter.take(&"a", at(1_010)), Ok(()));
        assert!(limiter.take(&"a", at(1_010)).is_err());
        assert_eq!(limiter.wait(&"a", at(2_000)), None);
    }

    #[test]
    fn a_flood_of_keys_is_forgotten_without_letting_the_worst_off() {
        let limiter = Limiter::per_minute(2);
        for _ in 0..2 {
            assert_eq!(limiter.take(&0, at(1)), Ok(()));
        }
        for key in 1..100_000 {
            assert_eq!(limiter.take(&key, at(1)), Ok(()));
        }
        assert!(limiter.lock().len() <= KEYS);
        assert!(limiter.take(&0, at(1)).is_err());
    }
}
