//! `robots.txt` (RFC 9309), for Operators who want it obeyed.
//!
//! It is fetched on the same guarded way as the page, in the page's own time, and under the page's own host lists.

mod rules;

use std::time::Duration;

use bytes::Bytes;
use moka::future::Cache;
use url::{Position, Url};

use crate::{
    body::{Bounds, End},
    chain::{Answer, Chain, Hop},
    coding::Coding,
    refusal::{Reason, Refusal},
};

/// Redirects that lead to a file (section 2.3.1.2).
const MAX_REDIRECTS: u32 = 5;
/// Bytes of a file that count (section 2.5).
const FILE_BYTES: usize = 500 * 1_024;
/// How long a file counts; section 2.4 allows a day.
const LIFE: Duration = Duration::from_hours(1);
/// Bytes of files that are kept.
const KEPT_BYTES: u64 = 4 * 1_024 * 1_024;

/// What a host says.
#[derive(Debug, Clone)]
enum Said {
    /// Rules.
    File(Bytes),
    /// Nothing: everything is allowed (section 2.3.1.3).
    Nothing,
}

/// Files of hosts, kept for a while. They are public, and say the same to everybody.
#[derive(Debug, Clone)]
pub(crate) struct RobotsFiles {
    files: Cache<String, Said>,
}

impl RobotsFiles {
    pub(crate) fn new() -> Self {
        let files = Cache::builder()
            .max_capacity(KEPT_BYTES)
            .weigher(|origin: &String, said: &Said| {
                let bytes = match said {
                    Said::File(file) => file.len(),
                    Said::Nothing => 0,
                };
                u32::try_from(origin.len() + bytes + 128).unwrap_or(u32::MAX)
            })
            .time_to_live(LIFE)
            .build();
        Self { files }
    }

    /// Refuses a page that its host does not want read by us. What is not known for certain is a refusal (section 2.3.1.4), and
    /// not kept: another's host list, or a host's bad minute, is not everybody's.
    pub(crate) async fn check(&self, chain: &Chain<'_>, hop: &Hop) -> Result<(), Refusal> {
        let origin = hop.url[..Position::BeforePath].to_owned();
        let said = if let Some(said) = self.files.get(&origin).await {
            said
        } else {
            let said = ask(chain, hop).await?;
            self.files.insert(origin, said.clone()).await;
            said
        };
        let path = &hop.url[Position::BeforePath..Position::AfterQuery];
        let Said::File(file) = said else {
            return Ok(());
        };
        let product = chain.product();
        if path == "/robots.txt" || rules::allow(&file, product, path) {
            return Ok(());
        }
        Err(refused(
            hop,
            &format!(
                "{} does not want this page to be read by programs, as its robots.txt says",
                hop.target.host()
            ),
        ))
    }
}

async fn ask(chain: &Chain<'_>, page: &Hop) -> Result<Said, Refusal> {
    let unknown = |why: &str| {
        refused(
            page,
            &format!(
                "what {} lets programs read is not known, since its robots.txt {why}",
                page.target.host()
            ),
        )
    };
    let mut hop = page
        .robots_file()
        .ok_or_else(|| unknown("has no address"))?;
    let mut redirects = 0;
    loop {
        chain
            .check_host(&hop)
            .map_err(|_refused| unknown("leads to a host that may not be fetched"))?;
        let response = match chain.get(&hop).await {
            Ok(Answer::Page(response)) => response,
            Ok(Answer::Redirect(_)) if redirects >= MAX_REDIRECTS => return Ok(Said::Nothing),
            Ok(Answer::Redirect(url)) => {
                redirects += 1;
                hop = next(page, url).ok_or_else(|| unknown("leads nowhere"))?;
                continue;
            }
            Err(refusal) if refusal.reason == Reason::Timeout => return Err(refusal),
            Err(_refused) => return Err(unknown("cannot be had")),
        };
        let status = response.status();
        if status.is_client_error() {
            return Ok(Said::Nothing);
        }
        if !status.is_success() {
            return Err(unknown("cannot be had at the moment"));
        }
        let coding = Coding::of(response.headers()).map_err(|_coding| unknown("cannot be read"))?;
        let bounds = Bounds {
            wire_bytes: FILE_BYTES,
            decoded_bytes: FILE_BYTES,
        };
        let arrived = chain.body(response.into_body(), coding, bounds).await;
        return match arrived.end {
            End::Complete | End::Cut | End::CutOnTheWire => {
                Ok(Said::File(Bytes::from(arrived.bytes)))
            }
            End::Late => Err(Refusal::new(
                Reason::Timeout,
                page.number,
                &format!(
                    "the robots.txt of {} took too long to arrive",
                    page.target.host()
                ),
            )),
            End::Short | End::Corrupt => Err(unknown("did not come to its end")),
        };
    }
}

fn next(page: &Hop, url: Url) -> Option<Hop> {
    Hop::new(url, page.number).ok()
}

fn refused(hop: &Hop, what: &str) -> Refusal {
    Refusal::new(Reason::Robots, hop.number, what)
}
