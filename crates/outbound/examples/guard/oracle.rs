//! Whether an address is public, worked out another way than the guard does: from the IANA snapshots as sorted intervals of
//! integers. It shares no code and no table with the guard, only the policy:
//!
//! - A row that is not globally reachable is refused whole, with what is reachable inside it.
//! - IPv4 is public but for those rows, multicast, and the one metadata address in public space.
//! - IPv6 is public inside `2000::/3` but for those rows. ISATAP addresses there also depend on the IPv4 address inside, and an
//!   address that a translator would turn into one of metadata is refused.
//! - Mapped addresses and `64:ff9b::/96` are what the IPv4 address inside is.

use std::net::{IpAddr, Ipv4Addr};

const IANA_V4: &str = include_str!("../../iana/ipv4-special-purpose.tsv");
const IANA_V6: &str = include_str!("../../iana/ipv6-special-purpose.tsv");

/// Refused although the registry of special purposes does not have it: multicast has a registry of its own, and Azure's fabric is an
/// ordinary address.
const ADDED_V4: [&str; 2] = ["224.0.0.0/4", "168.63.129.16/32"];

/// Where clouds serve credentials; only ever looked for inside IPv6 addresses, because the rows above refuse the plain ones.
const METADATA: [&str; 10] = [
    "169.254.169.254",
    "169.254.169.253",
    "169.254.169.123",
    "169.254.170.2",
    "169.254.170.23",
    "169.254.42.42",
    "169.254.0.23",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
];

/// First and last address of a network, as integers.
pub(crate) type Interval = (u128, u128);

/// The intervals, merged and sorted.
#[derive(Debug)]
pub(crate) struct Oracle {
    refused_v4: Vec<Interval>,
    refused_v6: Vec<Interval>,
    metadata: Vec<u32>,
    /// Every row of a snapshot and every addition, as it stands.
    pub(crate) rows_v4: Vec<Interval>,
    pub(crate) rows_v6: Vec<Interval>,
}

/// One row of a snapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) prefix: &'static str,
    pub(crate) is_reachable: bool,
}

/// The rows of both snapshots.
pub(crate) fn snapshots() -> [Vec<Row>; 2] {
    [IANA_V4, IANA_V6].map(|text| {
        text.lines()
            .filter(|line| !line.starts_with('#') && !line.starts_with("prefix\t"))
            .map(|line| {
                let columns: Vec<&str> = line.split('\t').collect();
                let [prefix, _name, _document, reachable, _note] = columns[..] else {
                    panic!("not five columns: {line}");
                };
                Row {
                    prefix,
                    is_reachable: match reachable {
                        "T" => true,
                        "F" | "na" => false,
                        other => panic!("neither T, F nor na: {other}"),
                    },
                }
            })
            .collect()
    })
}

/// First and last address of a prefix.
pub(crate) fn interval(prefix: &str) -> Interval {
    let (address, length) = prefix.split_once('/').expect("a prefix");
    let length: u32 = length.parse().expect("a length");
    let (first, width) = match address.parse().expect("an address") {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)), 32 - length),
        IpAddr::V6(v6) => (u128::from(v6), 128 - length),
    };
    (first, first + ((1 << width) - 1))
}

impl Oracle {
    pub(crate) fn new() -> Self {
        let [v4, v6] = snapshots();
        let all = |rows: &[Row]| -> Vec<Interval> {
            rows.iter().map(|row| interval(row.prefix)).collect()
        };
        let refused = |rows: &[Row]| -> Vec<Interval> {
            rows.iter()
                .filter(|row| !row.is_reachable)
                .map(|row| interval(row.prefix))
                .collect()
        };
        let added = ADDED_V4.map(interval);
        Self {
            refused_v4: merge([refused(&v4), added.to_vec()].concat()),
            refused_v6: merge(refused(&v6)),
            metadata: METADATA
                .iter()
                .map(|text| u32::from(text.parse::<Ipv4Addr>().expect("an address")))
                .collect(),
            rows_v4: [all(&v4), added.to_vec()].concat(),
            rows_v6: all(&v6),
        }
    }

    pub(crate) fn is_public(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => self.is_public_v4(u32::from(v4)),
            IpAddr::V6(v6) => self.is_public_v6(u128::from(v6)),
        }
    }

    pub(crate) fn is_public_v4(&self, bits: u32) -> bool {
        !lies_in(&self.refused_v4, u128::from(bits))
    }

    pub(crate) fn is_public_v6(&self, bits: u128) -> bool {
        let low = low_32(bits);
        match bits >> 32 {
            0xffff | 0x0064_ff9b_0000_0000_0000_0000 => return self.is_public_v4(low),
            _ => {}
        }
        if bits >> 125 != 1 || lies_in(&self.refused_v6, bits) || self.hides_metadata(bits) {
            return false;
        }
        let is_isatap = low_32(bits >> 32) & !0x0200_0000 == 0x5efe;
        !is_isatap || self.is_public_v4(low)
    }

    /// For public IPv4, how far the answer stays the same: the last address of the interval that this one begins or lies in.
    pub(crate) fn stretch_v4(&self, bits: u32) -> (bool, u32) {
        let bits = u128::from(bits);
        let next = self.refused_v4.partition_point(|&(first, _)| first <= bits);
        let before = next.checked_sub(1).map(|at| self.refused_v4[at]);
        let (is_public, last) = match before {
            Some((_, last)) if bits <= last => (false, last),
            _ => {
                let end = self.refused_v4.get(next).map(|&(first, _)| first - 1);
                (true, end.unwrap_or(u128::from(u32::MAX)))
            }
        };
        (is_public, low_32(last))
    }

    /// Whether some translator's layout (RFC 6052 section 2.2) finds a metadata address, with nothing but zeros after it.
    fn hides_metadata(&self, bits: u128) -> bool {
        let zero_below = |width: u32| bits & ((1 << width) - 1) == 0;
        let take = |shift: u32, width: u32| low_32(bits >> shift & ((1 << width) - 1));
        let layouts = [
            (zero_below(64), take(64, 32)),
            (zero_below(48), take(64, 24) << 8 | take(48, 8)),
            (zero_below(40), take(64, 16) << 16 | take(40, 16)),
            (zero_below(32), take(64, 8) << 24 | take(32, 24)),
            (zero_below(24), take(24, 32)),
        ];
        let reserved_is_zero = take(56, 8) == 0;
        let is_metadata = |v4: u32| self.metadata.contains(&v4);
        is_metadata(low_32(bits))
            || (reserved_is_zero
                && layouts
                    .into_iter()
                    .any(|(rest_is_zero, v4)| rest_is_zero && is_metadata(v4)))
    }
}

fn low_32(bits: u128) -> u32 {
    u32::try_from(bits & u128::from(u32::MAX)).expect("32 bits")
}

fn merge(mut intervals: Vec<Interval>) -> Vec<Interval> {
    intervals.sort_unstable();
    let mut merged: Vec<Interval> = Vec::new();
    for (first, last) in intervals {
        match merged.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = (*end).max(last),
            _ => merged.push((first, last)),
        }
    }
    merged
}

fn lies_in(intervals: &[Interval], bits: u128) -> bool {
    let after = intervals.partition_point(|&(first, _)| first <= bits);
    after > 0 && bits <= intervals[after - 1].1
}
