//! An MCP Server that answers as quickly as HTTP allows: keep-alive, JSON answers, nothing kept for a call, nothing that grows.
//!
//! Its Tools are at `/ERA/COUNT`: so many of them, in that era of the protocol. `echo`, which is always there, gives its message back.
//! At `/ERA/COUNT/MILLIS` that takes so long, as Tools do that ask somebody else; at `/ERA/COUNT/MILLIS/BYTES` it gives so many bytes more.
//! `/hanging` takes requests and answers none. `/expire` ends every session there is.

use std::{
    convert::Infallible,
    fmt::Write as _,
    future::pending,
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::process::{Process, this_program};

/// Tools of one page of a list.
const PAGE: usize = 250;
/// The header of sessions, which the modern era does not have.
const SESSION: &str = "mcp-session-id";

/// An era of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Era {
    /// 2026-07-28, without a handshake and sessions.
    Modern,
    /// 2025-11-25, with both.
    Legacy,
}

impl Era {
    pub(crate) const BOTH: [Self; 2] = [Self::Modern, Self::Legacy];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Modern => "modern",
            Self::Legacy => "legacy",
        }
    }
}

/// The server's process.
pub(crate) struct Upstream {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    process: Process,
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let mut child = this_program()
            .arg("upstream")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        Self {
            address: line.trim().parse().unwrap(),
            process: Process(child),
        }
    }

    /// A server of so many Tools.
    pub(crate) fn url(&self, era: Era, tools: usize) -> String {
        format!("http://{}/{}/{tools}", self.address, era.name())
    }

    /// A server of one Tool that takes so long.
    pub(crate) fn busy_url(&self, era: Era, millis: u64) -> String {
        format!("{}/{millis}", self.url(era, 1))
    }

    /// A server of one Tool that gives so many bytes more than it is told.
    pub(crate) fn long_url(&self, era: Era, bytes: usize) -> String {
        format!("{}/{bytes}", self.busy_url(era, 0))
    }

    /// A server that never answers.
    pub(crate) fn hanging(&self) -> String {
        format!("http://{}/hanging", self.address)
    }

    /// Ends every session there is.
    pub(crate) async fn expire(&self) {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("http://{}/expire", self.address);
        assert!(client.post(url).send().await.unwrap().status().is_success());
    }

    pub(crate) fn resident(&self) -> usize {
        self.process.usage().resident
    }
}

/// What the server is made of.
struct Server {
    /// How often sessions ended. A session's id is the number under which it began.
    expired: AtomicU64,
}

/// The child's side: prints where it listens, and serves until it is killed.
pub(crate) async fn run() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    let server = Arc::new(Server {
        expired: AtomicU64::new(0),
    });
    let connections = TaskTracker::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let server = Arc::clone(&server);
        connections.spawn(async move {
            let service = service_fn(|request| answer(&server, request));
            // A client that hangs up in the middle is no trouble of the server's.
            drop(
                http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await,
            );
        });
    }
}

/// A message of a client, as far as it is read.
#[derive(Deserialize)]
struct Message<'m> {
    #[serde(borrow)]
    id: Option<&'m RawValue>,
    method: &'m str,
    #[serde(borrow)]
    params: Option<&'m RawValue>,
}

#[derive(Deserialize)]
struct Call<'m> {
    #[serde(borrow)]
    arguments: Echo<'m>,
}

#[derive(Deserialize)]
struct Echo<'m> {
    #[serde(borrow)]
    message: &'m RawValue,
}

#[derive(Default, Deserialize)]
struct Listing {
    cursor: Option<String>,
}

type Answer = Response<Full<Bytes>>;

