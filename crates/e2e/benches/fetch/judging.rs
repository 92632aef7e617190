//! What it costs to judge one address.

use std::{
    hint::black_box,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use outbound::{Verdict, judge};

use crate::{count, median, process::own_cpu};

const ADDRESSES: usize = 1 << 20;
const ROUNDS: usize = 5;
/// Passes over the addresses in a round, so that a round is long beside the clock's steps.
const PASSES: usize = 8;

/// Makes an address of random bits.
type Mix = fn(u128) -> IpAddr;

pub(crate) fn bench() {
    println!(
        "one address judged, processor time, {ADDRESSES} random ones, {ROUNDS} rounds; medians"
    );
    let mixes: [(&str, Mix); 4] = [
        ("IPv4", |random| IpAddr::V4(v4(random))),
        ("IPv6, global unicast", |random| {
            IpAddr::V6(Ipv6Addr::from_bits(
                random & !(0b111 << 125) | (0b001 << 125),
            ))
        }),
        ("IPv6, anything", |random| {
            IpAddr::V6(Ipv6Addr::from_bits(random))
        }),
        ("IPv6 that embeds IPv4", embedded),
    ];
    for (name, mix) in mixes {
        let mut random = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834_u128;
        let addresses: Vec<IpAddr> = (0..ADDRESSES)
            .map(|_| {
                // Xorshift with the shifts of Marsaglia's family; any mixture will do.
                random ^= random << 25;
                random ^= random >> 61;
                random ^= random << 83;
                mix(random)
            })
            .collect();
        let mut nanos = Vec::new();
        let mut public = 0;
        for _ in 0..ROUNDS {
            // Processor time: others on the machine take none of it.
            let before = own_cpu();
            for _ in 0..PASSES {
                public = addresses
                    .iter()
                    .filter(|&&address| matches!(judge(black_box(address)), Verdict::Public))
                    .count();
            }
            let spent = own_cpu().saturating_sub(before);
            nanos.push(spent.as_secs_f64() * 1e9 / count(ADDRESSES * PASSES));
        }
        println!(
            "  {name:<24}{:>8.1} ns, of which {:.0} % public",
            median(&mut nanos),
            count(public) * 100.0 / count(ADDRESSES)
        );
    }
}

fn v4(random: u128) -> Ipv4Addr {
    let [a, b, c, d, ..] = random.to_le_bytes();
    Ipv4Addr::new(a, b, c, d)
}

/// Mapped, NAT64, 6to4, Teredo or ISATAP, a fifth each.
fn embedded(random: u128) -> IpAddr {
    let bits = u128::from(v4(random).to_bits());
    let address = match (random >> 64) % 5 {
        0 => 0xffff << 32 | bits,
        1 => 0x0064_ff9b << 96 | bits,
        2 => 0x2002 << 112 | bits << 80,
        3 => 0x2001_0000 << 96 | bits,
        _ => 0x2a00 << 112 | 0x5efe << 32 | bits,
    };
    IpAddr::V6(Ipv6Addr::from_bits(address))
}
