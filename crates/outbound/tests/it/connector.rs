//! Connections: only to what was judged, and to whom the certificate says.

use std::{net::SocketAddr, time::Duration};

use http::StatusCode;
use outbound::{Config, Connector, Consumer, End, Error, Mode, Phase, Rule};
use testkit::{
    dns::{Answer, Family, ScriptedDns},
    origin::{Authority, Reply, TlsOrigin},
};
use tokio::{io::AsyncWriteExt as _, net::TcpListener, task::JoinSet, time::Instant};
use tokio_util::task::TaskTracker;

use crate::support::{connector, deadline, exempt, get, rule, target, text};

#[tokio::test]
async fn a_page_of_an_exempt_host_is_fetched_over_its_own_name() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let origin = TlsOrigin::start(&authority, &["site.test"]).await;
    origin.serve("/a?b=c", Reply::text("hello"));
    dns.host("site.test", &["127.0.0.1"]);
    let port = origin.port();
    let connector = connector(
        &dns,
        &authority,
        vec![exempt(&format!("site.test:{port}"), &[Consumer::Fetch])],
    );

    let response = get(
        &connector,
        &format!("https://site.test:{port}/a?b=c#d"),
        Consumer::Fetch,
    )
    .await
    .expect("a response");

    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(text(response).await, "hello");
    let requests = origin.requests();
    let seen: Vec<(&str, &str)> = requests
        .iter()
        .map(|request| (request.path.as_str(), request.host.as_str()))
        .collect();
    assert_eq!(seen, [("/a?b=c", format!("site.test:{port}").as_str())]);
    assert_eq!(requests[0].version, http::Version::HTTP_2);
}

#[tokio::test]
async fn without_an_exemption_no_connection_is_made_to_loopback() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let origin = TlsOrigin::start(&authority, &["site.test", "127.0.0.1"]).await;
    dns.host("site.test", &["127.0.0.1"]);
    let port = origin.port();
    let connector = connector(
        &dns,
        &authority,
        vec![exempt(&format!("site.test:{port}"), &[Consumer::Mcp])],
    );
    for url in [
        format!("https://site.test:{port}/"),
        format!("https://127.0.0.1:{port}/"),
        format!("https://2130706433:{port}/"),
        format!("https://0x7f.1:{port}/"),
        format!("https://[::ffff:127.0.0.1]:{port}/"),
        format!("https://0:{port}/"),
    ] {
        let outcome = get(&connector, &url, Consumer::Fetch).await;
        assert!(
            matches!(rule(outcome), Rule::Loopback | Rule::ThisNetwork),
            "{url}"
        );
    }
    assert_eq!(origin.accepted(), 0);
}

/// 127.0.0.2, which is exempt, stands for a public address; 127.0.0.1, which is not, for the inside.
#[tokio::test]
async fn a_name_that_points_inside_at_the_second_look_up_never_gets_a_connection_there() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let outside = TlsOrigin::start_on(
        &authority,
        &["rebind.test"],
        SocketAddr::from(([127, 0, 0, 2], 0)),
    )
    .await;
    let port = outside.port();
    let inside = TlsOrigin::start_on(
        &authority,
        &["rebind.test"],
        SocketAddr::from(([127, 0, 0, 1], port)),
    )
    .await;
    outside.serve("/", Reply::text("outside"));
    inside.serve("/", Reply::text("inside"));
    dns.script(
        "rebind.test",
        Family::V4,
        [
            Answer::addresses(&["127.0.0.2"]),
            Answer::addresses(&["127.0.0.1"]),
        ],
    );
    let connector = connector(
        &dns,
        &authority,
        vec![exempt("127.0.0.2", &[Consumer::Fetch])],
    );
    let url = format!("https://rebind.test:{port}/");

    let first = get(&connector, &url, Consumer::Fetch)
        .await
        .expect("a response");
    assert_eq!(text(first).await, "outside");
    let asked = dns.queries();
    assert_eq!(asked.len(), 2, "one look-up, two families: {asked:?}");

    let second = get(&connector, &url, Consumer::Fetch).await;
    assert_eq!(rule(second), Rule::Loopback);
    assert_eq!(inside.accepted(), 0);
}

#[tokio::test]
async fn every_request_is_judged_anew_on_a_connection_of_its_own() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let origin = TlsOrigin::start(&authority, &["site.test"]).await;
    origin.serve("/", Reply::text("hello"));
    dns.host("site.test", &["127.0.0.1"]);
    let connector = connector(
        &dns,
        &authority,
        vec![exempt("site.test", &[Consumer::Fetch])],
    );
    let url = format!("https://site.test:{}/", origin.port());
    for _ in 0..3 {
        let response = get(&connector, &url, Consumer::Fetch)
            .await
            .expect("a response");
        assert_eq!(text(response).await, "hello");
    }
    assert_eq!(origin.accepted(), 3);
    assert_eq!(dns.queries().len(), 6);
}

