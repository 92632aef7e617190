//! The settings' section `outbound`.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Deserializer, de::Error as _};

use crate::{Exemption, Nat64Prefix};

/// What the Operator says about connections to the outside.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Destinations that are allowed although the guard would refuse them.
    pub allow: Vec<Exemption>,
    /// Whether refusals hold.
    pub mode: Mode,
    /// Networks that belong to the Village, besides those that this machine is on.
    #[serde(deserialize_with = "networks")]
    pub own_networks: Vec<IpNet>,
    /// Prefixes of NAT64 translators besides the well-known `64:ff9b::/96`; what they embed is judged.
    pub nat64_prefixes: Vec<Nat64Prefix>,
    /// The DNS server to ask. None: those that `/etc/resolv.conf` names.
    #[serde(deserialize_with = "optional_socket")]
    pub nameserver: Option<SocketAddr>,
    /// A PEM file of certificate authorities to trust besides the public ones. None: the public ones alone.
    #[serde(deserialize_with = "optional_path")]
    pub ca_file: Option<PathBuf>,
}

/// Whether refusals hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// They do.
    #[default]
    Enforce,
    /// They are logged instead, to see what enforcing would break. Loopback, link-local, metadata and own networks are refused
    /// all the same.
    Report,
}

/// A network as people write it: `10.0.0.0/8`, or one address alone. One of mapped addresses is the IPv4 network that it maps.
pub(crate) fn parse_network(text: &str) -> Option<IpNet> {
    text.parse::<IpNet>()
        .ok()
        .or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
        .map(|network| unmapped(network.trunc()))
}

fn unmapped(network: IpNet) -> IpNet {
    let length = network.prefix_len();
    match network.addr().to_canonical() {
        IpAddr::V4(v4) if network.addr().is_ipv6() && length >= 96 => {
            Ipv4Net::new(v4, length - 96).map_or(network, IpNet::V4)
        }
        IpAddr::V4(_) | IpAddr::V6(_) => network,
    }
}

fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
    Vec::<String>::deserialize(deserializer)?
        .iter()
        .map(|text| {
            parse_network(text).ok_or_else(|| {
                D::Error::custom(format!(
                    "{text:?} is not a network: write an address and a prefix length, such as 10.1.0.0/16 or fd00:1::/48"
                ))
            })
        })
        .collect()
}

fn optional_socket<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_source| {
        D::Error::custom(format!(
            "{text:?} is not a DNS server: write address and port, such as 10.0.0.53:53 or [fd00::53]:53"
        ))
    })
}

fn optional_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    let path = PathBuf::deserialize(deserializer)?;
    Ok((!path.as_os_str().is_empty()).then_some(path))
}
