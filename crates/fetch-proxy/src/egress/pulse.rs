//! Whether a connection still moves: silence and age, seen at the client's side, through which every byte goes.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, sleep_until},
};

/// When a client's connection was opened, and when a byte last went over it.
#[derive(Debug)]
pub(super) struct Pulse {
    born: Instant,
    /// Milliseconds from then to the last byte.
    last: AtomicU64,
    cut: OnceLock<Cut>,
}

/// Why a connection that somebody would still use is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// Nothing moved for too long.
    Idle,
    /// It is too old.
    Lifetime,
}

impl Cut {
    /// The word in records.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Lifetime => "lifetime",
        }
    }
}

impl Pulse {
    /// A connection that was opened now.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            born: Instant::now(),
            last: AtomicU64::new(0),
            cut: OnceLock::new(),
        })
    }

    fn beat(&self) {
        let age = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(age, Ordering::Relaxed);
    }

    /// Waits until the connection was silent for so long, or is so old.
    pub(super) async fn stops(&self, idle: Duration, lifetime: Duration) -> Cut {
        loop {
            let last = self.born + Duration::from_millis(self.last.load(Ordering::Relaxed));
            let (silent, old) = (last + idle, self.born + lifetime);
            let now = Instant::now();
            if now >= old {
                return Cut::Lifetime;
            }
            if now >= silent {
                return Cut::Idle;
            }
            sleep_until(silent.min(old)).await;
        }
    }

    /// Notes why it is ended, for those whose work is ended with it.
    pub(super) fn end(&self, cut: Cut) {
        self.cut.get_or_init(|| cut);
    }

    /// Why it was ended, if it was.
    pub(super) fn cut(&self) -> Option<Cut> {
        self.cut.get().copied()
    }
}

/// A client's stream, with what was read of it already, and its pulse.
#[derive(Debug)]
pub(super) struct ClientStream<S> {
    again: Bytes,
    stream: S,
    pulse: Arc<Pulse>,
}

impl<S> ClientStream<S> {
    /// The stream from its beginning.
    pub(super) fn new(stream: S, pulse: Arc<Pulse>) -> Self {
        Self {
            again: Bytes::new(),
            stream,
            pulse,
        }
    }

    /// Gives these bytes to be read again, before any others.
    pub(super) fn put_back(&mut self, bytes: Bytes) {
        self.again = bytes;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.again.has_remaining() {
            let count = this.again.len().min(buffer.remaining());
            buffer.put_slice(&this.again.split_to(count));
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            this.pulse.beat();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
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
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
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
