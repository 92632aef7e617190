//! The one connection of a process that blocks on all streams watched in it, and fans what it reads out through rings.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use deadpool_redis::redis::{
    self, AsyncConnectionConfig, RedisError, Value,
    aio::MultiplexedConnection,
    streams::{StreamId, StreamReadReply},
};
use kernel::TurnId;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    COMMAND_TIME, Pause, Server,
    log::{PAYLOAD, key},
};
use crate::{EventStream, ring::Ring};

/// How long one read blocks. A new watcher interrupts it through the wake stream; this is for when that fails.
const BLOCK: Duration = Duration::from_secs(2);
/// Entries of one stream in one answer, so that one busy stream does not fill the memory.
const ENTRIES: usize = 64;
/// How long the wake stream outlives its process.
const WAKE_KEPT: Duration = Duration::from_mins(10);

/// A handle to the reader.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    server: Server,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    watched: Mutex<HashMap<TurnId, Watched>>,
    /// The stream through which this process interrupts its own blocking read.
    wake: String,
    begun: Notify,
    ended: CancellationToken,
}

#[derive(Debug)]
struct Watched {
    ring: Arc<Ring>,
    /// The last entry that was read.
    cursor: String,
    watchers: usize,
}

/// One stream of one read.
struct Reading {
    key: String,
    stream: TurnId,
    ring: Arc<Ring>,
    cursor: String,
}

impl Shared {
    fn watched(&self) -> MutexGuard<'_, HashMap<TurnId, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lives as long as a watcher does.
struct Watcher {
    shared: Arc<Shared>,
    stream: TurnId,
    ring: Arc<Ring>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut watched = self.shared.watched();
        if let Some(entry) = watched.get_mut(&self.stream)
            && Arc::ptr_eq(&entry.ring, &self.ring)
        {
            entry.watchers -= 1;
            if entry.watchers == 0 {
                watched.remove(&self.stream);
            }
        }
    }
}

pub(super) fn start(server: Server, tracker: &TaskTracker, ended: CancellationToken) -> Reader {
    let shared = Arc::new(Shared {
        watched: Mutex::new(HashMap::new()),
        wake: format!("{}:wake:{}", server.namespace, uuid::Uuid::new_v4()),
        begun: Notify::new(),
        ended,
    });
    let reader = Reader { server, shared };
    let task = reader.clone();
    tracker.spawn(async move {
        let ended = task.shared.ended.clone();
        ended.run_until_cancelled_owned(task.run()).await;
        task.fail_all();
    });
    reader
}

impl Reader {
    pub(super) async fn follow(&self, stream: TurnId, after: u64) -> EventStream {
        let (ring, first) = {
            let mut watched = self.shared.watched();
            let entry = watched.entry(stream).or_insert_with(|| Watched {
                ring: Ring::new(),
                cursor: "0-0".to_owned(),
                watchers: 0,
            });
            entry.watchers += 1;
            (Arc::clone(&entry.ring), entry.watchers == 1)
        };
        let watcher = Watcher {
            shared: Arc::clone(&self.shared),
            stream,
            ring: Arc::clone(&ring),
        };
        if self.shared.ended.is_cancelled() {
            ring.fail();
        } else if first {
            self.shared.begun.notify_one();
            self.wake().await;
        }
        ring.follow(after, watcher)
    }

    async fn wake(&self) {
        let mut commands = redis::Pipeline::new();
        commands
            .cmd("XADD")
            .arg(&self.shared.wake)
            .arg("MAXLEN")
            .arg(1)
            .arg("*")
            .arg("wake")
            .arg("1")
            .ignore();
        commands
            .cmd("EXPIRE")
            .arg(&self.shared.wake)
            .arg(WAKE_KEPT.as_secs())
            .ignore();
        if let Err(error) = self.server.run(commands).await {
            tracing::debug!(cause = ?error, "the reader of the event log is woken by its own timeout");
        }
    }

