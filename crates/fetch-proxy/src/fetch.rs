//! One fetch: a chain of requests, and the page that it ends at, under one deadline.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};
use kernel::Timestamp;
use outbound::Body;
use reader::{Form, Reading, Source};
use tokio::time::Instant;
use url::Url;

use crate::{
    Config, Deps, Error, HostList,
    admission::{Admission, HostPlace, NoPlace, Owner},
    body::{Bounds, End, Memory},
    chain::{self, Answer, Chain, Hop},
    coding::Coding,
    config::Robots,
    page::{self, Cutting, Page},
    refusal::{Reason, Refusal},
    robots::RobotsFiles,
    snapshots::Snapshots,
};

/// Time that is left of a deadline for reading what has arrived, so that a slow host gives less and not nothing: one in this many
/// parts, and at most [`MAX_READING_TIME`].
const READING_PART: u32 = 4;
const MAX_READING_TIME: Duration = Duration::from_secs(2);
/// Characters that are shown of a page that says that there is none (HTTP 400 and above).
const EXCERPT_CHARACTERS: usize = 4_000;
/// Bytes of a name of a file.
const FILE_NAME_BYTES: usize = 128;
/// Bytes that are counted for a snapshot besides its texts.
const SNAPSHOT_BYTES: usize = 512;

/// What to fetch.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    /// For whom.
    pub(crate) owner: Owner,
    /// The URL, as the model wrote it.
    pub(crate) url: String,
    /// Where to go on, in characters.
    pub(crate) start_index: u64,
    /// Hosts that this NPC may reach.
    pub(crate) hosts: HostList,
    /// How long the caller waits.
    pub(crate) patience: Duration,
}

/// What a chain led to, read.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// What was asked for.
    pub(crate) asked: Url,
    /// Where the chain ended.
    pub(crate) url: Url,
    /// What redirected, in order.
    pub(crate) passed: Vec<Url>,
    pub(crate) status: StatusCode,
    pub(crate) content_type: String,
    pub(crate) reading: Reading,
    pub(crate) end: End,
    pub(crate) body_bytes: u64,
    pub(crate) wire_bytes: u64,
    /// Whether the text is only the beginning of an error's page.
    pub(crate) is_excerpt: bool,
    pub(crate) at: Timestamp,
}

/// Where a page's text comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// From its host, as asked.
    Host,
    /// From its host, since what an earlier piece was of is not kept: it may have changed.
    HostAgain,
    /// From what is kept.
    Snapshot,
}

/// A page that came.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) page: Page,
    pub(crate) origin: Origin,
}

/// How far a fetch came, for the wide event, also when it is dropped on the way.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The last host, as `host` and port.
    pub(crate) server: Option<(String, u16)>,
    /// Redirects that were followed.
    pub(crate) redirects: u32,
    /// Time spent waiting for a place.
    pub(crate) queued: Duration,
    /// Bytes of bodies, as they were sent.
    pub(crate) wire_bytes: Arc<AtomicU64>,
    /// What `robots.txt` meant.
    pub(crate) robots: Robots,
}

/// Fetches pages. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Fetcher(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    config: Config,
    deps: Deps,
    admission: Admission,
    memory: Memory,
    robots: RobotsFiles,
    snapshots: Snapshots,
}

impl Snapshot {
    /// What it takes of memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let urls = self.passed.iter().chain([&self.asked, &self.url]);
        urls.map(|url| url.as_str().len()).sum::<usize>() + self.reading.text.len() + SNAPSHOT_BYTES
    }
}

impl Fetcher {
    pub(crate) fn new(config: Config, deps: Deps) -> Self {
        Self(Arc::new(Shared {
            admission: Admission::new(&config),
            memory: Memory::new(),
            robots: RobotsFiles::new(),
            snapshots: Snapshots::new(
                config.snapshot,
                config.snapshot_bytes,
                Arc::clone(&deps.clock),
            ),
            config,
            deps,
        }))
    }

    /// Fetches a page within one deadline, over the wait for a place, every hop, the body and reading it; or goes on in one that
    /// was.
    pub(crate) async fn fetch(
        &self,
        ask: &Ask,
        progress: &mut Progress,
    ) -> Result<Result<Fetched, Refusal>, Error> {
        let shared = &*self.0;
        progress.robots = shared.config.robots;
        let first = match Hop::first(&ask.url) {
            Ok(hop) => hop,
            Err(refusal) => return Ok(Err(refusal)),
        };
        progress.server = Some(server(&first));
        if ask.start_index > 0
            && let Some(snapshot) = shared.snapshots.find(ask.owner, &first.url)
        {
            return Ok(shared.go_on(ask, snapshot, progress));
        }
        let deadline = Instant::now() + shared.config.deadline.min(ask.patience);
        let asked_at = Instant::now();
        let entered = shared.admission.enter(ask.owner, deadline).await;
        progress.queued = asked_at.elapsed();
        let _place = match entered {
            Ok(place) => place,
            Err(NoPlace::QueueIsFull) => return Err(Error::Busy),
            Err(NoPlace::TooLate) => {
                return Ok(Err(Refusal::new(
                    Reason::Timeout,
                    0,
                    "many pages are being fetched at the moment, and it did not come to this one's turn",
                )));
            }
        };
        shared.fetch_anew(ask, first, deadline, progress).await
    }
}

