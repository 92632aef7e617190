//! What is passed on, and what is not.

use testkit::origin::{Act, RawOrigin};

use super::{
    in_both_shapes,
    setup::{Shape, World},
    wire::{Wire, ask, get, get_with},
};

in_both_shapes!(
    a_request_goes_on_without_what_is_between_neighbours,
    an_answer_comes_back_without_what_is_between_neighbours,
    every_method_and_status_passes,
    redirects_are_passed_back_and_not_followed,
    a_server_cannot_speak_in_the_name_of_the_proxy,
    a_client_that_waits_for_leave_to_send_its_body_is_told_to,
    an_upload_in_chunks_is_streamed_while_the_answer_already_comes,
    a_server_that_breaks_off_breaks_off_for_the_client_too,
    another_npcs_request_over_the_same_connection_gets_a_connection_of_its_own,
);

async fn a_request_goes_on_without_what_is_between_neighbours(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    world.web.file("/a", "hello");
    let url = format!("http://{}/a?q=1#part", world.index());
    let headers = "Connection: keep-alive, X-Between\r\nX-Between: 1\r\nProxy-Connection: keep-alive\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\nUpgrade: websocket\r\nX-Forwarded-For: 203.0.113.9\r\nAuthorization: Bearer own\r\nCookie: a=b\r\nAccept-Encoding: br\r\n";
    let answer = ask(proxy.address, get_with(&url, &world.token(), headers)).await;
    assert_eq!(answer.status, 200);
    let asked = world.web.asked().remove(0);
    assert_eq!(asked.target, "/a?q=1");
    let mut names: Vec<&str> = asked.headers.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "accept-encoding",
            "authorization",
            "cookie",
            "host",
            "x-forwarded-for"
        ]
    );
    assert_eq!(
        asked.headers["host"],
        world.index(),
        "the URL's, not the client's"
    );
    assert_eq!(
        asked.headers["x-forwarded-for"], "203.0.113.9",
        "its own alone"
    );
}

async fn an_answer_comes_back_without_what_is_between_neighbours(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    world.web.file("/", "hello");
    world.web.answer(
        "/",
        200,
        &[
            ("connection", "x-between"),
            ("x-between", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-authenticate", "Basic realm=\"give it to me\""),
            ("proxy-authentication-info", "x"),
            ("upgrade", "h2c"),
            ("x-agentsville-refusal", "metadata"),
            ("x-own", "1"),
        ],
    );
    let url = format!("http://{}/", world.index());
    let answer = ask(proxy.address, get(&url, &world.token())).await;
    assert_eq!((answer.status, answer.text()), (200, "hello".to_owned()));
    assert_eq!(answer.header("x-own"), Some("1"));
    for name in [
        "connection",
        "x-between",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authentication-info",
        "upgrade",
        "x-agentsville-refusal",
        "via",
        "server",
    ] {
        assert_eq!(answer.header(name), None, "{name}");
    }
}

async fn every_method_and_status_passes(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    world.web.file("/file", "hello");
    world.web.answer("/gone", 410, &[]);
    let base = format!("http://{}", world.index());
    let token = world.token();
    let ask_for = |method: &str, path: &str, body: &str| {
        format!(
            "{method} {base}{path} HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let mut wire = Wire::to(proxy.address).await;
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"] {
        wire.say(ask_for(method, "/echo", "said")).await;
        let answer = wire.answer().await;
        assert_eq!(
            (answer.status, answer.text()),
            (200, "said".to_owned()),
            "{method}"
        );
    }
    wire.say(ask_for("HEAD", "/file", "")).await;
    let head = wire.head_answer().await;
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some("5"))
    );
    wire.say(ask_for("GET", "/gone", "")).await;
    assert_eq!(wire.answer().await.status, 410);
    wire.say(ask_for("GET", "/file", "")).await;
    assert_eq!(
        wire.answer().await.text(),
        "hello",
        "the connection is still good"
    );
    let methods: Vec<String> = world
        .web
        .asked()
        .iter()
        .map(|asked| asked.method.to_string())
        .collect();
    assert_eq!(
        methods,
        [
            "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "HEAD", "GET", "GET"
        ]
    );
}

async fn redirects_are_passed_back_and_not_followed(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    let inside = "http://169.254.169.254/latest/meta-data/";
    world.web.answer("/", 302, &[("location", inside)]);
    let url = format!("http://{}/", world.index());
    let answer = ask(proxy.address, get(&url, &world.token())).await;
    assert_eq!(
        (answer.status, answer.header("location")),
        (302, Some(inside))
    );
    let followed = ask(proxy.address, get(inside, &world.token())).await;
    assert_eq!(followed.facts(), (403, "metadata"));
}

