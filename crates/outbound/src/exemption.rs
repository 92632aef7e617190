//! What the Operator opens: `outbound.allow`.

use std::{fmt, net::IpAddr, str::FromStr};

use ipnet::IpNet;
use serde::Deserialize;
use url::Host;

use crate::config::parse_network;

/// Who wants to connect. An exemption names its consumers: what an Operator's MCP Server may reach, a model's `fetch_url` may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Consumer {
    /// Clients of MCP Servers and Connectors.
    Mcp,
    /// `fetch_url`.
    Fetch,
    /// Traffic of Sandboxes.
    Egress,
}

impl Consumer {
    /// The word in settings and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Fetch => "fetch",
            Self::Egress => "egress",
        }
    }
}

impl fmt::Display for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One entry: a destination, and for whom it is open.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Entry")]
pub struct Exemption {
    /// What is open.
    pub to: Opening,
    /// For whom.
    pub consumers: Vec<Consumer>,
}

/// What an exemption opens, on one port or on all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// A name and whatever addresses it has. Lifts the rules for names too.
    Host {
        /// The name, in lower case, in ASCII and without the dot of the root.
        name: String,
        /// The port, or all.
        port: Option<u16>,
    },
    /// A network. Lifts no rule for names.
    Network {
        /// The network.
        network: IpNet,
        /// The port, or all.
        port: Option<u16>,
    },
}

/// Why a text opens nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "outbound.allow has {0:?}, which is neither HOST[:PORT], CIDR, CIDR4:PORT nor [CIDR6]:PORT; for instance intra.example:8443, 10.1.0.0/16, 10.1.2.3/32:443 or [fd00::/8]:443"
)]
pub struct InvalidOpening(String);

impl FromStr for Opening {
    type Err = InvalidOpening;

    fn from_str(text: &str) -> Result<Self, InvalidOpening> {
        let invalid = || InvalidOpening(text.chars().take(128).collect());
        if let Some(network) = parse_network(text) {
            return Ok(Self::Network {
                network,
                port: None,
            });
        }
        if let Some(rest) = text.strip_prefix('[') {
            let (inside, after) = rest.split_once(']').ok_or_else(invalid)?;
            let network = parse_network(inside)
                .filter(|network| matches!(network, IpNet::V6(_)))
                .ok_or_else(invalid)?;
            let port = match after.strip_prefix(':') {
                Some(port) => Some(parse_port(port).ok_or_else(invalid)?),
                None if after.is_empty() => None,
                None => return Err(invalid()),
            };
            return Ok(Self::Network { network, port });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(parse_port(port).ok_or_else(invalid)?)),
            None => (text, None),
        };
        if let Some(network) = parse_network(host) {
            return match network {
                IpNet::V4(_) => Ok(Self::Network { network, port }),
                IpNet::V6(_) => Err(invalid()),
            };
        }
        let forbidden = ['/', '*', '@', ':', '[', ']', ' '];
        if host.contains(forbidden) {
            return Err(invalid());
        }
        match Host::parse(host) {
            Ok(Host::Domain(name)) => {
                let name = name.strip_suffix('.').unwrap_or(&name).to_owned();
                match crate::name::fault(&name) {
                    None => Ok(Self::Host { name, port }),
                    Some(_) => Err(invalid()),
                }
            }
            Ok(Host::Ipv4(_) | Host::Ipv6(_)) | Err(_) => Err(invalid()),
        }
    }
}

/// A port that can be connected to.
fn parse_port(text: &str) -> Option<u16> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain
        .then(|| text.parse().ok())
        .flatten()
        .filter(|&port| port != 0)
}

impl fmt::Display for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { name, port: None } => f.write_str(name),
            Self::Host {
                name,
                port: Some(port),
            } => write!(f, "{name}:{port}"),
            Self::Network {
                network,
                port: None,
            } => network.fmt(f),
            Self::Network {
                network: IpNet::V4(network),
                port: Some(port),
            } => write!(f, "{network}:{port}"),
            Self::Network {
                network: IpNet::V6(network),
                port: Some(port),
            } => write!(f, "[{network}]:{port}"),
        }
    }
}

