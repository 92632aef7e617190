//! The requests of one fetch, each judged as if it were the first, all under one deadline.

use std::sync::atomic::AtomicU64;

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use outbound::{Body, Consumer, Lane, LaneBounds, Schemes, Target};
use tokio::time::Instant;
use url::{Position, Url};

use crate::{
    Config, HostList,
    body::{Arrived, Bounds, Memory},
    coding::{ACCEPTED, Coding},
    refusal::{Reason, Refusal},
};

/// Text first, whatever it is next.
const ACCEPT: HeaderValue = HeaderValue::from_static(
    "text/html, application/xhtml+xml, text/markdown;q=0.9, application/json;q=0.9, text/*;q=0.9, application/pdf;q=0.8, */*;q=0.5",
);
const ACCEPT_ENCODING: HeaderValue = HeaderValue::from_static(ACCEPTED);

/// One request of a chain: where to, and which it is.
#[derive(Debug, Clone)]
pub(crate) struct Hop {
    pub(crate) url: Url,
    pub(crate) target: Target,
    /// From 0; so many redirects led here.
    pub(crate) number: u32,
}

/// The answer to one request of a chain.
pub(crate) enum Answer {
    Page(Box<Response<Body>>),
    Redirect(Url),
}

/// What the requests of one fetch have in common. Connections are kept between them, and for nobody else.
pub(crate) struct Chain<'f> {
    config: &'f Config,
    hosts: &'f HostList,
    memory: &'f Memory,
    lane: Lane,
    deadline: Instant,
    /// Bytes of bodies, as they were sent.
    pub(crate) wire_bytes: &'f AtomicU64,
}

impl Hop {
    pub(crate) fn new(url: Url, number: u32) -> Result<Self, Refusal> {
        let target = Target::of(&url, Schemes::Https)
            .map_err(|refused| Refusal::of(&refused.into(), number))?;
        Ok(Self {
            url,
            target,
            number,
        })
    }

    /// The first hop of a chain, from the text that the model wrote.
    pub(crate) fn first(text: &str) -> Result<Self, Refusal> {
        let (url, target) = Target::parse(text, Schemes::Https)
            .map_err(|refused| Refusal::of(&refused.into(), 0))?;
        Ok(Self {
            url,
            target,
            number: 0,
        })
    }

    /// Where its host would say who may read what.
    pub(crate) fn robots_file(&self) -> Option<Self> {
        let url = self.url.join("/robots.txt").ok()?;
        Self::new(url, self.number).ok()
    }
}

impl<'f> Chain<'f> {
    pub(crate) fn new(
        config: &'f Config,
        hosts: &'f HostList,
        memory: &'f Memory,
        connector: &outbound::Connector,
        (deadline, wire_bytes): (Instant, &'f AtomicU64),
    ) -> Self {
        Self {
            config,
            hosts,
            memory,
            lane: connector.lane(Consumer::Fetch, LaneBounds::default()),
            deadline,
            wire_bytes,
        }
    }

    /// The name that hosts know us by.
    pub(crate) fn product(&self) -> &'f str {
        self.config.user_agent.product()
    }

    pub(crate) fn check_host(&self, hop: &Hop) -> Result<(), Refusal> {
        check_host(self.config, self.hosts, hop)
    }

    /// One request. The body of a redirect is dropped unread, and its connection with it.
    pub(crate) async fn get(&self, hop: &Hop) -> Result<Answer, Refusal> {
        // Path and query alone: the fragment stays here, and the host is the judged one.
        let request = Request::get(&hop.url[Position::BeforePath..Position::AfterQuery])
            .header(header::USER_AGENT, self.config.user_agent.header())
            .header(header::ACCEPT, ACCEPT)
            .header(header::ACCEPT_ENCODING, ACCEPT_ENCODING)
            .body(bytes::Bytes::new())
            .map_err(|problem| {
                Refusal::new(Reason::InvalidUrl, hop.number, &problem.to_string())
            })?;
        let response = self
            .lane
            .request(&hop.target, request, self.deadline)
            .await
            .map_err(|error| Refusal::of(&error, hop.number))?;
        if !is_followed(response.status()) {
            return Ok(Answer::Page(Box::new(response)));
        }
        next_url(hop, response.headers()).map(Answer::Redirect)
    }

    /// A body, as far as it comes.
    pub(crate) async fn body(&self, body: Body, coding: Coding, bounds: Bounds) -> Arrived {
        self.body_until(body, coding, bounds, self.deadline).await
    }

    pub(crate) async fn body_until(
        &self,
        body: Body,
        coding: Coding,
        bounds: Bounds,
        until: Instant,
    ) -> Arrived {
        self.memory
            .read(body, coding, bounds, until, self.wire_bytes)
            .await
    }

    /// Where a redirect leads, if one more may be followed.
    pub(crate) fn follow(&self, hop: &Hop, url: Url) -> Result<Hop, Refusal> {
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
        Hop::new(url, hop.number + 1)
    }
}

/// Refuses a host that is not on the lists of the Village and the NPC.
pub(crate) fn check_host(config: &Config, hosts: &HostList, hop: &Hop) -> Result<(), Refusal> {
    let host = hop.target.host();
    if config.hosts.allows(host) && hosts.allows(host) {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::HostNotAllowed,
        hop.number,
        &format!("{host} is not among the hosts that may be fetched"),
    ))
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
fn next_url(from: &Hop, headers: &HeaderMap) -> Result<Url, Refusal> {
    let nowhere = |what: &str| Refusal::new(Reason::Redirect, from.number, what);
    let location = headers
        .get(header::LOCATION)
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .filter(|location| !location.is_empty())
        .ok_or_else(|| nowhere("the page redirects without saying where to"))?;
    // Before joining: the parser's work grows with the text.
    if location.len() > outbound::URL_BYTES
        && let Err(too_long) = Target::parse(&location, Schemes::Https)
    {
        return Err(Refusal::of(&too_long.into(), from.number + 1));
    }
    from.url.join(&location).map_err(|problem| {
        nowhere(&format!(
            "the page redirects to something that is not a URL: {problem}"
        ))
    })
}
