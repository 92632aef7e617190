//! A scripted MCP Server over HTTP: streamable, or the older kind with a stream of events and a separate address for messages.
#![expect(
    clippy::expect_used,
    reason = "a test's server that cannot work must fail the test at once"
)]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each part of a scripted server looks for the faults that are its own"
)]

mod faults;
mod older;
mod replies;
mod session;
mod streams;

use std::{
    collections::HashMap,
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt as _, combinators::BoxBody};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::mpsc,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use super::script::{Eras, Fault, MODERN, Script};
use crate::origin::{Authority, SeenRequest};
pub use faults::{HttpFault, Manner, Speaks};
use replies::{header, json_reply, misses_a_header, reply, rpc_error};
use session::Session;
use streams::{Outlet, Piece, events, play, whole};

/// A body of an answer.
type ReplyBody = BoxBody<Bytes, io::Error>;

/// A scripted MCP Server. It stops when dropped.
#[derive(Debug)]
pub struct ScriptedMcp {
    address: SocketAddr,
    is_tls: bool,
    state: Arc<State>,
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct State {
    script: Arc<Script>,
    speaks: Speaks,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    next_session: AtomicUsize,
    accepted: AtomicUsize,
    aborted: Arc<AtomicUsize>,
    requests: Mutex<Vec<SeenRequest>>,
    tasks: TaskTracker,
}

impl ScriptedMcp {
    /// A server on a free port of 127.0.0.1, without TLS.
    pub async fn start(script: Arc<Script>, speaks: Speaks) -> Self {
        Self::listen(script, speaks, SocketAddr::from(([127, 0, 0, 1], 0)), None).await
    }

    /// A server with a certificate for these names.
    pub async fn start_tls(
        script: Arc<Script>,
        speaks: Speaks,
        authority: &Authority,
        names: &[&str],
    ) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(authority.server_config(names)));
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::listen(script, speaks, address, Some(acceptor)).await
    }

    async fn listen(
        script: Arc<Script>,
        speaks: Speaks,
        address: SocketAddr,
        acceptor: Option<TlsAcceptor>,
    ) -> Self {
        let listener = TcpListener::bind(address)
            .await
            .expect("a port to listen on");
        let address = listener.local_addr().expect("a bound socket");
        let state = Arc::new(State {
            script,
            speaks,
            sessions: Mutex::default(),
            next_session: AtomicUsize::default(),
            accepted: AtomicUsize::default(),
            aborted: Arc::default(),
            requests: Mutex::default(),
            tasks: TaskTracker::new(),
        });
        let is_tls = acceptor.is_some();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, acceptor, Arc::clone(&state)));
        Self {
            address,
            is_tls,
            state,
            _tasks: tasks,
        }
    }

    /// Its URL, by address.
    pub fn url(&self) -> String {
        self.url_of("127.0.0.1")
    }

    /// Its URL, by this name.
    pub fn url_of(&self, host: &str) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!(
            "{scheme}://{host}:{}{}",
            self.address.port(),
            self.state.path()
        )
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The script.
    pub fn script(&self) -> &Arc<Script> {
        &self.state.script
    }

    /// How many connections were made.
    pub fn accepted(&self) -> usize {
        self.state.accepted.load(Ordering::SeqCst)
    }

    /// How many sessions are open.
    pub fn sessions(&self) -> usize {
        lock(&self.state.sessions).len()
    }

    /// How many answers the client broke off: it closed their streams before their end.
    pub fn aborted(&self) -> usize {
        self.state.aborted.load(Ordering::SeqCst)
    }

    /// The HTTP requests so far.
    pub fn requests(&self) -> Vec<SeenRequest> {
        lock(&self.state.requests).clone()
    }

    /// How many requests of this method came.
    pub fn count(&self, method: &Method) -> usize {
        lock(&self.state.requests)
            .iter()
            .filter(|request| request.method == method)
            .count()
    }

    /// Ends all sessions and their streams, as a restart does.
    pub fn forget_sessions(&self) {
        lock(&self.state.sessions).clear();
    }

    /// Says something on every open stream.
    pub fn say(&self, message: &Value) {
        for session in lock(&self.state.sessions).values() {
            session.say(Piece::message(message));
        }
    }
}

