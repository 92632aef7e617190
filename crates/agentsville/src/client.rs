//! HTTP to a Village's edge.
//!
//! **Architecture invariant:** neither proxies from the environment nor redirects are followed: both would take the token somewhere
//! that nobody named. Whatever is read is bounded.

mod chunk;
mod server;
mod sse;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use http::{HeaderValue, Method, StatusCode, header};
use kernel::{ErrorCode, JsonText};
use serde::{Deserialize, Serialize};
use url::Url;

pub use chunk::{Chunk, Ending, Finished, InvalidChunk, Notice, Started, Usage};
pub use server::{Server, Token, token};

use crate::failure::{Failure, Problem};

/// How long a connection may take to open.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// How long an answer may take that is not a stream.
const ANSWER_TIME: Duration = Duration::from_mins(1);
/// The same where the Village waits for others: longer than it waits itself.
const LONG_ANSWER_TIME: Duration = Duration::from_mins(3);
/// How long a stream may be silent. The edge sends a comment every 15 seconds.
const SILENCE: Duration = Duration::from_mins(1);
/// The largest answer that is read: a long Conversation has many Parts of up to 1 MiB.
const ANSWER_BYTES: usize = 64 * 1_024 * 1_024;
/// The largest error that is read.
const PROBLEM_BYTES: usize = 64 * 1_024;
/// The most rows of a list.
const LIST_ROWS: usize = 10_000;

/// A client of one Village.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    server: Server,
    authorization: HeaderValue,
    /// Where the token is from, for a sentence.
    origin: String,
}

/// A list, newest first.
#[derive(Debug)]
pub struct Rows {
    /// The rows.
    pub rows: Vec<JsonText>,
    /// Whether there are more than are read.
    pub cut: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    items: Vec<JsonText>,
    next_page_token: Option<String>,
}

impl Client {
    /// A client of this Village, with this bearer token.
    pub fn new(server: Server, token: &Token) -> Result<Self, Failure> {
        let unusable = || {
            Failure::of(
                ErrorCode::Unauthenticated,
                format!(
                    "the token has characters that no token of a Village has; check {}",
                    token.origin
                ),
            )
        };
        let mut authorization = HeaderValue::from_str(&format!("Bearer {}", token.text.expose()))
            .map_err(|_invalid| unusable())?;
        authorization.set_sensitive(true);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = rustls::RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        };
        let no_client = |error: &dyn std::error::Error| {
            Failure::of(
                ErrorCode::Internal,
                format!("cannot make an HTTP client: {error}"),
            )
        };
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| no_client(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT_TIME)
            .tcp_nodelay(true)
            .user_agent(concat!("agentsville/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| no_client(&error))?;
        Ok(Self {
            http,
            server,
            authorization,
            origin: token.origin.clone(),
        })
    }

    /// Reads one thing.
    pub async fn get(&self, path: &[&str]) -> Result<JsonText, Failure> {
        self.get_with(path, &[]).await
    }

    /// The same with a query.
    pub async fn get_with(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<JsonText, Failure> {
        self.answer(Method::GET, self.server.url(path, query)?, None::<&()>)
            .await
    }

    /// Makes or does something.
    pub async fn post(&self, path: &[&str], body: &impl Serialize) -> Result<JsonText, Failure> {
        self.answer(Method::POST, self.server.url(path, &[])?, Some(body))
            .await
    }

    /// Does something that waits for others: a server that is started for the first time may have to install itself.
    pub async fn post_patiently(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<JsonText, Failure> {
        let url = self.server.url(path, &[])?;
        self.answer_within(LONG_ANSWER_TIME, Method::POST, url, Some(body))
            .await
    }

    /// Changes something.
    pub async fn patch(&self, path: &[&str], body: &impl Serialize) -> Result<JsonText, Failure> {
        self.answer(Method::PATCH, self.server.url(path, &[])?, Some(body))
            .await
    }

    /// Deletes something.
    pub async fn delete(&self, path: &[&str], query: &[(&str, &str)]) -> Result<JsonText, Failure> {
        self.answer(Method::DELETE, self.server.url(path, query)?, None::<&()>)
            .await
    }

    /// Reads a whole list, page by page.
    pub async fn list(&self, path: &[&str]) -> Result<Rows, Failure> {
        let mut rows = Vec::new();
        let mut token = String::new();
        loop {
            let page_size = kernel::limits::PAGE_ROWS.to_string();
            let mut query = vec![("pageSize", page_size.as_str())];
            if !token.is_empty() {
                query.push(("pageToken", &token));
            }
            let url = self.server.url(path, &query)?;
            let answer = self.answer(Method::GET, url, None::<&()>).await?;
            let page: Page = read(&answer)?;
            let empty = page.items.is_empty();
            rows.extend(page.items);
            match page.next_page_token {
                Some(next) if !next.is_empty() && next != token && !empty => token = next,
                Some(_) | None => return Ok(Rows { rows, cut: false }),
            }
            if rows.len() >= LIST_ROWS {
                rows.truncate(LIST_ROWS);
                return Ok(Rows { rows, cut: true });
            }
        }
    }

    /// Opens a stream of chunks.
    pub async fn stream(&self, path: &[&str], body: &impl Serialize) -> Result<Chunks, Failure> {
        let request = self
            .http
            .request(Method::POST, self.server.url(path, &[])?)
            .header(header::AUTHORIZATION, self.authorization.clone())
            .header(header::ACCEPT, "text/event-stream")
            .json(body);
        let sent = tokio::time::timeout(ANSWER_TIME, request.send()).await;
        let response = match sent {
            Ok(sent) => sent.map_err(|error| self.unreachable(&error))?,
            Err(_elapsed) => return Err(self.late(ANSWER_TIME)),
        };
        if response.status() != StatusCode::OK {
            return Err(self.refusal(response).await);
        }
        let content_type = response.headers().get(header::CONTENT_TYPE);
        let is_stream = content_type
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.starts_with("text/event-stream"));
        if !is_stream {
            return Err(self.no_village());
        }
        Ok(Chunks {
            response,
            framer: sse::Framer::default(),
            waiting: VecDeque::new(),
            over: false,
        })
    }

    async fn answer(
        &self,
        method: Method,
        url: Url,
        body: Option<&impl Serialize>,
    ) -> Result<JsonText, Failure> {
        self.answer_within(ANSWER_TIME, method, url, body).await
    }

    async fn answer_within(
        &self,
        time: Duration,
        method: Method,
        url: Url,
        body: Option<&impl Serialize>,
    ) -> Result<JsonText, Failure> {
        let mut request = self
            .http
            .request(method, url)
            .header(header::AUTHORIZATION, self.authorization.clone())
            .header(header::ACCEPT, "application/json, application/problem+json");
        if let Some(body) = body {
            request = request.json(body);
        }
        let answered = tokio::time::timeout(time, async {
            let response = request
                .send()
                .await
                .map_err(|error| self.unreachable(&error))?;
            if !response.status().is_success() {
                return Err(self.refusal(response).await);
            }
            let body = bounded(response, ANSWER_BYTES)
                .await
                .map_err(|error| self.unreachable(&error))?;
            body.ok_or_else(|| {
                Failure::of(
                    ErrorCode::ResourceExhausted,
                    format!("the Village answers with more than {ANSWER_BYTES} bytes"),
                )
            })
        });
        let body = match answered.await {
            Ok(body) => body?,
            Err(_elapsed) => return Err(self.late(time)),
        };
        JsonText::parse(&String::from_utf8_lossy(&body)).map_err(|_invalid| self.no_village())
    }

    /// What the Village says when it refuses. Something else that answers there is told apart.
    async fn refusal(&self, response: reqwest::Response) -> Failure {
        let status = response.status();
        let is_problem = response
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.starts_with("application/problem+json"));
        let body = match bounded(response, PROBLEM_BYTES).await {
            Ok(Some(body)) => body,
            Ok(None) | Err(_) => Vec::new(),
        };
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) if is_problem && !problem.detail.is_empty() => {
                Failure::Failed(self.in_words_of_here(problem))
            }
            Ok(_) | Err(_) => Failure::of(
                ErrorCode::Unavailable,
                format!(
                    "{} answered {status} and not as a Village does; check --server, and what stands before the Village",
                    self.server
                ),
            ),
        }
    }

    /// Which token was not taken is what a person at the command line can mend; the Village speaks of a header.
    fn in_words_of_here(&self, problem: Problem) -> Problem {
        if problem.code != ErrorCode::Unauthenticated {
            return problem;
        }
        let detail = format!(
            "{} does not know the token that it was sent ({}): it was revoked, is another Village's, or was replaced",
            self.server, self.origin
        );
        Problem { detail, ..problem }
    }

    fn no_village(&self) -> Failure {
        Failure::of(
            ErrorCode::Unavailable,
            format!(
                "{} answered something that is not a Village's; check --server",
                self.server
            ),
        )
    }

    fn late(&self, time: Duration) -> Failure {
        Failure::of(
            ErrorCode::DeadlineExceeded,
            format!(
                "the Village at {} did not answer within {} seconds; try again later",
                self.server,
                time.as_secs()
            ),
        )
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        Failure::of(
            ErrorCode::Unavailable,
            format!(
                "cannot reach the Village at {} ({}); is it served? Start it with `agentsville`, or name another with --server",
                self.server,
                root_cause(error)
            ),
        )
    }
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string().chars().take(200).collect()
}

