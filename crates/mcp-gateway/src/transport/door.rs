//! One HTTP request to a server: judged, with its credentials opened for just this request, and redirected within itself at most.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use kernel::Secret;
use outbound::{Body, Connector, Consumer, End, Lane, LaneBounds, Schemes, Target};
use tokio::time::Instant;
use url::Url;

use crate::{
    Failure, RemoteEndpoint,
    failure::{Credentials, Redactor},
};

/// Redirects of one request that are followed, all within the server's own origin.
const MAX_REDIRECTS: usize = 3;
/// How long a connection waits for the next request.
const IDLE_TIME: Duration = Duration::from_secs(30);
/// How many wait at the same time.
const IDLE_CONNECTIONS: usize = 16;
/// Bytes of a refusal that are read.
const REFUSAL_BYTES: usize = 64 * 1_024;
/// How long reading a refusal may take.
const REFUSAL_TIME: Duration = Duration::from_secs(5);
/// What this client calls itself.
const USER_AGENT: &str = concat!("AgentsVille/", env!("CARGO_PKG_VERSION"));

pub(super) const JSON: &str = "application/json";
pub(super) const EVENTS: &str = "text/event-stream";

/// The way to one server. Its connections are its own.
#[derive(Debug)]
pub(crate) struct Door {
    lane: Lane,
    endpoint: RemoteEndpoint,
    time_to_connect: Duration,
}

/// What is asked.
#[derive(Debug)]
pub(super) struct Ask {
    /// The method.
    pub(super) method: Method,
    /// Headers besides the endpoint's own; they win over those.
    pub(super) headers: HeaderMap,
    /// The body; JSON if there is one.
    pub(super) body: Bytes,
    /// Until when the answer's head must be there.
    pub(super) deadline: Instant,
    /// Where to, if not to the endpoint's URL.
    pub(super) url: Option<Url>,
}

impl Ask {
    /// A request to the endpoint's URL that takes these types.
    pub(super) fn new(
        method: Method,
        accept: &'static str,
        body: Bytes,
        deadline: Instant,
    ) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        if !body.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        }
        Self {
            method,
            headers,
            body,
            deadline,
            url: None,
        }
    }
}

/// What was answered: any status but a redirect's.
#[derive(Debug)]
pub(super) struct Answer {
    /// The answer.
    pub(super) response: Response<Body>,
    /// Whether the server was given anything that could be a credential.
    pub(super) credentials: Credentials,
}

impl Answer {
    /// The media type, in lower case and without parameters.
    pub(super) fn media_type(&self) -> String {
        let value = self.response.headers().get(header::CONTENT_TYPE);
        let text = value.and_then(|value| value.to_str().ok());
        let text = text.unwrap_or_default().split(';').next();
        text.unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Whether a web page answers.
    pub(super) fn is_html(&self) -> bool {
        matches!(
            self.media_type().as_str(),
            "text/html" | "application/xhtml+xml"
        )
    }
}

impl Door {
    pub(crate) fn new(
        connector: &Connector,
        endpoint: &RemoteEndpoint,
        time_to_connect: Duration,
    ) -> Self {
        let bounds = LaneBounds {
            idle_time: IDLE_TIME,
            idle_connections: IDLE_CONNECTIONS,
        };
        Self {
            lane: connector.lane(Consumer::Mcp, bounds),
            endpoint: endpoint.clone(),
            time_to_connect,
        }
    }

    /// The endpoint's whole URL.
    pub(super) fn url(&self) -> Result<Url, Failure> {
        let text = self.endpoint.url();
        let text = text.map_err(|error| Failure::of_unsealing(&error))?;
        let parsed = Target::parse(text.expose(), Schemes::HttpAndHttps);
        let (url, _target) = parsed.map_err(|refusal| Failure::of_connection(&refusal.into()))?;
        Ok(url)
    }

    /// Asks, within the server's own origin.
    pub(super) async fn ask(&self, ask: Ask) -> Result<Answer, Failure> {
        let own = self.url()?;
        let has_query = own.query().is_some();
        let given = self.headers()?;
        let credentials = if has_query || !given.is_empty() {
            Credentials::Given
        } else {
            Credentials::None
        };
        let mut headers = given;
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        // Ours win: a header that belongs to the protocol is not the record's to set.
        for (name, value) in &ask.headers {
            headers.insert(name, value.clone());
        }
        let mut url = ask.url.clone().unwrap_or(own);
        let connected_by = ask.deadline.min(Instant::now() + self.time_to_connect);
        for _hop in 0..=MAX_REDIRECTS {
            let target = Target::of(&url, Schemes::HttpAndHttps)
                .map_err(|refusal| Failure::of_connection(&refusal.into()))?;
            let mut request = Request::new(ask.body.clone());
            ask.method.clone_into(request.method_mut());
            headers.clone_into(request.headers_mut());
            *request.uri_mut() = path_of(&url)?;
            let sent = self
                .lane
                .request_within(&target, request, connected_by, ask.deadline);
            let response = sent.await.map_err(|error| Failure::of_connection(&error))?;
            match self.redirect(&url, &response)? {
                Some(next) => url = next,
                None => {
                    return Ok(Answer {
                        response,
                        credentials,
                    });
                }
            }
        }
        Err(Failure::redirects_in_circles())
    }

