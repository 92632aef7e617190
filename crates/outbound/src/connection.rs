//! One HTTP connection, for one judgement.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header,
    response,
};
use hyper::{
    client::conn::{TrySendError, http1, http2},
    rt::Executor,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};
use tokio_rustls::client::TlsStream;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{
    Body, Error, Phase, RequestBody, Security, Target,
    body::Sending,
    error::heard,
    lane::Keeper,
    meter::{Meter, Metered},
};

/// Bytes of an answer's head. Browsers take 256 KiB; pages need a few.
const HEAD_BYTES: usize = 64 * 1_024;
/// Header lines of an answer.
const HEADER_LINES: usize = 128;
/// What a server may send before it is read.
const WINDOW_BYTES: u32 = 256 * 1_024;
/// The same for a whole HTTP/2 connection. One request at a time uses it, so that it holds no more than that one's window; but h2
/// lets so many small frames wait unread, in proportion to it, and streams of events are made of those.
const CONNECTION_WINDOW_BYTES: u32 = 2 * 1_024 * 1_024;
/// What of a request's body waits to be sent.
const SEND_BYTES: usize = 64 * 1_024;
/// Silence after which HTTP/2 asks whether the server is still there. Answers that stay open for minutes have such silences.
const ASK_AFTER: Duration = Duration::from_secs(30);
/// How long HTTP/2 waits for the answer to that.
const ASK_TIME: Duration = Duration::from_secs(20);
/// How long a connection that was kept may take to be ready for the next request. It has nothing left to do.
const READY_TIME: Duration = Duration::from_millis(100);
/// What belongs to a connection and not to a request: we frame ourselves, ask for no other protocol, and wait for no interim
/// answer (RFC 9110 section 7.6.1). A caller that passes on another's request must not let that one decide.
const OF_THE_CONNECTION: [HeaderName; 10] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

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
    meter: Arc<Meter>,
    _open: DropGuard,
}

#[derive(Debug)]
enum Sender {
    Http1(http1::SendRequest<RequestBody>),
    Http2(http2::SendRequest<RequestBody>),
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

/// A request that got no answer.
pub(crate) struct Unanswered {
    pub(crate) error: Error,
    /// The request, if for certain nothing of it was sent.
    pub(crate) unsent: Option<Box<Request<RequestBody>>>,
    /// Whether the server said nothing at all, not even that it closes.
    pub(crate) heard_nothing: bool,
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
        let meter = Arc::new(Meter::default());
        let speaks_http2 = stream.speaks_http2();
        let io = TokioIo::new(Metered::new(stream, Arc::clone(&meter)));
        let sender = if speaks_http2 {
            let (sender, connection) = http2::Builder::new(running.clone())
                .timer(TokioTimer::new())
                .initial_stream_window_size(WINDOW_BYTES)
                .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
                .max_header_list_size(u32::try_from(HEAD_BYTES).unwrap_or(u32::MAX))
                .max_send_buf_size(SEND_BYTES)
                .keep_alive_interval(ASK_AFTER)
                .keep_alive_timeout(ASK_TIME)
                .handshake(io)
                .await
                .map_err(failed)?;
            running.execute(connection);
            Sender::Http2(sender)
        } else {
            let (sender, connection) = http1::Builder::new()
                .max_buf_size(HEAD_BYTES)
                .max_headers(HEADER_LINES)
                .handshake(io)
                .await
                .map_err(failed)?;
            running.execute(connection);
            Sender::Http1(sender)
        };
        Ok(Self {
            sender,
            target,
            peer,
            meter,
            _open: closed.drop_guard(),
        })
    }

    /// The address at the other end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Sends the one request that this connection is for, and waits for the head of the answer until `deadline`. A body that is
    /// still being sent then goes on being sent while the answer is read. The request's URI gives path and query; host and scheme
    /// are the target's, whatever the URI says, and headers that belong to a connection are left out.
    pub async fn send<B: Into<RequestBody>>(
        self,
        request: Request<B>,
        deadline: Instant,
    ) -> Result<Response<Body>, Error> {
        self.exchange(request.map(Into::into), None, deadline)
            .await
            .map_err(|unanswered| unanswered.error)
    }

    /// Whether a kept connection takes one more request.
    pub(crate) async fn is_ready(&mut self) -> bool {
        let ready = async {
            match &mut self.sender {
                Sender::Http1(sender) => sender.ready().await.is_ok(),
                Sender::Http2(sender) => sender.ready().await.is_ok(),
            }
        };
        timeout(READY_TIME, ready).await.unwrap_or(false)
    }

