//! Lanes: a connection is used again only where it would have been opened.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request};
use outbound::{Body, Connector, Consumer, Error, Lane, LaneBounds, RequestBody, Rule};
use testkit::{
    dns::{Answer, Family, ScriptedDns},
    origin::{Act, Authority, RawOrigin, Reply, TlsOrigin},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_rustls::TlsAcceptor;

use crate::support::{connector, deadline, exempt, rule, target, text};

fn lane(connector: &Connector) -> Lane {
    let bounds = LaneBounds {
        // No test waits for it, and a slow machine must not end it.
        idle_time: Duration::from_secs(30),
        ..LaneBounds::default()
    };
    connector.lane(Consumer::Fetch, bounds)
}

async fn get(lane: &Lane, url: &str) -> Result<http::Response<Body>, Error> {
    send(lane, Method::GET, url).await
}

async fn send(lane: &Lane, method: Method, url: &str) -> Result<http::Response<Body>, Error> {
    let request = Request::builder()
        .method(method)
        .uri(url)
        .body(Bytes::new())
        .expect("a request");
    lane.request(&target(url), request, deadline()).await
}

async fn get_text(lane: &Lane, url: &str) -> String {
    text(get(lane, url).await.expect("a response")).await
}

/// A server and a lane that may go to it, over HTTP/2 or HTTP/1.1 alone.
async fn origin_and_lane(names: &[&str], protocol: &str) -> (ScriptedDns, TlsOrigin, Lane) {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let origin = TlsOrigin::start_speaking(&authority, names, anywhere, &[protocol]).await;
    for name in names {
        dns.host(name, &["127.0.0.1"]);
    }
    origin.serve("/", Reply::text("hello"));
    let allow = vec![exempt("127.0.0.1", &[Consumer::Fetch])];
    let lane = lane(&connector(&dns, &authority, allow));
    (dns, origin, lane)
}

#[tokio::test]
async fn requests_in_a_row_share_a_connection_and_each_is_judged() {
    for protocol in ["h2", "http/1.1"] {
        let (dns, origin, lane) = origin_and_lane(&["site.test"], protocol).await;
        let url = format!("https://site.test:{}/", origin.port());
        for _ in 0..3 {
            assert_eq!(get_text(&lane, &url).await, "hello");
        }
        assert_eq!(origin.accepted(), 1, "{protocol}");
        assert_eq!(dns.queries().len(), 6, "{protocol}");
        assert_eq!(lane.idle_connections(), 1);
        lane.close_idle();
        assert_eq!(lane.idle_connections(), 0);
    }
}

#[tokio::test]
async fn a_name_that_points_inside_at_the_second_request_gets_no_use_of_the_first_ones_connection()
{
    let (dns, origin, lane) = origin_and_lane(&[], "h2").await;
    let origin_port = origin.port();
    dns.script(
        "rebind.test",
        Family::V4,
        [
            Answer::addresses(&["127.0.0.1"]),
            Answer::addresses(&["10.0.0.1"]),
        ],
    );
    let url = format!("https://rebind.test:{origin_port}/");
    // The certificate is for another name.
    assert!(matches!(get(&lane, &url).await, Err(Error::Tls { .. })));
    assert_eq!(rule(get(&lane, &url).await), Rule::Private);

    let (dns, origin, lane) = origin_and_lane(&["rebind.test"], "h2").await;
    dns.script(
        "rebind.test",
        Family::V4,
        [
            Answer::addresses(&["127.0.0.1"]),
            Answer::addresses(&["10.0.0.1"]),
        ],
    );
    let url = format!("https://rebind.test:{}/", origin.port());
    assert_eq!(get_text(&lane, &url).await, "hello");
    assert_eq!(lane.idle_connections(), 1);
    assert_eq!(rule(get(&lane, &url).await), Rule::Private);
    assert_eq!(origin.requests().len(), 1);
    assert_eq!(lane.idle_connections(), 1, "it was not looked at");
}

#[tokio::test]
async fn a_connection_whose_address_is_no_longer_the_names_is_not_used() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let first = TlsOrigin::start(&authority, &["moved.test"]).await;
    let second = TlsOrigin::start_on(
        &authority,
        &["moved.test"],
        SocketAddr::from(([127, 0, 0, 2], first.port())),
    )
    .await;
    first.serve("/", Reply::text("first"));
    second.serve("/", Reply::text("second"));
    dns.script(
        "moved.test",
        Family::V4,
        [
            Answer::addresses(&["127.0.0.1"]),
            Answer::addresses(&["127.0.0.2"]),
        ],
    );
    let allow = vec![exempt("moved.test", &[Consumer::Fetch])];
    let lane = lane(&connector(&dns, &authority, allow));
    let url = format!("https://moved.test:{}/", first.port());
    assert_eq!(get_text(&lane, &url).await, "first");
    assert_eq!(get_text(&lane, &url).await, "second");
    assert_eq!((first.accepted(), second.accepted()), (1, 1));
}

