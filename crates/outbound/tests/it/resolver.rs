//! What DNS may say, and what comes of it.

use std::{net::IpAddr, sync::Arc, time::Duration};

use kernel::Clock;
use outbound::{CheckVerdict, Consumer, Error, Resolver, Rule, check};
use testkit::{
    clock::ManualClock,
    dns::{Answer, Class, Entry, Family, ScriptedDns},
    origin::Authority,
};
use tokio::net::UdpSocket;

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

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts
        .iter()
        .map(|text| text.parse().expect("an address"))
        .collect()
}

/// The addresses of `odd.test`, whose A records are these and whose AAAA records are those.
async fn looked_up(v4: Answer, v6: Answer) -> Result<Vec<IpAddr>, Error> {
    let dns = ScriptedDns::start().await;
    dns.script("odd.test", Family::V4, [v4]);
    dns.script("odd.test", Family::V6, [v6]);
    Resolver::new(Some(dns.address())).look_up("odd.test").await
}

fn public() -> Answer {
    Answer::addresses(&["93.184.216.34"])
}

#[tokio::test]
async fn records_of_another_kind_or_name_are_not_the_names_addresses() {
    let own = Entry::address("odd.test", "2606:4700::1");
    for stray in [
        Entry::address("odd.test", "93.184.216.35"),
        Entry::address("other.test", "2606:4700::2"),
        Entry::alias("other.test", "odd.test"),
    ] {
        for records in [
            vec![own.clone(), stray.clone()],
            vec![stray.clone(), own.clone()],
        ] {
            let found = looked_up(public(), Answer::Records(records)).await;
            assert_eq!(
                found,
                Ok(addresses(&["2606:4700::1", "93.184.216.34"])),
                "{stray:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_answer_with_nothing_but_strays_gives_no_address() {
    for stray in [
        Entry::address("odd.test", "2606:4700::2"),
        Entry::address("other.test", "93.184.216.35"),
        Entry::address("odd.test", "93.184.216.35").in_class(Class::Chaos),
        Entry::alias("other.test", "odd.test"),
        Entry::service("odd.test", "other.test"),
    ] {
        let found = looked_up(Answer::Records(vec![stray.clone()]), Answer::NoData).await;
        assert!(
            matches!(found, Err(Error::Unresolvable { .. })),
            "{stray:?}: {found:?}"
        );
    }
}

#[tokio::test]
async fn a_service_record_leads_to_no_other_name() {
    let dns = ScriptedDns::start().await;
    dns.script(
        "odd.test",
        Family::V4,
        [Answer::Records(vec![Entry::service(
            "odd.test",
            "other.test",
        )])],
    );
    dns.host("other.test", &["93.184.216.34"]);
    why_unresolvable(&dns, "odd.test").await;
}

#[tokio::test]
async fn aliases_are_followed_within_an_answer_and_from_one_to_the_next() {
    let dns = ScriptedDns::start().await;
    for (name, target) in [("a.test", "b.test"), ("b.test", "c.test")] {
        for family in [Family::V4, Family::V6] {
            dns.script(
                name,
                family,
                [Answer::Records(vec![Entry::alias(name, target)])],
            );
        }
    }
    let within = vec![
        Entry::alias("c.test", "d.test"),
        Entry::alias("d.test", "e.test"),
        Entry::address("e.test", "93.184.216.34"),
    ];
    dns.script("c.test", Family::V4, [Answer::Records(within)]);
    dns.host("e.test", &["93.184.216.34"]);
    let resolver = Resolver::new(Some(dns.address()));
    for name in ["c.test", "b.test", "a.test", "a.test", "b.test"] {
        assert_eq!(
            resolver.look_up(name).await,
            Ok(addresses(&["93.184.216.34"])),
            "{name}"
        );
    }
}

#[tokio::test]
async fn an_alias_of_a_private_host_is_refused_by_its_address() {
    let dns = ScriptedDns::start().await;
    dns.script(
        "alias.test",
        Family::V4,
        [Answer::Alias(
            "inside.test".to_owned(),
            addresses(&["10.0.0.5"]),
        )],
    );
    let connector = connector(&dns, &Authority::new(), Vec::new());
    let outcome = connector
        .approve(&target("https://alias.test/"), Consumer::Fetch)
        .await;
    assert_eq!(rule(outcome), Rule::Private);
}

#[tokio::test]
async fn aliases_in_a_circle_end_within_bounds() {
    let dns = ScriptedDns::start().await;
    for (name, target) in [
        ("a.test", "b.test"),
        ("b.test", "a.test"),
        ("self.test", "self.test"),
    ] {
        for family in [Family::V4, Family::V6] {
            dns.script(
                name,
                family,
                [Answer::Records(vec![Entry::alias(name, target)])],
            );
        }
    }
    let circle = vec![
        Entry::alias("c.test", "d.test"),
        Entry::alias("d.test", "c.test"),
    ];
    for family in [Family::V4, Family::V6] {
        dns.script("c.test", family, [Answer::Records(circle.clone())]);
    }
    for name in ["a.test", "self.test", "c.test"] {
        let before = dns.queries().len();
        why_unresolvable(&dns, name).await;
        let asked = dns.queries().len() - before;
        assert!(asked <= 20, "{name}: {asked}");
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_off_is_no_answer() {
    for (v4, v6) in [
        (
            Answer::Truncated(addresses(&["93.184.216.34"])),
            Answer::NoData,
        ),
        (public(), Answer::Truncated(addresses(&["2606:4700::1"]))),
        (public(), Answer::Truncated(Vec::new())),
    ] {
        let found = looked_up(v4, v6).await;
        assert!(
            matches!(found, Err(Error::Unresolvable { .. })),
            "{found:?}"
        );
    }
}

/// What a server makes of a query.
type Answering<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;

/// A server over UDP alone that answers with what `answer` makes of a query.
async fn look_up_at(answer: impl Fn(&[u8]) -> Vec<u8>) -> Result<Vec<IpAddr>, Error> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let resolver = Resolver::new(Some(socket.local_addr().expect("an address")));
    let serve = async {
        let mut buffer = [0; 512];
        loop {
            let (length, peer) = socket.recv_from(&mut buffer).await.expect("a query");
            socket
                .send_to(&answer(&buffer[..length]), peer)
                .await
                .expect("an answer that is sent");
        }
    };
    tokio::select! {
        found = resolver.look_up("odd.test") => found,
        () = serve => Ok(Vec::new()),
    }
}

#[tokio::test]
async fn bytes_that_are_no_answer_to_the_query_are_none() {
    /// An A record for the name of the question: a pointer to it, type, class, TTL, length and 93.184.216.34.
    const RECORD: [u8; 16] = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 93, 184, 216, 34];
    let answered = |query: &[u8]| -> Vec<u8> {
        let mut answer = query.to_vec();
        answer[2] |= 0x80;
        // Nothing additional, which is where queries have their options; after the name of ten bytes stand type and class.
        answer[11] = 0;
        answer.truncate(12 + 10 + 4);
        let is_for_ipv4 = answer[23] == 1;
        if is_for_ipv4 {
            answer[7] = 1;
            answer.extend(RECORD);
        }
        answer
    };
    assert_eq!(
        look_up_at(answered).await,
        Ok(addresses(&["93.184.216.34"])),
        "without an oddity"
    );
    let odd: [(&str, Answering<'_>); 6] = [
        ("nothing", &|_query| Vec::new()),
        ("noise", &|query| {
            query.iter().map(|byte| byte ^ 0xa5).collect()
        }),
        ("the query", &<[u8]>::to_vec),
        ("another id", &|query| {
            let mut answer = answered(query);
            answer[0] ^= 0xff;
            answer
        }),
        ("another question", &|query| {
            let mut answer = answered(query);
            answer[13] = b'x';
            answer
        }),
        ("half of it", &|query| {
            let mut answer = answered(query);
            answer.truncate(30);
            answer
        }),
    ];
    let outcomes = odd.map(async |(what, answer)| (what, look_up_at(answer).await));
    for (what, found) in futures::future::join_all(outcomes).await {
        assert!(
            matches!(found, Err(Error::Unresolvable { .. })),
            "{what}: {found:?}"
        );
    }
}

#[tokio::test]
async fn three_hundred_records_are_refused_also_if_they_repeat_or_come_by_both_families() {
    let many = |count: u16| -> Vec<IpAddr> {
        (0..count)
            .map(|n| IpAddr::from([0x2606, 0x4700, 0, 0, 0, 0, 0, n]))
            .collect()
    };
    let public_v4 = |count: u8| -> Vec<IpAddr> {
        (0..count)
            .map(|n| IpAddr::from([93, 184, 216, n]))
            .collect()
    };
    for (v4, v6, count) in [
        (Vec::new(), many(300), 300),
        (public_v4(200), many(57), 257),
        (Vec::new(), vec![many(1)[0]; 300], 300),
    ] {
        let found = looked_up(Answer::Addresses(v4), Answer::Addresses(v6)).await;
        let Err(Error::Unresolvable { why, .. }) = found else {
            panic!("{found:?}");
        };
        assert_eq!(
            why,
            format!("DNS gave {count} addresses, and at most 256 are taken")
        );
    }
}

#[tokio::test]
async fn an_answer_is_asked_for_again_when_its_time_is_over_and_a_huge_time_is_a_minute() {
    for (ttl, alias_ttl, kept_seconds) in [
        (0, 3_600, 0),
        (3_600, 0, 0),
        (5, 3_600, 5),
        (4_294_967_295, 2_147_483_647, 60),
    ] {
        let dns = ScriptedDns::start().await;
        let records = vec![
            Entry::alias("odd.test", "b.test").with_ttl(alias_ttl),
            Entry::address("b.test", "93.184.216.34").with_ttl(ttl),
        ];
        let moved = Answer::Records(vec![Entry::address("odd.test", "10.0.0.5")]);
        dns.script("odd.test", Family::V4, [Answer::Records(records), moved]);
        let clock = Arc::new(ManualClock::default());
        let resolver =
            Resolver::with_clock(Some(dns.address()), Arc::clone(&clock) as Arc<dyn Clock>);
        let now = async || resolver.look_up("odd.test").await.expect("addresses");
        assert_eq!(now().await, addresses(&["93.184.216.34"]));
        if kept_seconds > 0 {
            clock.advance(Duration::from_micros(kept_seconds * 1_000_000 - 1));
            assert_eq!(now().await, addresses(&["93.184.216.34"]), "{ttl}");
            clock.advance(Duration::from_micros(1));
        }
        assert_eq!(now().await, addresses(&["10.0.0.5"]), "{ttl} {alias_ttl}");
    }
}

#[tokio::test]
async fn a_failure_is_not_remembered() {
    let dns = ScriptedDns::start().await;
    dns.script(
        "odd.test",
        Family::V4,
        [
            Answer::ServFail,
            Answer::ServFail,
            Answer::Records(vec![
                Entry::address("odd.test", "93.184.216.34").with_ttl(60),
            ]),
        ],
    );
    let resolver = Resolver::new(Some(dns.address()));
    let mut outcomes = Vec::new();
    for _ in 0..3 {
        outcomes.push(resolver.look_up("odd.test").await.is_ok());
    }
    assert!(!outcomes[0], "{outcomes:?}");
    assert!(outcomes[2], "{outcomes:?}");
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
    let addresses = |count: u16| -> Vec<IpAddr> {
        (0..count)
            .map(|n| {
                let [high, low] = n.to_be_bytes();
                IpAddr::from([93, 184, high, low])
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
