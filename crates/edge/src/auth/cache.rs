//! Tokens that were good a moment ago.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kernel::Timestamp;

use super::{Authenticated, FRESH, TokenHash};

/// Tokens that are remembered.
const TOKENS: usize = 4_096;
/// For how long a token that was good may still try from an address that failed too often.
const GOOD: Duration = Duration::from_mins(10);

/// Only good answers are kept: a token that was just made must work at once.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<HashMap<TokenHash, Entry>>);

#[derive(Debug)]
struct Entry {
    found: Authenticated,
    at: Timestamp,
}

impl Cache {
    /// Whose token it was, within [`FRESH`].
    pub(super) fn fresh(&self, hash: &TokenHash, now: Timestamp) -> Option<Authenticated> {
        self.lock()
            .get(hash)
            .filter(|entry| now.since(entry.at) < FRESH)
            .map(|entry| entry.found.clone())
    }

    /// Whether it was good within [`GOOD`].
    pub(super) fn was_good(&self, hash: &TokenHash, now: Timestamp) -> bool {
        self.lock()
            .get(hash)
            .is_some_and(|entry| now.since(entry.at) < GOOD)
    }

    pub(super) fn keep(&self, hash: TokenHash, found: Authenticated, now: Timestamp) {
        let mut entries = self.lock();
        if entries.len() >= TOKENS && !entries.contains_key(&hash) {
            entries.retain(|_hash, entry| now.since(entry.at) < FRESH);
            if entries.len() >= TOKENS {
                entries.clear();
            }
        }
        entries.insert(hash, Entry { found, at: now });
    }

    pub(super) fn forget(&self, hash: &TokenHash) {
        self.lock().remove(hash);
    }

    pub(super) fn forget_player(&self, player: &str) {
        self.lock()
            .retain(|_hash, entry| entry.found.player.id != player);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TokenHash, Entry>> {
        // Entries are inserted and removed whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kernel::{Caller, PlayerId, SystemClock};
    use proto::registry::v1::Player;

    use super::*;

    fn somebody() -> Authenticated {
        let id = PlayerId::mint(&SystemClock);
        Authenticated {
            caller: Caller::Player(id),
            player: Arc::new(Player {
                id: id.to_string(),
                ..Player::default()
            }),
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn an_answer_is_believed_for_five_seconds_and_remembered_for_ten_minutes() {
        let cache = Cache::default();
        cache.keep([1; 32], somebody(), at(100));
        assert!(cache.fresh(&[1; 32], at(104)).is_some());
        assert!(cache.fresh(&[1; 32], at(105)).is_none());
        assert!(cache.was_good(&[1; 32], at(699)));
        assert!(!cache.was_good(&[1; 32], at(700)));
        assert!(cache.fresh(&[2; 32], at(100)).is_none());
    }

    #[test]
    fn a_revoked_player_is_forgotten_at_once() {
        let cache = Cache::default();
        let (one, other) = (somebody(), somebody());
        cache.keep([1; 32], one.clone(), at(100));
        cache.keep([2; 32], other, at(100));
        cache.forget_player(&one.player.id);
        assert!(cache.fresh(&[1; 32], at(100)).is_none());
        assert!(cache.fresh(&[2; 32], at(100)).is_some());
    }

    #[test]
    fn a_flood_of_tokens_does_not_grow_it() {
        let cache = Cache::default();
        let found = somebody();
        for index in 0_u32..10_000 {
            let mut hash = [0; 32];
            hash[..4].copy_from_slice(&index.to_be_bytes());
            cache.keep(hash, found.clone(), at(100));
        }
        assert!(cache.lock().len() <= TOKENS);
    }
}
