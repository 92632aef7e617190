//! The first bytes of an HTTP/2 connection (RFC 9113 §3.4), read before anything is kept for it: a silent connection would hold its
//! place for ever otherwise.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection that began as HTTP/2 does. Reading gives those first bytes again.
#[derive(Debug)]
pub(super) struct Opened<S> {
    again: &'static [u8],
    stream: S,
}

impl<S: AsyncRead + Unpin> Opened<S> {
    /// Reads the first bytes; an error says that they are others.
    pub(super) async fn read(mut stream: S) -> io::Result<Self> {
        let mut first = [0; PREFACE.len()];
        stream.read_exact(&mut first).await?;
        if first == *PREFACE {
            Ok(Self {
                again: PREFACE,
                stream,
            })
        } else {
            Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the first bytes are not those of HTTP/2",
            ))
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Opened<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.again.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let (now, later) = self
            .again
            .split_at(self.again.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.again = later;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Opened<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
