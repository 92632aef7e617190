//! The events of one stream that are kept in this process, and readers that follow them.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures::StreamExt as _;
use tokio::{sync::watch, time::Instant};

use crate::{EVENTS_PER_STREAM, Error, Event, EventStream, ReadError, STREAM_BYTES};

/// Events that a reader takes at one time.
const BATCH: usize = 64;

#[derive(Debug)]
pub(crate) struct Ring {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct State {
    events: VecDeque<Event>,
    bytes: usize,
    last: Option<u64>,
    end: Option<End>,
    touched: Instant,
}

#[derive(Debug, Clone, Copy)]
enum End {
    Closed { last: u64 },
    Failed,
}

/// What a reader at some position finds.
enum Step {
    Events(VecDeque<Event>),
    Wait,
    End,
    Fail(ReadError),
}

impl Ring {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                events: VecDeque::new(),
                bytes: 0,
                last: None,
                end: None,
                touched: Instant::now(),
            }),
            changed: watch::Sender::new(()),
        })
    }

    pub(crate) fn push(&self, number: u64, payload: Bytes) -> Result<(), Error> {
        let mut state = self.state();
        if state.end.is_some() {
            return Ok(());
        }
        if state.last.is_some_and(|last| number <= last) {
            return Err(Error::OutOfOrder { number });
        }
        state.last = Some(number);
        state.touched = Instant::now();
        state.bytes += payload.len();
        state.events.push_back(Event { number, payload });
        while state.events.len() > EVENTS_PER_STREAM || state.bytes > STREAM_BYTES {
            let Some(oldest) = state.events.pop_front() else {
                break;
            };
            state.bytes -= oldest.payload.len();
        }
        drop(state);
        self.changed.send_replace(());
        Ok(())
    }

    pub(crate) fn close(&self, last: u64) {
        self.finish(End::Closed { last });
    }

    /// Tells readers that nothing more can be had here.
    pub(crate) fn fail(&self) {
        self.finish(End::Failed);
    }

    fn finish(&self, end: End) {
        let mut state = self.state();
        if state.end.is_none() {
            state.end = Some(end);
            state.touched = Instant::now();
            drop(state);
            self.changed.send_replace(());
        }
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.state().end.is_some()
    }

    /// Whether nothing was ever appended or closed.
    pub(crate) fn is_untouched(&self) -> bool {
        let state = self.state();
        state.last.is_none() && state.end.is_none()
    }

    /// How long ago something was appended, or it was closed.
    pub(crate) fn idle(&self) -> Duration {
        self.state().touched.elapsed()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.state().bytes
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self, after: u64) -> Step {
        let state = self.state();
        let from = state.events.partition_point(|event| event.number <= after);
        if let Some(first) = state.events.get(from) {
            if first.number != after.saturating_add(1) {
                return Step::Fail(ReadError::Gap {
                    after,
                    next: first.number,
                });
            }
            let mut expected = first.number;
            let run = state.events.range(from..).take(BATCH).take_while(|event| {
                let follows = event.number == expected;
                expected += 1;
                follows
            });
            return Step::Events(run.cloned().collect());
        }
        match state.end {
            None => Step::Wait,
            Some(End::Failed) => Step::Fail(ReadError::Unavailable),
            Some(End::Closed { last }) if after < last => Step::Fail(ReadError::Gap {
                after,
                next: last.saturating_add(1),
            }),
            Some(End::Closed { .. }) => Step::End,
        }
    }

    /// Follows the ring from a position. `kept` lives as long as the reader does.
    pub(crate) fn follow(self: Arc<Self>, after: u64, kept: impl Send + 'static) -> EventStream {
        let reader = Reader {
            changed: self.changed.subscribe(),
            ring: self,
            after,
            ready: VecDeque::new(),
            ended: false,
            _kept: kept,
        };
        futures::stream::unfold(reader, |mut reader| async move {
            let item = reader.next().await?;
            Some((item, reader))
        })
        .boxed()
    }
}

struct Reader<K> {
    ring: Arc<Ring>,
    changed: watch::Receiver<()>,
    after: u64,
    ready: VecDeque<Event>,
    ended: bool,
    _kept: K,
}

impl<K> Reader<K> {
    async fn next(&mut self) -> Option<Result<Event, ReadError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.after = event.number;
                return Some(Ok(event));
            }
            if self.ended {
                return None;
            }
            self.changed.mark_unchanged();
            match self.ring.step(self.after) {
                Step::Events(events) => self.ready = events,
                Step::Wait => self.changed.changed().await.ok()?,
                Step::End => return None,
                Step::Fail(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
    }
}
