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
    ] {
        let error = serde_json::from_str::<Config>(json).expect_err(json);
        assert!(error.to_string().contains(expected), "{error}");
    }
    let empty = config(r#"{"nameserver":"","ca_file":""}"#);
    assert_eq!((empty.nameserver, empty.ca_file), (None, None));
}
