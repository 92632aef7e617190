//! The settings' section `fetch`.

use std::{fmt::Display, ops::RangeInclusive, time::Duration};

use http::HeaderValue;
use serde::{Deserialize, Deserializer, de::Error as _};

use crate::HostList;

/// Bytes of a `User-Agent`.
const USER_AGENT_BYTES: usize = 256;
/// Who asks, unless the Operator says it otherwise.
const DEFAULT_USER_AGENT: &str = "AgentsVille/0.1 (fetch_url; reads pages for a user's agent)";

/// The bounds of a fetch. Each has a hard maximum, so that no setting makes one fetch hold a process.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// One deadline over a whole chain: the wait for a place, look-ups, connections, redirects, the last body and reading it. In
    /// seconds, 1 to 60.
    #[serde(rename = "deadline_seconds", deserialize_with = "deadline")]
    pub deadline: Duration,
    /// Redirects that are followed, at most 20.
    #[serde(deserialize_with = "hops")]
    pub max_hops: u32,
    /// Characters of one page of text, 100 to 100,000. A page is shorter where that would be more bytes than a model is shown of
    /// a result.
    #[serde(deserialize_with = "page")]
    pub page_characters: usize,
    /// Bytes of a body that are read, after decompression: 1 KiB to 16 MiB.
    #[serde(deserialize_with = "body")]
    pub body_bytes: usize,
    /// Bytes of a body that are read, as they are sent: 1 KiB to 16 MiB.
    #[serde(deserialize_with = "body")]
    pub wire_bytes: usize,
    /// Fetches that run at the same time in one process, 1 to 1,024.
    #[serde(deserialize_with = "at_once")]
    pub at_once: usize,
    /// Of them, those that are at one host, 1 to 64.
    #[serde(deserialize_with = "few")]
    pub at_once_per_host: usize,
    /// Of them, those of one NPC for one Player, 1 to 64.
    #[serde(deserialize_with = "few")]
    pub at_once_per_npc: usize,
    /// Fetches that wait for their turn, at most 10,000, an eighth of them for one NPC and Player. Further ones are told to come
    /// back.
    #[serde(deserialize_with = "queue")]
    pub queue: usize,
    /// How long the text of a page is kept for its next pieces, in seconds, at most 900. 0: not at all.
    #[serde(rename = "snapshot_seconds", deserialize_with = "snapshot")]
    pub snapshot: Duration,
    /// Bytes of texts that are kept, at most 256 MiB, a quarter of them for one NPC and Player.
    #[serde(deserialize_with = "snapshot_bytes")]
    pub snapshot_bytes: usize,
    /// What hosts are told of who asks (`User-Agent`).
    pub user_agent: UserAgent,
    /// What a host's `robots.txt` means here.
    pub robots: Robots,
    /// Hosts that may be fetched in this Village. Empty: every public one.
    pub hosts: HostList,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(10),
            max_hops: 5,
            page_characters: 12_000,
            body_bytes: 5 * 1_024 * 1_024,
            wire_bytes: 5 * 1_024 * 1_024,
            at_once: 64,
            at_once_per_host: 4,
            at_once_per_npc: 8,
            queue: 256,
            snapshot: Duration::from_mins(5),
            snapshot_bytes: 8 * 1_024 * 1_024,
            user_agent: UserAgent::default(),
            robots: Robots::Ignore,
            hosts: HostList::default(),
        }
    }
}

/// What a host's `robots.txt` means (RFC 9309).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Robots {
    /// Nothing: the file speaks to crawlers, and a page that somebody asked an agent to read is no crawl.
    #[default]
    Ignore,
    /// It is read first, and obeyed.
    Obey,
}

impl Robots {
    /// The setting's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "ignore",
            Self::Obey => "obey",
        }
    }
}

/// A `User-Agent` that can be sent: 1 to 256 visible ASCII characters and spaces, beginning with a product's name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct UserAgent(HeaderValue);

/// Why a text is no `User-Agent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a user agent has 1 to {USER_AGENT_BYTES} visible ASCII characters and begins with a product's name, such as \"Example/1.0 (+https://example.org/bot)\""
)]
pub struct InvalidUserAgent;

