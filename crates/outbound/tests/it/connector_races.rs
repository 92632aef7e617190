//! Races between addresses, and what is left when they are over.

use std::{
    net::{SocketAddr, TcpStream},
    os::fd::OwnedFd,
    time::Duration,
};

use bytes::Bytes;
use http::Request;
use outbound::{Config, Connector, Consumer, Error, Phase, Rule};
use rustix::net::{AddressFamily, SocketType, sockopt};
use testkit::{
    dns::{Answer, Family, ScriptedDns},
    origin::{Authority, Reply, TlsOrigin},
    port::HeldPort,
};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::support::{connector, deadline, exempt, get, rule, target, text};

/// An address that takes no connection and does not refuse one either: its queue is full.
struct Silent {
    _listener: OwnedFd,
    _waiting: Vec<TcpStream>,
}

impl Silent {
    /// At an address whose port is held.
    fn at(address: SocketAddr) -> Self {
        let socket =
            rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        sockopt::set_socket_reuseaddr(&socket, true).expect("an option of sockets");
        rustix::net::bind(&socket, &address).expect("a free address");
        rustix::net::listen(&socket, 0).expect("a listener");
        let mut waiting = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
            waiting.push(stream);
        }
        Self {
            _listener: socket,
            _waiting: waiting,
        }
    }
}

fn v4(last: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, last], port))
}

#[tokio::test]
async fn a_retry_that_resolves_inside_is_refused() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    dns.script(
        "rebind.test",
        Family::V4,
        [
            Answer::addresses(&["127.0.0.2"]),
            Answer::addresses(&["10.0.0.1"]),
        ],
    );
    let nobody = HeldPort::new();
    let connector = connector(
        &dns,
        &authority,
        vec![exempt("127.0.0.2", &[Consumer::Fetch])],
    );
    let url = format!("https://rebind.test:{}/", nobody.number());
    let first = get(&connector, &url, Consumer::Fetch).await;
    assert!(matches!(first, Err(Error::Unreachable { .. })), "{first:?}");
    assert_eq!(
        rule(get(&connector, &url, Consumer::Fetch).await),
        Rule::Private
    );
}

#[tokio::test]
async fn an_address_that_says_nothing_gives_way_to_the_next() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let origin = TlsOrigin::start_on(&authority, &["two.test"], v4(3, 0)).await;
    let _silent = Silent::at(v4(2, origin.port()));
    dns.host("two.test", &["127.0.0.2", "127.0.0.3"]);
    let connector = connector(&dns, &authority, vec![exempt("two.test", &[Consumer::Mcp])]);
    let target = target(&format!("https://two.test:{}/", origin.port()));
    let connection = connector
        .connect(&target, Consumer::Mcp, deadline())
        .await
        .expect("a connection");
    assert_eq!(connection.peer(), origin.address());
}

#[tokio::test]
async fn the_deadline_ends_a_race_that_nobody_wins() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let port = HeldPort::new();
    let _silent = Silent::at(v4(2, port.number()));
    dns.host("site.test", &["127.0.0.2"]);
    let connector = connector(
        &dns,
        &authority,
        vec![exempt("site.test", &[Consumer::Mcp])],
    );
    let outcome = connector
        .connect_tcp(
            &target(&format!("https://site.test:{}/", port.number())),
            Consumer::Mcp,
            Instant::now() + Duration::from_millis(200),
        )
        .await;
    assert_eq!(
        outcome.err(),
        Some(Error::TimedOut {
            host: "site.test".to_owned(),
            phase: Phase::Connecting
        })
    );
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd")
        .expect("a list of files")
        .count()
}

/// Requests that are given up at every stage, and answers that nobody reads, leave neither tasks nor sockets.
#[tokio::test]
async fn what_is_abandoned_leaves_nothing_behind() {
    let (dns, authority) = (ScriptedDns::start().await, Authority::new());
    let origin = TlsOrigin::start(&authority, &["site.test"]).await;
    origin.serve("/", Reply::text("hello"));
    origin.serve("/late", Reply::text("late").after(Duration::from_hours(1)));
    origin.serve(
        "/endless",
        Reply::ok("text/plain", "x".repeat(100_000)).pause(Duration::from_hours(1)),
    );
    dns.host("site.test", &["127.0.0.1"]);
    let config = Config {
        allow: vec![exempt("site.test", &[Consumer::Fetch])],
        nameserver: Some(dns.address()),
        ca_file: Some(authority.pem_path().to_owned()),
        ..Config::default()
    };
    let tasks = TaskTracker::new();
    let connector = Connector::new(&config, tasks.clone()).expect("a connector");
    let site = format!("https://site.test:{}", origin.port());
    let response = get(&connector, &format!("{site}/"), Consumer::Fetch).await;
    assert_eq!(text(response.expect("a response")).await, "hello");
    drop(connector.clone());
    let before = open_files();
    for round in 0_u32..200 {
        let target = target(&format!("{site}/"));
        let request = |path: &str| Request::get(path).body(Bytes::new()).expect("a request");
        // From before the first packet to some milliseconds into the answer.
        let given_up = Duration::from_micros(u64::from(round) * 40);
        let abandoned = connector.request(&target, Consumer::Fetch, request("/late"), deadline());
        drop(tokio::time::timeout(given_up, abandoned).await);
        let lane = connector.lane(Consumer::Fetch, outbound::LaneBounds::default());
        let unread = lane
            .request(&target, request("/endless"), deadline())
            .await
            .expect("a response");
        let read = lane
            .request(&target, request("/"), deadline())
            .await
            .expect("a response");
        assert_eq!(text(read).await, "hello");
        drop(unread);
    }
    tasks.close();
    tokio::time::timeout(Duration::from_secs(10), tasks.wait())
        .await
        .expect("no task is left");
    // The servers of this process close their ends when they see ours closed.
    while open_files() > before {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