#[tokio::test]
async fn two_hosts_on_one_address_share_no_connection_although_the_certificate_names_both() {
    let (_dns, origin, lane) = origin_and_lane(&["one.test", "two.test"], "h2").await;
    for host in ["one.test", "two.test"] {
        let url = format!("https://{host}:{}/", origin.port());
        assert_eq!(get_text(&lane, &url).await, "hello");
    }
    assert_eq!(origin.accepted(), 2);
    assert_eq!(lane.idle_connections(), 2);
}

#[tokio::test]
async fn another_port_or_scheme_of_the_same_host_gets_a_connection_of_its_own() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let one = TlsOrigin::start(&authority, &["site.test"]).await;
    let two = TlsOrigin::start(&authority, &["site.test"]).await;
    one.serve("/", Reply::text("hello"));
    two.serve("/", Reply::text("hello"));
    dns.host("site.test", &["127.0.0.1"]);
    let allow = vec![exempt("site.test", &[Consumer::Fetch])];
    let lane = lane(&connector(&dns, &authority, allow));
    for origin in [&one, &two] {
        let url = format!("https://site.test:{}/", origin.port());
        assert_eq!(get_text(&lane, &url).await, "hello");
    }
    // What speaks TLS closes on a request without it.
    let url = format!("http://site.test:{}/", one.port());
    assert!(get(&lane, &url).await.is_err());
    assert_eq!((one.accepted(), two.accepted()), (2, 1));
}

#[tokio::test]
async fn lanes_share_nothing() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let origin = TlsOrigin::start(&authority, &["site.test"]).await;
    origin.serve("/", Reply::text("hello"));
    dns.host("site.test", &["127.0.0.1"]);
    let allow = vec![exempt("site.test", &[Consumer::Fetch])];
    let connector = connector(&dns, &authority, allow);
    let url = format!("https://site.test:{}/", origin.port());
    for lane in [lane(&connector), lane(&connector)] {
        assert_eq!(get_text(&lane, &url).await, "hello");
    }
    assert_eq!(origin.accepted(), 2);
}

#[tokio::test]
async fn a_body_that_was_not_read_to_its_end_takes_its_connection_with_it() {
    for protocol in ["h2", "http/1.1"] {
        let (_dns, origin, lane) = origin_and_lane(&["site.test"], protocol).await;
        let url = format!("https://site.test:{}/", origin.port());
        origin.serve(
            "/",
            Reply::ok("text/plain", "hello").pause(Duration::from_hours(1)),
        );
        drop(get(&lane, &url).await.expect("a response"));
        assert_eq!(lane.idle_connections(), 0);
        origin.serve("/", Reply::text("hello"));
        assert_eq!(get_text(&lane, &url).await, "hello");
        assert_eq!(origin.accepted(), 2, "{protocol}");
    }
}

#[tokio::test]
async fn a_connection_is_kept_for_its_time_only_and_no_more_than_the_bound_are() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let names = ["one.test", "two.test", "three.test"];
    let origin = TlsOrigin::start(&authority, &names).await;
    origin.serve("/", Reply::text("hello"));
    for name in names {
        dns.host(name, &["127.0.0.1"]);
    }
    let allow = vec![exempt("127.0.0.1", &[Consumer::Fetch])];
    let connector = connector(&dns, &authority, allow);
    let bounds = LaneBounds {
        idle_time: Duration::from_secs(30),
        idle_connections: 2,
    };
    let lane = connector.lane(Consumer::Fetch, bounds);
    for name in names {
        get_text(&lane, &format!("https://{name}:{}/", origin.port())).await;
    }
    assert_eq!(lane.idle_connections(), 2);

    let bounds = LaneBounds {
        idle_time: Duration::from_millis(20),
        idle_connections: 2,
    };
    let lane = connector.lane(Consumer::Fetch, bounds);
    get_text(&lane, &format!("https://one.test:{}/", origin.port())).await;
    while lane.idle_connections() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    let none = LaneBounds {
        idle_connections: 0,
        ..LaneBounds::default()
    };
    let lane = connector.lane(Consumer::Fetch, none);
    get_text(&lane, &format!("https://one.test:{}/", origin.port())).await;
    assert_eq!(lane.idle_connections(), 0);
}

