//! Takes what the recorder makes to where it belongs: events to the log, Parts to the database.
//!
//! Text is written at most [`COALESCED`] after it came, or every [`COALESCED_BYTES`]; a Tool's result [`RESULT_COALESCED`] after
//! it came. One write is under way at a time; what comes meanwhile goes into the next one. A turn does not wait for writes, but
//! where it must: before a Tool starts, and at its end.
//!
//! **Invariants.** Every method can be dropped at any await without losing an event or a Part: a turn is stopped by dropping what
//! it does. The log may fail, the database may not.

use std::{collections::VecDeque, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use coordination::EventLog;
use futures::{FutureExt as _, future::BoxFuture};
use tokio::time::{Instant, Sleep, sleep};

use crate::{
    Error, grpc,
    limits::Limits,
    parts::{Recorder, TurnEnd},
    store::{Ending, Started, TurnStore},
};

/// How long text waits for its write.
const COALESCED: Duration = Duration::from_millis(100);
/// How long a Tool's result waits for its write: long enough for the next step's calls to go with it when a Provider is quick.
const RESULT_COALESCED: Duration = Duration::from_millis(10);
/// How many bytes of text wait for their write.
const COALESCED_BYTES: usize = 4 * 1_024;
/// How long a log that failed is left alone: a turn must not wait for it at every word.
const LOG_REST: Duration = Duration::from_secs(1);
/// How often the end of a turn is written when the database fails.
const END_ATTEMPTS: u32 = 3;

/// The way from a turn to its watchers and to the database.
pub(crate) struct Journal {
    /// What makes events and Parts.
    pub(crate) recorder: Recorder,
    store: TurnStore,
    log: Arc<dyn EventLog>,
    started: Started,
    unpublished: VecDeque<(u64, Bytes)>,
    writing: Option<BoxFuture<'static, Result<(), Error>>>,
    timer: Pin<Box<Sleep>>,
    is_timed: bool,
    log_rests_until: Option<Instant>,
}

impl Journal {
    pub(crate) fn new(
        recorder: Recorder,
        store: TurnStore,
        log: Arc<dyn EventLog>,
        started: Started,
    ) -> Self {
        Self {
            recorder,
            store,
            log,
            started,
            unpublished: VecDeque::new(),
            writing: None,
            timer: Box::pin(sleep(COALESCED)),
            is_timed: false,
            log_rests_until: None,
        }
    }

    /// Waits for something while writes go on.
    pub(crate) async fn during<F: Future>(&mut self, work: F) -> Result<F::Output, Error> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                written = under_way(&mut self.writing), if self.writing.is_some() => {
                    self.written(written)?;
                }
                () = &mut self.timer, if self.is_timed && self.writing.is_none() => {
                    self.begin_write()?;
                }
            }
        }
    }

    /// Tells watchers what happened, and writes it soon.
    pub(crate) async fn tell(&mut self) -> Result<(), Error> {
        self.publish().await;
        if !self.recorder.is_changed() {
            return Ok(());
        }
        if self.recorder.fresh_bytes() >= COALESCED_BYTES {
            return self.begin_write();
        }
        if !self.is_timed {
            self.is_timed = true;
            self.timer.as_mut().reset(Instant::now() + COALESCED);
        }
        Ok(())
    }

    /// Tells watchers of a Tool's result, and writes it very soon.
    pub(crate) async fn tell_result(&mut self) -> Result<(), Error> {
        self.tell().await?;
        let due = Instant::now() + RESULT_COALESCED;
        if self.is_timed && self.timer.deadline() > due {
            self.timer.as_mut().reset(due);
        }
        Ok(())
    }

    /// Tells watchers what happened, and begins to write it now.
    pub(crate) async fn tell_and_write(&mut self) -> Result<(), Error> {
        self.publish().await;
        self.begin_write()
    }

    /// Waits until everything so far is in the database, and then tells watchers of it.
    pub(crate) async fn commit(&mut self) -> Result<(), Error> {
        loop {
            if self.writing.is_some() {
                let written = under_way(&mut self.writing).await;
                self.written(written)?;
            } else if self.recorder.is_changed() {
                self.begin_write()?;
            } else {
                break;
            }
        }
        self.publish().await;
        Ok(())
    }

    /// Writes the end of the turn, and then tells watchers of it. A database that fails is asked again; then the turn's lease runs
    /// out, and whoever sweeps settles it.
    pub(crate) async fn end(&mut self, end: &TurnEnd, usage: llm::Usage, limits: Limits) {
        if self.writing.is_some() {
            let written = under_way(&mut self.writing).await;
            // What was lost goes with the end.
            let _told = self.written(written);
        }
        self.recorder.end_turn(end.clone(), usage);
        for attempt in 1..=END_ATTEMPTS {
            let ended = self
                .store
                .end(Ending {
                    turn: self.started.turn,
                    conversation: self.started.conversation,
                    message: self.started.message,
                    written: self.recorder.take_changes(),
                    end: end.clone(),
                    usage,
                    limits,
                })
                .await;
            match ended {
                Ok(()) => break,
                // Whoever has ended it said how; watchers read that.
                Err(Error::LeaseLost) => return self.abandon().await,
                Err(error) => {
                    tracing::error!(turn = %self.started.turn, attempt, error = %error, "the end of a turn was not written");
                    self.recorder.changes_were_lost();
                    if attempt < END_ATTEMPTS {
                        sleep(LOG_REST).await;
                    }
                }
            }
        }
        self.publish().await;
        self.close().await;
    }

    /// Leaves a turn that another process has ended: nothing more is told of it, and watchers go on from the database.
    pub(crate) async fn abandon(&mut self) {
        tracing::warn!(turn = %self.started.turn, "the turn's lease was lost; another process has ended it");
        self.close().await;
    }

    async fn close(&mut self) {
        let last = self.recorder.last_event();
        if let Err(error) = self.log.close(self.started.turn, last).await {
            tracing::debug!(turn = %self.started.turn, error = %error, "the turn's log was not closed");
        }
    }

    /// Appends events to the log. They leave the queue once they are in it.
    async fn publish(&mut self) {
        for (number, event) in self.recorder.take_events() {
            self.unpublished
                .push_back((number, grpc::event::encode(number, &event)));
        }
        if let Some(until) = self.log_rests_until {
            if Instant::now() < until {
                // Watchers will find a gap, and read a snapshot.
                self.unpublished.clear();
                return;
            }
            self.log_rests_until = None;
        }
        while let Some((number, payload)) = self.unpublished.front() {
            let appended = self
                .log
                .append(self.started.turn, *number, payload.clone())
                .await;
            self.unpublished.pop_front();
            match appended {
                // Out of order: it was appended before, by an append that was dropped half-way.
                Ok(()) | Err(coordination::Error::OutOfOrder { .. }) => {}
                Err(error @ coordination::Error::TooLarge { .. }) => {
                    tracing::warn!(turn = %self.started.turn, error = %error, "an event was not told");
                }
                Err(error) => {
                    tracing::warn!(turn = %self.started.turn, error = %error, "watchers fall back to snapshots");
                    self.log_rests_until = Some(Instant::now() + LOG_REST);
                    self.unpublished.clear();
                }
            }
        }
    }

    fn begin_write(&mut self) -> Result<(), Error> {
        // A Provider that never pauses leaves no time for a write to be looked after; this does.
        if self.writing.is_some()
            && let Some(written) = under_way(&mut self.writing).now_or_never()
        {
            self.written(written)?;
        }
        if self.writing.is_some() || !self.recorder.is_changed() {
            return Ok(());
        }
        self.is_timed = false;
        let (store, turn, message) = (self.store.clone(), self.started.turn, self.started.message);
        let changes = self.recorder.take_changes();
        let mut writing = async move { store.write(turn, message, changes).await }.boxed();
        // Handed over at once, even while the turn has other things to do.
        if let Some(written) = (&mut writing).now_or_never() {
            return self.written(written);
        }
        self.writing = Some(writing);
        Ok(())
    }

    fn written(&mut self, written: Result<(), Error>) -> Result<(), Error> {
        match &written {
            Ok(()) => self.recorder.changes_were_kept(),
            Err(_lost) => self.recorder.changes_were_lost(),
        }
        written
    }
}

/// The write that is under way; it is gone once it is done.
async fn under_way(
    writing: &mut Option<BoxFuture<'static, Result<(), Error>>>,
) -> Result<(), Error> {
    let Some(write) = writing else {
        return Ok(());
    };
    let written = write.await;
    *writing = None;
    written
}
