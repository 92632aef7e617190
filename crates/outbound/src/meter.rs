//! How much a server sends, and how little of it is an answer.
//!
//! A protocol has many ways to keep a client busy without telling it anything: interim answers, pings, settings, frames of
//! padding. Instead of a bound for each, a connection has one for all that is read and is no body.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that a server may send ahead of what is read of its body: the head, and what HTTP/2's window and our buffers hold.
const AHEAD_BYTES: u64 = 512 * 1_024;
/// Bytes that a server may use up for one byte of body: a chunk of one byte costs six, and a frame of one byte ten.
const BYTES_PER_BODY_BYTE: u64 = 17;
/// Bytes that we send for one byte that a server may use up to acknowledge them. HTTP/2 spends 13 on some thousands.
const SENT_PER_BYTE: u64 = 16;

/// What went over a connection since its last request.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    read: AtomicU64,
    written: AtomicU64,
    body: AtomicU64,
}

impl Meter {
    /// A request begins.
    pub(crate) fn begin(&self) {
        for count in [&self.read, &self.written, &self.body] {
            count.store(0, Ordering::Relaxed);
        }
    }

    /// So much of a body was handed on.
    pub(crate) fn handed_on(&self, bytes: usize) {
        add(&self.body, bytes);
    }

    /// Whether the server has sent nothing since the request began.
    pub(crate) fn heard_nothing(&self) -> bool {
        self.read.load(Ordering::Relaxed) == 0
    }

    fn read(&self, bytes: usize) -> io::Result<()> {
        add(&self.read, bytes);
        let body = self.body.load(Ordering::Relaxed);
        let written = self.written.load(Ordering::Relaxed);
        let bound = AHEAD_BYTES
            .saturating_add(body.saturating_mul(BYTES_PER_BODY_BYTE))
            .saturating_add(written / SENT_PER_BYTE);
        let read = self.read.load(Ordering::Relaxed);
        if read <= bound {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "it sent {read} bytes, of which only {body} are an answer"
        )))
    }
}

fn add(count: &AtomicU64, bytes: usize) {
    count.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// A stream whose bytes are counted, and that fails when too many of them say nothing.
#[derive(Debug)]
pub(crate) struct Metered<S> {
    stream: S,
    meter: Arc<Meter>,
}

impl<S> Metered<S> {
    pub(crate) fn new(stream: S, meter: Arc<Meter>) -> Self {
        Self { stream, meter }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, meter } = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(stream).poll_read(cx, buffer))?;
        Poll::Ready(meter.read(buffer.filled().len().saturating_sub(before)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, meter } = self.get_mut();
        let written = ready!(Pin::new(stream).poll_write(cx, bytes))?;
        add(&meter.written, written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(bytes: u64) -> usize {
        usize::try_from(bytes).expect("a small number")
    }

    #[test]
    fn bytes_that_are_no_answer_are_counted_until_the_bound() {
        let meter = Meter::default();
        assert!(meter.heard_nothing());
        meter.read(total(AHEAD_BYTES)).expect("the bound itself");
        assert!(!meter.heard_nothing());
        let error = meter.read(1).expect_err("one too many");
        assert_eq!(
            error.to_string(),
            "it sent 524289 bytes, of which only 0 are an answer"
        );
        meter.begin();
        meter.read(1).expect("a new request has the whole bound");
    }

    #[test]
    fn a_long_body_in_small_chunks_and_a_long_upload_are_no_flood() {
        let meter = Meter::default();
        for _ in 0..AHEAD_BYTES {
            meter.read(6).expect("a chunk of one byte");
            meter.handed_on(1);
        }
        meter.begin();
        for _ in 0..AHEAD_BYTES {
            add(&meter.written, 4_096);
            meter.read(13).expect("a frame that opens the window");
        }
    }
}
