//! Which pages may call.

use super::host::{Authority, authority};
use crate::error::Error;

/// An origin as browsers send it (RFC 6454 §6.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    scheme: Scheme,
    authority: Authority,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

impl Scheme {
    const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl Origin {
    /// Reads `scheme://host[:port]`. `null` and other schemes are none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return None,
        };
        Some(Self {
            scheme,
            authority: authority(rest)?,
        })
    }

    fn port(&self) -> u16 {
        self.authority
            .port
            .unwrap_or_else(|| self.scheme.default_port())
    }

    /// Whether it is the origin of this host: the page came from here. The scheme is left open, since a proxy may speak https for us.
    pub(super) fn is_of(&self, host: &Authority) -> bool {
        self.authority.host == host.host
            && host
                .port
                .map_or(self.port() == self.scheme.default_port(), |port| {
                    port == self.port()
                })
    }

    fn is_same(&self, other: &Self) -> bool {
        self.scheme == other.scheme
            && self.authority.host == other.authority.host
            && self.port() == other.port()
    }
}

/// The origins that the Operator lets in.
#[derive(Debug)]
pub(super) struct Origins(Vec<Origin>);

impl Origins {
    pub(super) fn read(allowed: &[String]) -> Result<Self, Error> {
        allowed
            .iter()
            .map(|text| Origin::parse(text).ok_or_else(|| Error::CorsOrigin(text.clone())))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(super) fn allow(&self, origin: &Origin) -> bool {
        self.0.iter().any(|allowed| allowed.is_same(origin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_from_here_is_recognised_by_host_and_port() {
        for (origin, host, expected) in [
            ("http://localhost:8080", "localhost:8080", true),
            ("http://LOCALHOST:8080", "localhost:8080", true),
            ("https://village.example", "village.example", true),
            ("https://village.example", "village.example:443", true),
            ("http://localhost:3000", "localhost:8080", false),
            ("http://localhost:3000", "localhost", false),
            ("http://evil.example", "localhost:8080", false),
            ("http://127.0.0.1:8080", "localhost:8080", false),
        ] {
            let origin = Origin::parse(origin).unwrap();
            assert_eq!(
                origin.is_of(&authority(host).unwrap()),
                expected,
                "{origin:?} {host}"
            );
        }
    }

    #[test]
    fn only_whole_origins_are_let_in() {
        let origins = Origins::read(&["https://village.example".to_owned()]).unwrap();
        for (origin, expected) in [
            ("https://village.example", true),
            ("https://village.example:443", true),
            ("http://village.example", false),
            ("https://village.example:444", false),
            ("https://village.example.evil.example", false),
            ("https://sub.village.example", false),
        ] {
            assert_eq!(
                origins.allow(&Origin::parse(origin).unwrap()),
                expected,
                "{origin}"
            );
        }
        for none in [
            "null",
            "*",
            "file://",
            "https://",
            "https://a/b",
            "village.example",
        ] {
            assert!(Origin::parse(none).is_none(), "{none}");
            assert!(Origins::read(&[none.to_owned()]).is_err(), "{none}");
        }
    }
}
