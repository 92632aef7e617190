//! The contract of the event log.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use kernel::{ErrorCode, TurnId};

use crate::Error;

/// The most bytes of one event: a stored Part and what is around it.
pub const EVENT_BYTES: usize = kernel::limits::PART_BYTES + 64 * 1_024;
/// The most events that a stream keeps; the oldest go first.
pub const EVENTS_PER_STREAM: usize = 8_192;
/// The most bytes that a stream keeps; the oldest events go first.
pub const STREAM_BYTES: usize = 8 * 1_024 * 1_024;
/// How long a stream is kept after its close, for those that resume late.
pub const KEPT_AFTER_CLOSE: Duration = Duration::from_mins(10);
/// How long a stream is kept to which nothing is appended: longer than any Turn runs.
pub const KEPT_IDLE: Duration = Duration::from_hours(1);

/// One event: its number, from 1, and what its owner wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its number in the stream.
    pub number: u64,
    /// What the owner appended.
    pub payload: Bytes,
}

/// Why a reader cannot go on. The stream ends after it; the database has the truth.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Events between the position and what is kept are missing. Read a snapshot, and go on from its number.
    #[error("events after {after} are no longer in the log; the next one is {next}")]
    Gap {
        /// The last event that the reader has.
        after: u64,
        /// The next that there is.
        next: u64,
    },
    /// The log cannot be reached, or shuts down.
    #[error("the event log cannot be reached")]
    Unavailable,
}

impl ReadError {
    /// The class of the failure.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Gap { .. } => ErrorCode::Aborted,
            Self::Unavailable => ErrorCode::Unavailable,
        }
    }
}

/// Events in order, without holes; ends after the close, or after one error.
pub type EventStream = BoxStream<'static, Result<Event, ReadError>>;

/// Streams of numbered events, one a Turn.
#[async_trait]
pub trait EventLog: fmt::Debug + Send + Sync {
    /// Appends an event. Its owner numbers events 1, 2, 3, …; an owner that takes a stream over after a crash may leave numbers
    /// out, and readers are told of the gap.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::OutOfOrder`] when the number is not beyond the last, [`Error::Unavailable`]. None of them
    /// stops a turn: watchers fall back to snapshots.
    async fn append(&self, stream: TurnId, number: u64, payload: Bytes) -> Result<(), Error>;

    /// Closes a stream whose last event was `last` (0 when it had none). Readers end once they have read up to it; what is
    /// appended afterwards reaches nobody. A stream that has later events already, of an owner that died before the database had
    /// them, is closed after those.
    ///
    /// # Errors
    /// [`Error::Unavailable`], or [`Error::OutOfOrder`] while another owner goes on appending.
    async fn close(&self, stream: TurnId, last: u64) -> Result<(), Error>;

    /// Reads the events after `after`, live until the close is seen. A stream that does not exist is waited for, since its
    /// owner may not have begun; whoever reads looks into the database first, and bounds the wait. Dropping the stream ends it.
    async fn read_from(&self, stream: TurnId, after: u64) -> EventStream;
}

pub(crate) fn check_size(payload: &Bytes) -> Result<(), Error> {
    if payload.len() > EVENT_BYTES {
        return Err(Error::TooLarge {
            what: "event",
            bytes: payload.len(),
            max: EVENT_BYTES,
        });
    }
    Ok(())
}