impl Shared {
    /// The next piece of what is kept, if its hosts may still be fetched from.
    fn go_on(
        &self,
        ask: &Ask,
        snapshot: Arc<Snapshot>,
        progress: &mut Progress,
    ) -> Result<Fetched, Refusal> {
        for (number, url) in (0..).zip(snapshot.passed.iter().chain([&snapshot.url])) {
            let hop = Hop::new(url.clone(), number)?;
            progress.server = Some(server(&hop));
            progress.redirects = number;
            chain::check_host(&self.config, &ask.hosts, &hop)?;
        }
        Ok(self.page_of(ask, snapshot, Origin::Snapshot))
    }

    async fn fetch_anew(
        &self,
        ask: &Ask,
        first: Hop,
        deadline: Instant,
        progress: &mut Progress,
    ) -> Result<Result<Fetched, Refusal>, Error> {
        let asked = first.url.clone();
        let connector = &self.deps.connector;
        let wire_bytes = Arc::clone(&progress.wire_bytes);
        let chain = Chain::new(
            &self.config,
            &ask.hosts,
            &self.memory,
            connector,
            (deadline, &wire_bytes),
        );
        self.snapshots.forget(ask.owner, &asked);
        let (mut hop, mut passed) = (first, Vec::new());
        let outcome = loop {
            progress.server = Some(server(&hop));
            progress.redirects = hop.number;
            if let Err(refusal) = chain.check_host(&hop) {
                break Err(refusal);
            }
            let waiting_since = Instant::now();
            let host = hop.target.host().to_string();
            let entered = self.admission.enter_host(&host, deadline).await;
            progress.queued += waiting_since.elapsed();
            let place = match entered {
                Ok(place) => place,
                Err(NoPlace::QueueIsFull) => return Err(Error::HostBusy(host)),
                Err(NoPlace::TooLate) => {
                    let what = format!(
                        "many pages of {host} are being fetched, and time ran out before this one's turn"
                    );
                    break Err(Refusal::new(Reason::Timeout, hop.number, &what));
                }
            };
            if self.config.robots == Robots::Obey
                && let Err(refusal) = self.robots.check(&chain, &hop).await
            {
                break Err(refusal);
            }
            match chain.get(&hop).await {
                Err(refusal) => break Err(refusal),
                Ok(Answer::Page(response)) => {
                    break self
                        .read(&chain, hop, (asked, passed), (*response, place), deadline)
                        .await;
                }
                Ok(Answer::Redirect(url)) => match chain.follow(&hop, url) {
                    Err(refusal) => break Err(refusal),
                    Ok(next) => passed.push(std::mem::replace(&mut hop, next).url),
                },
            }
        };
        Ok(outcome.map(|(snapshot, is_kept)| {
            let snapshot = Arc::new(snapshot);
            if is_kept {
                self.snapshots.keep(ask.owner, Arc::clone(&snapshot));
            }
            let origin = if ask.start_index > 0 {
                Origin::HostAgain
            } else {
                Origin::Host
            };
            self.page_of(ask, snapshot, origin)
        }))
    }

