//! Events as Redis streams: event n is the entry `n-0`, the close after it `n-1`.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use deadpool_redis::redis::{self, streams::StreamRangeReply};
use kernel::TurnId;
use tokio::time::Instant;

use super::{Failure, Server, reader::Reader};
use crate::{
    EVENTS_PER_STREAM, Error, EventLog, EventStream, KEPT_AFTER_CLOSE, KEPT_IDLE, STREAM_BYTES,
    log::check_size,
};

/// The field of an entry that holds the payload.
pub(super) const PAYLOAD: &str = "p";

/// How often a close looks for the end of a stream to which somebody still appends.
const CLOSE_ATTEMPTS: u32 = 3;

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

    /// Adds the entry that closes a stream after its event `last`.
    async fn add_end(&self, key: &str, last: u64) -> Result<(), Failure> {
        let mut commands = redis::Pipeline::new();
        commands
            .cmd("XADD")
            .arg(key)
            .arg(format!("{last}-1"))
            .arg("end")
            .arg("1")
            .ignore();
        commands
            .cmd("PEXPIRE")
            .arg(key)
            .arg(millis(KEPT_AFTER_CLOSE))
            .ignore();
        self.server.run(commands).await
    }

    /// The last event of a stream that is not closed.
    async fn open_end(&self, key: &str) -> Result<Option<u64>, Failure> {
        let mut commands = redis::Pipeline::new();
        commands
            .cmd("XREVRANGE")
            .arg(key)
            .arg("+")
            .arg("-")
            .arg("COUNT")
            .arg(1);
        let (newest,): (StreamRangeReply,) = self.server.ask(commands).await?;
        Ok(newest
            .ids
            .first()
            .and_then(|entry| entry.id.strip_suffix("-0"))
            .and_then(|number| number.parse().ok()))
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
            Err(Failure::OutOfOrder) => Err(Error::OutOfOrder { number }),
            Err(Failure::Unavailable(cause)) => Err(Error::Unavailable(cause)),
        }
    }

    async fn close(&self, stream: TurnId, last: u64) -> Result<(), Error> {
        let key = self.key(stream);
        self.tails
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&stream);
        let mut last = last;
        for _ in 0..CLOSE_ATTEMPTS {
            match self.add_end(&key, last).await {
                Ok(()) => return Ok(()),
                Err(Failure::OutOfOrder) => {}
                Err(Failure::Unavailable(cause)) => return Err(Error::Unavailable(cause)),
            }
            // Closed before; or its owner appended more than whoever closes it knows of, and died before the database had it.
            match self.open_end(&key).await {
                Ok(Some(newest)) => last = newest,
                Ok(None) | Err(Failure::OutOfOrder) => return Ok(()),
                Err(Failure::Unavailable(cause)) => return Err(Error::Unavailable(cause)),
            }
        }
        Err(Error::OutOfOrder { number: last })
    }

    async fn read_from(&self, stream: TurnId, after: u64) -> EventStream {
        self.reader.follow(stream, after).await
    }
}
