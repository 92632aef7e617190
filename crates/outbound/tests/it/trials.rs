//! Short runs of what `examples/guard` does for long.

#[path = "../../examples/guard/addresses.rs"]
mod addresses;
#[path = "../../examples/guard/fuzz.rs"]
mod fuzz;
#[path = "../../examples/guard/oracle.rs"]
#[expect(dead_code, reason = "the sweep over all of IPv4 is the example's")]
mod oracle;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use outbound::{Verdict, judge};

use self::{
    addresses::{Random, WELL_KNOWN},
    oracle::Oracle,
};

fn is_public(address: IpAddr) -> bool {
    judge(address) == Verdict::Public
}

#[test]
fn at_the_borders_of_every_row_and_at_random_guard_and_oracle_agree() {
    let oracle = Oracle::new();
    let mut random = Random::new(1);
    for _ in 0..200_000 {
        let v4 = addresses::any_v4(&mut random, &oracle);
        let expected = oracle.is_public_v4(v4);
        for address in [
            IpAddr::V4(Ipv4Addr::from_bits(v4)),
            IpAddr::V6(Ipv4Addr::from_bits(v4).to_ipv6_mapped()),
            IpAddr::V6(Ipv6Addr::from_bits(WELL_KNOWN | u128::from(v4))),
        ] {
            assert_eq!(is_public(address), expected, "{address}");
        }
        let v6 = addresses::any_v6(&mut random, &oracle);
        let address = IpAddr::V6(Ipv6Addr::from_bits(v6));
        assert_eq!(is_public(address), oracle.is_public_v6(v6), "{address}");
    }
}

#[test]
fn one_address_before_and_after_every_row_of_the_registries_guard_and_oracle_agree() {
    let oracle = Oracle::new();
    for &(first, last) in &oracle.rows_v4 {
        for bits in [first.saturating_sub(1), first, last, last + 1] {
            // After the last IPv4 address there is none.
            let Ok(bits) = u32::try_from(bits) else {
                continue;
            };
            let address = IpAddr::V4(Ipv4Addr::from_bits(bits));
            assert_eq!(is_public(address), oracle.is_public(address), "{address}");
        }
    }
    for &(first, last) in &oracle.rows_v6 {
        for bits in [first.wrapping_sub(1), first, last, last.wrapping_add(1)] {
            let address = IpAddr::V6(Ipv6Addr::from_bits(bits));
            assert_eq!(is_public(address), oracle.is_public(address), "{address}");
        }
    }
}

#[test]
fn whatever_a_url_looks_like_it_is_judged_the_same_again_and_only_what_is_public_is_allowed() {
    let oracle = Oracle::new();
    let mut random = Random::new(1);
    let mut outcome = fuzz::Outcome::default();
    for _ in 0..20_000 {
        if let Err(broken) = fuzz::execute(&mut random, &oracle, &mut outcome) {
            panic!("{broken}");
        }
    }
    println!("{outcome}");
    assert_eq!(outcome.executions, 20_000);
    assert!(outcome.allowed > 1_000 && outcome.blocked > 1_000 && outcome.malformed > 1_000);
}
