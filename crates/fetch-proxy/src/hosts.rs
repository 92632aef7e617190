//! Lists of hosts that may be fetched.

use std::str::FromStr;

use serde::Deserialize;
use url::Host;

/// Entries of one list; a longer one is refused.
const MAX_ENTRIES: usize = 256;

/// Which hosts may be fetched: `example.org` for one host, `*.example.org` for all below it, the host itself left out. An empty
/// list allows every public host. The guard judges in any case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct HostList(Vec<Entry>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Exactly(Host<String>),
    /// With the dot in front.
    Below(String),
}

/// Why a list of hosts cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHost {
    /// An entry is no host.
    #[error("{0:?} is not a host; write example.org, or *.example.org for all hosts below it")]
    NotAHost(String),
    /// The list is too long.
    #[error("there are {0} hosts in the list; at most {MAX_ENTRIES} are allowed")]
    TooMany(usize),
}

impl HostList {
    /// Reads a list.
    pub fn parse(entries: &[String]) -> Result<Self, InvalidHost> {
        if entries.len() > MAX_ENTRIES {
            return Err(InvalidHost::TooMany(entries.len()));
        }
        entries
            .iter()
            .map(|entry| entry.parse())
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether this host, as a target names it, may be fetched.
    pub fn allows(&self, host: &Host<String>) -> bool {
        self.0.is_empty() || self.0.iter().any(|entry| entry.allows(host))
    }
}

impl TryFrom<Vec<String>> for HostList {
    type Error = InvalidHost;

    fn try_from(entries: Vec<String>) -> Result<Self, InvalidHost> {
        Self::parse(&entries)
    }
}

impl Entry {
    fn allows(&self, host: &Host<String>) -> bool {
        match (self, host) {
            (Self::Exactly(allowed), host) => allowed == host,
            (Self::Below(suffix), Host::Domain(name)) => {
                name.len() > suffix.len() && name.ends_with(suffix.as_str())
            }
            (Self::Below(_), Host::Ipv4(_) | Host::Ipv6(_)) => false,
        }
    }
}

impl FromStr for Entry {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let invalid = || InvalidHost::NotAHost(text.chars().take(128).collect());
        let (below, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, text),
        };
        if name.contains(['*', '/', '@', ' ']) {
            return Err(invalid());
        }
        match Host::parse(name).map_err(|_source| invalid())? {
            Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(&name);
                if name.split('.').any(str::is_empty) {
                    return Err(invalid());
                }
                Ok(if below {
                    Self::Below(format!(".{name}"))
                } else {
                    Self::Exactly(Host::Domain(name.to_owned()))
                })
            }
            address if !below => Ok(Self::Exactly(address)),
            Host::Ipv4(_) | Host::Ipv6(_) => Err(invalid()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> HostList {
        let entries: Vec<String> = entries.iter().map(|&entry| entry.to_owned()).collect();
        HostList::parse(&entries).expect("a list")
    }

    fn host(text: &str) -> Host<String> {
        Host::parse(text).expect("a host")
    }

    #[test]
    fn an_entry_allows_what_it_says_and_no_look_alike() {
        let hosts = list(&[
            "Example.ORG.",
            "*.docs.example",
            "münchen.de",
            "93.184.216.34",
        ]);
        for allowed in [
            "example.org",
            "a.docs.example",
            "a.b.docs.example",
            "xn--mnchen-3ya.de",
            "93.184.216.34",
        ] {
            assert!(hosts.allows(&host(allowed)), "{allowed}");
        }
        for refused in [
            "www.example.org",
            "example.org.evil.test",
            "evilexample.org",
            "docs.example",
            "evildocs.example",
            "93.184.216.35",
            "[::1]",
        ] {
            assert!(!hosts.allows(&host(refused)), "{refused}");
        }
    }

    #[test]
    fn an_empty_list_allows_every_host() {
        assert!(list(&[]).allows(&host("example.org")));
    }

    #[test]
    fn an_entry_that_says_more_than_a_host_is_refused() {
        for entry in [
            "",
            "*",
            "*.",
            "a.*.b",
            "https://a.example",
            "a.example:443",
            "*.1.2.3.4",
        ] {
            let error = HostList::parse(&[entry.to_owned()]).expect_err(entry);
            assert!(error.to_string().contains("is not a host"), "{error}");
        }
        let many = vec!["a.example".to_owned(); 257];
        assert_eq!(HostList::parse(&many), Err(InvalidHost::TooMany(257)));
    }
}
