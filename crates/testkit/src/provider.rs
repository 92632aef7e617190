//! Providers that say what a test tells them to, over real sockets.
//!
//! A [`ScriptedProvider`] speaks one wire. What it answers comes, in this order, from the queue ([`ScriptedProvider::script`]),
//! from a function ([`ScriptedProvider::answer_with`]), or from the model's name (`scripted-<steps>x<calls>`, see
//! [`rehearsed`]), which needs no state and so serves any number of turns at once.
//!
//! It is strict: a history that a real Provider would refuse (unpaired calls, duplicate ids, results in the wrong place) is
//! answered 400 in that Provider's words, whatever the script says.
#![expect(
    clippy::expect_used,
    reason = "a test's server that cannot work must fail the test at once"
)]

mod anthropic;
mod chat_completions;
pub mod rehearsed;
mod step;
mod strict;

use std::{
    collections::VecDeque,
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use axum::{Router, body::Body, response::Response, routing::post};
use bytes::Bytes;
use futures::{Stream, stream};
use http::{HeaderMap, StatusCode, header};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

pub use self::step::{Gate, Step};
use self::step::{Head, Piece};

/// Bytes of a request that are read.
const REQUEST_BYTES: usize = 64 * 1_024 * 1_024;

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// `POST /v1/chat/completions`.
    ChatCompletions,
    /// `POST /v1/messages`.
    Anthropic,
}

/// What a server does beside answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Refuses bad histories and keeps every request: for tests.
    Strict,
    /// Takes anything and keeps every request: for tests of what happens to be sent.
    Lenient,
    /// Refuses bad histories and keeps nothing, so that it can run for hours: for benches.
    Forgetful,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Value,
    /// Its body, byte for byte: `body` rounds large numbers.
    pub text: String,
}

impl Request {
    /// The model asked for.
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// Names of the Tools offered, in order, on either wire.
    pub fn tools(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array();
        tools
            .into_iter()
            .flatten()
            .filter_map(|tool| tool["function"]["name"].as_str().or(tool["name"].as_str()))
            .collect()
    }

    /// The system prompt, on either wire.
    pub fn system(&self) -> &str {
        self.body["system"]
            .as_str()
            .or_else(|| {
                let first = &self.body["messages"][0];
                (first["role"] == "system").then(|| first["content"].as_str())?
            })
            .unwrap_or_default()
    }
}

type Answer = Arc<dyn Fn(&Request) -> Step + Send + Sync>;

struct Shared {
    wire: Wire,
    manner: Manner,
    script: Mutex<VecDeque<Step>>,
    answer: Mutex<Option<Answer>>,
    requests: Mutex<Vec<Request>>,
    counts: watch::Sender<Counts>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    connections: u64,
    requests: u64,
    hang_ups: u64,
}

/// A scripted Provider on loopback. It stops when it is dropped, and closes its connections.
pub struct ScriptedProvider {
    address: SocketAddr,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

impl fmt::Debug for ScriptedProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedProvider")
            .field("address", &self.address)
            .field("wire", &self.shared.wire)
            .finish_non_exhaustive()
    }
}

impl ScriptedProvider {
    /// Starts a strict one on a port of its own.
    pub async fn start(wire: Wire) -> Self {
        Self::start_with(wire, Manner::Strict).await
    }

    /// Starts one on a port of its own.
    pub async fn start_with(wire: Wire, manner: Manner) -> Self {
        Self::listen(wire, manner, (Ipv4Addr::LOCALHOST, 0).into())
            .await
            .expect("loopback has a free port")
    }

    /// Starts one at an address.
    pub async fn listen(wire: Wire, manner: Manner, address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            wire,
            manner,
            script: Mutex::default(),
            answer: Mutex::default(),
            requests: Mutex::default(),
            counts: watch::Sender::default(),
        });
        let path = match wire {
            Wire::ChatCompletions => "/v1/chat/completions",
            Wire::Anthropic => "/v1/messages",
        };
        let handler = {
            let shared = Arc::clone(&shared);
            move |request: axum::extract::Request| respond(Arc::clone(&shared), request)
        };
        let router = Router::new().route(path, post(handler));
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, router, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            _serving: serving,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What to set as `base_url`: with `/v1` for Chat Completions, without for Anthropic.
    pub fn base_url(&self) -> String {
        match self.shared.wire {
            Wire::ChatCompletions => format!("http://{}/v1", self.address),
            Wire::Anthropic => format!("http://{}", self.address),
        }
    }

    /// Adds answers to the queue, one a request.
    pub fn script(&self, steps: impl IntoIterator<Item = Step>) {
        lock(&self.shared.script).extend(steps);
    }

    /// Answers by a function once the queue is empty.
    pub fn answer_with(&self, answer: impl Fn(&Request) -> Step + Send + Sync + 'static) {
        *lock(&self.shared.answer) = Some(Arc::new(answer));
    }

    /// The requests so far, refused ones included.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared.requests).clone()
    }

    /// Waits until there have been so many requests.
    pub async fn wait_for_requests(&self, count: u64) {
        let mut counts = self.shared.counts.subscribe();
        counts
            .wait_for(|counts| counts.requests >= count)
            .await
            .expect("the sender lives as long as this");
    }

    /// How many connections there have been.
    pub fn connections(&self) -> u64 {
        self.shared.counts.borrow().connections
    }

    /// How many answers the client closed before their end.
    pub fn hang_ups(&self) -> u64 {
        self.shared.counts.borrow().hang_ups
    }

    /// Waits until the client closed so many answers before their end.
    pub async fn wait_for_hang_ups(&self, count: u64) {
        let mut counts = self.shared.counts.subscribe();
        counts
            .wait_for(|counts| counts.hang_ups >= count)
            .await
            .expect("the sender lives as long as this");
    }
}

