//! The rows.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

use crate::Rule;

/// One network, what is the matter with it, and who says so.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<N, B> {
    pub(super) network: N,
    pub(super) rule: Rule,
    pub(super) registry: &'static str,
    /// The network once more, as the bits that its addresses share and the mask of those bits: what is compared for each address.
    shared: B,
    mask: B,
}

pub(super) type RowV4 = Row<Ipv4Net, u32>;
pub(super) type RowV6 = Row<Ipv6Net, u128>;

impl RowV4 {
    const fn new(octets: [u8; 4], length: u8, rule: Rule, registry: &'static str) -> Self {
        let network = Ipv4Net::new_assert(Ipv4Addr::from_octets(octets), length);
        Self {
            network,
            rule,
            registry,
            shared: network.addr().to_bits(),
            mask: u32::MAX << (32 - length),
        }
    }

    const fn holds(&self, bits: u32) -> bool {
        bits & self.mask == self.shared
    }
}

impl RowV6 {
    const fn new(segments: [u16; 8], length: u8, rule: Rule, registry: &'static str) -> Self {
        let network = Ipv6Net::new_assert(Ipv6Addr::from_segments(segments), length);
        Self {
            network,
            rule,
            registry,
            shared: network.addr().to_bits(),
            mask: u128::MAX << (128 - length),
        }
    }

    const fn holds(&self, bits: u128) -> bool {
        bits & self.mask == self.shared
    }
}

const fn v4(octets: [u8; 4], length: u8, rule: Rule, registry: &'static str) -> RowV4 {
    RowV4::new(octets, length, rule, registry)
}

const fn v6(segments: [u16; 8], length: u8, rule: Rule, registry: &'static str) -> RowV6 {
    RowV6::new(segments, length, rule, registry)
}

/// IPv4 that is not public. The registry's rows that are globally reachable (AS112, AMT) are left out, and 192.0.0.0/24 is
/// refused whole, its two reachable anycast addresses with it.
#[rustfmt::skip]
pub(super) static IPV4: [RowV4; 16] = [
    v4([0, 0, 0, 0], 8, Rule::ThisNetwork, "this network, RFC 791"),
    v4([10, 0, 0, 0], 8, Rule::Private, "private use, RFC 1918"),
    v4([100, 64, 0, 0], 10, Rule::Shared, "shared address space, RFC 6598"),
    v4([127, 0, 0, 0], 8, Rule::Loopback, "loopback, RFC 1122"),
    v4([169, 254, 0, 0], 16, Rule::LinkLocal, "link-local, RFC 3927"),
    v4([172, 16, 0, 0], 12, Rule::Private, "private use, RFC 1918"),
    v4([192, 0, 0, 0], 24, Rule::ProtocolAssignments, "IETF protocol assignments, RFC 6890"),
    v4([192, 0, 2, 0], 24, Rule::Documentation, "documentation, RFC 5737"),
    v4([192, 88, 99, 0], 24, Rule::SixToFourRelay, "retired 6to4 relays, RFC 7526"),
    v4([192, 168, 0, 0], 16, Rule::Private, "private use, RFC 1918"),
    v4([198, 18, 0, 0], 15, Rule::Benchmarking, "benchmarking, RFC 2544"),
    v4([198, 51, 100, 0], 24, Rule::Documentation, "documentation, RFC 5737"),
    v4([203, 0, 113, 0], 24, Rule::Documentation, "documentation, RFC 5737"),
    v4([224, 0, 0, 0], 4, Rule::Multicast, "multicast, RFC 5771"),
    v4([240, 0, 0, 0], 4, Rule::Reserved, "reserved, RFC 1112"),
    AZURE_FABRIC,
];

/// The one metadata address in public space: no network row would catch it.
const AZURE_FABRIC: RowV4 = v4([168, 63, 129, 16], 32, Rule::Metadata, "Azure's fabric");

#[rustfmt::skip]
pub(super) static METADATA_V4: [RowV4; 10] = [
    v4([169, 254, 169, 254], 32, Rule::Metadata, "instance metadata of AWS, Google, Azure, Oracle and others"),
    v4([169, 254, 169, 253], 32, Rule::Metadata, "Amazon's resolver"),
    v4([169, 254, 169, 123], 32, Rule::Metadata, "Amazon's time server"),
    v4([169, 254, 170, 2], 32, Rule::Metadata, "task credentials of Amazon ECS"),
    v4([169, 254, 170, 23], 32, Rule::Metadata, "pod credentials of Amazon EKS"),
    v4([169, 254, 42, 42], 32, Rule::Metadata, "instance metadata of Scaleway"),
    v4([169, 254, 0, 23], 32, Rule::Metadata, "instance metadata of Tencent"),
    v4([100, 100, 100, 200], 32, Rule::Metadata, "instance metadata of Alibaba"),
    v4([192, 0, 0, 192], 32, Rule::Metadata, "instance metadata of Oracle's first cloud"),
    AZURE_FABRIC,
];

