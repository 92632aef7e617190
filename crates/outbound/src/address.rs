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

use self::embedded::Translation;
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
        let blocked = |row: &table::RowV6| BlockedAddress {
            address,
            rule: row.rule,
            network: row.network.into(),
            registry: row.registry,
            embedded: None,
        };
        // Metadata comes first: no other reading of such an address makes it harmless.
        if let Some(row) = table::metadata_v6(v6) {
            return Some(blocked(row));
        }
        if let Some(v4) =
            embedded::at_any_translation_offset(v6).find(|&v4| table::metadata_v4(v4).is_some())
        {
            return judge_v4(address, v4, Some(v4));
        }
        let mut is_translated = false;
        for translation in self.translations(v6) {
            if let Some(blocked) = judge_v4(address, translation.to, Some(translation.to)) {
                return Some(blocked);
            }
            is_translated |= translation.is_well_formed;
        }
        if is_translated {
            return None;
        }
        if let Some(row) = table::row_v6(v6) {
            return Some(blocked(row));
        }
        let v4 = embedded::isatap(v6)?;
        judge_v4(address, v4, Some(v4))
    }

    /// The IPv4 addresses that a connection to this one may end at, on this machine (mapped) or behind a translator (NAT64). More
    /// than one only where the Operator's prefixes overlap.
    fn translations(&self, v6: Ipv6Addr) -> impl Iterator<Item = Translation> {
        let mapped = v6.to_ipv4_mapped().map(|to| Translation {
            to,
            is_well_formed: true,
        });
        mapped
            .or_else(|| embedded::WELL_KNOWN.translate(v6))
            .into_iter()
            .chain(
                self.nat64_prefixes
                    .iter()
                    .filter_map(move |prefix| prefix.translate(v6)),
            )
    }

    /// Every address that this one may stand for: itself, and each IPv4 address that some form has inside it, retired ones too.
    /// What is the Village's own is refused in each of them.
    pub(crate) fn readings(&self, address: IpAddr) -> impl Iterator<Item = IpAddr> {
        let inside = match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(v6) => Some(v6),
        };
        std::iter::once(address).chain(
            inside
                .into_iter()
                .flat_map(|v6| self.every_embedded(v6))
                .map(IpAddr::V4),
        )
    }

    /// Whether an Operator's opening of `is_open` addresses covers this one. An opening of an IPv4 address covers its mapped and
    /// its translated spelling, because the connection ends at the same host; no other form of it.
    pub(crate) fn is_covered(&self, address: IpAddr, is_open: impl Fn(IpAddr) -> bool) -> bool {
        let v6 = match address {
            IpAddr::V4(_) => return is_open(address),
            IpAddr::V6(v6) => v6,
        };
        let is_mapped = v6.to_ipv4_mapped().is_some();
        if !is_mapped && is_open(address) {
            return true;
        }
        let mut translations = self.translations(v6).peekable();
        translations.peek().is_some()
            && translations
                .all(|translation| translation.is_well_formed && is_open(translation.to.into()))
    }

    /// Whether a refused address is one that nothing opens: metadata, in any spelling.
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
        self.translations(v6)
            .map(|translation| translation.to)
            .chain(embedded::retired(v6))
            .chain(embedded::isatap(v6))
    }
}

fn judge_v4(address: IpAddr, v4: Ipv4Addr, embedded: Option<Ipv4Addr>) -> Option<BlockedAddress> {
    let row = table::row_v4(v4)?;
    Some(BlockedAddress {
        address,
        rule: row.rule,
        network: row.network.into(),
        registry: row.registry,
        embedded,
    })
}

#[cfg(test)]
mod iana;
#[cfg(test)]
mod tests;
