//! One fetch: a chain of requests, each judged as if it were the first.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use kernel::Timestamp;
use outbound::{Body, Consumer, End, Schemes, Target};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};
use url::{Position, Url};

use crate::{
    Config, Deps, HostList,
    page::{self, Kind, Page},
    refusal::{Reason, Refusal},
};

/// Fetches that run at the same time in one process; further ones wait, within their deadline. Each may hold a whole body.
const CONCURRENT_FETCHES: usize = 64;
/// Who asks. Sites can tell us apart, and find out who we are.
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!(
    "AgentsVille/",
    env!("CARGO_PKG_VERSION"),
    " (fetch_url; reads pages for a user's agent)"
));
/// Text first, whatever it is next.
const ACCEPT: HeaderValue = HeaderValue::from_static(
    "text/html, application/xhtml+xml, application/json;q=0.9, text/*;q=0.9, */*;q=0.5",
);
/// Codings that servers use although they were asked not to.
const CODINGS: [&str; 5] = ["br", "compress", "deflate", "gzip", "zstd"];
/// Bytes that expand in our memory are not asked for.
const ACCEPT_ENCODING: HeaderValue = HeaderValue::from_static("identity");

/// What to fetch.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    /// The URL, as the model wrote it.
    pub(crate) url: String,
    /// Where to go on, in characters.
    pub(crate) start_index: u64,
    /// Hosts that this NPC may reach.
    pub(crate) hosts: HostList,
    /// How long the caller waits.
    pub(crate) patience: Duration,
}

/// A page that came.
#[derive(Debug, Clone)]
pub(crate) struct Fetched {
    pub(crate) url: Url,
    pub(crate) status: StatusCode,
    pub(crate) content_type: String,
    pub(crate) page: Page,
    pub(crate) end: End,
    pub(crate) body_bytes: usize,
    pub(crate) redirects: u32,
    pub(crate) at: Timestamp,
}

/// How far a chain came, for the wide event, also when it is dropped on the way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The last host, as `host` and port.
    pub(crate) server: Option<(String, u16)>,
    /// Redirects that were followed.
    pub(crate) redirects: u32,
}

/// Fetches pages.
#[derive(Debug, Clone)]
pub(crate) struct Fetcher {
    config: Arc<Config>,
    deps: Deps,
    running: Arc<Semaphore>,
}

/// One request of a chain: where to, and which it is.
struct Hop {
    url: Url,
    target: Target,
    /// From 0; so many redirects led here.
    number: u32,
}

/// The answer to one request of a chain.
enum Answer {
    Page(Response<Body>),
    Redirect(Url),
}

impl Fetcher {
    pub(crate) fn new(config: Config, deps: Deps) -> Self {
        Self {
            config: Arc::new(config),
            deps,
            running: Arc::new(Semaphore::new(CONCURRENT_FETCHES)),
        }
    }

    /// Fetches a page within one deadline, over the wait for a place, every hop and the body.
    pub(crate) async fn fetch(
        &self,
        ask: &Ask,
        progress: &mut Progress,
    ) -> Result<Fetched, Refusal> {
        let time = self.config.deadline.min(ask.patience);
        let deadline = Instant::now() + time;
        let _place = timeout_at(deadline, self.running.acquire())
            .await
            .map_err(|_elapsed| {
                Refusal::new(
                    Reason::Timeout,
                    0,
                    "too many pages are being fetched at the moment",
                )
            })?;
        let (url, target) = Target::parse(&ask.url, Schemes::Https)
            .map_err(|refused| Refusal::of(&refused.into(), 0))?;
        let mut hop = Hop {
            url,
            target,
            number: 0,
        };
        loop {
            progress.server = Some((hop.target.host().to_string(), hop.target.port()));
            progress.redirects = hop.number;
            self.check_host(ask, &hop)?;
            match self.get(&hop, deadline).await? {
                Answer::Page(response) => return self.read(hop, response, ask, deadline).await,
                Answer::Redirect(url) => hop = self.next(&hop, url)?,
            }
        }
    }

    fn check_host(&self, ask: &Ask, hop: &Hop) -> Result<(), Refusal> {
        let host = hop.target.host();
        if self.config.hosts.allows(host) && ask.hosts.allows(host) {
            return Ok(());
        }
        Err(Refusal::new(
            Reason::HostNotAllowed,
            hop.number,
            &format!("{host} is not among the hosts that may be fetched"),
        ))
    }

