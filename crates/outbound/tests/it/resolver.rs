//! What DNS may say, and what comes of it.

use outbound::{CheckVerdict, Consumer, Error, Resolver, Rule, check};
use testkit::{
    dns::{Answer, Family, ScriptedDns},
    origin::Authority,
};

use crate::support::{connector, rule, target};

async fn why_unresolvable(dns: &ScriptedDns, name: &str) -> String {
    match Resolver::new(Some(dns.address())).look_up(name).await {
        Err(Error::Unresolvable { host, why }) => {
            assert_eq!(host, name);
            why
        }
        other => panic!("not unresolvable: {other:?}"),
    }
}

#[tokio::test]
async fn a_name_with_public_and_private_answers_is_refused() {
    let dns = ScriptedDns::start().await;
    dns.host("mixed.test", &["93.184.216.34", "10.0.0.5"]);
    dns.host("mixed6.test", &["93.184.216.34", "fd00::1"]);
    let connector = connector(&dns, &Authority::new(), Vec::new());
    for (name, expected) in [
        ("mixed.test", Rule::Private),
        ("mixed6.test", Rule::UniqueLocal),
    ] {
        let outcome = connector
            .approve(&target(&format!("https://{name}/")), Consumer::Fetch)
            .await;
        assert_eq!(rule(outcome), expected, "{name}");
    }
}

#[tokio::test]
async fn a_server_failure_in_one_family_is_not_taken_for_absence() {
    let dns = ScriptedDns::start().await;
    dns.host("half.test", &["93.184.216.34"]);
    dns.script("half.test", Family::V6, [Answer::ServFail]);
    let why = why_unresolvable(&dns, "half.test").await;
    assert!(why.starts_with("IPv6: DNS answered"), "{why}");
}

#[tokio::test]
async fn a_referral_is_no_answer() {
    let dns = ScriptedDns::start().await;
    dns.host("lame.test", &["93.184.216.34"]);
    dns.script("lame.test", Family::V6, [Answer::Referral]);
    let why = why_unresolvable(&dns, "lame.test").await;
    assert_eq!(why, "IPv6: DNS gave no definite answer");
}

#[tokio::test]
async fn silence_ends_within_the_time_for_a_look_up() {
    let dns = ScriptedDns::start().await;
    dns.host("silent.test", &["93.184.216.34"]);
    dns.script("silent.test", Family::V6, [Answer::Silence]);
    let started = std::time::Instant::now();
    let why = why_unresolvable(&dns, "silent.test").await;
    assert!(why.contains("did not answer"), "{why}");
    assert!(started.elapsed() < outbound::LOOK_UP_TIME * 3);
}

#[tokio::test]
async fn names_are_asked_for_as_they_are_and_never_completed() {
    let dns = ScriptedDns::start().await;
    let why = why_unresolvable(&dns, "nowhere.test").await;
    assert!(why.contains("does not exist"), "{why}");
    let names: Vec<String> = dns.queries().into_iter().map(|(name, _)| name).collect();
    assert!(names.iter().all(|name| name == "nowhere.test"), "{names:?}");
}

#[tokio::test]
async fn more_than_256_answers_are_refused_and_256_are_all_judged() {
    let dns = ScriptedDns::start().await;
    let addresses = |count: u16| -> Vec<std::net::IpAddr> {
        (0..count)
            .map(|n| {
                let [high, low] = n.to_be_bytes();
                std::net::IpAddr::from([93, 184, high, low])
            })
            .collect()
    };
    dns.script("many.test", Family::V4, [Answer::Addresses(addresses(257))]);
    let why = why_unresolvable(&dns, "many.test").await;
    assert_eq!(why, "DNS gave 257 addresses, and at most 256 are taken");

    let mut last_is_private = addresses(255);
    last_is_private.push("10.0.0.1".parse().expect("an address"));
    dns.script(
        "hidden.test",
        Family::V4,
        [Answer::Addresses(last_is_private)],
    );
    let connector = connector(&dns, &Authority::new(), Vec::new());
    let outcome = connector
        .approve(&target("https://hidden.test/"), Consumer::Fetch)
        .await;
    assert_eq!(rule(outcome), Rule::Private);
}

#[tokio::test]
async fn a_line_is_checked_as_fetch_url_would_judge_it_now() {
    let dns = ScriptedDns::start().await;
    dns.host("public.test", &["93.184.216.34"]);
    dns.host("private.test", &["10.0.0.5"]);
    let connector = connector(&dns, &Authority::new(), Vec::new());
    for (line, verdict, rule, address) in [
        (
            "https://public.test/",
            CheckVerdict::Allow,
            None,
            Some("93.184.216.34"),
        ),
        (
            "https://private.test/",
            CheckVerdict::Block,
            Some("private"),
            Some("10.0.0.5"),
        ),
        (
            "https://nowhere.test/",
            CheckVerdict::Block,
            Some("unresolvable"),
            None,
        ),
        (
            "http://public.test/",
            CheckVerdict::Block,
            Some("scheme"),
            None,
        ),
        (
            "127.0.0.1",
            CheckVerdict::Block,
            Some("loopback"),
            Some("127.0.0.1"),
        ),
        (" 127.0.0.1", CheckVerdict::Error, Some("malformed"), None),
        ("", CheckVerdict::Error, Some("malformed"), None),
    ] {
        let check = check(&connector, line).await;
        let address = address.map(|text| text.parse().expect("an address"));
        assert_eq!(
            (check.verdict, check.rule, check.address),
            (verdict, rule, address),
            "{line}"
        );
    }
}

#[tokio::test]
async fn a_name_without_the_rules_of_names_is_not_looked_up() {
    let dns = ScriptedDns::start().await;
    let connector = connector(&dns, &Authority::new(), Vec::new());
    for (url, expected) in [
        ("https://redis/", Rule::SingleLabel),
        ("https://redis./", Rule::SingleLabel),
        ("https://db.internal/", Rule::LocalName),
        ("https://localhost./", Rule::LocalName),
        ("https://metadata.google.internal/", Rule::MetadataName),
    ] {
        let outcome = connector.approve(&target(url), Consumer::Mcp).await;
        assert_eq!(rule(outcome), expected, "{url}");
    }
    assert_eq!(dns.queries(), []);
}
