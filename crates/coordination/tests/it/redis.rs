//! Several processes, and a server that goes away.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use bytes::Bytes;
use coordination::{Config, Error, ReadError, Signal, connect};
use futures::{StreamExt, future::join_all};
use kernel::{ErrorCode, Secret};
use testkit::redis::{OwnRedis, namespace, url};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::village::{Process, take, turn};

/// How long something may take that another process has to notice first.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn what_one_process_appends_another_reads() {
    let (url, namespace) = (url(), namespace());
    let owner = Process::redis(&url, &namespace);
    let replica = Process::redis(&url, &namespace);
    let turn = turn();
    owner.append(turn, 1..=2).await;
    let mut reader = replica.read(turn, 0).await;
    assert_eq!(take(&mut reader, 2).await, [Ok(1), Ok(2)]);
    owner.append(turn, 3..=3).await;
    owner.close(turn, 3).await;
    assert_eq!(take(&mut reader, 9).await, [Ok(3)]);
}

#[tokio::test]
async fn a_signal_reaches_the_other_process() {
    let (url, namespace) = (url(), namespace());
    let one = Process::redis(&url, &namespace);
    let other = Process::redis(&url, &namespace);
    let mut subscriber = other.coordination.signals.subscribe("abort").await;
    one.coordination
        .signals
        .publish("abort", Bytes::from_static(b"turn"))
        .await
        .expect("it is published");
    assert_eq!(
        subscriber.next().await,
        Some(Signal::Message(Bytes::from_static(b"turn")))
    );
}

#[tokio::test]
async fn villages_that_share_a_server_do_not_meet() {
    let url = url();
    let one = Process::redis(&url, &namespace());
    let other = Process::redis(&url, &namespace());
    let turn = turn();
    one.append(turn, 1..=1).await;
    one.close(turn, 1).await;
    other.append(turn, 1..=2).await;
    other.close(turn, 2).await;
    assert_eq!(one.read_all(turn, 0).await, [Ok(1)]);
    let mut subscriber = one.coordination.signals.subscribe("topic").await;
    for (process, text) in [(&other, "theirs"), (&one, "ours")] {
        process
            .coordination
            .signals
            .publish("topic", Bytes::from(text))
            .await
            .expect("it is published");
    }
    assert_eq!(
        subscriber.next().await,
        Some(Signal::Message(Bytes::from_static(b"ours")))
    );
}

#[tokio::test]
async fn watchers_share_one_connection() {
    let server = OwnRedis::start();
    let process = Process::redis(&server.url(), "village");
    let turns: Vec<_> = (0..60).map(|_| turn()).collect();
    let mut readers = Vec::new();
    for &turn in &turns {
        for _ in 0..2 {
            readers.push(process.read(turn, 0).await);
        }
    }
    for &turn in &turns {
        process.append(turn, 1..=1).await;
        process.close(turn, 1).await;
    }
    let read = join_all(readers.into_iter().map(StreamExt::count)).await;
    assert_eq!(read, vec![1; 120]);
    let clients = client_list(&server);
    let blocking = clients
        .lines()
        .filter(|client| client.contains("cmd=xread"))
        .count();
    let subscribed = clients
        .lines()
        .filter(|client| client.contains("cmd=psubscribe"))
        .count();
    assert_eq!((blocking, subscribed), (1, 1), "{clients}");
    assert!(clients.lines().count() <= 11, "{clients}");
}

#[tokio::test]
async fn a_server_that_goes_away_is_told_and_comes_back() {
    let mut server = OwnRedis::start();
    let process = Process::redis(&server.url(), "village");
    let turn = turn();
    process.append(turn, 1..=1).await;
    let mut reader = process.read(turn, 0).await;
    let mut subscriber = process.coordination.signals.subscribe("topic").await;
    assert_eq!(take(&mut reader, 1).await, [Ok(1)]);

    server.stop();
    assert_eq!(take(&mut reader, 9).await, [Err(ReadError::Unavailable)]);
    let failed = process.coordination.log.append(turn, 2, Bytes::new()).await;
    let failed = failed.expect_err("nobody answers");
    assert_eq!(failed.code(), ErrorCode::Unavailable, "{failed}");
    let failed = process
        .coordination
        .signals
        .publish("topic", Bytes::new())
        .await;
    assert_eq!(
        failed.expect_err("nobody answers").code(),
        ErrorCode::Unavailable
    );

    server.restart();
    let missed = tokio::time::timeout(PATIENCE, subscriber.next()).await;
    assert_eq!(missed, Ok(Some(Signal::Missed)));
    // What the server held is lost: the watcher has a snapshot with events up to 2, and goes on from there.
    process.append(turn, 3..=3).await;
    process.close(turn, 3).await;
    let read = async {
        loop {
            let read = process.read_all(turn, 2).await;
            if read != [Err(ReadError::Unavailable)] {
                return read;
            }
        }
    };
    assert_eq!(tokio::time::timeout(PATIENCE, read).await, Ok(vec![Ok(3)]));
}

#[tokio::test]
async fn a_server_that_is_not_there_yet_is_no_error() {
    let mut server = OwnRedis::start();
    server.stop();
    let process = Process::redis(&server.url(), "village");
    let mut subscriber = process.coordination.signals.subscribe("topic").await;
    server.restart();
    let missed = tokio::time::timeout(PATIENCE, subscriber.next()).await;
    assert_eq!(missed, Ok(Some(Signal::Missed)));
}

#[tokio::test]
async fn a_server_that_takes_connections_and_never_answers_holds_nobody_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", silent.local_addr().expect("its address"));
    let process = Process::redis(&url, "village");
    let turn = turn();
    let started = std::time::Instant::now();
    for number in 1..=200 {
        let failed = process
            .coordination
            .log
            .append(turn, number, Bytes::new())
            .await;
        assert_eq!(
            failed.expect_err("no answer").code(),
            ErrorCode::Unavailable
        );
    }
    let elapsed = started.elapsed();
    assert!(elapsed < PATIENCE, "{elapsed:?}");
}

#[tokio::test]
async fn an_address_that_cannot_be_used_is_refused_and_not_shown() {
    for address in [
        "hunter2",
        "http://hunter2@localhost",
        "rediss://:hunter2@localhost",
    ] {
        let config = Config::redis(Secret::new(address));
        let refused = connect(&config, &TaskTracker::new(), &CancellationToken::new());
        assert_eq!(refused.expect_err("no Redis"), Error::Address, "{address}");
    }
    let config = Config::redis(Secret::new("redis://:hunter2@127.0.0.1:1"));
    let coordination = connect(&config, &TaskTracker::new(), &CancellationToken::new());
    let coordination = coordination.expect("it may come later");
    assert!(!format!("{config:?} {coordination:?}").contains("hunter2"));
}

fn client_list(server: &OwnRedis) -> String {
    let address = server.url();
    let address = address.strip_prefix("redis://").expect("an address");
    let mut connection = TcpStream::connect(address).expect("it answers");
    connection
        .write_all(b"CLIENT LIST\r\n")
        .expect("it is sent");
    let mut answer = BufReader::new(connection);
    let mut head = String::new();
    answer.read_line(&mut head).expect("a length");
    let length = head
        .trim_start_matches('$')
        .trim()
        .parse()
        .expect("a length");
    let mut list = vec![0; length];
    answer.read_exact(&mut list).expect("a list");
    String::from_utf8(list).expect("text")
}