impl UserAgent {
    /// What is sent.
    pub fn header(&self) -> &HeaderValue {
        &self.0
    }

    /// The product's name, which `robots.txt` calls us by (RFC 9309 section 2.2.1).
    pub fn product(&self) -> &str {
        let text = self.0.to_str().unwrap_or_default();
        let end = text.find(|c| !is_product(c)).unwrap_or(text.len());
        &text[..end]
    }
}

impl Default for UserAgent {
    fn default() -> Self {
        Self(HeaderValue::from_static(DEFAULT_USER_AGENT))
    }
}

impl TryFrom<String> for UserAgent {
    type Error = InvalidUserAgent;

    fn try_from(text: String) -> Result<Self, InvalidUserAgent> {
        let is_sendable = (1..=USER_AGENT_BYTES).contains(&text.len())
            && text.chars().all(|c| c == ' ' || c.is_ascii_graphic())
            && text.starts_with(is_product);
        if !is_sendable {
            return Err(InvalidUserAgent);
        }
        HeaderValue::try_from(text)
            .map(Self)
            .map_err(|_unsendable| InvalidUserAgent)
    }
}

fn is_product(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_')
}

pub(crate) fn within<'de, D, T>(deserializer: D, range: &RangeInclusive<T>) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + PartialOrd + Display,
{
    let value = T::deserialize(deserializer)?;
    if range.contains(&value) {
        return Ok(value);
    }
    Err(D::Error::custom(format!(
        "it is {value}, and must be from {} to {}",
        range.start(),
        range.end()
    )))
}

fn deadline<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    within(deserializer, &(1..=60)).map(Duration::from_secs)
}

fn hops<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, &(0..=20))
}

fn page<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(deserializer, &(100..=100_000))
}

fn body<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(deserializer, &(1_024..=16 * 1_024 * 1_024))
}

fn at_once<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(deserializer, &(1..=1_024))
}

fn few<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(deserializer, &(1..=64))
}

fn queue<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(deserializer, &(0..=10_000))
}

fn snapshot<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    within(deserializer, &(0..=900)).map(Duration::from_secs)
}

fn snapshot_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(deserializer, &(0..=256 * 1_024 * 1_024))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> toml::Table {
        let file: toml::Table =
            toml::from_str(include_str!("../../../deploy/config.default.toml")).expect("TOML");
        file["fetch"].as_table().expect("a section").clone()
    }

    #[test]
    fn the_defaults_are_those_of_the_defaults_file() {
        let read: Config = defaults().try_into().expect("the section");
        assert_eq!(format!("{read:?}"), format!("{:?}", Config::default()));
        assert_eq!(read.user_agent.product(), "AgentsVille");
    }

    #[test]
    fn a_bound_beyond_its_hard_maximum_is_refused_in_words() {
        for (key, bad) in [
            ("deadline_seconds", "3600"),
            ("deadline_seconds", "0"),
            ("max_hops", "1000"),
            ("page_characters", "1"),
            ("body_bytes", "99999999999"),
            ("wire_bytes", "0"),
            ("at_once", "0"),
            ("at_once_per_host", "65"),
            ("at_once_per_npc", "0"),
            ("queue", "1000000"),
            ("snapshot_seconds", "86400"),
            ("snapshot_bytes", "99999999999"),
            ("hosts", "[\"*\"]"),
            ("host", "[]"),
            ("robots", "\"sometimes\""),
            ("user_agent", "\"\""),
            ("user_agent", "\"a\\r\\nCookie: b\""),
            ("user_agent", "\"(no product)\""),
            ("user_agent", "\"Dörfler/1\""),
        ] {
            let mut section = defaults();
            let value: toml::Table = toml::from_str(&format!("v = {bad}")).expect("TOML");
            section.insert(key.to_owned(), value["v"].clone());
            let error = Config::deserialize(section).expect_err(bad).to_string();
            assert!(
                ["must be from", "host", "unknown variant", "a user agent"]
                    .iter()
                    .any(|words| error.contains(words)),
                "{key} = {bad}: {error}"
            );
        }
    }
}