    /// Where an answer sends its client on to, if it may.
    fn redirect(&self, from: &Url, response: &Response<Body>) -> Result<Option<Url>, Failure> {
        let status = response.status();
        if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let to = response
            .headers()
            .get(header::LOCATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| from.join(text).ok());
        match to {
            // Only these keep the method and the body (RFC 9110 section 15.4).
            Some(to) if matches!(status.as_u16(), 307 | 308) && to.origin() == from.origin() => {
                Ok(Some(to))
            }
            to => Err(Failure::redirects(status, to.as_ref(), &self.redactor())),
        }
    }

    /// What became of a request that was answered with a status that is no success. The status says more than the body.
    pub(super) async fn refusal(&self, answer: Answer) -> (Failure, Vec<u8>) {
        let status = answer.response.status();
        let is_html = answer.is_html();
        let credentials = answer.credentials;
        let (head, body) = answer.response.into_parts();
        let read = body.read_at_most(REFUSAL_BYTES, Instant::now() + REFUSAL_TIME);
        let bytes = read.await.map(|(bytes, _end)| bytes).unwrap_or_default();
        let says_nothing = is_html || looks_like_html(&bytes);
        let said = if says_nothing {
            String::new()
        } else {
            self.redactor().quote(&String::from_utf8_lossy(&bytes))
        };
        let keeps_its_code = matches!(status.as_u16(), 401 | 403 | 404 | 429 | 500..=599);
        let failure = if says_nothing && !keeps_its_code {
            Failure::html(status)
        } else {
            Failure::of_status(status, &head.headers, &said, credentials)
        };
        (failure, bytes)
    }

    /// A whole body of at most so many bytes.
    pub(super) async fn whole(
        &self,
        body: Body,
        limit: usize,
        deadline: Instant,
    ) -> Result<Vec<u8>, Failure> {
        let read = body.read_at_most(limit, deadline).await;
        match read.map_err(|error| Failure::of_connection(&error))? {
            (bytes, End::Complete) => Ok(bytes),
            (_, End::Cut) => Err(Failure::too_long(limit)),
            (_, End::Broken) => Err(Failure::broke_off()),
        }
    }

    /// What a server said, as it may be told on.
    pub(crate) fn redactor(&self) -> Redactor {
        let headers: Vec<Secret> = self
            .endpoint
            .headers
            .open()
            .unwrap_or_default()
            .into_iter()
            .map(|(_, value)| value)
            .collect();
        Redactor::new(&headers, self.url().ok().as_ref())
    }

    fn headers(&self) -> Result<HeaderMap, Failure> {
        let opened = self.endpoint.headers.open();
        let opened = opened.map_err(|error| Failure::of_unsealing(&error))?;
        let mut headers = HeaderMap::with_capacity(opened.len());
        for (name, value) in opened {
            let parsed = name.parse::<HeaderName>().ok();
            let sealed = HeaderValue::from_str(value.expose().trim()).ok();
            let (Some(parsed), Some(mut sealed)) = (parsed, sealed) else {
                return Err(Failure::bad_header(&name));
            };
            sealed.set_sensitive(true);
            headers.append(parsed, sealed);
        }
        Ok(headers)
    }
}

/// Whether a text begins as a web page does, whatever its type says.
pub(super) fn looks_like_html(bytes: &[u8]) -> bool {
    let start = bytes.trim_ascii_start();
    let start = &start[..start.len().min(9)];
    let start = start.to_ascii_lowercase();
    start.starts_with(b"<!doctype") || start.starts_with(b"<html") || start.starts_with(b"<head")
}

/// Whether a status says that a request was taken.
pub(super) fn is_success(status: StatusCode) -> bool {
    status.is_success()
}

fn path_of(url: &Url) -> Result<http::Uri, Failure> {
    url[url::Position::BeforePath..url::Position::AfterQuery]
        .parse()
        .map_err(|_source| {
            Failure::new(
                crate::FailureCode::BadUrl,
                "The URL's path has characters that cannot be sent.",
                "Check the URL.",
            )
        })
}