fn answer(body: &str) -> Act {
    Act::say(format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
}

/// A lane to a server without TLS that plays these scripts, and its URL.
async fn scripted(scripts: Vec<Vec<Act>>) -> (RawOrigin, Lane, String) {
    let dns = ScriptedDns::start().await;
    let origin = RawOrigin::plain(scripts).await;
    let allow = vec![exempt("127.0.0.1", &[Consumer::Fetch])];
    let lane = lane(&connector(&dns, &Authority::new(), allow));
    let url = format!("http://{}/", origin.address());
    (origin, lane, url)
}

#[tokio::test]
async fn a_kept_connection_that_closes_at_the_next_request_costs_a_safe_request_nothing() {
    for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
        let (origin, lane, url) = scripted(vec![
            vec![
                Act::hear("\r\n\r\n"),
                answer("one"),
                Act::hear("\r\n\r\n"),
                Act::Close,
            ],
            vec![Act::hear("\r\n\r\n"), answer("two")],
        ])
        .await;
        assert_eq!(get_text(&lane, &url).await, "one");
        let second = send(&lane, method, &url).await.expect("a response");
        assert_eq!(second.status(), 200);
        assert_eq!(origin.accepted(), 2);
    }
}

/// A server that answers the first request of its first connection, closes it at the second, and then says nothing to anybody.
async fn answers_once(listener: TcpListener, tls: TlsAcceptor) {
    let (stream, _peer) = listener.accept().await.expect("a connection");
    let mut stream = tls.accept(stream).await.expect("a handshake");
    let mut heard = [0; 4_096];
    for answer in ["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", ""] {
        assert!(stream.read(&mut heard).await.expect("a request") > 0);
        stream.write_all(answer.as_bytes()).await.expect("a client");
    }
    drop(stream);
    let _silent = listener.accept().await.expect("another connection");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_host_that_falls_silent_behind_a_kept_connection_has_no_longer_to_connect_than_any() {
    let authority = Authority::new();
    let (dns, listener) = (
        ScriptedDns::start().await,
        TcpListener::bind("127.0.0.1:0").await.expect("a port"),
    );
    let port = listener.local_addr().expect("an address").port();
    let tls = TlsAcceptor::from(Arc::new(
        authority.server_config_speaking(&["site.test"], &["http/1.1"]),
    ));
    let mut server = JoinSet::new();
    server.spawn(answers_once(listener, tls));
    dns.host("site.test", &["127.0.0.1"]);
    let allow = vec![exempt("site.test", &[Consumer::Fetch])];
    let connector = connector(&dns, &authority, allow);
    let lane = connector.lane(Consumer::Fetch, LaneBounds::default());
    let url = format!("https://site.test:{port}/");
    assert_eq!(get_text(&lane, &url).await, "hi");
    let request = Request::get(url.as_str())
        .body(Bytes::new())
        .expect("a request");
    let (soon, hours) = (Duration::from_millis(500), Duration::from_hours(1));
    let destination = target(&url);
    let answer = lane.request_within(
        &destination,
        request,
        Instant::now() + soon,
        Instant::now() + hours,
    );
    let outcome = timeout(Duration::from_secs(20), answer).await;
    assert!(
        matches!(outcome, Ok(Err(Error::TimedOut { .. }))),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_request_that_may_have_changed_something_is_not_sent_twice() {
    let (origin, lane, url) = scripted(vec![vec![
        Act::hear("\r\n\r\n"),
        answer("one"),
        Act::hear("POST"),
        Act::hear("\r\n\r\n"),
        Act::Close,
    ]])
    .await;
    assert_eq!(get_text(&lane, &url).await, "one");
    let outcome = send(&lane, Method::POST, &url).await;
    assert!(matches!(outcome, Err(Error::Http { .. })), "{outcome:?}");
    assert_eq!(origin.accepted(), 1);
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_meanwhile_is_replaced_for_any_request() {
    let (origin, lane, url) = scripted(vec![
        vec![Act::hear("\r\n\r\n"), answer("one"), Act::Close],
        vec![Act::hear("\r\n\r\n"), answer("two")],
    ])
    .await;
    assert_eq!(get_text(&lane, &url).await, "one");
    // It is closed by the time that it is asked whether it is.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let second = send(&lane, Method::POST, &url).await.expect("a response");
    assert_eq!(text(second).await, "two");
    assert_eq!(origin.accepted(), 2);
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for_yet_is_not_taken_for_the_next_ones() {
    let (origin, lane, url) = scripted(vec![
        vec![
            Act::hear("\r\n\r\n"),
            Act::say("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\noneHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged"),
        ],
        vec![Act::hear("\r\n\r\n"), answer("two")],
    ])
    .await;
    assert_eq!(get_text(&lane, &url).await, "one");
    assert_eq!(get_text(&lane, &url).await, "two");
    assert_eq!(origin.accepted(), 2);
}

#[tokio::test]
async fn an_answer_whose_end_is_in_doubt_is_the_last_on_its_connection() {
    let (origin, lane, url) = scripted(vec![vec![
        Act::hear("\r\n\r\n"),
        Act::say("HTTP/1.1 200 OK\r\ncontent-length: 100\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n"),
    ]])
    .await;
    let response = get(&lane, &url).await.expect("a response");
    assert_eq!(response.headers().get("content-length"), None);
    assert_eq!(text(response).await, "one");
    assert_eq!(lane.idle_connections(), 0);
    assert_eq!(get_text(&lane, &url).await, "one");
    assert_eq!(origin.accepted(), 2);
}

#[tokio::test]
async fn an_answer_before_the_request_was_sent_is_the_last_on_its_connection() {
    let (origin, lane, url) = scripted(vec![vec![Act::hear("\r\n\r\n"), answer("enough")]]).await;
    let endless = http_body_util::StreamBody::new(futures::stream::pending::<
        Result<http_body::Frame<Bytes>, std::convert::Infallible>,
    >());
    let request = Request::post(&url)
        .body(RequestBody::streamed(endless))
        .expect("a request");
    let response = lane
        .request(&target(&url), request, deadline())
        .await
        .expect("a response");
    assert_eq!(text(response).await, "enough");
    assert_eq!(lane.idle_connections(), 0);
    assert_eq!(get_text(&lane, &url).await, "enough");
    assert_eq!(origin.accepted(), 2);
}

#[tokio::test]
async fn a_server_that_closes_after_each_answer_gets_a_connection_for_each() {
    let (origin, lane, url) = scripted(vec![vec![
        Act::hear("\r\n\r\n"),
        Act::say("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 3\r\n\r\none"),
        Act::Close,
    ]])
    .await;
    for _ in 0..3 {
        assert_eq!(get_text(&lane, &url).await, "one");
    }
    assert_eq!(origin.accepted(), 3);
}

#[tokio::test]
async fn a_dropped_lane_closes_what_it_kept_and_leaves_open_what_is_being_read() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let origin = TlsOrigin::start(&authority, &["site.test"]).await;
    origin.serve("/", Reply::text("hello"));
    origin.serve(
        "/slow",
        Reply::ok("text/plain", "one ")
            .pause(Duration::from_millis(50))
            .piece("two"),
    );
    dns.host("site.test", &["127.0.0.1"]);
    let tasks = tokio_util::task::TaskTracker::new();
    let config = outbound::Config {
        allow: vec![exempt("site.test", &[Consumer::Fetch])],
        nameserver: Some(dns.address()),
        ca_file: Some(authority.pem_path().to_owned()),
        ..outbound::Config::default()
    };
    let connector = Connector::new(&config, tasks.clone()).expect("a connector");
    let lane = lane(&connector);
    let site = format!("https://site.test:{}", origin.port());
    get_text(&lane, &format!("{site}/")).await;
    let slow = get(&lane, &format!("{site}/slow"))
        .await
        .expect("a response");
    get_text(&lane, &format!("{site}/")).await;
    drop(lane);
    assert_eq!(text(slow).await, "one two");
    tasks.close();
    timeout(Duration::from_secs(10), tasks.wait())
        .await
        .expect("nothing runs on");
}