async fn accept(listener: TcpListener, acceptor: Option<TlsAcceptor>, state: Arc<State>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _peer)) = listener.accept().await else {
            continue;
        };
        state.accepted.fetch_add(1, Ordering::SeqCst);
        // Without it, small answers wait for the client's delayed acknowledgement.
        stream.set_nodelay(true).ok();
        let state = Arc::clone(&state);
        match acceptor.clone() {
            None => connections.spawn(serve(stream, state)),
            Some(acceptor) => connections.spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream, state).await;
                }
            }),
        };
    }
}

async fn serve<S>(stream: S, state: Arc<State>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(state.answer(request).await) }
    });
    // How a connection ends is the client's business; the requests are in the log.
    auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await
        .ok();
}

impl State {
    fn path(&self) -> &'static str {
        match self.speaks {
            Speaks::Http(_) => "/mcp",
            Speaks::Sse => "/sse",
        }
    }

    fn fault<T>(&self, pick: impl Fn(HttpFault) -> Option<T>) -> Option<T> {
        self.script.faults().into_iter().find_map(|fault| {
            if let Fault::Http(fault) = fault {
                pick(fault)
            } else {
                None
            }
        })
    }

    fn has(&self, wanted: &HttpFault) -> bool {
        self.fault(|fault| (fault == *wanted).then_some(()))
            .is_some()
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<ReplyBody> {
        let (parts, body) = request.into_parts();
        let path = parts
            .uri
            .path_and_query()
            .map_or_else(|| "/".to_owned(), ToString::to_string);
        let host = parts
            .headers
            .get(http::header::HOST)
            .and_then(|host| host.to_str().ok())
            .or(parts.uri.authority().map(http::uri::Authority::as_str))
            .unwrap_or_default()
            .to_owned();
        lock(&self.requests).push(SeenRequest {
            method: parts.method.clone(),
            path: path.clone(),
            host,
            headers: parts.headers.clone(),
            version: parts.version,
        });
        let body = body
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes)
            .unwrap_or_default();
        if self.has(&HttpFault::NeverAnswers) {
            std::future::pending::<()>().await;
        }
        let is_usual = parts.uri.path() == self.path();
        if let Some(redirect) = self
            .fault(|fault| match fault {
                HttpFault::Redirects { status, location } => Some((status, location)),
                _ => None,
            })
            .filter(|_| is_usual)
        {
            return reply(redirect.0, &[("location", redirect.1)], "");
        }
        match (&parts.method, self.speaks) {
            (&Method::POST, speaks) => self.post(speaks, &path, &parts.headers, &body).await,
            (&Method::GET, Speaks::Http(_)) => self.get(&parts.headers),
            (&Method::GET, Speaks::Sse) if is_usual => self.open_sse(),
            (&Method::DELETE, Speaks::Http(_)) => self.delete(&parts.headers).await,
            _ => reply(405, &[], "Method Not Allowed"),
        }
    }

    async fn post(
        self: &Arc<Self>,
        speaks: Speaks,
        path: &str,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Response<ReplyBody> {
        if let Some((status, headers, body)) = self.fault(|fault| match fault {
            HttpFault::Answers {
                status,
                headers,
                body,
            } => Some((status, headers, body)),
            _ => None,
        }) {
            return reply(status, &headers, &body);
        }
        if self.has(&HttpFault::EchoesAll) {
            return reply(400, &[], &format!("{path} {headers:?}"));
        }
        if self.has(&HttpFault::EndlessBody) {
            return streams::endless();
        }
        let Ok(message) = serde_json::from_slice::<Value>(body) else {
            return reply(400, &[], "that is no JSON");
        };
        if let Some((status, body)) = self.fault(|fault| match fault {
            HttpFault::AnswersMethod {
                method,
                status,
                body,
            } if message["method"] == method => Some((status, body)),
            _ => None,
        }) {
            return reply(status, &[], &body);
        }
        match speaks {
            Speaks::Http(manner) => self.post_streamable(manner, headers, message).await,
            Speaks::Sse => self.post_sse(path, &message),
        }
    }

    async fn post_streamable(
        self: &Arc<Self>,
        manner: Manner,
        headers: &HeaderMap,
        message: Value,
    ) -> Response<ReplyBody> {
        let is_modern =
            message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == MODERN;
        if is_modern && self.script.eras() != Eras::Legacy {
            if let Some(problem) = misses_a_header(headers, &message) {
                return json_reply(400, &rpc_error(&message["id"], -32_020, problem));
            }
            let session = Arc::new(Session::new(&self.script));
            return self.respond(manner, session, None, &message).await;
        }
        if message["method"] == "initialize" {
            let session = Arc::new(Session::new(&self.script));
            if self.has(&HttpFault::NoSession) {
                return self.respond(manner, session, None, &message).await;
            }
            let number = self.next_session.fetch_add(1, Ordering::SeqCst);
            let id = format!("session-{number}");
            lock(&self.sessions).insert(id.clone(), Arc::clone(&session));
            return self.respond(manner, session, Some(&id), &message).await;
        }
        if self.has(&HttpFault::NoSession) {
            let session = Arc::new(Session::new(&self.script));
            return self.respond(manner, session, None, &message).await;
        }
        let Some(id) = header(headers, "mcp-session-id") else {
            let refusal = rpc_error(&message["id"], -32_000, "Server not initialized");
            return json_reply(400, &refusal);
        };
        let (session, gone) = self.session(id);
        match session {
            Some(session) => self.respond(manner, session, None, &message).await,
            None => gone.map_or_else(
                || {
                    json_reply(
                        404,
                        &rpc_error(&message["id"], -32_001, "Session not found"),
                    )
                },
                |(status, body)| {
                    if body.is_empty() {
                        let error = rpc_error(&message["id"], -32_001, "Session not found");
                        json_reply(status, &error)
                    } else {
                        reply(status, &[], &body)
                    }
                },
            ),
        }
    }

    async fn respond(
        self: &Arc<Self>,
        manner: Manner,
        session: Arc<Session>,
        session_id: Option<&str>,
        message: &Value,
    ) -> Response<ReplyBody> {
        let acts = session.conversation.receive(message);
        let with_session: Vec<(&'static str, String)> = session_id
            .map(|id| ("mcp-session-id", id.to_owned()))
            .into_iter()
            .collect();
        if message.get("id").is_none() || message.get("method").is_none() {
            return reply(202, &with_session, "");
        }
        if self.has(&HttpFault::AnswersOnGet) && message["method"] != "initialize" {
            let conversation = Arc::clone(&session.conversation);
            self.tasks
                .spawn(play(acts, conversation, Outlet::Session(session)));
            return reply(202, &with_session, "");
        }
        let resumes = self
            .fault(|fault| match fault {
                HttpFault::Resumes { retry } => Some(retry),
                _ => None,
            })
            .filter(|_| message["method"] == "tools/call");
        if let (Manner::Sse, Some(retry)) = (manner, resumes) {
            return streams::ends_early(&session, acts, retry);
        }
        match manner {
            Manner::Json => {
                let conversation = Arc::clone(&session.conversation);
                match whole(acts, conversation, &session).await {
                    Ok(text) => {
                        let mut headers = with_session;
                        headers.push(("content-type", "application/json".to_owned()));
                        reply(200, &headers, &text)
                    }
                    Err(()) => streams::broken(),
                }
            }
            Manner::Sse => {
                let (outlet, pieces) = mpsc::unbounded_channel();
                if self.has(&HttpFault::Comments) {
                    outlet.send(Piece::comment()).ok();
                }
                let conversation = Arc::clone(&session.conversation);
                let playing = play(acts, conversation, Outlet::Stream(outlet));
                self.tasks.spawn(playing);
                events(pieces, &with_session, Some(Arc::clone(&self.aborted)))
            }
        }
    }

    fn get(self: &Arc<Self>, headers: &HeaderMap) -> Response<ReplyBody> {
        if let Some(status) = self.fault(|fault| match fault {
            HttpFault::AnswersGet(status) => Some(status),
            _ => None,
        }) {
            return reply(status, &[], "");
        }
        let session =
            header(headers, "mcp-session-id").and_then(|id| lock(&self.sessions).get(id).cloned());
        let Some(session) = session else {
            return reply(405, &[], "Method Not Allowed");
        };
        let (outlet, pieces) = mpsc::unbounded_channel();
        let last = header(headers, "last-event-id").unwrap_or_default();
        if let Some(message) = lock(&session.kept).remove(last) {
            outlet.send(Piece::message(&message)).ok();
        } else if !self.has(&HttpFault::GetIsEmpty) {
            *lock(&session.outlet) = Some(outlet);
        }
        events(pieces, &[], None)
    }

    async fn delete(&self, headers: &HeaderMap) -> Response<ReplyBody> {
        if self.has(&HttpFault::DeleteHangs) {
            std::future::pending::<()>().await;
        }
        let id = header(headers, "mcp-session-id").unwrap_or_default();
        match lock(&self.sessions).remove(id) {
            Some(_session) => reply(204, &[], ""),
            None => reply(404, &[], ""),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
