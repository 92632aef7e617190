//! A client's stream: what comes of it is framed and judged first, and closing it says what there is to say.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::watch,
    time::{Instant, Sleep, sleep, sleep_until},
};
use tokio_rustls::server::TlsStream;
use tokio_util::io::poll_read_buf;

use super::{
    denial::Denial,
    framing::{Framing, Place},
    pulse::Pulse,
};

/// What is read at once.
const PIECE_BYTES: usize = 8 * 1_024;
/// How long, and for how many bytes, a client that was refused may go on talking: closing earlier would take back what it was told.
const LINGER: Duration = Duration::from_secs(5);
const LINGER_BYTES: usize = 32 * 1_024 * 1_024;

/// What lies below, whose connection can be reset.
pub(super) trait Socket: AsyncRead + AsyncWrite + Unpin {
    /// The TCP connection.
    fn tcp(&self) -> &TcpStream;
}

impl Socket for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Socket for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// How far a head came.
#[derive(Debug, Clone)]
enum Head {
    /// The connection was opened then, and nothing came yet.
    Awaited(Instant),
    /// It began then.
    Begun(Instant),
    /// There is none now.
    None,
    /// It is refused.
    Refused(Denial),
}

/// What a stream and those who serve it tell each other.
#[derive(Debug)]
pub(super) struct Talk {
    head: watch::Sender<Head>,
    farewell: Mutex<Option<Bytes>>,
}

impl Talk {
    /// A connection that was opened now.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            head: watch::Sender::new(Head::Awaited(Instant::now())),
            farewell: Mutex::default(),
        })
    }

    /// Waits until a head is refused, for what it says or because it took longer than this. None: nobody ever said anything.
    pub(super) async fn refused(&self, time: Duration) -> Option<Denial> {
        let mut head = self.head.subscribe();
        loop {
            let now = head.borrow_and_update().clone();
            let (until, denial) = match now {
                Head::Refused(denial) => return Some(denial),
                Head::None => (None, None),
                Head::Awaited(since) => (Some(since + time), None),
                Head::Begun(since) => (Some(since + time), Some(Denial::too_slow(time))),
            };
            let late = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // The sender lives as long as this does.
                _changed = head.changed() => {}
                () = late => return denial,
            }
        }
    }

    /// Says this when the connection is closed.
    pub(super) fn say_farewell(&self, denial: &Denial) {
        let mut farewell = self.farewell.lock().unwrap_or_else(PoisonError::into_inner);
        *farewell = Some(Bytes::from(denial.bytes()));
    }

    fn take_farewell(&self) -> Option<Bytes> {
        let mut farewell = self.farewell.lock().unwrap_or_else(PoisonError::into_inner);
        farewell.take()
    }
}

/// How far closing it came.
#[derive(Debug)]
enum Closing {
    Open,
    Saying(Bytes),
    Lingering { left: usize, time: Pin<Box<Sleep>> },
    Closed,
}

/// A client's stream. If it is dropped while something is being served, its connection is reset, so that what was cut off does not
/// look whole.
#[derive(Debug)]
pub(super) struct ClientStream<S: Socket> {
    stream: S,
    raw: BytesMut,
    ready: BytesMut,
    framing: Framing,
    refused: Option<Denial>,
    closing: Closing,
    pulse: Arc<Pulse>,
    talk: Arc<Talk>,
}

impl<S: Socket> ClientStream<S> {
    /// The stream from its beginning.
    pub(super) fn new(stream: S, pulse: Arc<Pulse>, talk: Arc<Talk>) -> Self {
        Self {
            stream,
            raw: BytesMut::new(),
            ready: BytesMut::new(),
            framing: Framing::new(),
            refused: None,
            closing: Closing::Open,
            pulse,
            talk,
        }
    }

