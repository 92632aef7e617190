use proptest::prelude::*;

use super::*;

fn rule_of(text: &str) -> Option<Rule> {
    match judge(text.parse().expect("an address")) {
        Verdict::Public => None,
        Verdict::Blocked(blocked) => Some(blocked.rule),
    }
}

fn rule_and_row(verdict: Verdict) -> Option<(Rule, IpNet)> {
    match verdict {
        Verdict::Public => None,
        Verdict::Blocked(blocked) => Some((blocked.rule, blocked.network)),
    }
}

#[test]
fn a_verdict_names_address_rule_and_row() {
    let sentence = |text: &str| match judge(text.parse().expect("an address")) {
        Verdict::Public => "public".to_owned(),
        Verdict::Blocked(blocked) => blocked.to_string(),
    };
    assert_eq!(
        sentence("10.1.2.3"),
        "10.1.2.3 lies in 10.0.0.0/8 (private use, RFC 1918)"
    );
    assert_eq!(
        sentence("64:ff9b::7f00:1"),
        "64:ff9b::7f00:1 embeds 127.0.0.1, which lies in 127.0.0.0/8 (loopback, RFC 1122)"
    );
    assert_eq!(
        sentence("4000::1"),
        "4000::1 lies outside 2000::/3 (global unicast, RFC 4291)"
    );
    assert_eq!(sentence("2606:4700:4700::1111"), "public");
}

#[test]
fn metadata_is_called_metadata_in_every_spelling() {
    for text in [
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fe80::a9fe:a9fe",
        "2a00:1450:a9fe:a9fe::",
        "2a00:1450:4001:a9fe:a9:fe00::",
        "2a00:1450:4001::a9fe:a9fe",
        "2001:4860:1:1:0:5efe:a9fe:a9fe",
    ] {
        assert_eq!(rule_of(text), Some(Rule::Metadata), "{text}");
        assert!(
            Policy::default().is_metadata(text.parse().expect("an address")),
            "{text}"
        );
    }
    for text in [
        "::169.254.169.254",
        "2002:a9fe:a9fe::1",
        "2001:0:a9fe:a9fe::",
        "64:ff9b:1::169.254.169.254",
        "64:ff9b:1:a9fe:a9:fe00::",
    ] {
        assert!(
            Policy::default().is_metadata(text.parse().expect("an address")),
            "{text}"
        );
    }
}

fn policy(prefixes: &[&str]) -> Policy {
    Policy::new(
        prefixes
            .iter()
            .map(|text| text.parse().expect("a prefix"))
            .collect(),
    )
}

fn rule_under(policy: &Policy, text: &str) -> Option<Rule> {
    rule_and_row(policy.judge(text.parse().expect("an address"))).map(|(rule, _row)| rule)
}

#[test]
fn a_translated_address_under_the_operators_prefix_is_judged_by_what_it_embeds() {
    let policy = policy(&["2001:470:64::/96", "fd00:64::/48"]);
    for (text, expected) in [
        ("2001:470:64::808:808", None),
        ("2001:470:64::a00:1", Some(Rule::Private)),
        ("2001:470:64::1:a00:1", None),
        ("2001:470:65::a00:1", None),
        ("fd00:64:0:808:8:800::", None),
        ("fd00:64:0:7f00:0:100::", Some(Rule::Loopback)),
        ("fd00:65::1", Some(Rule::UniqueLocal)),
    ] {
        assert_eq!(rule_under(&policy, text), expected, "{text}");
    }
}

