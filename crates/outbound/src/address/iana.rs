//! The tables against the IANA snapshots beside them, `crates/outbound/iana`.

use sha2::{Digest as _, Sha256};

use super::*;

const SUMS: &str = include_str!("../../iana/sha256sums");
const V4: (&str, &str) = (
    "ipv4-special-purpose.tsv",
    include_str!("../../iana/ipv4-special-purpose.tsv"),
);
const V6: (&str, &str) = (
    "ipv6-special-purpose.tsv",
    include_str!("../../iana/ipv6-special-purpose.tsv"),
);

/// Rows that the guard does not treat as the registry's "globally reachable" says, each with the reason.
const EXCEPTIONS: [(&str, &str); 10] = [
    (
        "192.0.0.9/32",
        "192.0.0.0/24 is refused whole: nobody fetches pages from anycast helpers",
    ),
    ("192.0.0.10/32", "192.0.0.0/24 is refused whole"),
    ("2001:1::1/128", "2001::/23 is refused whole"),
    ("2001:1::2/128", "2001::/23 is refused whole"),
    ("2001:1::3/128", "2001::/23 is refused whole"),
    ("2001:3::/32", "2001::/23 is refused whole"),
    ("2001:4:112::/48", "2001::/23 is refused whole"),
    (
        "2001:20::/28",
        "2001::/23 is refused whole: hashes of keys, which are no locators",
    ),
    (
        "2001:30::/28",
        "2001::/23 is refused whole: drone identifiers, which are no locators",
    ),
    (
        "64:ff9b::/96",
        "judged by the IPv4 address inside, and its ends have none that is public",
    ),
];

/// Rows of the tables that the special-purpose registries do not have, each with the reason.
const ADDITIONS: [(&str, &str); 6] = [
    ("224.0.0.0/4", "multicast has a registry of its own"),
    ("168.63.129.16/32", "Azure's fabric, an ordinary address"),
    ("::/96", "IPv4-compatible addresses, retired by RFC 4291"),
    (
        "fec0::/10",
        "site-local addresses, retired by RFC 3879 and still routed in places",
    ),
    ("ff00::/8", "multicast has a registry of its own"),
    ("2000::/3", "not a refused network: what IPv6 must lie in"),
];

struct Snapshot {
    network: IpNet,
    is_reachable: bool,
}

fn rows((name, text): (&str, &str)) -> Vec<Snapshot> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .skip(1)
        .map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            let [prefix, title, document, reachable, _note] = columns[..] else {
                panic!("{name}: not five columns: {line}");
            };
            assert!(!title.is_empty() && document.starts_with("RFC "), "{line}");
            Snapshot {
                network: prefix.parse().expect(prefix),
                is_reachable: match reachable {
                    "T" => true,
                    "F" | "na" => false,
                    other => panic!("{name}: neither T, F nor na: {other}"),
                },
            }
        })
        .collect()
}

fn all_rows() -> Vec<Snapshot> {
    [rows(V4), rows(V6)].into_iter().flatten().collect()
}

#[test]
fn the_snapshots_are_whole_and_as_they_were_checked_in() {
    for ((name, text), count) in [(V4, 26), (V6, 25)] {
        let sum = Sha256::digest(text.as_bytes())
            .iter()
            .fold(String::new(), |sum, byte| format!("{sum}{byte:02x}"));
        assert!(
            SUMS.lines().any(|line| line == format!("{sum}  {name}")),
            "{name} has the checksum {sum}; compare it with the registry, then write it to sha256sums"
        );
        assert!(text.starts_with("# IANA IPv"), "{name}");
        assert!(
            text.lines()
                .next()
                .is_some_and(|header| header.contains("last updated 2025-10-09")),
            "{name}"
        );
        assert_eq!(rows((name, text)).len(), count, "{name}");
    }
}

#[test]
fn first_and_last_address_of_every_row_are_judged_as_the_registry_says() {
    for row in all_rows() {
        let is_exception = EXCEPTIONS
            .iter()
            .any(|(network, _reason)| *network == row.network.to_string());
        for address in [row.network.network(), row.network.broadcast()] {
            let is_public = judge(address) == Verdict::Public;
            assert_eq!(
                is_public,
                row.is_reachable != is_exception,
                "{address} of {}",
                row.network
            );
        }
    }
}

#[test]
fn what_refuses_a_row_of_the_registry_covers_all_of_it() {
    // Judged by the IPv4 addresses inside, and so by no row of its own.
    let mapped: IpNet = "::ffff:0:0/96".parse().expect("a network");
    for row in all_rows() {
        if row.is_reachable || row.network == mapped {
            continue;
        }
        let ends = [row.network.network(), row.network.broadcast()];
        let is_covered = ends.into_iter().any(|address| match judge(address) {
            Verdict::Public => false,
            Verdict::Blocked(blocked) => {
                blocked.rule != Rule::NotGlobalUnicast && blocked.network.contains(&row.network)
            }
        });
        assert!(is_covered, "{}", row.network);
    }
}

#[test]
fn every_exception_is_a_row_of_the_registry_that_is_reachable() {
    for (network, reason) in EXCEPTIONS {
        assert!(
            all_rows()
                .iter()
                .any(|row| row.network.to_string() == network && row.is_reachable),
            "{network}: {reason}"
        );
    }
}

#[test]
fn every_row_of_the_tables_is_in_the_registry_or_a_stated_addition() {
    let registry: Vec<IpNet> = all_rows().iter().map(|row| row.network).collect();
    let tables: Vec<IpNet> = table::IPV4
        .iter()
        .map(|row| IpNet::from(row.network))
        .chain(table::SPECIAL_UNICAST.iter().map(|row| row.network.into()))
        .chain(table::NAMED.iter().map(|row| row.network.into()))
        .chain([table::GLOBAL_UNICAST.network.into()])
        .collect();
    let added: Vec<IpNet> = ADDITIONS
        .iter()
        .map(|(network, _reason)| network.parse().expect("a network"))
        .collect();
    for network in &tables {
        assert!(
            registry.contains(network) != added.contains(network),
            "{network} is in neither, or in both"
        );
    }
    for network in &added {
        assert!(tables.contains(network), "{network} is not in a table");
    }
}

#[test]
fn every_metadata_address_of_ipv4_but_one_is_refused_by_a_network_as_well() {
    for row in table::METADATA_V4
        .iter()
        .filter(|row| row.network.addr() != Ipv4Addr::new(168, 63, 129, 16))
    {
        let is_inside = table::IPV4
            .iter()
            .any(|outer| outer.network.contains(&row.network));
        assert!(is_inside, "{}", row.network);
    }
}
