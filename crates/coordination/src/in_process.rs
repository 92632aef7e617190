//! A Village in one process: rings and broadcast channels.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use kernel::TurnId;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Coordination, Error, EventLog, EventStream, KEPT_AFTER_CLOSE, KEPT_IDLE, SignalStream, Signals,
    log::check_size,
    ring::Ring,
    signals::{self, Topics},
};

/// How often what is over is forgotten.
const SWEEP: Duration = Duration::from_secs(30);
/// What all streams together may keep. Beyond it closed ones go before their time, the oldest first.
const ALL_BYTES: usize = 256 * 1_024 * 1_024;

pub(crate) fn start(tracker: &TaskTracker, ended: CancellationToken) -> Coordination {
    let log = Arc::new(Log {
        streams: Mutex::default(),
        ended: ended.clone(),
    });
    let swept = Arc::clone(&log);
    tracker.spawn(async move {
        let mut ticks = tokio::time::interval(SWEEP);
        while ended.run_until_cancelled(ticks.tick()).await.is_some() {
            swept.sweep();
        }
        for ring in swept.streams().values() {
            ring.fail();
        }
    });
    Coordination {
        log,
        signals: Arc::new(Local::default()),
    }
}

#[derive(Debug)]
struct Log {
    streams: Mutex<HashMap<TurnId, Arc<Ring>>>,
    ended: CancellationToken,
}

impl Log {
    fn streams(&self) -> MutexGuard<'_, HashMap<TurnId, Arc<Ring>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self, stream: TurnId) -> Arc<Ring> {
        Arc::clone(self.streams().entry(stream).or_insert_with(Ring::new))
    }

    fn sweep(&self) {
        let mut streams = self.streams();
        streams.retain(|_, ring| {
            if ring.is_untouched() {
                // Somebody waited for it, and it never came.
                return Arc::strong_count(ring) > 1;
            }
            let kept = if ring.is_ended() {
                KEPT_AFTER_CLOSE
            } else {
                KEPT_IDLE
            };
            if ring.idle() < kept {
                return true;
            }
            ring.fail();
            false
        });
        let mut bytes: usize = streams.values().map(|ring| ring.bytes()).sum();
        if bytes <= ALL_BYTES {
            return;
        }
        let mut closed: Vec<_> = streams
            .iter()
            .filter(|(_, ring)| ring.is_ended())
            .map(|(stream, ring)| (ring.idle(), *stream, ring.bytes()))
            .collect();
        closed.sort_unstable();
        while bytes > ALL_BYTES
            && let Some((_, stream, freed)) = closed.pop()
        {
            streams.remove(&stream);
            bytes -= freed;
        }
    }
}

#[async_trait]
impl EventLog for Log {
    async fn append(&self, stream: TurnId, number: u64, payload: Bytes) -> Result<(), Error> {
        check_size(&payload)?;
        self.ring(stream).push(number, payload)
    }

    async fn close(&self, stream: TurnId, last: u64) -> Result<(), Error> {
        self.ring(stream).close(last);
        Ok(())
    }

    async fn read_from(&self, stream: TurnId, after: u64) -> EventStream {
        let ring = self.ring(stream);
        if self.ended.is_cancelled() {
            ring.fail();
        }
        ring.follow(after, ())
    }
}

#[derive(Debug, Default)]
struct Local(Topics);

#[async_trait]
impl Signals for Local {
    async fn publish(&self, topic: &str, payload: Bytes) -> Result<(), Error> {
        signals::check_size(&payload)?;
        self.0.dispatch(topic, payload);
        Ok(())
    }

    async fn subscribe(&self, topic: &str) -> SignalStream {
        self.0.subscribe(topic)
    }
}
