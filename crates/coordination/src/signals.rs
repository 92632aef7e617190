//! The contract of signals, and their subscribers in this process.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, stream::BoxStream};
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;

use crate::Error;

/// The most bytes of one signal.
pub const SIGNAL_BYTES: usize = 64 * 1_024;
/// Signals that a slow subscriber may lie behind before it misses some.
const BACKLOG: usize = 256;

/// What a subscriber gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal {
    /// Something was announced.
    Message(Bytes),
    /// Signals may have been lost: the connection was made anew, or the subscriber was too slow. Look at the truth again.
    Missed,
}

/// Signals of one topic; never ends by itself before the process does.
pub type SignalStream = BoxStream<'static, Signal>;

/// Announcements to every process of the Village, this one too. Nothing is kept for those that come later.
#[async_trait]
pub trait Signals: fmt::Debug + Send + Sync {
    /// Announces something on a topic. Nobody has to listen.
    ///
    /// # Errors
    /// [`Error::TooLarge`] beyond [`SIGNAL_BYTES`], [`Error::Unavailable`].
    async fn publish(&self, topic: &str, payload: Bytes) -> Result<(), Error>;

    /// Listens to a topic from now on: what is published after this returned arrives, or [`Signal::Missed`] does.
    async fn subscribe(&self, topic: &str) -> SignalStream;
}

pub(crate) fn check_size(payload: &Bytes) -> Result<(), Error> {
    if payload.len() > SIGNAL_BYTES {
        return Err(Error::TooLarge {
            what: "signal",
            bytes: payload.len(),
            max: SIGNAL_BYTES,
        });
    }
    Ok(())
}

/// Subscribers in this process, by topic.
#[derive(Debug, Default)]
pub(crate) struct Topics(Mutex<HashMap<String, broadcast::Sender<Signal>>>);

impl Topics {
    pub(crate) fn subscribe(&self, topic: &str) -> SignalStream {
        let mut topics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Topics are made per Turn; those that nobody listens to any more go here.
        topics.retain(|_, sender| sender.receiver_count() > 0);
        let receiver = topics
            .entry(topic.to_owned())
            .or_insert_with(|| broadcast::Sender::new(BACKLOG))
            .subscribe();
        BroadcastStream::new(receiver)
            .map(|received| received.unwrap_or(Signal::Missed))
            .boxed()
    }

    pub(crate) fn dispatch(&self, topic: &str, payload: Bytes) {
        let topics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = topics.get(topic) {
            // An error only says that nobody listens.
            drop(sender.send(Signal::Message(payload)));
        }
    }

    pub(crate) fn all_missed(&self) {
        let topics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for sender in topics.values() {
            drop(sender.send(Signal::Missed));
        }
    }
}
