//! What is sent with a request, and what comes with an answer.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use crate::{Connection, Error, Phase, connection::explain, error::heard, lane::Keeper};

/// Why a body that is being sent ends before its end.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request: bytes that are there already, or a body that is read while it is sent.
pub struct RequestBody {
    content: Content,
    sending: Arc<Sending>,
}

/// How far the sending of a body came, for those who no longer have the body.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    is_done: AtomicBool,
    failure: OnceLock<String>,
}

impl Sending {
    /// Whether all of it was taken to be sent.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Relaxed)
    }

    /// Why it ended before its end, if it did.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }
}

enum Content {
    Whole(Bytes),
    Streamed(UnsyncBoxBody<Bytes, BoxError>),
}

impl RequestBody {
    /// A body that is read while it is sent. Its length is announced if its size hint is exact, and it is sent in chunks if not;
    /// the caller bounds it, for instance by `http_body_util::Limited`. An error in it breaks the request off.
    pub fn streamed<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self::new(Content::Streamed(body.map_err(Into::into).boxed_unsync()))
    }

    fn new(content: Content) -> Self {
        let body = Self {
            content,
            sending: Arc::default(),
        };
        body.note_end();
        body
    }

    /// The same body once more, if it can be had.
    pub(crate) fn again(&self) -> Option<Self> {
        match &self.content {
            Content::Whole(bytes) => Some(Self::from(bytes.clone())),
            Content::Streamed(_) => None,
        }
    }

    pub(crate) fn sending(&self) -> Arc<Sending> {
        Arc::clone(&self.sending)
    }

    fn note_end(&self) {
        if http_body::Body::is_end_stream(self) {
            self.sending.is_done.store(true, Ordering::Relaxed);
        }
    }
}

impl From<Bytes> for RequestBody {
    fn from(bytes: Bytes) -> Self {
        Self::new(Content::Whole(bytes))
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hint = http_body::Body::size_hint(self);
        f.debug_struct("RequestBody")
            .field("bytes", &hint.exact())
            .finish_non_exhaustive()
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let frame = match &mut this.content {
            Content::Whole(bytes) if bytes.is_empty() => None,
            Content::Whole(bytes) => Some(Ok(Frame::data(std::mem::take(bytes)))),
            Content::Streamed(body) => ready!(Pin::new(body).poll_frame(cx)),
        };
        match &frame {
            None => this.sending.is_done.store(true, Ordering::Relaxed),
            Some(Ok(_)) => this.note_end(),
            Some(Err(problem)) => drop(this.sending.failure.set(heard(problem))),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Streamed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => {
                SizeHint::with_exact(u64::try_from(bytes.len()).unwrap_or(u64::MAX))
            }
            Content::Streamed(body) => body.size_hint(),
        }
    }
}

/// The body of an answer. Dropping it before its end closes the connection. Reading it has no deadline of its own unless
/// [`Self::read_at_most`] reads it.
#[derive(Debug)]
pub struct Body {
    incoming: Incoming,
    host: String,
    /// None when the body has ended.
    connection: Option<Connection>,
    keeper: Option<Keeper>,
}

/// How reading a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All of it was read.
    Complete,
    /// There is more than was asked for.
    Cut,
    /// The server stopped in the middle.
    Broken,
}

impl Body {
    pub(crate) fn new(incoming: Incoming, connection: Connection, keeper: Option<Keeper>) -> Self {
        let mut body = Self {
            incoming,
            host: connection.target().host().to_string(),
            connection: Some(connection),
            keeper,
        };
        if http_body::Body::is_end_stream(&body) {
            body.finish();
        }
        body
    }

    /// The next piece, trailers left out; None at the end.
    pub async fn next_piece(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            match self.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => return Err(error),
            }
        }
    }

    /// At most `limit` bytes, read until `deadline`. A server that breaks off gives what it sent so far.
    pub async fn read_at_most(
        mut self,
        limit: usize,
        deadline: Instant,
    ) -> Result<(Vec<u8>, End), Error> {
        let mut read = Vec::new();
        let all = async {
            loop {
                match self.next_piece().await {
                    Ok(None) => return End::Complete,
                    Ok(Some(piece)) => {
                        let room = limit - read.len();
                        if piece.len() > room {
                            read.extend_from_slice(&piece[..room]);
                            return End::Cut;
                        }
                        read.extend_from_slice(&piece);
                    }
                    Err(_broken_off) => return End::Broken,
                }
            }
        };
        let end = timeout_at(deadline, all).await;
        match end {
            Ok(end) => Ok((read, end)),
            Err(_elapsed) => Err(Error::TimedOut {
                host: self.host.clone(),
                phase: Phase::Reading,
            }),
        }
    }

    /// Everything was read: the connection is kept if somebody keeps it, and else closed.
    fn finish(&mut self) {
        if let Some(connection) = self.connection.take()
            && let Some(keeper) = self.keeper.take()
        {
            keeper.keep(connection);
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = self.get_mut();
        let frame = match ready!(Pin::new(&mut this.incoming).poll_frame(cx)) {
            None => {
                this.finish();
                None
            }
            Some(Ok(frame)) => {
                if let (Some(data), Some(connection)) = (frame.data_ref(), &this.connection) {
                    connection.meter().handed_on(data.len());
                }
                if this.incoming.is_end_stream() {
                    this.finish();
                }
                Some(Ok(frame))
            }
            Some(Err(problem)) => {
                this.connection = None;
                Some(Err(Error::Http {
                    host: this.host.clone(),
                    why: explain(&problem),
                }))
            }
        };
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
