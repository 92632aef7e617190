//! The one classifier of addresses: a pure function over tables.
//!
//! IPv4 is refused by a table of what is not public; IPv6 is the other way round: only `2000::/3` is public, minus a table, and
//! what embeds an IPv4 address is judged by it where the form is in use (mapped, NAT64, ISATAP) and refused where it is retired.
//! Rows follow the IANA special-purpose address registries as last updated on 2025-10-09.
//!
//! **Architecture invariant:** addresses are judged as integers, never as text, and nothing here does input or output.

mod embedded;
mod table;

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::IpNet;

pub use self::embedded::{InvalidNat64Prefix, Nat64Prefix};
use crate::Rule;

/// What the classifier says of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A public address.
    Public,
    /// Not one to connect to.
    Blocked(BlockedAddress),
}

/// An address that is not public, with the row that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockedAddress {
    /// The address as it was given.
    pub address: IpAddr,
    /// The rule.
    pub rule: Rule,
    /// The row's network. For [`Rule::NotGlobalUnicast`], the network that the address lies outside of.
    pub network: IpNet,
    /// What the registry calls the network, and the document that says so.
    pub registry: &'static str,
    /// The IPv4 address that it embeds, where that one was judged.
    pub embedded: Option<Ipv4Addr>,
}

impl fmt::Display for BlockedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if let Some(embedded) = self.embedded {
            write!(f, " embeds {embedded}, which")?;
        }
        let lies = if self.rule == Rule::NotGlobalUnicast {
            "lies outside"
        } else {
            "lies in"
        };
        write!(f, " {lies} {} ({})", self.network, self.registry)
    }
}

/// Judges an address without knowing anything of the networks around.
pub fn judge(address: IpAddr) -> Verdict {
    Policy::default().judge(address)
}

/// The classifier, with the NAT64 prefixes that the Operator's network uses.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    nat64_prefixes: Vec<Nat64Prefix>,
}

impl Policy {
    /// A classifier that knows these prefixes.
    pub fn new(nat64_prefixes: Vec<Nat64Prefix>) -> Self {
        Self { nat64_prefixes }
    }

    /// Judges an address.
    pub fn judge(&self, address: IpAddr) -> Verdict {
        let blocked = match address {
            IpAddr::V4(v4) => judge_v4(address, v4, None),
            IpAddr::V6(v6) => self.judge_v6(v6),
        };
        blocked.map_or(Verdict::Public, Verdict::Blocked)
    }

    fn judge_v6(&self, v6: Ipv6Addr) -> Option<BlockedAddress> {
        let address = IpAddr::V6(v6);
        if let Some(v4) = self.translated(v6) {
            return judge_v4(address, v4, Some(v4));
        }
        let blocked = |row: table::Row<ipnet::Ipv6Net>| BlockedAddress {
            address,
            rule: row.rule,
            network: row.network.into(),
            registry: row.registry,
            embedded: None,
        };
        if let Some(row) = table::metadata_v6(v6) {
            return Some(blocked(row));
        }
        if let Some(v4) =
            embedded::at_any_translation_offset(v6).find(|&v4| table::metadata_v4(v4).is_some())
        {
            return judge_v4(address, v4, Some(v4));
        }
        if let Some(row) = table::IPV6.iter().find(|row| row.network.contains(&v6)) {
            return Some(blocked(*row));
        }
        if !table::GLOBAL_UNICAST.network.contains(&v6) {
            return Some(blocked(table::GLOBAL_UNICAST));
        }
        let v4 = embedded::isatap(v6)?;
        judge_v4(address, v4, Some(v4))
    }

    /// The IPv4 address that a connection to this one ends at, on this machine (mapped) or behind a translator (NAT64).
    pub(crate) fn translated(&self, v6: Ipv6Addr) -> Option<Ipv4Addr> {
        v6.to_ipv4_mapped()
            .or_else(|| embedded::WELL_KNOWN.extract(v6))
            .or_else(|| {
                self.nat64_prefixes
                    .iter()
                    .find_map(|prefix| prefix.extract(v6))
            })
    }

    /// The address that a connection ends at: itself, or the IPv4 address that it is translated to.
    pub(crate) fn effective(&self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(v6) => self.translated(v6).map_or(address, IpAddr::V4),
        }
    }

    /// The row of a refused address, if it is one that nothing opens: metadata, in any spelling.
    pub(crate) fn is_metadata(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => table::metadata_v4(v4).is_some(),
            IpAddr::V6(v6) => {
                table::metadata_v6(v6).is_some()
                    || self
                        .every_embedded(v6)
                        .chain(embedded::at_any_translation_offset(v6))
                        .any(|v4| table::metadata_v4(v4).is_some())
            }
        }
    }

    /// Whether report mode may let a refused address pass. What any reading of the address makes loopback, link-local or
    /// metadata stays refused.
    pub(crate) fn may_be_reported(&self, blocked: &BlockedAddress) -> bool {
        let harmless_inside = match blocked.address {
            IpAddr::V4(_) => true,
            IpAddr::V6(v6) => self.every_embedded(v6).all(|v4| {
                judge_v4(IpAddr::V4(v4), v4, None)
                    .is_none_or(|inside| inside.rule.may_be_reported())
            }),
        };
        blocked.rule.may_be_reported() && harmless_inside
    }

    fn every_embedded(&self, v6: Ipv6Addr) -> impl Iterator<Item = Ipv4Addr> {
        self.translated(v6)
            .into_iter()
            .chain(embedded::retired(v6))
            .chain(embedded::isatap(v6))
    }
}

fn judge_v4(address: IpAddr, v4: Ipv4Addr, embedded: Option<Ipv4Addr>) -> Option<BlockedAddress> {
    let row = table::metadata_v4(v4).or_else(|| {
        table::IPV4
            .iter()
            .find(|row| row.network.contains(&v4))
            .copied()
    })?;
    Some(BlockedAddress {
        address,
        rule: row.rule,
        network: row.network.into(),
        registry: row.registry,
        embedded,
    })
}

#[cfg(test)]
mod tests;