async fn answer(server: &Server, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let (head, body) = request.into_parts();
    let mut path = head.uri.path().trim_start_matches('/').split('/');
    let (first, tools, millis) = (path.next().unwrap_or_default(), path.next(), path.next());
    let era = match first {
        "modern" => Era::Modern,
        "legacy" => Era::Legacy,
        "expire" => {
            server.expired.fetch_add(1, Ordering::Relaxed);
            return Ok(empty(StatusCode::NO_CONTENT));
        }
        "hanging" => return pending().await,
        _ => return Ok(empty(StatusCode::NOT_FOUND)),
    };
    if head.method != Method::POST {
        return Ok(empty(StatusCode::METHOD_NOT_ALLOWED));
    }
    let Ok(body) = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
    else {
        return Ok(empty(StatusCode::BAD_REQUEST));
    };
    let Ok(message) = serde_json::from_slice::<Message<'_>>(&body) else {
        return Ok(empty(StatusCode::BAD_REQUEST));
    };
    let Some(id) = message.id else {
        return Ok(empty(StatusCode::ACCEPTED));
    };
    let session = server.expired.load(Ordering::Relaxed);
    if let Some(named) = head.headers.get(SESSION)
        && named.as_bytes() != session.to_string().as_bytes()
    {
        return Ok(empty(StatusCode::NOT_FOUND));
    }
    let tools = tools.and_then(|text| text.parse().ok()).unwrap_or(1);
    if message.method == "tools/call"
        && let Some(millis @ 1..) = millis.and_then(|text| text.parse().ok())
    {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
    let more = path.next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let result = result(era, &message, tools, more);
    let mut answer = match result {
        Some(result) => json(
            StatusCode::OK,
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        ),
        None => json(
            StatusCode::BAD_REQUEST,
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"there is no such method"}}}}"#
            ),
        ),
    };
    if era == Era::Legacy && message.method == "initialize" {
        answer
            .headers_mut()
            .insert(SESSION, HeaderValue::from(session));
    }
    Ok(answer)
}

fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = status;
    answer
}

fn json(status: StatusCode, text: String) -> Answer {
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

/// A request's result, if the server has one; a call's has so many bytes more.
fn result(era: Era, message: &Message<'_>, tools: usize, more: usize) -> Option<String> {
    let params = message.params.map_or("{}", RawValue::get);
    match (message.method, era) {
        ("tools/call", _) => {
            let call: Call<'_> = serde_json::from_str(params).ok()?;
            Some(format!(
                r#"{{"resultType":"complete","content":[{{"type":"text","text":{}}},{{"type":"text","text":"{}"}}]}}"#,
                call.arguments.message,
                "A line of a log, \\\"quoted\\\".\\n".repeat(more / 32)
            ))
        }
        ("tools/list", _) => {
            let asked: Listing = serde_json::from_str(params).unwrap_or_default();
            let first = asked.cursor.map_or(Some(0), |cursor| cursor.parse().ok())?;
            Some(page(first, tools))
        }
        ("ping", Era::Legacy) => Some("{}".to_owned()),
        ("initialize", Era::Legacy) => Some(
            r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"upstream","version":"1"}}"#
                .to_owned(),
        ),
        ("server/discover", Era::Modern) => Some(
            r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"upstream","version":"1"}}}"#
                .to_owned(),
        ),
        _ => None,
    }
}

/// One page of a list. Lists of the modern era would say for how long they hold; this one leaves that to whoever asks.
fn page(first: usize, tools: usize) -> String {
    let end = (first + PAGE).min(tools);
    let mut page = r#"{"resultType":"complete","tools":["#.to_owned();
    for number in first..end {
        let comma = if number == first { "" } else { "," };
        let name = if number == 0 {
            "echo".to_owned()
        } else {
            format!("tool_{number}")
        };
        write!(
            page,
            r#"{comma}{{"name":"{name}","description":"Gives back what it is told, as number {number} of its kind; whatever it is, it stays as it is.","inputSchema":{{"type":"object","properties":{{"message":{{"type":"string","description":"What to give back."}}}},"required":["message"]}}}}"#
        )
        .unwrap();
    }
    page.push(']');
    if end < tools {
        write!(page, r#","nextCursor":"{end}""#).unwrap();
    }
    page.push('}');
    page
}
