//! A turn's events as the bytes of a stream.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use futures::{FutureExt as _, Stream, stream};
use kernel::{Caller, ErrorCode};
use proto::turn::v1::{
    SnapshotFirst, WatchTurnRequest, WatchTurnResponse,
    watch_turn_request::{From, Target},
    watch_turn_response::Item,
};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tonic::{Status, Streaming};

use super::streams::Place;
use crate::{
    peers::Turns,
    problem::Problem,
    routes::App,
    ui::{Chunk, Translator},
};

/// What a stream that has nothing to say sends now and then.
const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";
const DONE: &str = "data: [DONE]\n\n";
/// Events that one write carries at most, when many are there already.
const BATCH: usize = 128;
/// Times that a watch is begun again without an event in between, with growing pauses: about six seconds in all, which a restart of
/// the service takes.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Follows one turn for one client.
pub(super) struct Follower {
    turns: Turns,
    caller: Caller,
    turn_id: String,
    watch: Option<Streaming<WatchTurnResponse>>,
    /// Read already, and not told yet.
    first: Option<Item>,
    translator: Translator,
    from_snapshot: bool,
    attempts: u32,
    heartbeat: Interval,
    over: bool,
    _place: Option<Place>,
}

/// What comes next.
enum Next {
    Write(Bytes),
    Quiet,
    Broken,
}

impl Follower {
    /// Follows a turn from its first event.
    pub(super) async fn begin(
        app: &App,
        caller: Caller,
        turn_id: String,
        place: Option<Place>,
    ) -> Result<Self, Problem> {
        let request = WatchTurnRequest {
            target: Some(Target::TurnId(turn_id.clone())),
            from: Some(From::After(0)),
        };
        let watch = app.turns.watch(&caller).watch_turn(request).await?;
        Ok(Self::new(app, caller, turn_id, watch.into_inner(), place))
    }

    /// Follows the turn that a request finds, from a snapshot. `None` when there is none.
    pub(super) async fn resume(
        app: &App,
        caller: Caller,
        request: WatchTurnRequest,
        place: Option<Place>,
    ) -> Result<Option<Self>, Problem> {
        let mut watch = app
            .turns
            .watch(&caller)
            .watch_turn(request)
            .await?
            .into_inner();
        let Some(first) = watch.message().await?.and_then(|response| response.item) else {
            return Ok(None);
        };
        let turn_id = match &first {
            Item::Snapshot(snapshot) => snapshot.turn.as_ref().map(|turn| turn.id.clone()),
            Item::Event(_) => None,
        };
        let Some(turn_id) = turn_id else {
            return Ok(None);
        };
        let mut follower = Self::new(app, caller, turn_id, watch, place);
        follower.first = Some(first);
        Ok(Some(follower))
    }

