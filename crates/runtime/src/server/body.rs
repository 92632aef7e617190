//! Bodies that the layers watch.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use kernel::ErrorCode;
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::{Code, Status, body::Body};
use tracing::Span;

use super::{layers::Meter, message_size::MessageSize};
use crate::{lifecycle::panic_message, status};

/// The status of a call whose time is over.
pub(crate) fn deadline_exceeded() -> Status {
    status::new(
        ErrorCode::DeadlineExceeded,
        "the call took longer than its deadline allows",
    )
}

/// A request's body: a message beyond the bound ends it with an error.
pub(super) struct RequestBody {
    inner: Body,
    size: MessageSize,
}

impl RequestBody {
    pub(super) fn new(inner: Body) -> Self {
        Self {
            inner,
            size: MessageSize::default(),
        }
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
            && let Err(status) = self.size.pass(data)
        {
            self.inner = Body::empty();
            return Poll::Ready(Some(Err(status)));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A response's body: runs in the call's span, ends at the deadline, survives a panic, keeps to the bound on messages, and is counted
/// when it ends on whichever path.
pub(super) struct ResponseBody {
    inner: Body,
    size: MessageSize,
    deadline: Pin<Box<Sleep>>,
    span: Span,
    meter: Meter,
    over: bool,
}

impl ResponseBody {
    pub(super) fn new(inner: Body, deadline: Instant, span: Span, meter: Meter) -> Self {
        Self {
            inner,
            size: MessageSize::default(),
            deadline: Box::pin(sleep_until(deadline)),
            span,
            meter,
            over: false,
        }
    }

    /// Ends the body with a status, as trailers.
    fn end(&mut self, status: &Status) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.over = true;
        self.inner = Body::empty();
        self.meter.end(status.code());
        Poll::Ready(Some(Ok(Frame::trailers(trailers(status)))))
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if this.over {
            return Poll::Ready(None);
        }
        let polled = {
            let _inside = this.span.enter();
            catch_unwind(AssertUnwindSafe(|| {
                Pin::new(&mut this.inner).poll_frame(context)
            }))
        };
        match polled {
            Err(panic) => {
                let _inside = this.span.clone().entered();
                let status = status::internal(&format!("panic: {}", panic_message(&*panic)));
                this.end(&status)
            }
            Ok(Poll::Pending) => match this.deadline.as_mut().poll(context) {
                Poll::Ready(()) => this.end(&deadline_exceeded()),
                Poll::Pending => Poll::Pending,
            },
            Ok(Poll::Ready(None)) => {
                this.over = true;
                this.meter.finish();
                Poll::Ready(None)
            }
            Ok(Poll::Ready(Some(Err(status)))) => this.end(&status),
            Ok(Poll::Ready(Some(Ok(frame)))) => {
                if let Some(data) = frame.data_ref() {
                    // A stream that never waits still ends in time.
                    if this.deadline.as_mut().poll(context).is_ready() {
                        return this.end(&deadline_exceeded());
                    }
                    if let Err(status) = this.size.pass(data) {
                        return this.end(&status);
                    }
                } else if let Some(trailers) = frame.trailers_ref() {
                    this.over = true;
                    this.meter.end(code_of(trailers).unwrap_or(Code::Unknown));
                }
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.over
    }
}

/// A status as trailers.
fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(4);
    // Only a message that is no header value could fail, and tonic percent-encodes it.
    if status.add_header(&mut trailers).is_err() {
        trailers.insert(Status::GRPC_STATUS, Code::Internal.to_i32_header());
    }
    trailers
}

/// The code in trailers or headers.
pub(super) fn code_of(headers: &HeaderMap) -> Option<Code> {
    Some(Code::from_bytes(
        headers.get(Status::GRPC_STATUS)?.as_bytes(),
    ))
}

trait CodeHeader {
    fn to_i32_header(self) -> http::HeaderValue;
}

impl CodeHeader for Code {
    fn to_i32_header(self) -> http::HeaderValue {
        http::HeaderValue::from(i32::from(self))
    }
}