impl Exemption {
    /// Whether it opens this name on this port for this consumer.
    pub(crate) fn opens_name(&self, name: &str, port: u16, consumer: Consumer) -> bool {
        match &self.to {
            Opening::Host {
                name: open,
                port: on,
            } => {
                open == name && on.is_none_or(|on| on == port) && self.consumers.contains(&consumer)
            }
            Opening::Network { .. } => false,
        }
    }

    /// Whether it opens this address on this port for this consumer.
    pub(crate) fn opens_address(&self, address: IpAddr, port: u16, consumer: Consumer) -> bool {
        match &self.to {
            Opening::Host { .. } => false,
            Opening::Network { network, port: on } => {
                network.contains(&address)
                    && on.is_none_or(|on| on == port)
                    && self.consumers.contains(&consumer)
            }
        }
    }
}

impl fmt::Display for Exemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let consumers: Vec<&str> = self.consumers.iter().map(|c| c.as_str()).collect();
        write!(f, "{} for {}", self.to, consumers.join(", "))
    }
}

/// An entry as it is written.
#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Bare(String),
    Scoped(Scoped),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scoped {
    to: String,
    #[serde(rename = "for")]
    consumers: Vec<Consumer>,
}

impl TryFrom<Entry> for Exemption {
    type Error = InvalidOpening;

    fn try_from(entry: Entry) -> Result<Self, InvalidOpening> {
        Ok(match entry {
            // What a model can aim is only opened by name of the consumer.
            Entry::Bare(to) => Self {
                to: to.parse()?,
                consumers: vec![Consumer::Mcp],
            },
            Entry::Scoped(Scoped { to, consumers }) => Self {
                to: to.parse()?,
                consumers,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_an_entry_is_read() {
        for (text, shown) in [
            ("localhost", "localhost"),
            ("Intra.Example.:8443", "intra.example:8443"),
            ("münchen.de", "xn--mnchen-3ya.de"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.3", "10.1.2.3/32"),
            ("10.1.2.3:443", "10.1.2.3/32:443"),
            ("10.0.0.0/8:443", "10.0.0.0/8:443"),
            ("fd00::/8", "fd00::/8"),
            ("::1", "::1/128"),
            ("[::1]", "::1/128"),
            ("[::1]:443", "[::1/128]:443"),
            ("[fd00::/8]:443", "[fd00::/8]:443"),
        ] {
            let opening: Opening = text.parse().expect(text);
            assert_eq!(opening.to_string(), shown, "{text}");
        }
    }

    #[test]
    fn an_entry_that_could_open_more_than_it_says_is_refused() {
        for text in [
            "",
            "*",
            "*.example.com",
            "https://intra.example",
            "a@b",
            "intra.example:",
            "intra.example:0",
            "intra.example:+80",
            "intra.example:99999",
            "a..b",
            "0x7f.1",
            "127.1",
            "2130706433",
            "10.0.0.0/33",
            "[10.0.0.0/8]:443",
            "[::1",
            "[::1]443",
            "[intra.example]:443",
        ] {
            assert!(text.parse::<Opening>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_bare_entry_opens_for_mcp_only_and_a_table_names_its_consumers() {
        let bare: Exemption = serde_json::from_str(r#""intra.example:443""#).expect("an entry");
        assert_eq!(bare.consumers, [Consumer::Mcp]);
        let scoped: Exemption =
            serde_json::from_str(r#"{"to":"intra.example","for":["fetch","egress"]}"#)
                .expect("an entry");
        assert_eq!(scoped.consumers, [Consumer::Fetch, Consumer::Egress]);
        assert!(!bare.opens_name("intra.example", 443, Consumer::Fetch));
        assert!(bare.opens_name("intra.example", 443, Consumer::Mcp));
        assert!(!bare.opens_name("intra.example", 8443, Consumer::Mcp));
        assert!(!bare.opens_name("sub.intra.example", 443, Consumer::Mcp));
        for wrong in [
            r#"{"to":"intra.example"}"#,
            r#"{"to":"intra.example","for":["all"]}"#,
            r#"{"to":"intra.example","for":["mcp"],"port":1}"#,
            r#""*.example""#,
        ] {
            assert!(serde_json::from_str::<Exemption>(wrong).is_err(), "{wrong}");
        }
    }
}
