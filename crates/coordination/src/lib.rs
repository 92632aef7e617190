//! Event log and signals between processes: in process or Redis.
//!
//! The log delivers; it is never the truth. An owner numbers what happens in a stream and appends it; watchers anywhere read from a
//! position, first what is kept, then live. Whoever asks for what is no longer kept is told of a [`ReadError::Gap`] and reads the truth,
//! which the database has. Signals are short announcements without memory: a subscriber that may have missed one is
//! told so ([`Signal::Missed`]).
//!
//! **Invariants.** No task and no connection per watcher: in process an append is a lock and a push, with Redis one connection a
//! process reads all streams that are watched there, and one all signals. Everything kept is bounded in count, bytes and time.
//! Redis away is never fatal: appends and publishes fail and may be ignored, readers are told and fall back.

mod error;
mod in_process;
mod log;
mod redis;
mod ring;
mod signals;

use std::sync::Arc;

use kernel::Secret;
use serde::Deserialize;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use error::Error;
pub use log::{
    EVENT_BYTES, EVENTS_PER_STREAM, Event, EventLog, EventStream, KEPT_AFTER_CLOSE, KEPT_IDLE,
    ReadError, STREAM_BYTES,
};
pub use signals::{SIGNAL_BYTES, Signal, SignalStream, Signals};

/// The settings' section `redis`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// `redis://…`, or empty for a Village in one process.
    pub url: Secret,
}

impl From<Settings> for Config {
    fn from(settings: Settings) -> Self {
        Self::redis(settings.url)
    }
}

/// How processes of one Village find each other.
#[derive(Debug, Clone)]
pub struct Config {
    /// `redis://…`, or empty for a Village in one process.
    pub redis_url: Secret,
    /// What keys and channels begin with, so that Villages may share a server.
    pub namespace: String,
}

impl Config {
    /// The namespace unless set otherwise.
    pub const NAMESPACE: &str = "agentsville";

    /// For a Village in one process.
    pub fn in_process() -> Self {
        Self::redis(Secret::default())
    }

    /// Through this server; in process when the address is empty.
    pub fn redis(url: Secret) -> Self {
        Self {
            redis_url: url,
            namespace: Self::NAMESPACE.to_owned(),
        }
    }
}

/// Both halves, whichever implementation they have. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Coordination {
    /// Streams of numbered events.
    pub log: Arc<dyn EventLog>,
    /// Announcements.
    pub signals: Arc<dyn Signals>,
}

/// Makes both halves. Their work runs on `tracker` until `ended` is cancelled; readers that are left then are told
/// [`ReadError::Unavailable`]. A Redis that does not answer yet is no error: it is tried again as long as the process runs.
///
/// # Errors
/// [`Error::Address`] when the address cannot be used at all.
pub fn connect(
    config: &Config,
    tracker: &TaskTracker,
    ended: &CancellationToken,
) -> Result<Coordination, Error> {
    if config.redis_url.is_empty() {
        return Ok(in_process::start(tracker, ended.clone()));
    }
    redis::start(config, tracker, ended)
}