#[tokio::test]
async fn a_dead_address_does_not_keep_a_live_one_waiting() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let origin = TlsOrigin::start_on(
        &authority,
        &["two.test"],
        SocketAddr::from(([127, 0, 0, 3], 0)),
    )
    .await;
    origin.serve("/", Reply::text("alive"));
    dns.host("two.test", &["127.0.0.4", "127.0.0.3"]);
    let connector = connector(&dns, &authority, vec![exempt("two.test", &[Consumer::Mcp])]);
    let connection = connector
        .connect(
            &target(&format!("https://two.test:{}/", origin.port())),
            Consumer::Mcp,
            deadline(),
        )
        .await
        .expect("a connection");
    assert_eq!(connection.peer(), origin.address());
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let origin = TlsOrigin::start(&authority, &["other.test"]).await;
    dns.host("site.test", &["127.0.0.1"]);
    let connector = connector(
        &dns,
        &authority,
        vec![exempt("site.test", &[Consumer::Fetch])],
    );
    let url = format!("https://site.test:{}/", origin.port());
    let outcome = get(&connector, &url, Consumer::Fetch).await;
    assert!(matches!(outcome, Err(Error::Tls { .. })), "{outcome:?}");
    assert_eq!(origin.requests().len(), 0);
}

#[tokio::test]
async fn an_exempt_localhost_is_reached_without_asking_dns() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let origin = TlsOrigin::start(&authority, &["localhost"]).await;
    origin.serve("/", Reply::text("hello"));
    let port = origin.port();
    let connector = connector(
        &dns,
        &authority,
        vec![exempt(&format!("localhost:{port}"), &[Consumer::Mcp])],
    );
    let url = format!("https://localhost:{port}/");
    let response = get(&connector, &url, Consumer::Mcp)
        .await
        .expect("a response");
    assert_eq!(text(response).await, "hello");
    assert_eq!(
        rule(get(&connector, &url, Consumer::Fetch).await),
        Rule::LocalName
    );
    assert_eq!(dns.queries(), []);
}

#[tokio::test]
async fn an_authority_that_nobody_named_is_refused() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let origin = TlsOrigin::start(&Authority::new(), &["site.test"]).await;
    dns.host("site.test", &["127.0.0.1"]);
    let connector = connector(
        &dns,
        &authority,
        vec![exempt("site.test", &[Consumer::Fetch])],
    );
    let url = format!("https://site.test:{}/", origin.port());
    let outcome = get(&connector, &url, Consumer::Fetch).await;
    assert!(matches!(outcome, Err(Error::Tls { .. })), "{outcome:?}");
    assert_eq!(origin.requests().len(), 0);
}

#[tokio::test]
async fn the_villages_own_listener_is_refused_even_if_its_host_is_exempt() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let origin = TlsOrigin::start(&authority, &["site.test"]).await;
    dns.host("site.test", &["127.0.0.1"]);
    let connector = connector(
        &dns,
        &authority,
        vec![exempt("site.test", &[Consumer::Mcp])],
    );
    connector.guard().protect_listener(origin.address());
    let url = format!("https://site.test:{}/", origin.port());
    assert_eq!(
        rule(get(&connector, &url, Consumer::Mcp).await),
        Rule::OwnListener
    );
    assert_eq!(origin.accepted(), 0);
}

#[tokio::test]
async fn report_mode_makes_no_connection_to_loopback() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let origin = TlsOrigin::start(&authority, &["site.test"]).await;
    dns.host("site.test", &["127.0.0.1"]);
    let config = Config {
        mode: Mode::Report,
        nameserver: Some(dns.address()),
        ..Config::default()
    };
    let connector = Connector::new(&config, TaskTracker::new()).expect("a connector");
    let url = format!("https://site.test:{}/", origin.port());
    assert_eq!(
        rule(get(&connector, &url, Consumer::Fetch).await),
        Rule::Loopback
    );
    assert_eq!(origin.accepted(), 0);
}

#[tokio::test]
async fn a_body_is_cut_at_the_bound_and_a_broken_one_says_so() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let origin = TlsOrigin::start(&authority, &["site.test"]).await;
    let endless = Reply::ok("text/plain", "0123456789")
        .piece("0123456789")
        .pause(Duration::from_hours(1));
    origin.serve("/endless", endless);
    // HTTP/2 may throw away what a reset overtakes.
    let broken = Reply::ok("text/plain", "half")
        .pause(Duration::from_millis(200))
        .broken_off();
    origin.serve("/broken", broken);
    origin.serve("/exact", Reply::text("0123456789"));
    dns.host("site.test", &["127.0.0.1"]);
    let connector = connector(
        &dns,
        &authority,
        vec![exempt("site.test", &[Consumer::Fetch])],
    );
    for (path, expected) in [
        ("endless", ("0123456789", End::Cut)),
        ("broken", ("half", End::Broken)),
        ("exact", ("0123456789", End::Complete)),
    ] {
        let url = format!("https://site.test:{}/{path}", origin.port());
        let response = get(&connector, &url, Consumer::Fetch)
            .await
            .expect("a response");
        let (bytes, end) = response
            .into_body()
            .read_at_most(10, deadline())
            .await
            .expect("a body");
        assert_eq!((bytes.as_slice(), end), (expected.0.as_bytes(), expected.1));
    }
}

