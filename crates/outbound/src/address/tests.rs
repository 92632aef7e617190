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

#[test]
fn a_translated_address_under_the_operators_prefix_is_judged_by_what_it_embeds() {
    let prefix = |text: &str| text.parse::<Nat64Prefix>().expect("a prefix");
    let policy = Policy::new(vec![prefix("2001:470:64::/96"), prefix("fd00:64::/48")]);
    let rule = |text: &str| {
        rule_and_row(policy.judge(text.parse().expect("an address"))).map(|(rule, _)| rule)
    };
    assert_eq!(rule("2001:470:64::808:808"), None);
    assert_eq!(rule("2001:470:64::a00:1"), Some(Rule::Private));
    assert_eq!(rule("fd00:64:0:808:8:800::"), None);
    assert_eq!(rule("fd00:64:0:7f00:0:100::"), Some(Rule::Loopback));
    // The octet that must be zero is not: no translator made it.
    assert_eq!(rule("fd00:64:0:808:108:800::"), Some(Rule::UniqueLocal));
    assert_eq!(rule("fd00:65::1"), Some(Rule::UniqueLocal));
}

#[test]
fn a_prefix_that_rfc_6052_does_not_have_is_refused_in_words() {
    for text in ["2001:db8::/33", "10.0.0.0/8", "2001:db8::", ""] {
        let error = text.parse::<Nat64Prefix>().expect_err("not a prefix");
        assert!(error.to_string().contains("96 bits"), "{error}");
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
    fn nothing_outside_global_unicast_is_public_but_mapped_and_translated(bits: u128) {
        let v6 = Ipv6Addr::from(bits);
        let public = judge(IpAddr::V6(v6)) == Verdict::Public;
        let embeds = Policy::default().translated(v6).is_some();
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
