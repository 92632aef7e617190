//! How long, how many, how much.

use std::time::Duration;

use testkit::{
    origin::{Act, RawOrigin},
    port::HeldPort,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::{
    in_both_shapes,
    setup::{Proxy, Shape, World},
    wire::{Answer, End, Wire, ask, connect, get},
};

in_both_shapes!(
    a_head_that_comes_too_slowly_is_told_so_and_closed,
    a_kept_connection_that_says_half_a_request_is_told_so_and_closed,
    a_kept_connection_may_be_silent_for_longer_than_a_head_may_take,
    an_old_connection_serves_what_it_began_to_its_end,
    a_silent_tunnel_ends,
    a_server_that_never_answers_is_a_timeout_with_a_reason,
    a_client_that_stops_reading_is_cut_off,
    an_old_tunnel_ends_though_bytes_still_flow,
    a_tunnel_carries_so_many_bytes_each_way,
    a_body_may_be_so_long_and_no_longer,
    a_half_closed_tunnel_carries_the_rest_and_ends,
    one_npcs_tunnels_are_counted_and_leave_room_for_another,
    a_full_process_says_so_and_serves_again,
    a_connection_serves_so_many_requests,
    more_connections_than_there_is_room_for_are_closed,
    a_stop_refuses_new_connections_and_lets_tunnels_end,
);

/// A server that plays this script to everybody, and a listener with these settings that leads to it.
async fn raw(
    world: &World,
    shape: Shape,
    script: Vec<Act>,
    settings: &[(&str, &str)],
) -> (RawOrigin, Proxy, String) {
    let server = RawOrigin::plain(vec![script]).await;
    let port = server.port();
    let allow = format!(r#"[{{to = "index.test:{port}", for = ["egress"]}}]"#);
    let mut all = vec![("AGENTSVILLE__OUTBOUND__ALLOW", allow.as_str())];
    all.extend_from_slice(settings);
    let proxy = world.proxy(shape, &all).await;
    (server, proxy, format!("index.test:{port}"))
}

async fn opened(proxy: &Proxy, authority: &str, token: &str) -> Result<Wire, Answer> {
    let mut wire = Wire::to(proxy.address).await;
    wire.say(connect(authority, token)).await;
    let answer = wire.head_answer().await;
    if answer.status == 200 {
        Ok(wire)
    } else {
        Err(answer)
    }
}

async fn open(proxy: &Proxy, authority: &str, token: &str) -> Wire {
    opened(proxy, authority, token)
        .await
        .unwrap_or_else(|answer| panic!("{answer:?}"))
}

async fn a_head_that_comes_too_slowly_is_told_so_and_closed(shape: Shape) {
    let world = World::start().await;
    let settings = [("AGENTSVILLE__EGRESS__HEADER_SECONDS", "1")];
    let proxy = world.proxy(shape, &settings).await;
    let mut wire = Wire::to(proxy.address).await;
    wire.say("CONNECT secure.test:443 HTTP/1.1\r\nX:").await;
    assert_eq!(wire.answer().await.facts(), (408, "timeout"));
    assert_eq!(wire.rest().await, b"");
    let mut silent = Wire::to(proxy.address).await;
    assert_eq!(silent.rest().await, b"");
}

async fn a_kept_connection_that_says_half_a_request_is_told_so_and_closed(shape: Shape) {
    let world = World::start().await;
    let settings = [("AGENTSVILLE__EGRESS__HEADER_SECONDS", "1")];
    let proxy = world.proxy(shape, &settings).await;
    world.web.file("/", "hello");
    let mut wire = Wire::to(proxy.address).await;
    let url = format!("http://{}/", world.index());
    wire.say(get(&url, &world.token())).await;
    assert_eq!(wire.answer().await.text(), "hello");
    wire.say("GET http://").await;
    assert_eq!(wire.answer().await.facts(), (408, "timeout"));
    assert_eq!(wire.rest().await, b"");
    assert_eq!(world.web.asked().len(), 1);
}

async fn a_kept_connection_may_be_silent_for_longer_than_a_head_may_take(shape: Shape) {
    let world = World::start().await;
    let settings = [("AGENTSVILLE__EGRESS__HEADER_SECONDS", "1")];
    let proxy = world.proxy(shape, &settings).await;
    world.web.file("/", "hello");
    let mut wire = Wire::to(proxy.address).await;
    let url = format!("http://{}/", world.index());
    for _ in 0..2 {
        wire.say(get(&url, &world.token())).await;
        assert_eq!(wire.answer().await.text(), "hello");
        tokio::time::sleep(Duration::from_millis(1_500)).await;
    }
}

async fn an_old_connection_serves_what_it_began_to_its_end(shape: Shape) {
    let world = World::start().await;
    let settings = [("AGENTSVILLE__EGRESS__TUNNEL_SECONDS", "4")];
    let script = vec![
        Act::hear("\r\n\r\n"),
        Act::say("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none"),
        Act::hear("\r\n\r\n"),
        Act::say("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nt"),
        Act::Pause(Duration::from_millis(2_500)),
        Act::say("wo"),
    ];
    let (_server, proxy, authority) = raw(&world, shape, script, &settings).await;
    let url = format!("http://{authority}/");
    let mut wire = Wire::to(proxy.address).await;
    wire.say(get(&url, &world.token())).await;
    assert_eq!(wire.answer().await.text(), "one");
    tokio::time::sleep(Duration::from_secs(3)).await;
    wire.say(get(&url, &world.token())).await;
    assert_eq!(wire.answer().await.text(), "two");
    assert_eq!(wire.end().await, (Vec::new(), End::Closed));
}

async fn a_silent_tunnel_ends(shape: Shape) {
    let world = World::start().await;
    let settings = [("AGENTSVILLE__EGRESS__IDLE_SECONDS", "1")];
    let script = vec![Act::hear("a"), Act::say("b")];
    let (_server, proxy, authority) = raw(&world, shape, script, &settings).await;
    let mut wire = open(&proxy, &authority, &world.token()).await;
    wire.say("a").await;
    assert_eq!(wire.end().await, (b"b".to_vec(), End::Reset));
}

async fn a_server_that_never_answers_is_a_timeout_with_a_reason(shape: Shape) {
    let world = World::start().await;
    let settings = [("AGENTSVILLE__EGRESS__IDLE_SECONDS", "1")];
    let (_server, proxy, authority) = raw(&world, shape, Vec::new(), &settings).await;
    let url = format!("http://{authority}/");
    let answer = ask(proxy.address, get(&url, &world.token())).await;
    assert_eq!(answer.facts(), (504, "timeout"));
}

async fn a_client_that_stops_reading_is_cut_off(shape: Shape) {
    let world = World::start().await;
    let settings = [("AGENTSVILLE__EGRESS__IDLE_SECONDS", "1")];
    let babble = vec![
        Act::hear("\r\n\r\n"),
        Act::say("HTTP/1.1 200 OK\r\n\r\n"),
        Act::babble("x".repeat(10_000)),
    ];
    let (server, proxy, authority) = raw(&world, shape, babble, &settings).await;
    let url = format!("http://{authority}/");
    let mut wire = Wire::to(proxy.address).await;
    wire.say(get(&url, &world.token())).await;
    assert_eq!(wire.head_answer().await.status, 200);
    // Nothing is read until the buffers are full, and the server's side of it is gone.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let rest = wire.rest().await;
    assert!(rest.len() < 64 * 1_024 * 1_024, "{}", rest.len());
    assert_eq!(server.accepted(), 1);
}

async fn an_old_tunnel_ends_though_bytes_still_flow(shape: Shape) {
    let world = World::start().await;
    let settings = [("AGENTSVILLE__EGRESS__TUNNEL_SECONDS", "2")];
    let mut script = vec![Act::hear("a")];
    for _ in 0..100 {
        script.extend([Act::say("."), Act::Pause(Duration::from_millis(200))]);
    }
    script.push(Act::Close);
    let (_server, proxy, authority) = raw(&world, shape, script, &settings).await;
    let mut wire = open(&proxy, &authority, &world.token()).await;
    wire.say("a").await;
    let (heard, end) = wire.end().await;
    assert!((1..100).contains(&heard.len()), "{}", heard.len());
    assert_eq!(end, End::Reset, "what was cut off does not look whole");
}

async fn a_tunnel_carries_so_many_bytes_each_way(shape: Shape) {
    let world = World::start().await;
    let settings = [("AGENTSVILLE__EGRESS__TUNNEL_BYTES", "100000")];
    let babble = vec![Act::hear("a"), Act::babble("x".repeat(1_000))];
    let (_server, proxy, authority) = raw(&world, shape, babble, &settings).await;
    let mut wire = open(&proxy, &authority, &world.token()).await;
    wire.say("a").await;
    let (heard, end) = wire.end().await;
    assert!((1..=100_000).contains(&heard.len()), "{}", heard.len());
    assert_eq!(end, End::Reset, "what was cut off does not look whole");
    drop(proxy);

    let listen = vec![Act::hear("the end that never comes")];
    let (server, proxy, authority) = raw(&world, shape, listen, &settings).await;
    let wire = open(&proxy, &authority, &world.token()).await;
    let mut stream = wire.into_stream();
    // It is cut off while it is still talking.
    let talk = async {
        let piece = [b'x'; 10_000];
        while stream.write_all(&piece).await.is_ok() {}
    };
    tokio::time::timeout(Duration::from_secs(30), talk)
        .await
        .expect("it is cut off");
    let heard = server.heard_bytes()[0].len();
    assert!(heard <= 100_000, "{heard}");
}

async fn a_body_may_be_so_long_and_no_longer(shape: Shape) {
    let world = World::start().await;
    let settings = [("AGENTSVILLE__EGRESS__TUNNEL_BYTES", "100000")];
    let proxy = world.proxy(shape, &settings).await;
    world.web.file("/big", "x".repeat(200_000));
    let (base, token) = (format!("http://{}", world.index()), world.token());
    let answer = ask(proxy.address, get(&format!("{base}/big"), &token)).await;
    assert_eq!(answer.facts(), (502, "too-many-bytes"));
    let upload = format!(
        "POST {base}/echo HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Bearer {token}\r\nContent-Length: 200000\r\n\r\n"
    );
    let answer = ask(proxy.address, upload).await;
    assert_eq!(answer.facts(), (413, "too-many-bytes"));
    drop(proxy);

    let endless = vec![
        Act::hear("\r\n\r\n"),
        Act::say("HTTP/1.1 200 OK\r\n\r\n"),
        Act::babble("x".repeat(1_000)),
    ];
    let (_server, proxy, authority) = raw(&world, shape, endless, &settings).await;
    let mut wire = Wire::to(proxy.address).await;
    wire.say(get(&format!("http://{authority}/"), &token)).await;
    assert_eq!(wire.head_answer().await.status, 200);
    let (heard, end) = wire.end().await;
    assert!(heard.len() < 110_000, "{}", heard.len());
    assert_eq!(end, End::Reset, "what was cut off does not look whole");
    // To a client that knows the end of an answer by the end of its connection.
    let mut wire = Wire::to(proxy.address).await;
    let old = get(&format!("http://{authority}/"), &token).replace("HTTP/1.1", "HTTP/1.0");
    wire.say(old).await;
    let answer = wire.head_answer().await;
    let coding = answer.header("transfer-encoding");
    assert_eq!((answer.status, coding), (200, None));
    assert_eq!(wire.end().await.1, End::Reset);
    // An upload whose length nobody said.
    let upload = format!(
        "POST {base}/echo HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Bearer {token}\r\nTransfer-Encoding: chunked\r\n\r\n30D40\r\n{}\r\n0\r\n\r\n",
        "x".repeat(200_000)
    );
    let proxy = world.proxy(shape, &settings).await;
    let answer = ask(proxy.address, upload).await;
    assert_eq!(answer.facts(), (413, "too-many-bytes"));
}

async fn a_half_closed_tunnel_carries_the_rest_and_ends(shape: Shape) {
    let world = World::start().await;
    // A server that answers when its client has said all.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("a bound socket").port();
    let serving = tokio_util::task::TaskTracker::new().spawn(async move {
        let (mut stream, _peer) = listener.accept().await.expect("a client");
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).await.expect("its words");
        stream.write_all(b"all that you get").await.expect("room");
        heard
    });
    let allow = format!(r#"[{{to = "index.test:{port}", for = ["egress"]}}]"#);
    let settings = [("AGENTSVILLE__OUTBOUND__ALLOW", allow.as_str())];
    let proxy = world.proxy(shape, &settings).await;
    let mut wire = open(&proxy, &format!("index.test:{port}"), &world.token()).await;
    wire.say("all that I say").await;
    wire.close_half().await;
    assert_eq!(wire.rest().await, b"all that you get");
    assert_eq!(serving.await.expect("it ended"), b"all that I say");
    drop(proxy);

    // The other side never says anything more, and is not waited for for ever.
    let settings = [("AGENTSVILLE__EGRESS__IDLE_SECONDS", "1")];
    let (_server, proxy, authority) = raw(&world, shape, Vec::new(), &settings).await;
    let mut wire = open(&proxy, &authority, &world.token()).await;
    wire.close_half().await;
    assert_eq!(wire.rest().await, b"");
}

async fn one_npcs_tunnels_are_counted_and_leave_room_for_another(shape: Shape) {
    let world = World::start().await;
    let settings = [
        ("AGENTSVILLE__EGRESS__TUNNELS", "3"),
        ("AGENTSVILLE__EGRESS__TUNNELS_PER_NPC", "2"),
    ];
    let (_server, proxy, authority) = raw(&world, shape, Vec::new(), &settings).await;
    let mut other = world.pass(&[]);
    other.player = kernel::PlayerId::mint(&kernel::SystemClock);
    let other = world.issuers.broker.mint_egress(&other).expect("a token");
    let _first = open(&proxy, &authority, &world.token()).await;
    let _second = open(&proxy, &authority, &world.token()).await;
    let refused = opened(&proxy, &authority, &world.token()).await.err();
    let refused = refused.expect("there is no third place");
    assert_eq!(refused.facts(), (429, "too-many-tunnels"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    let url = format!("http://{authority}/");
    let refused = ask(proxy.address, get(&url, &world.token())).await;
    assert_eq!(refused.facts(), (429, "too-many-tunnels"));
    let _third = open(&proxy, &authority, &other).await;
}

async fn a_full_process_says_so_and_serves_again(shape: Shape) {
    let world = World::start().await;
    let settings = [("AGENTSVILLE__EGRESS__TUNNELS", "1")];
    let (_server, proxy, authority) = raw(&world, shape, Vec::new(), &settings).await;
    let first = open(&proxy, &authority, &world.token()).await;
    let refused = opened(&proxy, &authority, &world.token()).await.err();
    let refused = refused.expect("there is no second place");
    assert_eq!(refused.facts(), (503, "busy"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    // The server waits for the client to go, and goes then.
    drop(first);
    while opened(&proxy, &authority, &world.token()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn a_connection_serves_so_many_requests(shape: Shape) {
    let world = World::start().await;
    let settings = [("AGENTSVILLE__EGRESS__REQUESTS_PER_CONNECTION", "2")];
    let proxy = world.proxy(shape, &settings).await;
    world.web.file("/", "hello");
    let url = format!("http://{}/", world.index());
    let mut wire = Wire::to(proxy.address).await;
    wire.say(get(&url, &world.token()).repeat(3)).await;
    assert_eq!(wire.answer().await.header("connection"), None);
    assert_eq!(wire.answer().await.header("connection"), Some("close"));
    assert_eq!(wire.rest().await, b"");
    assert_eq!(world.web.asked().len(), 2);
}

async fn more_connections_than_there_is_room_for_are_closed(shape: Shape) {
    let world = World::start().await;
    let settings = [("AGENTSVILLE__EGRESS__CONNECTIONS", "1")];
    let (_server, proxy, authority) = raw(&world, shape, Vec::new(), &settings).await;
    let _tunnel = open(&proxy, &authority, &world.token()).await;
    let mut second = Wire::to(proxy.address).await;
    assert_eq!(second.rest().await, b"");
}

async fn a_stop_refuses_new_connections_and_lets_tunnels_end(shape: Shape) {
    let world = World::start().await;
    let script = vec![Act::hear("a"), Act::say("b"), Act::Close];
    let port = HeldPort::new();
    let settings = [(
        "AGENTSVILLE__EGRESS__LISTEN",
        &*port.on_loopback().to_string(),
    )];
    let (_server, mut proxy, authority) = raw(&world, shape, script, &settings).await;
    let mut wire = open(&proxy, &authority, &world.token()).await;
    let mut idle = Wire::to(proxy.address).await;
    stop(&proxy).await;
    assert_eq!(idle.rest().await, b"", "what was not begun is not begun");
    let refused = tokio::net::TcpStream::connect(proxy.address).await;
    assert!(refused.is_err());
    wire.say("a").await;
    assert_eq!(wire.rest().await, b"b");
    drop(wire);
    if let Some(lifecycle) = &proxy.lifecycle {
        let minute = Duration::from_mins(1);
        let drained = lifecycle.drain(minute, std::future::pending()).await;
        assert_eq!(drained, runtime::Stopped::Drained);
    }
    if let Some(status) = proxy.wait() {
        assert!(status.success(), "{status}");
    }
}

/// Asks it to stop, and waits until it no longer listens.
async fn stop(proxy: &Proxy) {
    if let Some(lifecycle) = &proxy.lifecycle {
        lifecycle.stop();
    }
    if let Some(id) = proxy.process_id() {
        let (done, said) = super::setup::run("kill", &["-TERM", &id.to_string()]).await;
        assert!(done, "{said}");
    }
    while tokio::net::TcpStream::connect(proxy.address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
