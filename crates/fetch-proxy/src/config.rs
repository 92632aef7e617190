//! The settings' section `fetch`.

use std::{fmt::Display, ops::RangeInclusive, time::Duration};

use serde::{Deserialize, Deserializer, de::Error as _};

use crate::HostList;

/// The bounds of a fetch. Each has a hard maximum, so that no setting makes one fetch hold a process.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// One deadline over a whole chain: look-ups, connections, redirects, and the last body. In seconds, 1 to 60.
    #[serde(rename = "deadline_seconds", deserialize_with = "deadline")]
    pub deadline: Duration,
    /// Redirects that are followed, at most 20.
    #[serde(deserialize_with = "hops")]
    pub max_hops: u32,
    /// Characters of one page of text, 100 to 100,000. A page is shorter where that would be more bytes than a model is shown of
    /// a result.
    #[serde(deserialize_with = "page")]
    pub page_characters: usize,
    /// Bytes of a body that are read, 1 KiB to 16 MiB.
    #[serde(deserialize_with = "body")]
    pub body_bytes: usize,
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
            hosts: HostList::default(),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(toml: &str) -> Result<Config, toml::de::Error> {
        toml::from_str(toml)
    }

    const GOOD: &str = "deadline_seconds = 10\nmax_hops = 5\npage_characters = 12000\nbody_bytes = 5242880\nhosts = []";

    #[test]
    fn the_defaults_are_those_of_the_defaults_file() {
        let file: toml::Table =
            toml::from_str(include_str!("../../../deploy/config.default.toml")).expect("TOML");
        let section = file["fetch"].clone();
        let read: Config = section.try_into().expect("the section");
        assert_eq!(format!("{read:?}"), format!("{:?}", Config::default()));
    }

    #[test]
    fn a_bound_beyond_its_hard_maximum_is_refused_in_words() {
        assert!(read(GOOD).is_ok());
        for (good, bad) in [
            ("deadline_seconds = 10", "deadline_seconds = 3600"),
            ("deadline_seconds = 10", "deadline_seconds = 0"),
            ("max_hops = 5", "max_hops = 1000"),
            ("page_characters = 12000", "page_characters = 1"),
            ("body_bytes = 5242880", "body_bytes = 99999999999"),
            ("hosts = []", "hosts = [\"*\"]"),
            ("hosts = []", "hosts = []\nhost = []"),
        ] {
            let error = read(&GOOD.replace(good, bad)).expect_err(bad);
            let text = error.to_string();
            assert!(
                text.contains("must be from") || text.contains("host"),
                "{text}"
            );
        }
    }
}
