//! Which Host headers are ours.
//!
//! DNS rebinding makes a name of the attacker's resolve to our address, so that a browser takes us for the attacker's site. Such
//! a request names the attacker's host, and only a name can be rebound: an address in the Host header is the one that was dialled.

use std::net::{IpAddr, SocketAddr};

use crate::error::Error;

/// A host, and the port if one was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Authority {
    pub(super) host: Host,
    pub(super) port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    Address(IpAddr),
    /// In lower case, without a dot at its end.
    Name(String),
}

/// Reads `host[:port]`. Anything else, such as user information, is none.
pub(super) fn authority(text: &str) -> Option<Authority> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, rest) = rest.split_once(']')?;
        return Some(Authority {
            host: Host::Address(IpAddr::V6(address.parse().ok()?)),
            port: port(rest)?,
        });
    }
    let (name, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
    let port = port(rest)?;
    if let Ok(address) = name.parse::<IpAddr>() {
        return Some(Authority {
            host: Host::Address(address),
            port,
        });
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if name.is_empty() || name.len() > 253 || !name.bytes().all(plain) {
        return None;
    }
    Some(Authority {
        host: Host::Name(name.to_ascii_lowercase()),
        port,
    })
}

/// Nothing, or `:port`.
#[expect(
    clippy::option_option,
    reason = "not a port, no port and a port are three answers"
)]
fn port(text: &str) -> Option<Option<u16>> {
    match text.strip_prefix(':') {
        None => text.is_empty().then_some(None),
        // An empty port means the default one (RFC 3986 §3.2.3).
        Some("") => Some(None),
        Some(digits) => digits.parse().ok().map(Some),
    }
}

/// The hosts that are ours.
#[derive(Debug)]
pub(super) struct Hosts {
    listen: IpAddr,
    named: Vec<Authority>,
}

impl Hosts {
    pub(super) fn read(listen: SocketAddr, allowed: &[String]) -> Result<Self, Error> {
        let named = allowed
            .iter()
            .map(|text| authority(text).ok_or_else(|| Error::AllowedHost(text.clone())))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            listen: listen.ip().to_canonical(),
            named,
        })
    }

    pub(super) fn allow(&self, authority: &Authority) -> bool {
        let ours = match &authority.host {
            Host::Address(address) => self.is_own(address.to_canonical()),
            Host::Name(name) => name == "localhost" || name.ends_with(".localhost"),
        };
        ours || self.named.iter().any(|named| {
            named.host == authority.host && (named.port.is_none() || named.port == authority.port)
        })
    }

    fn is_own(&self, address: IpAddr) -> bool {
        address.is_loopback() || address == self.listen || self.listen.is_unspecified()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(listen: &str, extra: &[&str], host: &str) -> bool {
        let extra: Vec<_> = extra.iter().map(|&text| text.to_owned()).collect();
        let hosts = Hosts::read(listen.parse().unwrap(), &extra).unwrap();
        authority(host).is_some_and(|host| hosts.allow(&host))
    }

    #[test]
    fn loopback_and_the_listener_are_ours_on_any_port() {
        for host in [
            "localhost",
            "LOCALHOST:9",
            "localhost.",
            "app.localhost:3000",
            "127.0.0.1:8080",
            "127.9.9.9",
            "[::1]:8080",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(allowed("127.0.0.1:8080", &[], host), "{host}");
        }
        assert!(allowed("10.0.0.5:8080", &[], "10.0.0.5:8080"));
        assert!(allowed("0.0.0.0:8080", &[], "192.168.1.7"));
    }

    #[test]
    fn a_rebound_name_is_not_ours() {
        for host in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "evillocalhost",
            "127.0.0.1.evil.example",
            "127.0.0.1@evil.example",
            "evil.example@127.0.0.1",
            "10.0.0.5",
            "[::2]",
            "[::1",
            "localhost:99999",
            "localhost:80:80",
            "local host",
            "localhost/",
            "localhost,evil.example",
            "",
            ":8080",
        ] {
            assert!(!allowed("127.0.0.1:8080", &[], host), "{host}");
        }
        assert!(!allowed("0.0.0.0:8080", &[], "evil.example"));
    }

    #[test]
    fn an_allowed_host_with_a_port_holds_for_that_port_alone() {
        let extra = ["Village.example", "other.example:8443"];
        for (host, expected) in [
            ("village.example", true),
            ("village.example:1", true),
            ("sub.village.example", false),
            ("other.example:8443", true),
            ("other.example", false),
        ] {
            assert_eq!(allowed("127.0.0.1:1", &extra, host), expected, "{host}");
        }
        assert!(
            Hosts::read(
                "127.0.0.1:1".parse().unwrap(),
                &["https://village.example".to_owned()]
            )
            .is_err()
        );
    }
}