    /// Sends a request. The connection goes to `keeper` when both bodies were moved to their ends.
    pub(crate) async fn exchange(
        mut self,
        request: Request<RequestBody>,
        keeper: Option<Keeper>,
        deadline: Instant,
    ) -> Result<Response<Body>, Unanswered> {
        let host = self.target.host().to_string();
        let final_error = |error| Unanswered {
            error,
            unsent: None,
            heard_nothing: false,
        };
        let sending = request.body().sending();
        let request = self
            .addressed(request)
            .map_err(|why| Error::Unsendable {
                host: host.clone(),
                why,
            })
            .map_err(final_error)?;
        self.meter.begin();
        let answer = async {
            match &mut self.sender {
                Sender::Http1(sender) => sender.try_send_request(request).await,
                Sender::Http2(sender) => sender.try_send_request(request).await,
            }
        };
        let response = timeout_at(deadline, answer)
            .await
            .map_err(|_elapsed| {
                final_error(Error::TimedOut {
                    host: host.clone(),
                    phase: Phase::Answering,
                })
            })?
            .map_err(|problem| self.unanswered(problem, &sending))?;
        let (mut head, incoming) = response.into_parts();
        let framing = judge_head(&mut head)
            .map_err(|why| Error::Http { host, why })
            .map_err(final_error)?;
        let keeper = match framing {
            Framing::Plain => keeper.map(|keeper| keeper.after(sending)),
            Framing::Ambiguous => None,
        };
        let body = Body::new(incoming, self, keeper);
        Ok(Response::from_parts(head, body))
    }

    fn unanswered(
        &self,
        mut problem: TrySendError<Request<RequestBody>>,
        sending: &Sending,
    ) -> Unanswered {
        let host = self.target.host().to_string();
        let why = explain(problem.error());
        let error = match sending.failure() {
            Some(failure) => Error::Unsendable {
                host,
                why: format!("its body broke off: {failure}"),
            },
            None if problem.error().is_user() => Error::Unsendable { host, why },
            None => Error::Http { host, why },
        };
        Unanswered {
            error,
            unsent: problem.take_message().map(Box::new),
            heard_nothing: self.meter.heard_nothing(),
        }
    }

    fn addressed(&self, request: Request<RequestBody>) -> Result<Request<RequestBody>, String> {
        let (mut parts, body) = request.into_parts();
        if parts.method == Method::CONNECT {
            return Err("a tunnel is opened by a connection, not by a request".to_owned());
        }
        let path = match parts.uri.path_and_query() {
            // `*` is for OPTIONS, and would be a path otherwise.
            Some(path) if path.as_str().starts_with('/') => path.as_str().to_owned(),
            Some(path) => format!("/{path}"),
            None => "/".to_owned(),
        };
        let (scheme, usual_port) = match self.target.security() {
            Security::Tls => ("https", 443),
            Security::Plain => ("http", 80),
        };
        let authority = if self.target.port() == usual_port {
            self.target.host().to_string()
        } else {
            self.target.to_string()
        };
        leave_out_what_belongs_to_connections(&mut parts.headers);
        parts.headers.remove(header::HOST);
        match &self.sender {
            Sender::Http1(_) => {
                let value =
                    HeaderValue::from_str(&authority).map_err(|problem| problem.to_string())?;
                parts.version = http::Version::HTTP_11;
                parts.headers.insert(header::HOST, value);
                parts.uri = path
                    .parse()
                    .map_err(|problem: http::uri::InvalidUri| problem.to_string())?;
            }
            Sender::Http2(_) => {
                parts.version = http::Version::HTTP_2;
                parts.uri = Uri::builder()
                    .scheme(scheme)
                    .authority(authority)
                    .path_and_query(path)
                    .build()
                    .map_err(|problem| problem.to_string())?;
            }
        }
        Ok(Request::from_parts(parts, body))
    }
}

/// Leaves out the headers of [`OF_THE_CONNECTION`] and those that `Connection` names.
fn leave_out_what_belongs_to_connections(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OF_THE_CONNECTION) {
        headers.remove(name);
    }
}

/// How certain it is where an answer ends.
enum Framing {
    Plain,
    /// Another program could read it otherwise, so that no second answer may follow on the connection.
    Ambiguous,
}

/// Refuses heads that say something other than an answer to our request, which their parser lets pass.
fn judge_head(head: &mut response::Parts) -> Result<Framing, String> {
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(
            "it switched to another protocol (status 101), which nobody asked for".to_owned(),
        );
    }
    if head.headers.len() > HEADER_LINES {
        return Err(format!(
            "its answer has {} header lines, and at most {HEADER_LINES} are read",
            head.headers.len()
        ));
    }
    let mut codings = head.headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(Framing::Plain),
        (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => {
            // RFC 9112 section 6.3: chunks decide, and the length is a sign of smuggling.
            match head.headers.remove(header::CONTENT_LENGTH) {
                None => Ok(Framing::Plain),
                Some(_length) => Ok(Framing::Ambiguous),
            }
        }
        (Some(_), _) => Err(
            "its answer comes in a transfer coding that was not asked for; only chunks are read"
                .to_owned(),
        ),
    }
}

/// An HTTP library's error with its causes: it shows the outermost only.
pub(crate) fn explain(problem: &hyper::Error) -> String {
    let mut text = problem.to_string();
    let mut source = std::error::Error::source(problem);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    heard(text)
}
