//! Processes of a Village, in one.

use bytes::Bytes;
use coordination::{Config, Coordination, Event, EventStream, ReadError, connect};
use futures::StreamExt as _;
use kernel::{Secret, TurnId};
use testkit::clock::ManualClock;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// One process. Its tasks end when it is dropped.
pub(crate) struct Process {
    pub(crate) coordination: Coordination,
    pub(crate) ended: CancellationToken,
    tracker: TaskTracker,
}

impl Process {
    pub(crate) fn start(config: &Config) -> Self {
        let tracker = TaskTracker::new();
        let ended = CancellationToken::new();
        let coordination = connect(config, &tracker, &ended).expect("the settings are right");
        Self {
            coordination,
            ended,
            tracker,
        }
    }

    pub(crate) fn in_process() -> Self {
        Self::start(&Config::in_process())
    }

    pub(crate) fn redis(url: &str, namespace: &str) -> Self {
        Self::start(&Config {
            redis_url: Secret::new(url),
            namespace: namespace.to_owned(),
        })
    }

    pub(crate) async fn end(&self) {
        self.ended.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }

    pub(crate) async fn append(&self, stream: TurnId, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.coordination
                .log
                .append(stream, number, payload(number))
                .await
                .expect("it is appended");
        }
    }

    pub(crate) async fn close(&self, stream: TurnId, last: u64) {
        self.coordination
            .log
            .close(stream, last)
            .await
            .expect("it is closed");
    }

    pub(crate) async fn read(&self, stream: TurnId, after: u64) -> EventStream {
        self.coordination.log.read_from(stream, after).await
    }

    /// Everything to the end.
    pub(crate) async fn read_all(&self, stream: TurnId, after: u64) -> Vec<Result<u64, ReadError>> {
        numbers(self.read(stream, after).await.collect().await)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

pub(crate) fn turn() -> TurnId {
    TurnId::mint(&ManualClock::default())
}

pub(crate) fn payload(number: u64) -> Bytes {
    Bytes::from(format!("event {number}\0\u{ff}"))
}

/// The numbers of what was read; the payloads must be the events'.
pub(crate) fn numbers(events: Vec<Result<Event, ReadError>>) -> Vec<Result<u64, ReadError>> {
    events
        .into_iter()
        .map(|read| {
            read.map(|event| {
                assert_eq!(event.payload, payload(event.number));
                event.number
            })
        })
        .collect()
}

pub(crate) async fn take(stream: &mut EventStream, count: usize) -> Vec<Result<u64, ReadError>> {
    numbers(stream.take(count).collect().await)
}