/// 192.168.1.2 and 8.8.4.2 in every layout of RFC 6052 section 2.2: the row's text holds its first and last two octets.
#[test]
fn every_layout_of_a_translator_is_read() {
    for (prefix, private, public) in [
        ("2a00:64::/32", "2a00:64:c0a8:102::", "2a00:64:808:402::"),
        (
            "2a00:64:a00::/40",
            "2a00:64:ac0:a801:2::",
            "2a00:64:a08:804:2::",
        ),
        (
            "2a00:64:a::/48",
            "2a00:64:a:c0a8:1:200::",
            "2a00:64:a:808:4:200::",
        ),
        (
            "2a00:64:a:b00::/56",
            "2a00:64:a:bc0:a8:102::",
            "2a00:64:a:b08:8:402::",
        ),
        (
            "2a00:64:a:b::/64",
            "2a00:64:a:b:c0:a801:200::",
            "2a00:64:a:b:8:804:200::",
        ),
        (
            "2a00:64:a:b::/96",
            "2a00:64:a:b::c0a8:102",
            "2a00:64:a:b::808:402",
        ),
    ] {
        let with = policy(&[prefix]);
        assert_eq!(rule_under(&with, private), Some(Rule::Private), "{prefix}");
        assert_eq!(rule_under(&with, public), None, "{prefix}");
        assert_eq!(rule_under(&Policy::default(), private), None, "{prefix}");
        // Translators ignore what follows the address, and some ignore the octet that is reserved.
        let bits = private.parse::<Ipv6Addr>().expect("an address").to_bits();
        let length: u32 = prefix
            .split_once('/')
            .expect("a prefix")
            .1
            .parse()
            .expect("a length");
        let end = if length == 96 {
            128
        } else {
            (length + 40).max(72)
        };
        let suffix = if end == 128 { 0 } else { u128::MAX >> end };
        let reserved = if length == 96 { 0 } else { 1 << 56 };
        for odd in [bits | suffix, bits | reserved, bits | suffix | reserved] {
            let text = Ipv6Addr::from_bits(odd).to_string();
            assert_eq!(
                rule_under(&with, &text),
                Some(Rule::Private),
                "{prefix} {text}"
            );
        }
    }
}

#[test]
fn a_reserved_octet_that_is_set_makes_no_address_public() {
    let policy = policy(&["fd00:64::/48"]);
    assert_eq!(
        rule_under(&policy, "fd00:64:0:808:108:800::"),
        Some(Rule::UniqueLocal)
    );
    assert_eq!(
        rule_under(&policy, "fd00:64:0:7f00:100:100::"),
        Some(Rule::Loopback)
    );
}

#[test]
fn where_prefixes_overlap_every_reading_must_be_public() {
    let policy = policy(&["2a00:64::/32", "2a00:64:808:808::/96"]);
    // By the short prefix 8.8.8.8, by the long one what stands at the end.
    assert_eq!(rule_under(&policy, "2a00:64:808:808::808:404"), None);
    assert_eq!(
        rule_under(&policy, "2a00:64:808:808::a00:1"),
        Some(Rule::Private)
    );
    assert_eq!(
        rule_under(&policy, "2a00:64:a00:1::808:404"),
        Some(Rule::Private)
    );
}

#[test]
fn metadata_hides_behind_no_translation_to_a_public_address() {
    let policy = policy(&["2a00:64::/32"]);
    assert_eq!(
        rule_under(&policy, "2a00:64:808:808::a9fe:a9fe"),
        Some(Rule::Metadata)
    );
}

#[test]
fn a_prefix_that_no_translator_can_have_is_refused_in_words() {
    for text in [
        "2001:db8::/33",
        "2001:db8::/31",
        "2001:db8::/128",
        "10.0.0.0/8",
        "2001:db8::",
        "",
        "::/96",
        "::ffff:0:0/96",
        "::ffff:0:0:0/96",
        "64:ff9c::/32",
        "fe80::/64",
        "fec0::/32",
        "ff02::/96",
        "4000::/32",
    ] {
        let error = text.parse::<Nat64Prefix>().expect_err("not a prefix");
        assert!(
            error.to_string().contains("or 96 bits in 2000::/3"),
            "{error}"
        );
    }
    for text in [
        "64:ff9b:1::/48",
        "64:ff9b:1:fffe::/96",
        "64:ff9b::/96",
        "fd00::/32",
    ] {
        assert!(text.parse::<Nat64Prefix>().is_ok(), "{text}");
    }
}

#[test]
fn local_translation_is_refused_unless_the_operator_says_what_it_is() {
    let public = "64:ff9b:1::8.8.8.8";
    assert_eq!(rule_of(public), Some(Rule::LocalTranslation));
    let policy = policy(&["64:ff9b:1::/96"]);
    assert_eq!(rule_under(&policy, public), None);
    assert_eq!(
        rule_under(&policy, "64:ff9b:1::10.0.0.1"),
        Some(Rule::Private)
    );
    assert_eq!(
        rule_under(&policy, "64:ff9b:1:1::8.8.8.8"),
        Some(Rule::LocalTranslation)
    );
}