/// A server that plays these scripts, a listener that leads to it, and its URL.
async fn raw(
    world: &World,
    shape: Shape,
    scripts: Vec<Vec<Act>>,
) -> (RawOrigin, super::setup::Proxy, String) {
    let server = RawOrigin::plain(scripts).await;
    let port = server.port();
    let allow = format!(r#"[{{to = "index.test:{port}", for = ["egress"]}}]"#);
    let proxy = world
        .proxy(shape, &[("AGENTSVILLE__OUTBOUND__ALLOW", &allow)])
        .await;
    (server, proxy, format!("http://index.test:{port}/"))
}

async fn a_server_cannot_speak_in_the_name_of_the_proxy(shape: Shape) {
    let world = World::start().await;
    for said in [
        "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    ] {
        let script = vec![Act::hear("\r\n\r\n"), Act::say(said), Act::Close];
        let (_server, proxy, url) = raw(&world, shape, vec![script]).await;
        let answer = ask(proxy.address, get(&url, &world.token())).await;
        assert_eq!(answer.facts(), (502, "bad-response"), "{said}");
        assert_eq!(answer.header("proxy-authenticate"), None);
    }
}

async fn a_client_that_waits_for_leave_to_send_its_body_is_told_to(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    let token = world.token();
    let head = |host: &str| {
        format!(
            "PUT http://{host}/echo HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Bearer {token}\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
        )
    };
    let mut wire = Wire::to(proxy.address).await;
    wire.say(head(&world.index())).await;
    assert_eq!(wire.head_answer().await.status, 100);
    wire.say("said").await;
    assert_eq!(wire.answer().await.text(), "said");
    assert_eq!(world.web.asked()[0].headers.get("expect"), None);
    // Whoever is refused hears that at once, and never sends it.
    let mut wire = Wire::to(proxy.address).await;
    wire.say(head("10.0.0.1")).await;
    assert_eq!(wire.answer().await.facts(), (403, "private"));
}

async fn an_upload_in_chunks_is_streamed_while_the_answer_already_comes(shape: Shape) {
    let world = World::start().await;
    let script = vec![
        Act::hear("first"),
        Act::say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nheard\r\n"),
        Act::hear("second"),
        Act::say("3\r\nall\r\n0\r\n\r\n"),
    ];
    let (_server, proxy, url) = raw(&world, shape, vec![script]).await;
    let mut wire = Wire::to(proxy.address).await;
    wire.say(format!(
        "POST {url} HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Bearer {}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n",
        world.token()
    ))
    .await;
    let head = wire.head_answer().await;
    assert_eq!(head.status, 200);
    assert_eq!(wire.take(10).await, b"5\r\nheard\r\n");
    wire.say("6\r\nsecond\r\n0\r\n\r\n").await;
    assert_eq!(wire.take(13).await, b"3\r\nall\r\n0\r\n\r\n");
}

async fn a_server_that_breaks_off_breaks_off_for_the_client_too(shape: Shape) {
    let world = World::start().await;
    let script = vec![
        Act::hear("\r\n\r\n"),
        Act::say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"),
        Act::Close,
    ];
    let (_server, proxy, url) = raw(&world, shape, vec![script]).await;
    let mut wire = Wire::to(proxy.address).await;
    wire.say(get(&url, &world.token())).await;
    assert_eq!(
        wire.head_answer().await.header("content-length"),
        Some("100")
    );
    assert_eq!(wire.rest().await, b"only this");
}

async fn another_npcs_request_over_the_same_connection_gets_a_connection_of_its_own(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    world.web.file("/", "hello");
    let url = format!("http://{}/", world.index());
    let mut other = world.pass(&[]);
    other.npc = kernel::NpcId::mint(&kernel::SystemClock);
    let other = world.issuers.broker.mint_egress(&other).expect("a token");
    let mut wire = Wire::to(proxy.address).await;
    for (token, connections) in [
        (&world.token(), 1),
        (&world.token(), 1),
        (&other, 2),
        (&other, 2),
    ] {
        wire.say(get(&url, token)).await;
        assert_eq!(wire.answer().await.text(), "hello");
        assert_eq!(world.web.accepted(), connections);
    }
}