    /// Reads what a chain ended at; and whether it may be kept.
    async fn read(
        &self,
        chain: &Chain<'_>,
        hop: Hop,
        (asked, passed): (Url, Vec<Url>),
        (response, place): (Response<Body>, HostPlace),
        deadline: Instant,
    ) -> Result<(Snapshot, bool), Refusal> {
        let at = self.deps.clock.now();
        let status = response.status();
        let headers = response.headers().clone();
        let content_type = text_of(&headers, &header::CONTENT_TYPE);
        let coding = Coding::of(&headers)
            .map_err(|what| Refusal::new(Reason::BadResponse, hop.number, &what))?;
        let bounds = Bounds {
            wire_bytes: self.config.wire_bytes,
            decoded_bytes: self.config.body_bytes,
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let until = deadline - (left / READING_PART).min(MAX_READING_TIME);
        let arrived = chain
            .body_until(response.into_body(), coding, bounds, until)
            .await;
        drop(place);
        if arrived.bytes.is_empty() && arrived.end == End::Late {
            let error = outbound::Error::TimedOut {
                host: hop.target.host().to_string(),
                phase: outbound::Phase::Reading,
            };
            return Err(Refusal::of(&error, hop.number));
        }
        let body_bytes = u64::try_from(arrived.bytes.len()).unwrap_or(u64::MAX);
        let mut reading = if arrived.bytes.is_empty() {
            nothing(status, arrived.end)
        } else {
            let source = Source {
                bytes: Bytes::from(arrived.bytes),
                content_type: content_type.clone(),
                url: hop.url.clone(),
                file_name: file_name(&headers),
                complete: arrived.end == End::Complete,
                announced_bytes: announced(&headers, coding),
            };
            let read = self.deps.reader.read(source, deadline).await;
            read.map_err(|error| unread(&error, hop.number))?
        };
        drop(arrived.room);
        let is_error = status.is_client_error() || status.is_server_error();
        let is_excerpt = is_error && shorten(&mut reading.text, EXCERPT_CHARACTERS);
        let is_kept = !is_error && !forbids_keeping(&headers);
        let snapshot = Snapshot {
            asked,
            url: hop.url,
            passed,
            status,
            content_type,
            reading,
            end: arrived.end,
            body_bytes,
            wire_bytes: chain.wire_bytes.load(Ordering::Relaxed),
            is_excerpt,
            at,
        };
        Ok((snapshot, is_kept))
    }

    fn page_of(&self, ask: &Ask, snapshot: Arc<Snapshot>, origin: Origin) -> Fetched {
        let cutting = match snapshot.reading.form {
            Form::Markdown => Cutting::Markdown,
            Form::Text | Form::Pdf | Form::Description | Form::Fallback => Cutting::Text,
        };
        let characters = self.config.page_characters;
        let page = page::cut(&snapshot.reading.text, ask.start_index, characters, cutting);
        Fetched {
            snapshot,
            page,
            origin,
        }
    }
}

fn server(hop: &Hop) -> (String, u16) {
    (hop.target.host().to_string(), hop.target.port())
}

/// What is read where nothing is.
fn nothing(status: StatusCode, end: End) -> Reading {
    let text = match (status, end) {
        (StatusCode::NO_CONTENT, _) => {
            "[The host answers that there is no content (HTTP 204).]".to_owned()
        }
        (StatusCode::NOT_MODIFIED, _) => {
            "[The host answers that the page has not changed (HTTP 304), and sends none.]"
                .to_owned()
        }
        (_, End::Complete) => "[The page is empty.]".to_owned(),
        (_, End::Short | End::Corrupt | End::Late | End::Cut | End::CutOnTheWire) => {
            "[Nothing of the page arrived that can be read.]".to_owned()
        }
    };
    Reading {
        text,
        form: Form::Description,
        media_type: String::new(),
        charset: None,
        title: None,
        truncated: None,
        cost: None,
    }
}

fn unread(error: &reader::Error, hop: u32) -> Refusal {
    let reason = match error {
        reader::Error::TooSlow | reader::Error::Busy => Reason::Timeout,
        reader::Error::Failed(problem) => {
            tracing::error!(%problem, "the reader of pages does not start");
            Reason::Unreadable
        }
    };
    Refusal::new(reason, hop, &error.to_string())
}

/// Cuts a text to so many characters. Whether something was cut.
fn shorten(text: &mut String, characters: usize) -> bool {
    match text.char_indices().nth(characters) {
        Some((index, _)) => {
            text.truncate(index);
            true
        }
        None => false,
    }
}

/// The size that a body will have decoded, as far as it is known.
fn announced(headers: &HeaderMap, coding: Coding) -> Option<u64> {
    match coding {
        Coding::Identity => text_of(headers, &header::CONTENT_LENGTH).parse().ok(),
        Coding::Gzip | Coding::Brotli => None,
    }
}

/// `Cache-Control: no-store` (RFC 9111 section 5.2.2.5). What is `private` is kept: for the one Player it was fetched for.
fn forbids_keeping(headers: &HeaderMap) -> bool {
    headers.get_all(header::CACHE_CONTROL).iter().any(|value| {
        String::from_utf8_lossy(value.as_bytes())
            .split([',', ';'])
            .any(|directive| directive.trim().eq_ignore_ascii_case("no-store"))
    })
}

/// The plain `filename` of `Content-Disposition` (RFC 6266), without directories.
fn file_name(headers: &HeaderMap) -> Option<String> {
    let value = text_of(headers, &header::CONTENT_DISPOSITION);
    let name = value.split(';').skip(1).find_map(|parameter| {
        let (key, value) = parameter.split_once('=')?;
        key.trim()
            .eq_ignore_ascii_case("filename")
            .then(|| value.trim().trim_matches('"'))
    })?;
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let name = &name[..kernel::floor_char_boundary(name, FILE_NAME_BYTES)];
    (!name.is_empty()).then(|| kernel::strip_control(name).into_owned())
}

/// A header's text, if it has one. More than a line's worth is cut.
fn text_of(headers: &HeaderMap, name: &header::HeaderName) -> String {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .map(|text| text.chars().take(200).collect())
        .unwrap_or_default()
}