#[test]
fn isatap_is_read_with_both_markers_and_no_other() {
    for prefix in ["2a00:1450:1:1", "2000:0:0:0", "3ffe:ffff:ffff:ffff"] {
        for marker in ["0", "200"] {
            let with = |end: &str| rule_of(&format!("{prefix}:{marker}:5efe:{end}"));
            assert_eq!(with("10.0.0.1"), Some(Rule::Private));
            assert_eq!(with("127.0.0.1"), Some(Rule::Loopback));
            assert_eq!(with("8.8.8.8"), None);
        }
        for marker in ["1", "20", "ff"] {
            assert_eq!(rule_of(&format!("{prefix}:{marker}:5efe:10.0.0.1")), None);
        }
        assert_eq!(rule_of(&format!("{prefix}:0:5eff:10.0.0.1")), None);
    }
}

#[test]
fn report_mode_never_opens_what_hides_loopback_link_local_or_metadata() {
    let policy = Policy::default();
    let reported = |text: &str| match policy.judge(text.parse().expect("an address")) {
        Verdict::Public => panic!("{text} is public"),
        Verdict::Blocked(blocked) => policy.may_be_reported(&blocked),
    };
    for text in ["10.0.0.1", "fd00::1", "2002:808:808::1", "::8.8.8.8"] {
        assert!(reported(text), "{text}");
    }
    for text in [
        "127.0.0.1",
        "0.0.0.0",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "2002:7f00:1::1",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
        "64:ff9b:1::127.0.0.1",
        "64:ff9b:1:7f00:0:100::",
        "64:ff9b:1:7f00:100:100::",
        "169.254.1.1",
        "fe80::1",
        "2001:4860:1:1:0:5efe:7f00:1",
        "100.100.100.200",
    ] {
        assert!(!reported(text), "{text}");
    }
}

proptest! {
    #[test]
    fn a_mapped_or_translated_address_is_judged_as_the_one_inside(bits: u32) {
        let v4 = Ipv4Addr::from(bits);
        let plain = rule_and_row(judge(IpAddr::V4(v4)));
        let mapped = IpAddr::V6(v4.to_ipv6_mapped());
        let [a, b, c, d] = v4.octets();
        let translated = IpAddr::V6(Ipv6Addr::new(
            0x64, 0xff9b, 0, 0, 0, 0,
            u16::from_be_bytes([a, b]),
            u16::from_be_bytes([c, d]),
        ));
        prop_assert_eq!(rule_and_row(judge(mapped)), plain);
        prop_assert_eq!(rule_and_row(judge(translated)), plain);
    }

    #[test]
    fn a_prefix_of_the_operators_changes_nothing_outside_it(bits: u128) {
        let v6 = IpAddr::V6(Ipv6Addr::from(bits));
        let with = policy(&["2001:470:64::/96", "fd00:64::/32"]);
        let is_under = [0x2001_0470_0064_u128 << 80, 0xfd00_0064_u128 << 96]
            .iter()
            .any(|start| bits >> 80 == start >> 80);
        prop_assert!(is_under || with.judge(v6) == judge(v6));
    }

    #[test]
    fn nothing_outside_global_unicast_is_public_but_mapped_and_translated(bits: u128) {
        let v6 = Ipv6Addr::from(bits);
        let public = judge(IpAddr::V6(v6)) == Verdict::Public;
        let embeds = Policy::default().translations(v6).next().is_some();
        let global = v6.segments()[0] & 0xe000 == 0x2000;
        prop_assert!(!public || embeds || global);
    }

    #[test]
    fn standard_library_words_for_not_public_are_never_public(bits: u32) {
        let v4 = Ipv4Addr::from(bits);
        if v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_broadcast()
            || v4.is_multicast() || v4.is_unspecified() || v4.is_documentation()
        {
            prop_assert_ne!(judge(IpAddr::V4(v4)), Verdict::Public);
        }
    }
}