    fn new(
        app: &App,
        caller: Caller,
        turn_id: String,
        watch: Streaming<WatchTurnResponse>,
        place: Option<Place>,
    ) -> Self {
        let every = app.config.timeouts.keep_alive;
        let mut heartbeat = interval_at(Instant::now() + every, every);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            turns: app.turns.clone(),
            caller,
            turn_id,
            watch: Some(watch),
            first: None,
            translator: Translator::default(),
            from_snapshot: false,
            attempts: 0,
            heartbeat,
            over: false,
            _place: place,
        }
    }

    /// The bytes, from the first chunk to `[DONE]`.
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        stream::unfold(self, |mut follower| async move {
            let bytes = follower.next().await?;
            Some((Ok(bytes), follower))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        while !self.over {
            match self.step().await {
                Next::Write(bytes) if bytes.is_empty() => {}
                Next::Write(bytes) => return Some(bytes),
                Next::Quiet => return Some(Bytes::from_static(KEEP_ALIVE)),
                Next::Broken if self.attempts < ATTEMPTS => self.watch = None,
                Next::Broken => return Some(self.give_up()),
            }
        }
        None
    }

    /// Waits for an event, or until it is time to show that the stream lives.
    async fn step(&mut self) -> Next {
        if let Some(first) = self.first.take() {
            return self.tell(first);
        }
        let Some(watch) = &mut self.watch else {
            return self.watch_again().await;
        };
        let message = tokio::select! {
            biased;
            message = watch.message() => message,
            _tick = self.heartbeat.tick() => return Next::Quiet,
        };
        match message {
            Ok(Some(WatchTurnResponse { item: Some(item) })) => {
                self.attempts = 0;
                self.tell(item)
            }
            Ok(Some(WatchTurnResponse { item: None })) => Next::Write(Bytes::new()),
            Ok(None) => {
                tracing::warn!(turn = self.turn_id, "a watch ended before its turn did");
                Next::Broken
            }
            Err(status) => {
                tracing::warn!(turn = self.turn_id, code = ?status.code(), "a watch broke off");
                Next::Broken
            }
        }
    }

    /// Translates an item, and all others that are there already, into one write.
    fn tell(&mut self, item: Item) -> Next {
        let mut chunks = Vec::new();
        let mut told = self.translate(item, &mut chunks);
        for _ in 1..BATCH {
            if !told || self.translator.has_ended() {
                break;
            }
            let ready = self
                .watch
                .as_mut()
                .and_then(|watch| watch.message().now_or_never());
            // An end or a failure is met again by the next read.
            let Some(Ok(Some(WatchTurnResponse { item: Some(item) }))) = ready else {
                break;
            };
            told = self.translate(item, &mut chunks);
        }
        let mut text = String::new();
        for chunk in &chunks {
            chunk.write_event(&mut text);
        }
        if self.translator.has_ended() {
            text.push_str(DONE);
            self.over = true;
        }
        Next::Write(Bytes::from(text))
    }

    /// Whether the item followed on what was told before. If not, a new watch begins with a snapshot.
    fn translate(&mut self, item: Item, chunks: &mut Vec<Chunk>) -> bool {
        match item {
            Item::Snapshot(snapshot) => {
                self.translator.snapshot(snapshot, chunks);
                true
            }
            Item::Event(event) => match self.translator.event(event, chunks) {
                Ok(()) => true,
                Err(gap) => {
                    tracing::warn!(
                        turn = self.turn_id,
                        expected = gap.expected,
                        found = gap.found,
                        "a watch skipped events"
                    );
                    self.watch = None;
                    self.from_snapshot = true;
                    false
                }
            },
        }
    }

    async fn watch_again(&mut self) -> Next {
        let pause = FIRST_PAUSE * 2_u32.saturating_pow(self.attempts);
        self.attempts += 1;
        tokio::time::sleep(pause).await;
        let from = if self.from_snapshot {
            From::Snapshot(SnapshotFirst {})
        } else {
            From::After(self.translator.last())
        };
        let request = WatchTurnRequest {
            target: Some(Target::TurnId(self.turn_id.clone())),
            from: Some(from),
        };
        match self.turns.watch(&self.caller).watch_turn(request).await {
            Ok(watch) => {
                self.watch = Some(watch.into_inner());
                self.from_snapshot = false;
                Next::Write(Bytes::new())
            }
            Err(status) => self.not_again(&status),
        }
    }

    fn not_again(&mut self, status: &Status) -> Next {
        let problem = runtime::status::problem(status);
        tracing::warn!(
            turn = self.turn_id,
            code = problem.code.as_str(),
            error = problem.sentence,
            "a watch could not begin again"
        );
        // It is gone, or not ours any more: asking again changes nothing.
        if matches!(
            problem.code,
            ErrorCode::NotFound | ErrorCode::PermissionDenied | ErrorCode::Internal
        ) {
            self.attempts = ATTEMPTS;
        }
        Next::Broken
    }

    /// The turn may go on; its Parts are not settled, since they are not over.
    fn give_up(&mut self) -> Bytes {
        self.over = true;
        let mut text = String::new();
        let chunk = Chunk::Error {
            error_text: "the Village lost sight of this turn, which may still run; load the Conversation again to see how it went on"
                .to_owned(),
        };
        chunk.write_event(&mut text);
        text.push_str(DONE);
        Bytes::from(text)
    }
}
