//! Events as Redis streams: event n is the entry `n-0`, the close after it `n-1`.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use deadpool_redis::redis;
use kernel::TurnId;
use tokio::time::Instant;

use super::{Server, reader::Reader, unavailable};
use crate::{
    EVENTS_PER_STREAM, Error, EventLog, EventStream, KEPT_AFTER_CLOSE, KEPT_IDLE, STREAM_BYTES,
    log::check_size,
};

/// The field of an entry that holds the payload.
pub(super) const PAYLOAD: &str = "p";

#[derive(Debug)]
pub(super) struct Log {
    server: Server,
    reader: Reader,
    tails: Mutex<HashMap<TurnId, Tail>>,
}

/// What this process appended to a stream and Redis still keeps: by it the owner cuts the stream to its bounds, in bytes
/// too, which Redis alone cannot.
#[derive(Debug)]
struct Tail {
    sizes: VecDeque<(u64, usize)>,
    bytes: usize,
    touched: Instant,
}

impl Log {
    pub(super) fn new(server: Server, reader: Reader) -> Self {
        Self {
            server,
            reader,
            tails: Mutex::new(HashMap::new()),
        }
    }

    /// The first event to keep, once something has to go.
    fn note(&self, stream: TurnId, number: u64, bytes: usize) -> Option<u64> {
        let mut tails = self.tails.lock().unwrap_or_else(PoisonError::into_inner);
        if !tails.contains_key(&stream) {
            // Streams whose owner lost them are never closed here.
            tails.retain(|_, tail| tail.touched.elapsed() < KEPT_IDLE);
        }
        let tail = tails.entry(stream).or_insert_with(|| Tail {
            sizes: VecDeque::new(),
            bytes: 0,
            touched: Instant::now(),
        });
        tail.touched = Instant::now();
        tail.bytes += bytes;
        tail.sizes.push_back((number, bytes));
        let mut cut = None;
        while tail.sizes.len() > EVENTS_PER_STREAM || tail.bytes > STREAM_BYTES {
            let Some((_, freed)) = tail.sizes.pop_front() else {
                break;
            };
            tail.bytes -= freed;
            cut = tail.sizes.front().map(|(first, _)| *first);
        }
        cut
    }

    fn key(&self, stream: TurnId) -> String {
        key(&self.server, stream)
    }
}

pub(super) fn key(server: &Server, stream: TurnId) -> String {
    format!("{}:log:{stream}", server.namespace)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[async_trait]
impl EventLog for Log {
    async fn append(&self, stream: TurnId, number: u64, payload: Bytes) -> Result<(), Error> {
        check_size(&payload)?;
        let key = self.key(stream);
        let cut = self.note(stream, number, payload.len());
        let mut commands = redis::Pipeline::new();
        let add = commands.cmd("XADD").arg(&key);
        if let Some(first) = cut {
            add.arg("MINID").arg(format!("{first}-0"));
        }
        add.arg(format!("{number}-0"))
            .arg(PAYLOAD)
            .arg(&payload[..])
            .ignore();
        commands
            .cmd("PEXPIRE")
            .arg(&key)
            .arg(millis(KEPT_IDLE))
            .ignore();
        match self.server.run(commands).await {
            Ok(()) => Ok(()),
            Err(error) if error.to_string().contains("equal or smaller") => {
                Err(Error::OutOfOrder { number })
            }
            Err(error) => Err(unavailable(error)),
        }
    }

    async fn close(&self, stream: TurnId, last: u64) -> Result<(), Error> {
        let key = self.key(stream);
        let mut commands = redis::Pipeline::new();
        commands
            .cmd("XADD")
            .arg(&key)
            .arg(format!("{last}-1"))
            .arg("end")
            .arg("1")
            .ignore();
        commands
            .cmd("PEXPIRE")
            .arg(&key)
            .arg(millis(KEPT_AFTER_CLOSE))
            .ignore();
        let result = self.server.run(commands).await;
        self.tails
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&stream);
        match result {
            Ok(()) => Ok(()),
            // It was closed before.
            Err(error) if error.to_string().contains("equal or smaller") => Ok(()),
            Err(error) => Err(unavailable(error)),
        }
    }

    async fn read_from(&self, stream: TurnId, after: u64) -> EventStream {
        self.reader.follow(stream, after).await
    }
}