/// Reads an answer into the type of its reader.
pub fn read<T: for<'de> Deserialize<'de>>(answer: &JsonText) -> Result<T, Failure> {
    serde_json::from_str(answer.as_str()).map_err(|error| {
        Failure::of(
            ErrorCode::Internal,
            format!(
                "the Village answers in a form that this release does not know ({error}); is it of another release?"
            ),
        )
    })
}

/// A body, unless it is larger than the bound.
async fn bounded(
    mut response: reqwest::Response,
    bound: usize,
) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await? {
        if body.len() + piece.len() > bound {
            return Ok(None);
        }
        body.extend_from_slice(&piece);
    }
    Ok(Some(body))
}

/// A stream of chunks as they come in.
#[derive(Debug)]
pub struct Chunks {
    response: reqwest::Response,
    framer: sse::Framer,
    waiting: VecDeque<String>,
    over: bool,
}

impl Chunks {
    /// The next chunk, as JSON; `None` when the stream says that it is over, or breaks off. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Option<JsonText>, Failure> {
        loop {
            if let Some(event) = self.waiting.pop_front()
                && event != "[DONE]"
            {
                return JsonText::parse(&event).map(Some).map_err(|error| {
                    let invalid = InvalidChunk(error.to_string());
                    Failure::of(ErrorCode::Internal, invalid.to_string())
                });
            }
            if self.over {
                return Ok(None);
            }
            // A connection that breaks is an end too: the transcript says that the turn may go on.
            let read = tokio::time::timeout(SILENCE, self.response.chunk());
            let Ok(Ok(Some(bytes))) = read.await else {
                self.over = true;
                continue;
            };
            let mut events = Vec::new();
            self.framer
                .push(&bytes, &mut events)
                .map_err(|error| Failure::of(ErrorCode::ResourceExhausted, error.to_string()))?;
            self.over = events.iter().any(|event| event == "[DONE]");
            self.waiting.extend(events);
        }
    }
}
