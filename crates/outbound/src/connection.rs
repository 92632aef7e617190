//! One HTTP connection, for one judgement.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
    rt::Executor,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, timeout_at},
};
use tokio_rustls::client::TlsStream;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{Error, Phase, Security, Target, error::heard};

/// Bytes of an answer's head. Browsers take 256 KiB; pages need a few.
const HEAD_BYTES: usize = 64 * 1_024;
/// Header lines of an answer.
const HEADER_LINES: usize = 128;
/// What a server may send before it is read.
const WINDOW_BYTES: u32 = 256 * 1_024;

pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    fn peer(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Plain(tcp) => tcp.peer_addr(),
            Self::Tls(tls) => tls.get_ref().0.peer_addr(),
        }
    }

    fn speaks_http2(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(tls) => tls.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

/// An open HTTP connection to a judged address. It is closed when it, and the bodies that came over it, are dropped.
#[derive(Debug)]
pub struct Connection {
    sender: Sender,
    target: Target,
    peer: SocketAddr,
    _open: DropGuard,
}

#[derive(Debug)]
enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// Runs what hyper starts, until the connection is dropped.
#[derive(Debug, Clone)]
struct ConnectionTasks {
    tasks: TaskTracker,
    closed: CancellationToken,
}

impl<F> Executor<F> for ConnectionTasks
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        let closed = self.closed.clone();
        self.tasks.spawn(async move {
            closed.run_until_cancelled_owned(future).await;
        });
    }
}

impl Connection {
    pub(crate) async fn open(
        stream: Stream,
        target: Target,
        tasks: TaskTracker,
    ) -> Result<Self, Error> {
        let host = target.host().to_string();
        let peer = stream.peer().map_err(|problem| Error::Unreachable {
            host: target.to_string(),
            why: problem.to_string(),
        })?;
        let closed = CancellationToken::new();
        let running = ConnectionTasks {
            tasks,
            closed: closed.clone(),
        };
        let failed = |problem: hyper::Error| Error::Http {
            host: host.clone(),
            why: explain(&problem),
        };
        let sender = if stream.speaks_http2() {
            let (sender, connection) = http2::Builder::new(running.clone())
                .timer(TokioTimer::new())
                .initial_stream_window_size(WINDOW_BYTES)
                .initial_connection_window_size(WINDOW_BYTES)
                .max_header_list_size(u32::try_from(HEAD_BYTES).unwrap_or(u32::MAX))
                .handshake(TokioIo::new(stream))
                .await
                .map_err(failed)?;
            running.execute(connection);
            Sender::Http2(sender)
        } else {
            let (sender, connection) = http1::Builder::new()
                .max_buf_size(HEAD_BYTES)
                .max_headers(HEADER_LINES)
                .handshake(TokioIo::new(stream))
                .await
                .map_err(failed)?;
            running.execute(connection);
            Sender::Http1(sender)
        };
        Ok(Self {
            sender,
            target,
            peer,
            _open: closed.drop_guard(),
        })
    }

    /// The address at the other end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Sends the one request that this connection is for, and waits for the head of the answer until `deadline`. The request's
    /// URI gives path and query; host and scheme are the target's, whatever the URI says.
    pub async fn send(
        mut self,
        request: Request<Bytes>,
        deadline: Instant,
    ) -> Result<Response<Body>, Error> {
        let host = self.target.host().to_string();
        let request = self.addressed(request).map_err(|why| Error::Http {
            host: host.clone(),
            why,
        })?;
        let answer = async {
            match &mut self.sender {
                Sender::Http1(sender) => sender.send_request(request).await,
                Sender::Http2(sender) => sender.send_request(request).await,
            }
        };
        let response = timeout_at(deadline, answer)
            .await
            .map_err(|_elapsed| Error::TimedOut {
                host: host.clone(),
                phase: Phase::Answering,
            })?
            .map_err(|problem| Error::Http {
                host: host.clone(),
                why: explain(&problem),
            })?;
        Ok(response.map(|incoming| Body {
            incoming,
            host,
            _connection: self,
        }))
    }

    fn addressed(&self, request: Request<Bytes>) -> Result<Request<Full<Bytes>>, String> {
        let (mut parts, body) = request.into_parts();
        let path = parts
            .uri
            .path_and_query()
            .map_or("/", http::uri::PathAndQuery::as_str)
            .to_owned();
        let (scheme, usual_port) = match self.target.security() {
            Security::Tls => ("https", 443),
            Security::Plain => ("http", 80),
        };
        let authority = if self.target.port() == usual_port {
            self.target.host().to_string()
        } else {
            self.target.to_string()
        };
        let value = HeaderValue::from_str(&authority).map_err(|problem| problem.to_string())?;
        parts.uri = match &self.sender {
            Sender::Http1(_) => {
                parts.headers.insert(header::HOST, value);
                path.parse()
                    .map_err(|problem: http::uri::InvalidUri| problem.to_string())?
            }
            Sender::Http2(_) => {
                parts.headers.remove(header::HOST);
                Uri::builder()
                    .scheme(scheme)
                    .authority(authority)
                    .path_and_query(path)
                    .build()
                    .map_err(|problem| problem.to_string())?
            }
        };
        Ok(Request::from_parts(parts, Full::new(body)))
    }
}

/// The body of an answer. Dropping it closes the connection, read or not.
#[derive(Debug)]
pub struct Body {
    incoming: Incoming,
    host: String,
    _connection: Connection,
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
    /// The next piece, trailers left out; None at the end.
    pub async fn next_piece(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            match self.incoming.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(problem)) => {
                    return Err(Error::Http {
                        host: self.host.clone(),
                        why: explain(&problem),
                    });
                }
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
}

/// An HTTP library's error with its causes: it shows the outermost only.
fn explain(problem: &hyper::Error) -> String {
    let mut text = problem.to_string();
    let mut source = std::error::Error::source(problem);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    heard(text)
}