    fn next(&self, hop: &Hop, url: Url) -> Result<Hop, Refusal> {
        if hop.number >= self.config.max_hops {
            return Err(Refusal::new(
                Reason::Redirect,
                hop.number,
                &format!(
                    "the page redirects once more, and at most {} redirects are followed",
                    self.config.max_hops
                ),
            ));
        }
        let number = hop.number + 1;
        let target = Target::of(&url, Schemes::Https)
            .map_err(|refused| Refusal::of(&refused.into(), number))?;
        Ok(Hop {
            url,
            target,
            number,
        })
    }

    /// One request. The body of a redirect is dropped unread, and its connection with it.
    async fn get(&self, hop: &Hop, deadline: Instant) -> Result<Answer, Refusal> {
        // Path and query alone: the fragment stays here, and the host is the judged one.
        let request = Request::get(&hop.url[Position::BeforePath..Position::AfterQuery])
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::ACCEPT, ACCEPT)
            .header(header::ACCEPT_ENCODING, ACCEPT_ENCODING)
            .body(Bytes::new())
            .map_err(|problem| {
                Refusal::new(Reason::InvalidUrl, hop.number, &problem.to_string())
            })?;
        let response = self
            .deps
            .connector
            .request(&hop.target, Consumer::Fetch, request, deadline)
            .await
            .map_err(|error| Refusal::of(&error, hop.number))?;
        if !is_followed(response.status()) {
            return Ok(Answer::Page(response));
        }
        next_url(&hop.url, response.headers())
            .map(Answer::Redirect)
            .map_err(|what| Refusal::new(Reason::Redirect, hop.number, &what))
    }

    async fn read(
        &self,
        hop: Hop,
        response: Response<Body>,
        ask: &Ask,
        deadline: Instant,
    ) -> Result<Fetched, Refusal> {
        let status = response.status();
        let content_type = text_of(response.headers(), &header::CONTENT_TYPE);
        let announced = text_of(response.headers(), &header::CONTENT_LENGTH)
            .parse()
            .ok();
        refuse_encoding(response.headers(), hop.number)?;
        let (page, end, body_bytes) = if page::kind_of(&content_type) == Kind::Other {
            let page = Page::whole(page::describe(&content_type, announced));
            (page, End::Complete, 0)
        } else {
            let (body, end) = response
                .into_body()
                .read_at_most(self.config.body_bytes, deadline)
                .await
                .map_err(|error| Refusal::of(&error, hop.number))?;
            let page = match page::read(&body, end) {
                Some(text) => page::cut(&text, ask.start_index, self.config.page_characters),
                None => Page::whole(page::describe(&content_type, announced)),
            };
            (page, end, body.len())
        };
        Ok(Fetched {
            url: hop.url,
            status,
            content_type,
            page,
            end,
            body_bytes,
            redirects: hop.number,
            at: self.deps.clock.now(),
        })
    }
}

/// The statuses that redirect a GET (RFC 9110 section 15.4). 300, 304, 305 and 306 are answers.
fn is_followed(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    )
}

/// Where a redirect leads. What it means is judged like any URL.
fn next_url(from: &Url, headers: &HeaderMap) -> Result<Url, String> {
    let location = headers
        .get(header::LOCATION)
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .filter(|location| !location.is_empty())
        .ok_or_else(|| "the page redirects without saying where to".to_owned())?;
    if location.len() > outbound::URL_BYTES {
        return Err(format!(
            "the page redirects to a URL of {} bytes, and at most {} are allowed",
            location.len(),
            outbound::URL_BYTES
        ));
    }
    from.join(&location)
        .map_err(|problem| format!("the page redirects to something that is not a URL: {problem}"))
}

fn refuse_encoding(headers: &HeaderMap, hop: u32) -> Result<(), Refusal> {
    let encoding = text_of(headers, &header::CONTENT_ENCODING);
    if encoding.is_empty() || encoding.eq_ignore_ascii_case("identity") {
        return Ok(());
    }
    // A model reads this sentence as ours: of the server's words only names of codings get into it (RFC 9110 section 8.4.1).
    let known = |coding: &str| {
        CODINGS
            .iter()
            .any(|known| coding.trim().eq_ignore_ascii_case(known))
    };
    let shown = if encoding.split(',').all(known) {
        encoding.as_str()
    } else {
        "in a way that is not known here"
    };
    Err(Refusal::new(
        Reason::BadResponse,
        hop,
        &format!("the host sent its answer compressed ({shown}), although it was asked not to"),
    ))
}

/// A header's text, if it has one. More than a line's worth is cut.
fn text_of(headers: &HeaderMap, name: &header::HeaderName) -> String {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .map(|text| text.chars().take(200).collect())
        .unwrap_or_default()
}
