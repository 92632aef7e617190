//! What the Operator opens: `outbound.allow`.

use std::{fmt, net::IpAddr, str::FromStr};

use ipnet::IpNet;
use serde::Deserialize;
use url::Host;

use crate::{config::parse_network, name, target::BAD_PORTS};

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

/// Why an entry of `outbound.allow` opens nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOpening {
    /// It has none of the forms.
    #[error(
        "outbound.allow has {0:?}, which is neither HOST[:PORT], CIDR, CIDR4:PORT nor [CIDR6]:PORT; for instance intra.example:8443, 10.1.0.0/16, 10.1.2.3/32:443 or [fd00::/8]:443"
    )]
    Form(String),
    /// Its port belongs to another protocol, and is never connected to.
    #[error(
        "outbound.allow has {0:?}, and port {1} belongs to another protocol: no client connects to it for HTTP; let the server listen on another"
    )]
    Port(String, u16),
    /// It names nobody to open for.
    #[error(
        "outbound.allow has {0:?} for nobody; write at least one of \"mcp\", \"fetch\" and \"egress\" into its for"
    )]
    Nobody(String),
}

impl FromStr for Opening {
    type Err = InvalidOpening;

    fn from_str(text: &str) -> Result<Self, InvalidOpening> {
        let opening = Self::parse(text).ok_or_else(|| InvalidOpening::Form(shown(text)))?;
        let (Self::Host { port, .. } | Self::Network { port, .. }) = opening;
        match port.filter(|port| BAD_PORTS.contains(port)) {
            Some(port) => Err(InvalidOpening::Port(shown(text), port)),
            None => Ok(opening),
        }
    }
}

/// An entry as a message shows it.
fn shown(text: &str) -> String {
    text.chars().take(128).collect()
}

impl Opening {
    fn parse(text: &str) -> Option<Self> {
        if let Some(network) = parse_network(text) {
            return Some(Self::Network {
                network,
                port: None,
            });
        }
        if let Some(rest) = text.strip_prefix('[') {
            let (inside, after) = rest.split_once(']')?;
            let network = parse_network(inside).filter(|_network| inside.contains(':'))?;
            let port = match after.strip_prefix(':') {
                Some(port) => Some(parse_port(port)?),
                None if after.is_empty() => None,
                None => return None,
            };
            return Some(Self::Network { network, port });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(parse_port(port)?)),
            None => (text, None),
        };
        if let Some(network) = parse_network(host) {
            // An IPv6 address without brackets has no port: where would it begin?
            return (!host.contains(':')).then_some(Self::Network { network, port });
        }
        let forbidden = ['/', '*', '@', ':', '[', ']', ' '];
        if host.contains(forbidden) {
            return None;
        }
        match Host::parse(host) {
            Ok(Host::Domain(name)) => {
                let name = name.strip_suffix('.').unwrap_or(&name).to_owned();
                name::fault(&name)
                    .is_none()
                    .then_some(Self::Host { name, port })
            }
            Ok(Host::Ipv4(_) | Host::Ipv6(_)) | Err(_) => None,
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

    /// Whether it opens any address on this port for this consumer.
    pub(crate) fn opens_some_address(&self, port: u16, consumer: Consumer) -> bool {
        match &self.to {
            Opening::Host { .. } => false,
            Opening::Network { port: on, .. } => {
                on.is_none_or(|on| on == port) && self.consumers.contains(&consumer)
            }
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
            Entry::Scoped(Scoped { to, consumers }) if consumers.is_empty() => {
                return Err(InvalidOpening::Nobody(shown(&to)));
            }
            Entry::Scoped(Scoped { to, consumers }) => Self {
                to: to.parse()?,
                consumers,
            },
        })
    }
}

#[cfg(test)]
mod tests;