    /// Reads for ever; a connection that fails is told to all watchers and made anew.
    async fn run(&self) {
        let mut pause = Pause::new();
        let mut away = false;
        loop {
            if self.shared.watched().is_empty() {
                self.shared.begun.notified().await;
                continue;
            }
            let Err(error) = self.serve(&mut pause, &mut away).await else {
                continue;
            };
            if !away {
                tracing::warn!(cause = %error, "the event log in Redis cannot be read; watchers fall back to snapshots");
                away = true;
            }
            self.fail_all();
            pause.wait().await;
        }
    }

    /// Connects, and reads until nothing is watched any more.
    async fn serve(&self, pause: &mut Pause, away: &mut bool) -> Result<(), RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(COMMAND_TIME))
            .set_response_timeout(Some(BLOCK + COMMAND_TIME));
        let mut connection = self
            .server
            .client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let mut wake_cursor = "0-0".to_owned();
        loop {
            let streams: Vec<Reading> = self
                .shared
                .watched()
                .iter()
                .filter(|(_, entry)| !entry.ring.is_ended())
                .map(|(stream, entry)| Reading {
                    key: key(&self.server, *stream),
                    stream: *stream,
                    ring: Arc::clone(&entry.ring),
                    cursor: entry.cursor.clone(),
                })
                .collect();
            let by_key: HashMap<&str, &Reading> = streams
                .iter()
                .map(|reading| (reading.key.as_str(), reading))
                .collect();
            let answer = self.read(&mut connection, &streams, &wake_cursor).await?;
            pause.reset();
            self.server.breaker.answered();
            if std::mem::take(away) {
                tracing::info!("the event log in Redis is read again");
            }
            for read in answer.into_iter().flat_map(|reply| reply.keys) {
                if read.key == self.shared.wake {
                    if let Some(last) = read.ids.last() {
                        wake_cursor.clone_from(&last.id);
                    }
                    continue;
                }
                if let Some(reading) = by_key.get(read.key.as_str()) {
                    self.deliver(reading.stream, &reading.ring, read.ids);
                }
            }
            if self.shared.watched().is_empty() {
                return Ok(());
            }
        }
    }

    async fn read(
        &self,
        connection: &mut MultiplexedConnection,
        streams: &[Reading],
        wake_cursor: &str,
    ) -> Result<Option<StreamReadReply>, RedisError> {
        let mut command = redis::cmd("XREAD");
        command
            .arg("COUNT")
            .arg(ENTRIES)
            .arg("BLOCK")
            .arg(u64::try_from(BLOCK.as_millis()).unwrap_or(u64::MAX))
            .arg("STREAMS")
            .arg(&self.shared.wake);
        for reading in streams {
            command.arg(&reading.key);
        }
        command.arg(wake_cursor);
        for reading in streams {
            command.arg(&reading.cursor);
        }
        command.query_async(connection).await
    }

    fn deliver(&self, stream: TurnId, ring: &Arc<Ring>, entries: Vec<StreamId>) {
        let mut last = None;
        for StreamId { id, mut map, .. } in entries {
            let Some((number, part)) = id.split_once('-').and_then(|(number, part)| {
                Some((number.parse::<u64>().ok()?, part.parse::<u64>().ok()?))
            }) else {
                continue;
            };
            last = Some(id);
            if part != 0 {
                ring.close(number);
                continue;
            }
            if let Some(Value::BulkString(payload)) = map.remove(PAYLOAD)
                && let Err(error) = ring.push(number, Bytes::from(payload))
            {
                tracing::warn!(cause = %error, turn = %stream, "an event of the log was read twice");
            }
        }
        let mut watched = self.shared.watched();
        if let Some(cursor) = last
            && let Some(entry) = watched.get_mut(&stream)
            && Arc::ptr_eq(&entry.ring, ring)
        {
            entry.cursor = cursor;
        }
    }

    fn fail_all(&self) {
        for (_, entry) in self.shared.watched().drain() {
            entry.ring.fail();
        }
    }
}
