//! Remembers that a server does not answer.
//!
//! A server that refuses connections costs nothing; one behind a broken network costs every command its whole deadline. So one
//! command at a time finds out whether it is back, after pauses that grow, and the others fail at once.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{COMMAND_TIME, FIRST_PAUSE, LONGEST_PAUSE};

#[derive(Debug, Default)]
pub(super) struct Breaker(Mutex<Option<Away>>);

#[derive(Debug, Clone, Copy)]
struct Away {
    /// Nobody tries before.
    until: Instant,
    /// How long the next pause is.
    pause: Duration,
    /// Whether a command finds out just now.
    tried: bool,
}

impl Breaker {
    /// Whether a command may try. Of those that come after a pause, only the first may.
    pub(super) fn lets_pass(&self) -> bool {
        let mut state = self.state();
        let Some(away) = state.as_mut() else {
            return true;
        };
        let now = Instant::now();
        if now < away.until {
            return false;
        }
        away.until = now + COMMAND_TIME;
        away.tried = true;
        true
    }

    pub(super) fn answered(&self) {
        *self.state() = None;
    }

    pub(super) fn failed(&self) {
        let mut state = self.state();
        let now = Instant::now();
        if state.is_some_and(|away| !away.tried && now < away.until) {
            // It was on its way when another failed: one loss of the server counts once.
            return;
        }
        let pause = state.map_or(FIRST_PAUSE, |away| (away.pause * 2).min(LONGEST_PAUSE));
        *state = Some(Away {
            until: now + pause,
            pause,
            tried: false,
        });
    }

    fn state(&self) -> MutexGuard<'_, Option<Away>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_commands_that_fail_together_make_one_short_pause() {
        let breaker = Breaker::default();
        for _ in 0..50 {
            assert!(breaker.lets_pass());
        }
        for _ in 0..50 {
            breaker.failed();
        }
        tokio::time::advance(FIRST_PAUSE).await;
        assert!(breaker.lets_pass());
    }

    #[tokio::test(start_paused = true)]
    async fn one_command_a_pause_finds_out_and_the_others_fail_at_once() {
        let breaker = Breaker::default();
        assert!(breaker.lets_pass());
        breaker.failed();
        assert!(!breaker.lets_pass());
        tokio::time::advance(FIRST_PAUSE).await;
        assert!(breaker.lets_pass());
        assert!(!breaker.lets_pass(), "one is trying");
        breaker.failed();
        tokio::time::advance(FIRST_PAUSE).await;
        assert!(!breaker.lets_pass(), "pauses grow");
        tokio::time::advance(LONGEST_PAUSE).await;
        assert!(breaker.lets_pass());
        breaker.answered();
        assert!(breaker.lets_pass() && breaker.lets_pass());
    }
}