    /// Frames what was read.
    fn frame(&mut self) {
        let taken = self.framing.take(&mut self.raw, &mut self.ready);
        if let Err(denial) = taken {
            self.refused = Some(denial);
            return;
        }
        let is_in_head = self.framing.place() == Place::Head;
        self.talk
            .head
            .send_if_modified(|head| match (&*head, is_in_head) {
                (Head::None | Head::Awaited(_), true) => {
                    *head = Head::Begun(Instant::now());
                    true
                }
                (Head::Begun(_) | Head::Awaited(_), false) => {
                    *head = Head::None;
                    true
                }
                (Head::Begun(_) | Head::Refused(_), true)
                | (Head::None | Head::Refused(_), false) => false,
            });
    }

    /// Whether the client may still be saying something that nobody reads.
    fn is_unheard(&self) -> bool {
        match self.framing.place() {
            Place::Between => !self.raw.is_empty() || !self.ready.is_empty(),
            Place::Head | Place::Body => true,
            Place::Tunnel => false,
        }
    }

    /// Reads on without looking, until the client closes or had enough time.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Closing::Lingering { left, time } = &mut self.closing else {
            return Poll::Ready(());
        };
        loop {
            if time.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            self.raw.clear();
            self.raw.reserve(PIECE_BYTES);
            match ready!(poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.raw)) {
                Ok(count @ 1..) if count <= *left => *left -= count,
                Ok(_) | Err(_) => return Poll::Ready(()),
            }
        }
    }
}

impl<S: Socket> AsyncRead for ClientStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if !this.ready.is_empty() {
                let count = this.ready.len().min(buffer.remaining());
                buffer.put_slice(&this.ready.split_to(count));
                return Poll::Ready(Ok(()));
            }
            if let Some(denial) = &this.refused {
                // All before it was read: whoever serves the connection ends it, and no more is read of it.
                this.talk.head.send_if_modified(|head| {
                    let is_news = !matches!(head, Head::Refused(_));
                    if is_news {
                        *head = Head::Refused(denial.clone());
                    }
                    is_news
                });
                return Poll::Pending;
            }
            if this.framing.place() == Place::Tunnel {
                let before = buffer.filled().len();
                ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
                if buffer.filled().len() > before {
                    this.pulse.beat();
                }
                return Poll::Ready(Ok(()));
            }
            this.raw.reserve(PIECE_BYTES);
            let count = ready!(poll_read_buf(Pin::new(&mut this.stream), cx, &mut this.raw))?;
            if count == 0 {
                return Poll::Ready(Ok(()));
            }
            this.pulse.beat();
            this.frame();
        }
    }
}

impl<S: Socket> AsyncWrite for ClientStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.stream).poll_write(cx, bytes))?;
        if written > 0 {
            this.pulse.beat();
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            match &mut this.closing {
                Closing::Open => {
                    let farewell = this.talk.take_farewell();
                    this.closing = Closing::Saying(farewell.unwrap_or_default());
                }
                Closing::Saying(farewell) => {
                    while farewell.has_remaining() {
                        let stream = Pin::new(&mut this.stream);
                        let written = ready!(stream.poll_write(cx, farewell))?;
                        farewell.advance(written);
                    }
                    ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
                    this.closing = if this.refused.is_some() || this.is_unheard() {
                        Closing::Lingering {
                            left: LINGER_BYTES,
                            time: Box::pin(sleep(LINGER)),
                        }
                    } else {
                        Closing::Closed
                    };
                }
                Closing::Lingering { .. } => {
                    ready!(this.poll_linger(cx));
                    this.closing = Closing::Closed;
                }
                Closing::Closed => return Poll::Ready(Ok(())),
            }
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.stream).poll_write_vectored(cx, slices))?;
        if written > 0 {
            this.pulse.beat();
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl<S: Socket> Drop for ClientStream<S> {
    fn drop(&mut self) {
        if self.pulse.is_serving()
            && let Err(error) = self.stream.tcp().set_zero_linger()
        {
            tracing::debug!(%error, "a connection that was cut off could not be reset");
        }
    }
}
