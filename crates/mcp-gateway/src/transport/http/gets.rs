//! How often streams are opened with GET. A server may end one whenever it likes, and name the time after which it is to be opened
//! again: clients that do as they are told have asked some servers once a second for days.

use std::{
    hash::{BuildHasher as _, RandomState},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures::{Stream, stream::BoxStream};
use rmcp::transport::common::client_side_sse::SseRetryPolicy;
use sse_stream::{Error as SseError, Sse};
use tokio::time::Instant;

/// Streams in a row that brought nothing; after them no more is opened.
const MAX_BARREN: u32 = 3;
/// A stream that lived so long was a good one, even if there was nothing to say.
const GOOD_LIFE: Duration = Duration::from_mins(1);
/// Streams that may be opened at once.
const AT_ONCE: u32 = 8;
/// The time after which one more may be.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Tries of one stream, when opening it fails.
const MAX_TRIES: usize = 4;
/// The first wait before a stream is opened again, when the server names none.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The streams of one connection.
#[derive(Debug)]
pub(crate) struct Gets(Mutex<State>);

#[derive(Debug)]
struct State {
    barren: u32,
    left: u32,
    counted_at: Instant,
}

impl Default for Gets {
    fn default() -> Self {
        Self(Mutex::new(State {
            barren: 0,
            left: AT_ONCE,
            counted_at: Instant::now(),
        }))
    }
}

impl Gets {
    /// Whether a stream that answers nothing in particular is worth opening.
    pub(super) fn is_worth_it(&self) -> bool {
        self.state().barren < MAX_BARREN
    }

    /// Waits until one more may be opened.
    pub(super) async fn turn(&self) {
        while !self.take() {
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    /// Watches a stream, to learn whether it brings anything.
    pub(super) fn watch(
        self: &Arc<Self>,
        stream: BoxStream<'static, Result<Sse, SseError>>,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        Box::pin(Watched {
            gets: Arc::clone(self),
            stream,
            opened_at: Instant::now(),
            brought: false,
        })
    }

    fn take(&self) -> bool {
        let mut state = self.state();
        let more = state.counted_at.elapsed().as_millis() / AGAIN_AFTER.as_millis();
        if more > 0 {
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            state.left = state.left.saturating_add(more).min(AT_ONCE);
            state.counted_at = Instant::now();
        }
        let may = state.left > 0;
        state.left = state.left.saturating_sub(1);
        may
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Watched {
    gets: Arc<Gets>,
    stream: BoxStream<'static, Result<Sse, SseError>>,
    opened_at: Instant,
    brought: bool,
}

impl Stream for Watched {
    type Item = Result<Sse, SseError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = self.stream.as_mut().poll_next(cx);
        if let Poll::Ready(Some(Ok(event))) = &item
            && event.data.as_ref().is_some_and(|data| !data.is_empty())
        {
            self.brought = true;
        }
        item
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut state = self.gets.state();
        if self.brought || self.opened_at.elapsed() >= GOOD_LIFE {
            state.barren = 0;
        } else {
            state.barren += 1;
        }
    }
}

/// When a stream is opened again, if its server does not say when.
#[derive(Debug)]
pub(super) struct Again {
    gets: Arc<Gets>,
    jitter: RandomState,
}

impl Again {
    pub(super) fn new(gets: &Arc<Gets>) -> Self {
        Self {
            gets: Arc::clone(gets),
            jitter: RandomState::new(),
        }
    }
}

impl SseRetryPolicy for Again {
    fn retry(&self, current_times: usize) -> Option<Duration> {
        if current_times >= MAX_TRIES {
            return None;
        }
        let barren = self.gets.state().barren;
        let doubled = u32::try_from(current_times).unwrap_or(u32::MAX).max(barren);
        let wait = FIRST_WAIT
            .saturating_mul(2_u32.saturating_pow(doubled))
            .min(LONGEST_WAIT);
        // Up to a quarter more, so that clients of a server that restarts do not come all at once.
        let share = self.jitter.hash_one((current_times, barren)) % 256;
        Some(wait + wait.mul_f64(f64::from(u32::try_from(share).unwrap_or(0)) / 1_024.0))
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;

    fn stream(events: Vec<Sse>) -> BoxStream<'static, Result<Sse, SseError>> {
        futures::stream::iter(events.into_iter().map(Ok)).boxed()
    }

    #[tokio::test(start_paused = true)]
    async fn streams_that_bring_nothing_are_not_opened_for_ever() {
        let gets = Arc::new(Gets::default());
        for _ in 0..MAX_BARREN {
            assert!(gets.is_worth_it());
            drop(gets.watch(stream(vec![Sse::default().data("")])));
        }
        assert!(!gets.is_worth_it());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_brought_something_or_lived_long_is_worth_opening_again() {
        let gets = Arc::new(Gets::default());
        for _ in 0..10 {
            drop(gets.watch(stream(Vec::new())));
            let mut good = gets.watch(stream(vec![Sse::default().data("{}")]));
            assert!(good.next().await.is_some());
            drop(good);
            drop(gets.watch(stream(Vec::new())));
            let long = gets.watch(stream(Vec::new()));
            tokio::time::advance(GOOD_LIFE).await;
            drop(long);
            assert!(gets.is_worth_it());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_wants_a_new_stream_every_millisecond_gets_one_a_second() {
        let gets = Gets::default();
        let begun = Instant::now();
        for _ in 0..AT_ONCE + 60 {
            gets.turn().await;
        }
        assert!(begun.elapsed() >= Duration::from_mins(1));
    }

    #[tokio::test(start_paused = true)]
    async fn opening_again_waits_longer_each_time_and_ends() {
        let again = Again::new(&Arc::default());
        let waits: Vec<Duration> = (0..10).map_while(|times| again.retry(times)).collect();
        assert_eq!(waits.len(), MAX_TRIES);
        assert!(waits.is_sorted(), "{waits:?}");
        assert!(waits.iter().all(|wait| *wait <= LONGEST_WAIT.mul_f64(1.25)));
    }
}
