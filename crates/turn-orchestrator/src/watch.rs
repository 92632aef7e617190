//! Watching a turn: a snapshot, then the log; or the log from a position.
//!
//! Watchers read; they never slow the turn. Wherever the log cannot go on (it forgot, it is away, its owner died), a watcher reads
//! the database and goes on from there, so that it neither misses an event nor sees one twice.

use std::{sync::Arc, time::Duration};

use coordination::EventStream;
use futures::{Stream, StreamExt as _, stream};
use kernel::TurnId;
use tokio::time::{sleep, timeout};

use crate::{
    Error,
    grpc::event::Told,
    parts::TurnStatus,
    service::Service,
    store::{Message, Turn},
};

/// How long the log may be silent before the database is asked whether the turn still runs.
const SILENCE: Duration = Duration::from_secs(5);
/// How long the log of a turn that has ended is waited for: it is there, or it is gone.
const ENDED_SILENCE: Duration = Duration::from_millis(250);
/// How often the database is asked while the log is away.
const POLL: Duration = Duration::from_millis(500);

/// What a watcher gets.
#[derive(Debug)]
pub(crate) enum Seen {
    /// The turn as it stands.
    Snapshot(Box<Snapshot>),
    /// One event, as the turn's owner told it.
    Event(Told),
}

/// A turn as it stands.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The turn.
    pub(crate) turn: Turn,
    /// Its Message.
    pub(crate) message: Message,
    /// Its Conversation's id as the client chose it.
    pub(crate) conversation_client_id: String,
}

/// From where a watcher reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// A snapshot first.
    Snapshot,
    /// After this event.
    After(u64),
}

enum Phase {
    Snapshot,
    Log(EventStream),
    Over,
}

struct Watcher {
    service: Arc<Service>,
    turn: TurnId,
    phase: Phase,
    /// The last event that the watcher has.
    last: Option<u64>,
    status: TurnStatus,
}

/// Watches a turn. Who may has been decided.
pub(crate) async fn watch(
    service: Arc<Service>,
    turn: &Turn,
    from: From,
) -> impl Stream<Item = Result<Seen, Error>> + Send + use<> {
    let (phase, last) = match from {
        From::Snapshot => (Phase::Snapshot, None),
        From::After(after) => (
            Phase::Log(service.log.read_from(turn.id, after).await),
            Some(after),
        ),
    };
    let watcher = Watcher {
        service,
        turn: turn.id,
        phase,
        last,
        status: turn.status,
    };
    stream::unfold(watcher, |mut watcher| async move {
        let seen = watcher.next().await?;
        if seen.is_err() {
            watcher.phase = Phase::Over;
        }
        Some((seen, watcher))
    })
}

impl Watcher {
    async fn next(&mut self) -> Option<Result<Seen, Error>> {
        loop {
            match &mut self.phase {
                Phase::Over => return None,
                Phase::Snapshot => match self.snapshot().await {
                    Ok(Some(snapshot)) => return Some(Ok(Seen::Snapshot(Box::new(snapshot)))),
                    // Nothing new, and the log could not go on: it is asked again, after a while.
                    Ok(None) => sleep(POLL).await,
                    Err(error) => return Some(Err(error)),
                },
                Phase::Log(events) => {
                    let silence = match self.status {
                        TurnStatus::Running => SILENCE,
                        TurnStatus::Finished
                        | TurnStatus::Aborted
                        | TurnStatus::Failed
                        | TurnStatus::Interrupted => ENDED_SILENCE,
                    };
                    match timeout(silence, events.next()).await {
                        Ok(Some(Ok(event))) => {
                            self.last = Some(event.number);
                            let Some(told) = Told::decode(event.payload) else {
                                return Some(Err(Error::Stored {
                                    what: "event of a turn",
                                }));
                            };
                            if told.is_last() {
                                self.phase = Phase::Over;
                            }
                            return Some(Ok(Seen::Event(told)));
                        }
                        Ok(Some(Err(_)) | None) => self.phase = Phase::Snapshot,
                        Err(_silent) => match self.service.store.turn(self.turn).await {
                            Ok(turn) if turn.status == TurnStatus::Running => {}
                            Ok(turn) if self.status == TurnStatus::Running => {
                                // It has just ended: the last events may be on their way.
                                self.status = turn.status;
                            }
                            Ok(_) => self.phase = Phase::Snapshot,
                            Err(error) => return Some(Err(error)),
                        },
                    }
                }
            }
        }
    }

    /// A snapshot, unless the watcher has all that is in it. The log is read on from there.
    async fn snapshot(&mut self) -> Result<Option<Snapshot>, Error> {
        let (turn, message, conversation_client_id) =
            self.service.store.snapshot(self.turn).await?;
        self.status = turn.status;
        let is_over = turn.status != TurnStatus::Running;
        let is_news = self.last.is_none_or(|last| turn.last_event > last);
        let after = turn.last_event.max(self.last.unwrap_or(0));
        self.phase = if is_over {
            Phase::Over
        } else {
            Phase::Log(self.service.log.read_from(self.turn, after).await)
        };
        if !is_over && !is_news {
            return Ok(None);
        }
        self.last = Some(after);
        Ok(Some(Snapshot {
            turn,
            message,
            conversation_client_id,
        }))
    }
}
