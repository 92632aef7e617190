use super::*;
use crate::Schemes;

fn config(json: &str) -> Config {
    serde_json::from_str(json).expect("settings")
}

fn target(url: &str) -> Target {
    Target::parse(url, Schemes::HttpAndHttps)
        .expect("a target")
        .1
}

/// The rule that refuses the URL, at the given address if the host is a name.
fn refused_by(guard: &Guard, url: &str, address: &str, consumer: Consumer) -> Option<Rule> {
    let target = target(url);
    let judged = guard.judge_name(&target, consumer).and_then(|standing| {
        let address = address.parse().expect("an address");
        guard.judge_address(&target, address, standing, consumer)
    });
    judged.err().map(|refusal| refusal.rule)
}

#[test]
fn an_exemption_opens_for_its_consumers_only() {
    let guard = Guard::offline(&config(
        r#"{"allow":["10.0.0.0/8", {"to":"10.9.0.0/16","for":["fetch"]}]}"#,
    ));
    let refused = |address, consumer| refused_by(&guard, "https://a.example/", address, consumer);
    assert_eq!(refused("10.1.0.1", Consumer::Mcp), None);
    assert_eq!(refused("10.1.0.1", Consumer::Fetch), Some(Rule::Private));
    assert_eq!(refused("10.1.0.1", Consumer::Egress), Some(Rule::Private));
    assert_eq!(refused("10.9.0.1", Consumer::Fetch), None);
    assert_eq!(refused("10.9.0.1", Consumer::Egress), Some(Rule::Private));
}

#[test]
fn an_exemption_does_not_spread_to_other_ports_names_or_subdomains() {
    let guard = Guard::offline(&config(
        r#"{"allow":["intra.example:8443", "127.0.0.1:9000"]}"#,
    ));
    let refused = |url| refused_by(&guard, url, "10.0.0.1", Consumer::Mcp);
    assert_eq!(refused("https://intra.example:8443/"), None);
    assert_eq!(refused("https://INTRA.example.:8443/"), None);
    assert_eq!(refused("https://intra.example/"), Some(Rule::Private));
    assert_eq!(
        refused("https://sub.intra.example:8443/"),
        Some(Rule::Private)
    );
    assert_eq!(refused("https://example:8443/"), Some(Rule::SingleLabel));
    let literal = |url, address| refused_by(&guard, url, address, Consumer::Mcp);
    assert_eq!(literal("http://127.0.0.1:9000/", "127.0.0.1"), None);
    assert_eq!(
        literal("http://[::ffff:7f00:1]:9000/", "::ffff:7f00:1"),
        None
    );
    assert_eq!(
        literal("http://127.0.0.1:9001/", "127.0.0.1"),
        Some(Rule::Loopback)
    );
    assert_eq!(
        literal("http://127.0.0.2:9000/", "127.0.0.2"),
        Some(Rule::Loopback)
    );
}