#[rustfmt::skip]
static METADATA_V6: [RowV6; 8] = [
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, Rule::Metadata, "instance metadata of AWS"),
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x253], 128, Rule::Metadata, "Amazon's resolver"),
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x123], 128, Rule::Metadata, "Amazon's time server"),
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], 128, Rule::Metadata, "pod credentials of Amazon EKS"),
    v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, Rule::Metadata, "instance metadata of Google"),
    v6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128, Rule::Metadata, "instance metadata of Scaleway"),
    v6([0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128, Rule::Metadata, "instance metadata of Oracle"),
    v6([0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128, Rule::Metadata, "instance metadata of OpenStack"),
];

/// What is not public although it lies inside [`GLOBAL_UNICAST`], the most specific first. The registry's rows that are globally
/// reachable inside `2001::/23` (anycast of PCP, TURN and SRP, AMT, AS112, `ORCHIDv2`, DRIP) are refused with the rest of it.
#[rustfmt::skip]
pub(super) static SPECIAL_UNICAST: [RowV6; 6] = [
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, Rule::Teredo, "Teredo, RFC 4380"),
    v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, Rule::Benchmarking, "benchmarking, RFC 5180"),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, Rule::ProtocolAssignments, "IETF protocol assignments, RFC 2928"),
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, Rule::Documentation, "documentation, RFC 3849"),
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, Rule::SixToFour, "6to4, RFC 3056"),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, Rule::Documentation, "documentation, RFC 9637"),
];

/// Networks outside [`GLOBAL_UNICAST`] that have a name, the most specific first. All else there is refused without one.
#[rustfmt::skip]
pub(super) static NAMED: [RowV6; 11] = [
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, Rule::Loopback, "loopback, RFC 4291"),
    v6([0; 8], 128, Rule::ThisNetwork, "unspecified, RFC 4291"),
    v6([0; 8], 96, Rule::Ipv4Compatible, "retired IPv4-compatible addresses, RFC 4291"),
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, Rule::LocalTranslation, "local-use translation, RFC 8215"),
    v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64, Rule::Discard, "discard-only, RFC 6666"),
    v6([0x100, 0, 0, 1, 0, 0, 0, 0], 64, Rule::Discard, "dummy prefix, RFC 9780"),
    v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, Rule::SegmentRouting, "segment routing identifiers, RFC 9602"),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, Rule::UniqueLocal, "unique local, RFC 4193"),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, Rule::LinkLocal, "link-local, RFC 4291"),
    v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, Rule::SiteLocal, "retired site-local addresses, RFC 3879"),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, Rule::Multicast, "multicast, RFC 4291"),
];

/// Where public IPv6 hosts are. The whole of it rather than what IANA has allocated so far: such a table goes stale, and then
/// honest hosts are refused.
pub(super) static GLOBAL_UNICAST: RowV6 = v6(
    [0x2000, 0, 0, 0, 0, 0, 0, 0],
    3,
    Rule::NotGlobalUnicast,
    "global unicast, RFC 4291",
);

/// The row of an address that is not public.
pub(super) fn row_v4(address: Ipv4Addr) -> Option<&'static RowV4> {
    let bits = address.to_bits();
    metadata_v4(address).or_else(|| IPV4.iter().find(|row| row.holds(bits)))
}

/// The row of an address that is not public, whatever it embeds.
pub(super) fn row_v6(address: Ipv6Addr) -> Option<&'static RowV6> {
    let bits = address.to_bits();
    if GLOBAL_UNICAST.holds(bits) {
        SPECIAL_UNICAST.iter().find(|row| row.holds(bits))
    } else {
        let named = NAMED.iter().find(|row| row.holds(bits));
        named.or(Some(&GLOBAL_UNICAST))
    }
}

/// The row of a metadata address.
pub(super) fn metadata_v4(address: Ipv4Addr) -> Option<&'static RowV4> {
    let bits = address.to_bits();
    METADATA_V4.iter().find(|row| row.holds(bits))
}

/// The row of a metadata address.
pub(super) fn metadata_v6(address: Ipv6Addr) -> Option<&'static RowV6> {
    let bits = address.to_bits();
    METADATA_V6.iter().find(|row| row.holds(bits))
}