#[tokio::test]
async fn a_deadline_ends_the_wait_and_says_for_what() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let origin = TlsOrigin::start(&authority, &["site.test"]).await;
    origin.serve("/", Reply::text("late").after(Duration::from_hours(1)));
    dns.host("site.test", &["127.0.0.1"]);
    let connector = connector(
        &dns,
        &authority,
        vec![exempt("site.test", &[Consumer::Fetch])],
    );
    let target = target(&format!("https://site.test:{}/", origin.port()));
    let connection = connector
        .connect(&target, Consumer::Fetch, deadline())
        .await
        .expect("a connection");
    let outcome = connection
        .send(
            http::Request::new(bytes::Bytes::new()),
            Instant::now() + Duration::from_millis(50),
        )
        .await;
    assert_eq!(
        outcome.err(),
        Some(Error::TimedOut {
            host: "site.test".to_owned(),
            phase: Phase::Answering
        })
    );
}

/// A server without TLS that sends this over and over, whatever it is asked.
async fn babbling(head: &'static str, over_and_over: &'static str) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (mut stream, _peer) = listener.accept().await.expect("a connection");
        stream.write_all(head.as_bytes()).await.ok();
        while stream.write_all(over_and_over.as_bytes()).await.is_ok() {}
    });
    (address, tasks)
}

#[tokio::test]
async fn a_head_without_end_or_with_too_many_lines_is_refused() {
    let dns = ScriptedDns::start().await;
    let connector = connector(
        &dns,
        &Authority::new(),
        vec![exempt("127.0.0.1", &[Consumer::Mcp])],
    );
    for (head, over_and_over) in [
        ("HTTP/1.1 200 OK\r\nx: ", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        ("HTTP/1.1 200 OK\r\n", "a: b\r\n"),
        ("", "SSH-2.0-OpenSSH_9.2\r\n"),
    ] {
        let (address, _server) = babbling(head, over_and_over).await;
        let outcome = get(&connector, &format!("http://{address}/"), Consumer::Mcp).await;
        assert!(matches!(outcome, Err(Error::Http { .. })), "{outcome:?}");
    }
}

#[tokio::test]
async fn interim_answers_without_end_are_waited_for_until_the_deadline_only() {
    let dns = ScriptedDns::start().await;
    let connector = connector(
        &dns,
        &Authority::new(),
        vec![exempt("127.0.0.1", &[Consumer::Mcp])],
    );
    let (address, _server) = babbling("", "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n").await;
    let connection = connector
        .connect(
            &target(&format!("http://{address}/")),
            Consumer::Mcp,
            deadline(),
        )
        .await
        .expect("a connection");
    let outcome = connection
        .send(
            http::Request::new(bytes::Bytes::new()),
            Instant::now() + Duration::from_millis(200),
        )
        .await;
    assert!(
        matches!(outcome, Err(Error::TimedOut { .. } | Error::Http { .. })),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn dropping_a_body_ends_all_that_ran_for_it() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let origin = TlsOrigin::start(&authority, &["site.test"]).await;
    origin.serve("/", Reply::text("x").pause(Duration::from_hours(1)));
    dns.host("site.test", &["127.0.0.1"]);
    let tasks = TaskTracker::new();
    let config = Config {
        allow: vec![exempt("site.test", &[Consumer::Fetch])],
        nameserver: Some(dns.address()),
        ca_file: Some(authority.pem_path().to_owned()),
        ..Config::default()
    };
    let connector = Connector::new(&config, tasks.clone()).expect("a connector");
    let url = format!("https://site.test:{}/", origin.port());
    let response = get(&connector, &url, Consumer::Fetch)
        .await
        .expect("a response");
    assert!(!tasks.is_empty());
    drop(response);
    tasks.close();
    tokio::time::timeout(Duration::from_secs(10), tasks.wait())
        .await
        .expect("the tasks end");
}

#[test]
fn a_ca_file_that_cannot_be_used_stops_the_start_in_words() {
    let directory = tempfile::tempdir().expect("a directory");
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "").expect("a file");
    for path in [empty, directory.path().join("absent.pem")] {
        let config = Config {
            ca_file: Some(path),
            ..Config::default()
        };
        let error = Connector::new(&config, TaskTracker::new()).expect_err("no connector");
        assert!(error.to_string().contains("outbound.ca_file"), "{error}");
    }
}
