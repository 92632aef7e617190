//! What comes on a stream after the answer: a word that the list of Tools changed, and the end, after which the connection can be kept.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures::{Stream, StreamExt as _, stream::BoxStream};
use sse_stream::{Error as SseError, Sse};
use tokio_util::task::TaskTracker;

/// How long the end of a stream is waited for, when the answer has come.
const REST_TIME: Duration = Duration::from_secs(1);

type Events = BoxStream<'static, Result<Sse, SseError>>;

/// A stream that is read to its end although nobody wants more of it than the answer.
pub(super) struct ToItsEnd {
    events: Option<Events>,
    brought: bool,
    tracker: TaskTracker,
}

impl ToItsEnd {
    pub(super) fn new(events: Events, tracker: TaskTracker) -> Self {
        Self {
            events: Some(events),
            brought: false,
            tracker,
        }
    }
}

impl Stream for ToItsEnd {
    type Item = Result<Sse, SseError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(events) = &mut self.events else {
            return Poll::Ready(None);
        };
        let item = std::task::ready!(events.poll_next_unpin(cx));
        match &item {
            // Only requests and their steps have a method, and an answer is no step.
            Some(Ok(event)) => {
                self.brought = event
                    .data
                    .as_ref()
                    .is_some_and(|data| !data.contains("\"method\":"));
            }
            Some(Err(_)) | None => self.events = None,
        }
        Poll::Ready(item)
    }
}

impl Drop for ToItsEnd {
    fn drop(&mut self) {
        // A stream that is dropped before its answer is cancelled by being closed.
        if self.brought
            && let Some(mut events) = self.events.take()
        {
            self.tracker.spawn(async move {
                let rest = async { while let Some(Ok(_)) = events.next().await {} };
                tokio::time::timeout(REST_TIME, rest)
                    .await
                    .unwrap_or_default();
            });
        }
    }
}
