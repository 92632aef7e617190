//! IPv4 addresses inside IPv6 ones.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use ipnet::Ipv6Net;
use serde::{Deserialize, Deserializer, de::Error as _};

/// The prefix lengths that RFC 6052 section 2.2 has.
const LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];

/// The well-known prefix, `64:ff9b::/96` (RFC 6052 section 2.1). DNS64 makes such an address for every host without IPv6.
pub(super) const WELL_KNOWN: Nat64Prefix = Nat64Prefix(Ipv6Net::new_assert(
    Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0),
    96,
));

/// The prefix under which a network's translator shows IPv4 hosts (RFC 6052): 32, 40, 48, 56, 64 or 96 bits long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nat64Prefix(Ipv6Net);

/// Why a text is no NAT64 prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a NAT64 prefix: write an IPv6 prefix of 32, 40, 48, 56, 64 or 96 bits in 2000::/3, fc00::/7 or 64:ff9b:1::/48, such as 2001:db8:64::/96"
)]
pub struct InvalidNat64Prefix(String);

/// Where a translator's prefix can lie. Anywhere else it would give a meaning to addresses that have one: loopback, mapped,
/// link-local, multicast.
const PARENTS: [Ipv6Net; 4] = [
    Ipv6Net::new_assert(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3),
    Ipv6Net::new_assert(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7),
    Ipv6Net::new_assert(Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48),
    WELL_KNOWN.0,
];

/// An IPv4 address that a translator makes of an IPv6 one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Translation {
    pub(super) to: Ipv4Addr,
    /// Whether the octet that RFC 6052 reserves is zero. Some translators do not look at it, so that what stands around it counts
    /// against the address in any case, and for it only if it is.
    pub(super) is_well_formed: bool,
}

impl Nat64Prefix {
    /// What a translator with this prefix makes of an address under it. The bits after the IPv4 address do not count: a translator
    /// ignores them (RFC 6052 section 2.2).
    pub(super) fn translate(self, address: Ipv6Addr) -> Option<Translation> {
        self.0
            .contains(&address)
            .then(|| translation(address, self.0.prefix_len()))
    }
}

impl FromStr for Nat64Prefix {
    type Err = InvalidNat64Prefix;

    fn from_str(text: &str) -> Result<Self, InvalidNat64Prefix> {
        text.parse::<Ipv6Net>()
            .ok()
            .filter(|network| LENGTHS.contains(&network.prefix_len()))
            .filter(|network| PARENTS.iter().any(|parent| parent.contains(network)))
            .map(|network| Self(network.trunc()))
            .ok_or_else(|| InvalidNat64Prefix(text.chars().take(64).collect()))
    }
}

impl fmt::Display for Nat64Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Nat64Prefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

/// Where the four octets stand for a prefix of this length: after it, octet 8 left out.
fn positions(length: u8) -> [u8; 4] {
    match length {
        32 => [4, 5, 6, 7],
        40 => [5, 6, 7, 9],
        48 => [6, 7, 9, 10],
        56 => [7, 9, 10, 11],
        64 => [9, 10, 11, 12],
        _ => [12, 13, 14, 15],
    }
}

fn translation(address: Ipv6Addr, length: u8) -> Translation {
    let octets = address.octets();
    Translation {
        to: Ipv4Addr::from(positions(length).map(|place| octets[usize::from(place)])),
        is_well_formed: length == 96 || octets[8] == 0,
    }
}

/// What a translator with a prefix of any length would make of the address, where the rest after it is zero as RFC 6052 has it.
/// Only good for looking for a few exact addresses: any address yields some.
pub(super) fn at_any_translation_offset(address: Ipv6Addr) -> impl Iterator<Item = Ipv4Addr> {
    let zeros = address.to_bits().trailing_zeros();
    LENGTHS.into_iter().filter_map(move |length| {
        let [.., last] = positions(length);
        let rest_is_zero = zeros >= 8 * u32::from(15 - last);
        if !rest_is_zero {
            return None;
        }
        let translation = translation(address, length);
        translation.is_well_formed.then_some(translation.to)
    })
}

/// The address at the end of an ISATAP interface identifier (RFC 5214 section 6.1), under any prefix.
pub(super) fn isatap(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [.., marker, identifier, high, low] = address.segments();
    let is_isatap = matches!(marker, 0 | 0x0200) && identifier == 0x5efe;
    is_isatap.then(|| from_segments(high, low))
}

/// The addresses in forms that are refused whole: IPv4-compatible, IPv4-translated (RFC 2765), local translation, 6to4, and both
/// that Teredo carries.
pub(super) fn retired(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let [prefix @ .., last_high, last_low] = address.segments();
    match prefix {
        [0, 0, 0, 0, 0 | 0xffff, 0] => vec![from_segments(last_high, last_low)],
        [0x64, 0xff9b, 1, ..] => [48, 56, 64, 96]
            .into_iter()
            .map(|length| translation(address, length).to)
            .collect(),
        [0x2002, high, low, ..] => vec![from_segments(high, low)],
        [0x2001, 0, high, low, ..] => vec![
            from_segments(high, low),
            from_segments(!last_high, !last_low),
        ],
        _ => Vec::new(),
    }
}

fn from_segments(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}