#[test]
fn a_network_entry_lifts_no_rule_for_names_and_a_host_entry_does() {
    let network = Guard::offline(&config(r#"{"allow":["10.0.0.0/8"]}"#));
    let host = Guard::offline(&config(r#"{"allow":["redis"]}"#));
    let refused = |guard| refused_by(guard, "http://redis/", "10.0.0.1", Consumer::Mcp);
    assert_eq!(refused(&network), Some(Rule::SingleLabel));
    assert_eq!(refused(&host), None);
}

#[test]
fn an_exempt_localhost_needs_no_look_up() {
    let guard = Guard::offline(&config(r#"{"allow":["localhost:9000"]}"#));
    let open = target("http://localhost:9000/");
    let standing = guard.judge_name(&open, Consumer::Mcp).expect("it is open");
    let addresses = known_addresses(&open, standing);
    assert_eq!(
        addresses,
        Some(vec![
            "127.0.0.1".parse().expect("an address"),
            "::1".parse().expect("an address")
        ])
    );
    assert_eq!(
        refused_by(&guard, "http://localhost:9001/", "127.0.0.1", Consumer::Mcp),
        Some(Rule::LocalName)
    );
}

#[test]
fn metadata_is_never_exempt() {
    let guard = Guard::offline(&config(
        r#"{"allow":["0.0.0.0/0","::/0","evil.example","metadata.google.internal","metadata"]}"#,
    ));
    let refused = |url, address| refused_by(&guard, url, address, Consumer::Mcp);
    for address in [
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "fd00:ec2::254",
        "2002:a9fe:a9fe::1",
        "::169.254.169.254",
        "2001:0:4136:e378:8000:63bf:5601:5601",
    ] {
        assert!(
            refused("http://evil.example/", address).is_some(),
            "{address}"
        );
        assert!(
            refused("http://other.example/", address).is_some(),
            "{address}"
        );
    }
    for url in ["http://metadata.google.internal/", "http://metadata/"] {
        assert_eq!(
            refused(url, "93.184.216.34"),
            Some(Rule::MetadataName),
            "{url}"
        );
    }
    assert_eq!(refused("http://evil.example/", "10.0.0.1"), None);
}

/// An IPv4 address in every form that carries one, with `2a00:64::/32` and `2a00:96::/96` as the Operator's prefixes.
fn every_form_of(v4: Ipv4Addr) -> Vec<IpAddr> {
    let [a, b, c, d] = v4.octets();
    let bits = v4.to_bits();
    let mut texts = vec![
        format!("{v4}"),
        format!("::ffff:{v4}"),
        format!("::{v4}"),
        format!("::ffff:0:{v4}"),
        format!("64:ff9b::{v4}"),
        format!("64:ff9b:1::{v4}"),
        format!("64:ff9b:1:2:3:4:{v4}"),
        format!("64:ff9b:1:{a:02x}{b:02x}:{c:x}:{d:02x}00::"),
        format!("64:ff9b:1:{a:x}:{b:x}:{c:02x}{d:02x}::"),
        format!("64:ff9b:1:0:{a:x}:{b:02x}{c:02x}:{d:02x}00:0"),
        format!("64:ff9b:1:{a:02x}{b:02x}:ff{c:02x}:{d:02x}00::"),
        format!("2002:{a:02x}{b:02x}:{c:02x}{d:02x}::1"),
        format!("2001:0:{a:02x}{b:02x}:{c:02x}{d:02x}::"),
        format!("2a00:64:{a:02x}{b:02x}:{c:02x}{d:02x}::"),
        format!("2a00:64:{a:02x}{b:02x}:{c:02x}{d:02x}:ff00:1:2:3"),
        format!("2a00:96::{v4}"),
        // A prefix that nobody named, in the layouts of RFC 6052.
        format!("2a00:1450:{a:02x}{b:02x}:{c:02x}{d:02x}::"),
        format!("2a00:1450:4001:{a:02x}{b:02x}:{c:x}:{d:02x}00::"),
        format!("2a00:1450:4001:1:{a:x}:{b:02x}{c:02x}:{d:02x}00:0"),
        format!("2a00:1450:4001:1::{v4}"),
    ];
    for prefix in ["2a00:1450:1:1", "fe80:0:0:0", "fd00:0:0:1"] {
        for marker in ["0", "200"] {
            texts.push(format!("{prefix}:{marker}:5efe:{v4}"));
        }
    }
    let client = Ipv6Addr::from_bits(0x2001 << 112 | u128::from(!bits));
    texts
        .iter()
        .map(|text| text.parse().expect(text))
        .chain([IpAddr::V6(client)])
        .collect()
}

#[test]
fn nothing_opens_or_only_reports_metadata_in_any_form() {
    let metadata = [
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
    let mut tried = 0;
    for mode in ["enforce", "report"] {
        let guard = Guard::offline(&config(&format!(
            r#"{{"mode":"{mode}","allow":["open.example","0.0.0.0/0","::/0"],"nat64_prefixes":["2a00:64::/32","2a00:96::/96"]}}"#
        )));
        for v4 in metadata {
            for address in every_form_of(v4.parse().expect("an address")) {
                for url in ["https://open.example/", "https://other.example/"] {
                    tried += 1;
                    let address = address.to_string();
                    assert!(
                        refused_by(&guard, url, &address, Consumer::Mcp).is_some(),
                        "{address} {url} {mode}"
                    );
                }
            }
        }
    }
    assert_eq!(tried, 2 * 10 * 27 * 2);
}

#[test]
fn report_mode_reports_no_form_of_loopback_and_link_local() {
    let guard = Guard::offline(&config(
        r#"{"mode":"report","nat64_prefixes":["2a00:64::/32","2a00:96::/96"]}"#,
    ));
    for inside in ["127.0.0.1", "127.9.8.7", "169.254.1.1", "0.0.0.0"] {
        for address in every_form_of(inside.parse().expect("an address")) {
            let is_unknown_translation = matches!(
                address,
                IpAddr::V6(v6) if v6.segments()[..2] == [0x2a00, 0x1450] && v6.segments()[5] != 0x5efe
            );
            if !is_unknown_translation {
                let address = address.to_string();
                assert!(
                    refused_by(&guard, "https://a.example/", &address, Consumer::Fetch).is_some(),
                    "{address}"
                );
            }
        }
    }
}

#[test]
fn the_villages_own_listener_is_never_exempt() {
    let guard =
        Guard::new(&config(r#"{"allow":["127.0.0.0/8","::/0","localhost"]}"#)).expect("a guard");
    guard.protect_listener("0.0.0.0:7070".parse().expect("a socket address"));
    let refused = |url, address| refused_by(&guard, url, address, Consumer::Mcp);
    for (url, address) in [
        ("http://localhost:7070/", "127.0.0.1"),
        ("http://127.0.0.1:7070/", "127.0.0.1"),
        ("http://127.9.9.9:7070/", "127.9.9.9"),
        ("http://[::ffff:127.0.0.1]:7070/", "::ffff:127.0.0.1"),
        ("http://[::1]:7070/", "::1"),
    ] {
        assert_eq!(refused(url, address), Some(Rule::OwnListener), "{url}");
    }
    assert_eq!(refused("http://127.0.0.1:7071/", "127.0.0.1"), None);
}

/// A guard on a machine that has these addresses.
fn guard_on(networks: &[&str], json: &str) -> Guard {
    Guard {
        own_addresses: Some(OwnAddresses::fixed(networks)),
        ..Guard::offline(&config(json))
    }
}

/// 93.184.216.34 in every form that an IPv6 address can hide it in, with `2a00:64::/32` as a translator's prefix.
const SPELLINGS: [&str; 12] = [
    "93.184.216.34",
    "::ffff:93.184.216.34",
    "::93.184.216.34",
    "::ffff:0:93.184.216.34",
    "64:ff9b::93.184.216.34",
    "64:ff9b:1::93.184.216.34",
    "64:ff9b:1:5db8:d8:2200::",
    "2002:5db8:d822::1",
    "2001:0:5db8:d822::1",
    "2001:0:4136:e378:8000:63bf:a247:27dd",
    "2a00:1450:1:1:0:5efe:93.184.216.34",
    "2a00:64:5db8:d822::",
];

#[test]
fn what_is_the_villages_own_is_refused_in_every_spelling_and_never_only_reported() {
    for (networks, own_networks) in [
        (&["93.184.216.34/32"][..], r"[]"),
        (&["93.184.216.1/24"][..], r"[]"),
        (&[][..], r#"["93.184.216.0/24"]"#),
        (&[][..], r#"["::ffff:93.184.216.0/120"]"#),
    ] {
        for mode in ["enforce", "report"] {
            let guard = guard_on(
                networks,
                &format!(
                    r#"{{"mode":"{mode}","own_networks":{own_networks},"nat64_prefixes":["2a00:64::/32"]}}"#
                ),
            );
            for spelling in SPELLINGS {
                let refused = refused_by(&guard, "https://a.example/", spelling, Consumer::Fetch);
                assert!(refused.is_some(), "{spelling} {networks:?} {own_networks}");
            }
            for spelling in ["8.8.8.8", "64:ff9b::8.8.8.8", "2a00:64:808:808::"] {
                let refused = refused_by(&guard, "https://a.example/", spelling, Consumer::Fetch);
                assert_eq!(refused, None, "{spelling}");
            }
        }
    }
}

#[test]
fn the_villages_own_listener_is_refused_in_every_spelling_and_to_every_exemption() {
    let guard = guard_on(
        &["93.184.216.34/32"],
        r#"{"allow":["open.example","0.0.0.0/0","::/0"],"nat64_prefixes":["2a00:64::/32"]}"#,
    );
    guard.protect_listener("0.0.0.0:7070".parse().expect("a socket address"));
    for spelling in SPELLINGS {
        for name in ["open.example", "other.example"] {
            let refused = refused_by(
                &guard,
                &format!("https://{name}:7070/"),
                spelling,
                Consumer::Mcp,
            );
            assert_eq!(refused, Some(Rule::OwnListener), "{spelling} {name}");
        }
        let refused = refused_by(&guard, "https://open.example/", spelling, Consumer::Mcp);
        assert_eq!(refused, None, "{spelling}");
    }
}

#[test]
fn an_opening_of_an_ipv4_network_covers_mapped_and_translated_spellings_only() {
    let guard = Guard::offline(&config(
        r#"{"allow":["93.184.216.0/24", "10.0.0.0/8"],"own_networks":["93.184.216.0/24"],"nat64_prefixes":["2a00:64::/32"]}"#,
    ));
    let refused = |address| refused_by(&guard, "https://a.example/", address, Consumer::Mcp);
    for open in [
        "10.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "2a00:64:a00:1::",
        "93.184.216.34",
        "64:ff9b::93.184.216.34",
    ] {
        assert_eq!(refused(open), None, "{open}");
    }
    for shut in [
        "::10.0.0.1",
        "::ffff:0:10.0.0.1",
        "64:ff9b:1::10.0.0.1",
        "2002:a00:1::1",
        "2001:0:a00:1::",
        "2a00:1450:1:1:0:5efe:10.0.0.1",
        "2a00:64:a00:1:100::",
    ] {
        assert!(refused(shut).is_some(), "{shut}");
    }
}

#[test]
fn an_opening_of_an_ipv6_network_opens_no_mapped_ipv4_address() {
    let guard = Guard::offline(&config(r#"{"allow":["::/0"]}"#));
    let refused = |address| refused_by(&guard, "https://a.example/", address, Consumer::Mcp);
    assert_eq!(refused("fd00::1"), None);
    assert_eq!(refused("64:ff9b::10.0.0.1"), None);
    assert_eq!(refused("::ffff:10.0.0.1"), Some(Rule::Private));
    assert_eq!(refused("10.0.0.1"), Some(Rule::Private));
}

#[test]
fn the_same_exemption_holds_on_every_hop_of_a_redirect_and_for_its_consumer_alone() {
    let guard = Guard::offline(&config(
        r#"{"allow":[{"to":"intra.example:8443","for":["fetch"]}]}"#,
    ));
    let hop = |location: &str, consumer| {
        let from = url::Url::parse("https://public.example/a").expect("a URL");
        let next = from.join(location).expect("a location");
        let target = Target::of(&next, Schemes::Https).expect("a target");
        guard
            .judge_name(&target, consumer)
            .and_then(|standing| {
                let private = IpAddr::from([10, 0, 0, 1]);
                guard.judge_address(&target, private, standing, consumer)
            })
            .err()
            .map(|refusal| refusal.rule)
    };
    for location in [
        "https://intra.example:8443/x",
        "//INTRA.example.:8443/x",
        "https:\\\\intra.example:08443",
    ] {
        assert_eq!(hop(location, Consumer::Fetch), None, "{location}");
        // Sandboxes have no business on such a port to begin with.
        for (other, rule) in [
            (Consumer::Mcp, Rule::Private),
            (Consumer::Egress, Rule::Port),
        ] {
            assert_eq!(hop(location, other), Some(rule), "{location}");
        }
    }
    assert_eq!(
        hop("https://intra.example/x", Consumer::Fetch),
        Some(Rule::Private)
    );
    assert_eq!(
        hop("https://10.0.0.1:8443/", Consumer::Fetch),
        Some(Rule::Private)
    );
}

#[test]
fn report_mode_asks_dns_for_no_name_that_must_stay_out_of_it() {
    let guard = Guard::offline(&config(r#"{"mode":"report"}"#));
    let judged = |url| {
        guard
            .judge_name(&target(url), Consumer::Fetch)
            .err()
            .map(|refusal| refusal.rule)
    };
    for url in [
        "https://localhost/",
        "https://a.localhost./",
        "https://abc.onion/",
    ] {
        assert_eq!(judged(url), Some(Rule::LocalName), "{url}");
    }
    for url in ["https://redis/", "https://nas.lan/"] {
        assert_eq!(judged(url), None, "{url}");
    }
}

#[test]
fn a_refusal_names_address_rule_and_row() {
    let guard = Guard::offline(&Config::default());
    let target = target("https://[64:ff9b::7f00:1]/");
    let refusal = guard
        .judge_without_look_up(&target, Consumer::Fetch)
        .expect_err("it is refused");
    assert_eq!(
        (refusal.rule, refusal.address, refusal.row),
        (
            Rule::Loopback,
            target.address(),
            Some(crate::RegistryRow {
                network: "127.0.0.0/8".parse().expect("a network"),
                name: "loopback, RFC 1122",
            })
        )
    );
}

#[test]
fn own_networks_are_refused_although_public() {
    let guard = Guard::offline(&config(
        r#"{"own_networks":["93.184.216.0/24","2606:4700::/32"]}"#,
    ));
    let refused = |address| refused_by(&guard, "https://a.example/", address, Consumer::Fetch);
    assert_eq!(refused("93.184.216.34"), Some(Rule::OwnNetwork));
    assert_eq!(refused("::ffff:93.184.216.34"), Some(Rule::OwnNetwork));
    assert_eq!(refused("64:ff9b::5db8:d822"), Some(Rule::OwnNetwork));
    assert_eq!(refused("2606:4700::1"), Some(Rule::OwnNetwork));
    assert_eq!(refused("8.8.8.8"), None);
    assert_eq!(refused("64:ff9b::8.8.8.8"), None);
    let no_nat64 = Guard::offline(&config(r#"{"own_networks":["64:ff9b::/96"]}"#));
    let refused = |address| refused_by(&no_nat64, "https://a.example/", address, Consumer::Fetch);
    assert_eq!(refused("64:ff9b::8.8.8.8"), Some(Rule::OwnNetwork));
    assert_eq!(refused("8.8.8.8"), None);
}

#[test]
fn report_mode_lets_private_pass_and_never_loopback_link_local_metadata_or_own_networks() {
    let guard = Guard::offline(&config(
        r#"{"mode":"report","own_networks":["10.5.0.0/16","93.184.216.0/24"]}"#,
    ));
    let refused = |url, address| refused_by(&guard, url, address, Consumer::Fetch);
    assert_eq!(refused("https://a.example/", "10.1.0.1"), None);
    assert_eq!(refused("https://redis/", "10.1.0.1"), None);
    for (url, address) in [
        ("https://a.example/", "127.0.0.1"),
        ("https://localhost/", "127.0.0.1"),
        ("https://a.example/", "0.0.0.0"),
        ("https://a.example/", "::1"),
        ("https://a.example/", "::127.0.0.1"),
        ("https://a.example/", "169.254.0.1"),
        ("https://a.example/", "fe80::1"),
        ("https://a.example/", "169.254.169.254"),
        ("https://a.example/", "100.100.100.200"),
        ("https://a.example/", "10.5.0.1"),
        ("https://a.example/", "93.184.216.34"),
        ("https://metadata.goog/", "93.184.216.34"),
    ] {
        assert!(refused(url, address).is_some(), "{url} {address}");
    }
}

#[test]
fn settings_that_are_wrong_are_refused_in_words() {
    for (json, expected) in [
        (r#"{"allowed":[]}"#, "unknown field"),
        (r#"{"own_networks":["10.0.0.0/40"]}"#, "is not a network"),
        (r#"{"nameserver":"10.0.0.1"}"#, "write address and port"),
        (r#"{"nat64_prefixes":["64::/95"]}"#, "is not a NAT64 prefix"),
        (r#"{"mode":"off"}"#, "expected `enforce` or `report`"),
        (r#"{"allow":["*"]}"#, "outbound.allow has \"*\""),
        (
            r#"{"allow":["intra.example:6667"]}"#,
            "port 6667 belongs to another protocol",
        ),
        (
            r#"{"allow":[{"to":"intra.example","for":[]}]}"#,
            "\"intra.example\" for nobody",
        ),
    ] {
        let error = serde_json::from_str::<Config>(json).expect_err(json);
        assert!(error.to_string().contains(expected), "{error}");
    }
    let empty = config(r#"{"nameserver":"","ca_file":""}"#);
    assert_eq!((empty.nameserver, empty.ca_file), (None, None));
}

#[test]
fn traffic_of_sandboxes_goes_to_the_webs_ports_and_to_an_exemptions_own() {
    let guard = Guard::offline(&config(
        r#"{"allow":[
            {"to":"index.example:8443","for":["egress"]},
            {"to":"10.1.2.3/32:8081","for":["egress"]},
            {"to":"other.example:8443","for":["fetch"]}
        ]}"#,
    ));
    let refused = |url, address| refused_by(&guard, url, address, Consumer::Egress);
    let public = "93.184.216.34";
    assert_eq!(refused("http://a.example/", public), None);
    assert_eq!(refused("https://a.example/", public), None);
    assert_eq!(refused("https://index.example:8443/", public), None);
    assert_eq!(refused("http://index.example:8443/", "10.0.0.1"), None);
    assert_eq!(refused("http://b.example:8081/", "10.1.2.3"), None);
    for url in [
        "http://a.example:8443/",
        "http://index.example:8444/",
        "http://other.example:8443/",
        "http://b.example:8081/",
        "http://93.184.216.34:8081/",
    ] {
        assert_eq!(refused(url, public), Some(Rule::Port), "{url}");
    }
    assert_eq!(
        refused_by(&guard, "http://a.example:8443/", public, Consumer::Fetch),
        None
    );
    guard.set_egress_ports(&[8_443]);
    assert_eq!(refused("http://a.example:8443/", public), None);
    assert_eq!(refused("https://a.example/", public), Some(Rule::Port));
}

#[test]
fn report_mode_opens_no_port_to_sandboxes() {
    let guard = Guard::offline(&config(r#"{"mode":"report"}"#));
    let refused = |url| refused_by(&guard, url, "10.0.0.1", Consumer::Egress);
    assert_eq!(refused("http://a.example/"), None);
    assert_eq!(refused("http://a.example:8081/"), Some(Rule::Port));
}