/// Serves connections until it is aborted, and they with it.
async fn accept(listener: TcpListener, router: Router, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely: those that end make room.
            tokio::task::yield_now().await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        shared.counts.send_modify(|counts| counts.connections += 1);
        // Without it answers in chunks come late, and are still right.
        stream.set_nodelay(true).unwrap_or_default();
        let service = TowerToHyperService::new(router.clone());
        connections.spawn(async move {
            auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await
                .unwrap_or_default();
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn respond(shared: Arc<Shared>, request: axum::extract::Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, REQUEST_BYTES).await else {
        return refuse(&shared, 413, "the request is too large or broke off");
    };
    let Ok(body) = serde_json::from_slice::<Value>(&bytes) else {
        shared.counts.send_modify(|counts| counts.requests += 1);
        return refuse(&shared, 400, "the request is not JSON");
    };
    let request = Request {
        headers: head.headers,
        body,
        text: String::from_utf8_lossy(&bytes).into_owned(),
    };
    let judged = match (shared.manner, shared.wire) {
        (Manner::Lenient, _) => Ok(()),
        (Manner::Strict | Manner::Forgetful, Wire::ChatCompletions) => {
            strict::chat_completions(&request.body)
        }
        (Manner::Strict | Manner::Forgetful, Wire::Anthropic) => {
            strict::anthropic(&request.body, &request.headers)
        }
    };
    let answer = match judged {
        Ok(()) => Ok(next_step(&shared, &request)),
        Err(problem) => Err(problem),
    };
    let rendered = answer.map(|step| {
        let number = shared.counts.borrow().requests;
        let pieces = match shared.wire {
            Wire::ChatCompletions => chat_completions::render(&step, &request.body, number),
            Wire::Anthropic => anthropic::render(&step, &request.body, number),
        };
        (step.head, pieces)
    });
    if shared.manner != Manner::Forgetful {
        lock(&shared.requests).push(request);
    }
    shared.counts.send_modify(|counts| counts.requests += 1);
    match rendered {
        Ok((head, pieces)) => answer_with(shared, head, pieces).await,
        Err(problem) => refuse(&shared, 400, &problem),
    }
}

fn next_step(shared: &Shared, request: &Request) -> Step {
    if let Some(step) = lock(&shared.script).pop_front() {
        return step;
    }
    let answer = lock(&shared.answer).clone();
    if let Some(answer) = answer {
        return answer(request);
    }
    rehearsed::step(request).unwrap_or_else(|| {
        let body = json!({"error": {"message": "the script is over", "type": "server_error"}});
        Step::refusal(500, body.to_string())
    })
}

async fn answer_with(shared: Arc<Shared>, head: Head, pieces: VecDeque<Piece>) -> Response {
    if head.never {
        std::future::pending::<()>().await;
    }
    let mut response = Response::builder().status(head.status);
    let typed = head.headers.iter().any(|(name, _)| name == "content-type");
    if !typed {
        response = response.header(header::CONTENT_TYPE, "text/event-stream");
    }
    for (name, value) in &head.headers {
        response = response.header(name, value);
    }
    // Without pauses the whole answer is one body, and costs a bench next to nothing.
    let at_once = pieces.iter().all(|piece| matches!(piece, Piece::Bytes(_)));
    let body = if at_once {
        let mut whole = Vec::new();
        for piece in pieces {
            if let Piece::Bytes(bytes) = piece {
                whole.extend_from_slice(&bytes);
            }
        }
        Body::from(whole)
    } else {
        Body::from_stream(body(shared, pieces))
    };
    response.body(body).expect("headers that a test set")
}

/// Counts an answer that is dropped before its end.
struct Unfinished {
    shared: Arc<Shared>,
    pieces: VecDeque<Piece>,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.pieces.is_empty() {
            self.shared
                .counts
                .send_modify(|counts| counts.hang_ups += 1);
        }
    }
}

fn body(
    shared: Arc<Shared>,
    pieces: VecDeque<Piece>,
) -> impl Stream<Item = Result<Bytes, io::Error>> + Send {
    stream::unfold(Unfinished { shared, pieces }, async |mut rest| {
        loop {
            // It stays in the queue until it was said, so that a client that leaves meanwhile is counted.
            match rest.pieces.front()?.clone() {
                Piece::Bytes(bytes) => {
                    rest.pieces.pop_front();
                    return Some((Ok(bytes), rest));
                }
                Piece::Pause(time) => tokio::time::sleep(time).await,
                Piece::Gate(gate) => gate.pass().await,
                Piece::Silence => std::future::pending().await,
                Piece::Break => {
                    // The server writes out what came before when it has to wait, and forgets it when it fails.
                    tokio::task::yield_now().await;
                    rest.pieces.clear();
                    let broken = io::Error::other("the script says to break off");
                    return Some((Err(broken), rest));
                }
            }
            rest.pieces.pop_front();
        }
    })
}

/// An error in the wire's form.
fn refuse(shared: &Shared, status: u16, problem: &str) -> Response {
    let body = match shared.wire {
        Wire::ChatCompletions => json!({
            "error": {"message": problem, "type": "invalid_request_error", "param": null, "code": null}
        }),
        Wire::Anthropic => json!({
            "type": "error",
            "error": {"type": "invalid_request_error", "message": problem}
        }),
    };
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    response
}

/// One server-sent event.
fn event(data: &Value) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

/// Anthropic names its events too.
fn named_event(data: &Value) -> Bytes {
    let name = data["type"].as_str().unwrap_or_default();
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}
