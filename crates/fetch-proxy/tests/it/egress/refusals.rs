//! Where the way out does not lead.

use testkit::dns::{Answer as Dns, Family};

use super::{
    in_both_shapes,
    setup::{Proxy, Shape, World},
    wire::{Wire, ask, connect, get, get_with},
};

in_both_shapes!(
    metadata_and_loopback_in_every_spelling_are_refused,
    names_that_resolve_privately_or_to_both_are_refused_without_a_word_of_the_address,
    names_of_inside_are_refused_without_a_look_up,
    bracket_tricks_and_other_authorities_are_malformed,
    ports_other_than_the_webs_and_an_exemptions_are_refused,
    exemptions_for_fetch_and_mcp_servers_do_not_open_the_way_out,
    the_listener_leads_to_no_listener_of_the_village,
    hosts_that_the_pass_leaves_out_are_refused_first,
    forms_of_no_proxy_are_refused,
    shapes_of_smuggling_are_refused,
    a_tunnel_with_a_body_is_malformed,
    a_client_that_still_uploads_hears_that_it_is_refused,
    an_expectation_that_nobody_knows_fails,
    a_request_behind_a_refused_tunnel_is_never_read,
    a_name_that_points_inside_at_the_second_tunnel_is_refused,
    what_cannot_be_reached_is_said_with_its_reason,
);

async fn tunnel(world: &World, proxy: &Proxy, authority: &str) -> (u16, String) {
    let answer = ask(proxy.address, connect(authority, &world.token())).await;
    let (status, rule) = answer.facts();
    (status, rule.to_owned())
}

async fn request(world: &World, proxy: &Proxy, url: &str) -> (u16, String) {
    let answer = ask(proxy.address, get(url, &world.token())).await;
    let (status, rule) = answer.facts();
    (status, rule.to_owned())
}

fn facts(status: u16, rule: &str) -> (u16, String) {
    (status, rule.to_owned())
}

async fn metadata_and_loopback_in_every_spelling_are_refused(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    for (host, rule) in [
        ("169.254.169.254", "metadata"),
        ("2852039166", "metadata"),
        ("0xa9fea9fe", "metadata"),
        ("0251.0376.0251.0376", "metadata"),
        ("[::ffff:169.254.169.254]", "metadata"),
        ("[64:ff9b::a9fe:a9fe]", "metadata"),
        ("[fd00:ec2::254]", "metadata"),
        ("168.63.129.16", "metadata"),
        ("metadata.google.internal", "metadata-name"),
        ("metadata.goog", "metadata-name"),
        ("127.0.0.1", "loopback"),
        ("127.1", "loopback"),
        ("2130706433", "loopback"),
        ("0x7f000001", "loopback"),
        ("0177.0.0.1", "loopback"),
        ("127.0.0.1.", "loopback"),
        ("127.255.255.254", "loopback"),
        ("[::1]", "loopback"),
        ("[0:0:0:0:0:0:0:1]", "loopback"),
        ("[::ffff:127.0.0.1]", "loopback"),
        ("[::ffff:7f00:1]", "loopback"),
        ("[64:ff9b::7f00:1]", "loopback"),
        ("0.0.0.0", "this-network"),
        ("0", "this-network"),
        ("[::]", "this-network"),
        ("10.0.0.1", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "shared"),
        ("[fc00::1]", "unique-local"),
        ("[fe80::1]", "link-local"),
        ("localhost", "local-name"),
        ("localhost.", "local-name"),
        ("LOCALHOST", "local-name"),
        ("x.localhost", "local-name"),
    ] {
        for port in [80, 443] {
            let authority = format!("{host}:{port}");
            assert_eq!(
                tunnel(&world, &proxy, &authority).await,
                facts(403, rule),
                "{authority}"
            );
        }
        let url = format!("http://{host}/");
        assert_eq!(
            request(&world, &proxy, &url).await,
            facts(403, rule),
            "{url}"
        );
    }
    assert!(world.dns.queries().is_empty());
}

async fn names_that_resolve_privately_or_to_both_are_refused_without_a_word_of_the_address(
    shape: Shape,
) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    for (name, addresses, rule) in [
        ("inside.test", &["10.9.8.7"][..], "private"),
        ("mixed.test", &["93.184.216.34", "10.9.8.7"], "private"),
        ("six.test", &["93.184.216.34", "fd00::7"], "unique-local"),
        ("meta.test", &["169.254.169.254"], "metadata"),
        ("loop.test", &["127.9.8.7"], "loopback"),
        ("nat.test", &["64:ff9b::10.9.8.7"], "private"),
    ] {
        world.dns.host(name, addresses);
        let asked = [
            connect(&format!("{name}:443"), &world.token()),
            get(&format!("http://{name}/"), &world.token()),
        ];
        for request in asked {
            let answer = ask(proxy.address, request).await;
            assert_eq!(answer.facts(), (403, rule), "{name}");
            let told = format!("{}{}", answer.head, answer.text());
            assert!(told.contains(name), "{told}");
            for address in ["10.9.8.7", "fd00::7", "169.254", "127.9.8.7", "64:ff9b"] {
                assert!(!told.contains(address), "{told}");
            }
        }
    }
}

async fn names_of_inside_are_refused_without_a_look_up(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    for (host, rule) in [
        ("redis", "single-label"),
        ("db.internal", "local-name"),
        ("printer.local", "local-name"),
        ("kubernetes.default.svc", "local-name"),
        ("1.0.0.127.in-addr.arpa", "local-name"),
        ("hidden.onion", "local-name"),
    ] {
        let authority = format!("{host}:443");
        assert_eq!(
            tunnel(&world, &proxy, &authority).await,
            facts(403, rule),
            "{host}"
        );
    }
    assert!(world.dns.queries().is_empty());
}

async fn bracket_tricks_and_other_authorities_are_malformed(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    let long = format!("{}.test:443", "a.".repeat(300));
    for authority in [
        "[[::1]]:443",
        "[localhost]:443",
        "[127.0.0.1]:443",
        "[::1]]:443",
        "[::1:443",
        "[::1]443",
        "[fe80::1%eth0]:443",
        "[fe80::1%25eth0]:443",
        "::1:443",
        "user@secure.test:443",
        "user:password@secure.test:443",
        "127.0.0.1:443@secure.test:443",
        ":443",
        "secure.test:",
        "secure.test",
        "secure.test:abc",
        "secure.test:-1",
        "secure.test:65536",
        "secure.test:443:80",
        "secure..test:443",
        "%6cocalhost:443",
        "secure.test%00:443",
        "１２７.0.0.1:443",
        "secure。test:443",
        "secure.test :443",
        "http://secure.test:443",
        "/",
        "*",
        &long,
    ] {
        let (status, rule) = tunnel(&world, &proxy, authority).await;
        assert_eq!(status, 400, "{authority} {rule}");
        assert!(!rule.is_empty(), "{authority}");
    }
    assert_eq!(
        tunnel(&world, &proxy, "secure.test:0").await,
        facts(403, "port")
    );
    assert!(world.dns.queries().is_empty());
}

async fn ports_other_than_the_webs_and_an_exemptions_are_refused(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    world.dns.host("public.test", &["93.184.216.34"]);
    for authority in [
        "public.test:22",
        "public.test:25",
        "public.test:8080",
        "public.test:8443",
        "93.184.216.34:3306",
        "[2606:4700::1111]:6379",
    ] {
        assert_eq!(
            tunnel(&world, &proxy, authority).await,
            facts(403, "port"),
            "{authority}"
        );
    }
    // The exemption's host is open on the exemption's port alone.
    let other = format!("index.test:{}", world.secure.port() ^ 1);
    let (status, rule) = tunnel(&world, &proxy, &other).await;
    assert_eq!((status, rule.as_str()), (403, "port"));
    // No exemption by address can open these ports, so that nobody is asked for the names.
    assert!(world.dns.queries().is_empty());
    drop(proxy);
    let only_http = [("AGENTSVILLE__EGRESS__PORTS", "[80]")];
    let proxy = world.proxy(shape, &only_http).await;
    assert_eq!(
        tunnel(&world, &proxy, "public.test:443").await,
        facts(403, "port")
    );
}

async fn exemptions_for_fetch_and_mcp_servers_do_not_open_the_way_out(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    for name in ["fetched.test", "served.test", "closed.test"] {
        let authority = format!("{name}:{}", world.web.port());
        assert_eq!(tunnel(&world, &proxy, &authority).await, facts(403, "port"));
        let url = format!("http://{authority}/");
        assert_eq!(request(&world, &proxy, &url).await, facts(403, "port"));
    }
    assert_eq!(world.web.accepted(), 0);
    // On a port that is open otherwise, it is the address that is refused.
    for name in ["fetched.test", "served.test", "closed.test"] {
        let authority = format!("{name}:443");
        assert_eq!(
            tunnel(&world, &proxy, &authority).await,
            facts(403, "loopback")
        );
    }
}

async fn the_listener_leads_to_no_listener_of_the_village(shape: Shape) {
    let world = World::start().await;
    let everything = r#"[{to = "127.0.0.0/8", for = ["egress"]}, {to = "::/0", for = ["egress"]}]"#;
    let settings = [("AGENTSVILLE__OUTBOUND__ALLOW", everything)];
    let proxy = world.proxy(shape, &settings).await;
    let port = proxy.address.port();
    for host in ["127.0.0.1", "2130706433", "[::ffff:127.0.0.1]", "0.0.0.0"] {
        let (status, rule) = tunnel(&world, &proxy, &format!("{host}:{port}")).await;
        assert_eq!(status, 403, "{host}");
        assert_eq!(rule, "own-listener", "{host}");
    }
}

async fn hosts_that_the_pass_leaves_out_are_refused_first(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    world.web.file("/", "hello");
    let token = world.token_for(&["Index.TEST.", "*.allowed.test"]);
    let index = format!("http://{}/", world.index());
    let answer = ask(proxy.address, get(&index, &token)).await;
    assert_eq!((answer.status, answer.text()), (200, "hello".to_owned()));
    let before = world.dns.queries().len();
    for host in [
        "secure.test",
        "index.test.evil.test",
        "evilindex.test",
        "allowed.test",
        "127.0.0.1",
        "169.254.169.254",
        "localhost",
    ] {
        let asked = [
            connect(&format!("{host}:443"), &token),
            get(&format!("http://{host}/"), &token),
        ];
        for request in asked {
            let answer = ask(proxy.address, request).await;
            assert_eq!(answer.facts(), (403, "host-not-allowed"), "{host}");
        }
    }
    assert_eq!(world.dns.queries().len(), before, "none was looked up");
    // The guard still judges what the pass lets through.
    let inside = world.token_for(&["10.0.0.1", "localhost"]);
    for (authority, rule) in [("10.0.0.1:80", "private"), ("localhost:80", "local-name")] {
        let answer = ask(proxy.address, connect(authority, &inside)).await;
        assert_eq!(answer.facts(), (403, rule));
    }
    let unreadable = world.token_for(&["*"]);
    let answer = ask(proxy.address, connect("secure.test:443", &unreadable)).await;
    assert_eq!(answer.facts(), (407, "token-hosts"));
}

async fn forms_of_no_proxy_are_refused(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    let secure = format!("https://{}/", world.secure());
    for (url, rule) in [
        ("/", "form"),
        ("*", "form"),
        ("index.test:80", "form"),
        (&*secure, "scheme"),
        ("ftp://index.test/", "scheme"),
        ("ws://index.test/", "scheme"),
        ("http://user:pw@index.test/", "userinfo"),
        ("http://[localhost]/", "malformed"),
        ("http://index.test:/", "malformed"),
        ("http://index.test\\@secure.test/", "malformed"),
    ] {
        assert_eq!(
            request(&world, &proxy, url).await,
            facts(400, rule),
            "{url}"
        );
    }
    let long = format!("http://index.test/{}", "a".repeat(9_000));
    assert_eq!(
        request(&world, &proxy, &long).await,
        facts(400, "url-too-long")
    );
    let longer = format!("http://index.test/{}", "a".repeat(70_000));
    assert_eq!(
        request(&world, &proxy, &longer).await,
        facts(431, "head-too-long")
    );
}

async fn shapes_of_smuggling_are_refused(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    world.web.file("/", "hello");
    let (url, token) = (format!("http://{}/", world.index()), world.token());
    let smuggled = format!("0\r\n\r\nGET {url}smuggled HTTP/1.1\r\n\r\n");
    let shapes = [
        format!("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding: chunked, identity\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding:\x0bchunked\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding : chunked\r\n\r\n{smuggled}"),
        format!("X: y\r\n Transfer-Encoding: chunked\r\n\r\n{smuggled}"),
        format!("X: y\nTransfer-Encoding: chunked\n\n{smuggled}"),
        "Content-Length: 1\r\nContent-Length: 2\r\n\r\n".to_owned(),
        "Content-Length: -1\r\n\r\n".to_owned(),
        "Host: other.test\r\n\r\n".to_owned(),
    ];
    for lines in &shapes {
        let head = format!(
            "POST {url} HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Bearer {token}\r\n{lines}"
        );
        // As a connection's first request, which is closed with a reason.
        let mut wire = Wire::to(proxy.address).await;
        wire.say(&head).await;
        assert_eq!(wire.answer().await.facts(), (400, "malformed"), "{lines:?}");
        assert_eq!(wire.rest().await, b"", "{lines:?}");
    }
    assert!(world.web.asked().is_empty(), "{:?}", world.web.asked());
    for lines in &shapes {
        // As a later one, behind one that is still answered.
        let head = format!(
            "POST {url} HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Bearer {token}\r\n{lines}"
        );
        let mut wire = Wire::to(proxy.address).await;
        wire.say(format!("{}{head}", get(&url, &token))).await;
        assert_eq!(wire.answer().await.text(), "hello", "{lines:?}");
        assert_eq!(wire.answer().await.facts(), (400, "malformed"), "{lines:?}");
        assert_eq!(wire.rest().await, b"", "{lines:?}");
    }
    let asked = world.web.asked();
    assert_eq!(asked.len(), shapes.len());
    assert!(asked.iter().all(|asked| asked.method == "GET"), "{asked:?}");
}

async fn a_tunnel_with_a_body_is_malformed(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    let (secure, token) = (world.secure(), world.token());
    for body in [
        "Content-Length: 3\r\n\r\nabc",
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ] {
        let request =
            format!("CONNECT {secure} HTTP/1.1\r\nProxy-Authorization: Bearer {token}\r\n{body}");
        let answer = ask(proxy.address, request).await;
        assert_eq!(answer.facts(), (400, "malformed"));
    }
    assert_eq!(world.secure.accepted(), 0);
}

async fn a_client_that_still_uploads_hears_that_it_is_refused(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    let token = world.token();
    let body = vec![b'x'; 6 * 1_024 * 1_024];
    for (identity, facts) in [
        (
            format!("Proxy-Authorization: Bearer {token}\r\n"),
            (403, "private"),
        ),
        (String::new(), (407, "token-missing")),
    ] {
        let head = format!(
            "POST http://10.0.0.1/ HTTP/1.1\r\nHost: x\r\n{identity}Content-Length: {}\r\n\r\n",
            body.len()
        );
        let mut wire = Wire::to(proxy.address).await;
        wire.say(head).await;
        // It reads nothing before all is said.
        wire.say(&body).await;
        let answer = wire.answer().await;
        assert_eq!(answer.facts(), facts);
        assert_eq!(answer.header("connection"), Some("close"));
    }
}

async fn an_expectation_that_nobody_knows_fails(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    let url = format!("http://{}/", world.index());
    let request = get_with(&url, &world.token(), "Expect: the-unexpected\r\n");
    assert_eq!(ask(proxy.address, request).await.facts(), (417, "expect"));
    assert!(world.web.asked().is_empty());
}

async fn a_request_behind_a_refused_tunnel_is_never_read(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    let url = format!("http://{}/", world.index());
    for refused in [
        connect("10.0.0.1:443", &world.token()),
        connect("nowhere.test:443", &world.token()),
        "CONNECT secure.test:443 HTTP/1.1\r\n\r\n".to_owned(),
    ] {
        let mut wire = Wire::to(proxy.address).await;
        wire.say(format!("{refused}{}", get(&url, &world.token())))
            .await;
        let answer = wire.answer().await;
        assert!(answer.status >= 400, "{answer:?}");
        assert_eq!(answer.header("connection"), Some("close"));
        assert_eq!(wire.rest().await, b"");
    }
    assert!(world.web.asked().is_empty());
}

async fn a_name_that_points_inside_at_the_second_tunnel_is_refused(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    let inside = ["10.0.0.1"];
    let (open, closed) = (Dns::addresses(&["127.0.0.1"]), Dns::addresses(&inside));
    for name in ["tunnels.test", "requests.test"] {
        world
            .dns
            .script(name, Family::V4, [open.clone(), closed.clone()]);
    }
    // The address is exempt on this port, so that the first answer is one that may be connected to.
    let authority = format!("tunnels.test:{}", world.secure.port());
    let first = ask(proxy.address, connect(&authority, &world.token()));
    assert_eq!(first.await.status, 200);
    assert_eq!(
        tunnel(&world, &proxy, &authority).await,
        facts(403, "private")
    );
    // And over one connection, whose server is still connected.
    let url = format!("http://requests.test:{}/", world.secure.port());
    let mut wire = Wire::to(proxy.address).await;
    wire.say(get_with(&url, &world.token(), "")).await;
    let first = wire.answer().await;
    assert_eq!(first.facts(), (502, "bad-response"), "it speaks TLS");
    wire.say(get_with(&url, &world.token(), "")).await;
    assert_eq!(wire.answer().await.facts(), (403, "private"));
}

async fn what_cannot_be_reached_is_said_with_its_reason(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    let dead = format!("dead.test:{}", world.web.port());
    for (authority, expected) in [
        (&*dead, facts(502, "unreachable")),
        ("nowhere.test:443", facts(502, "unresolvable")),
    ] {
        assert_eq!(tunnel(&world, &proxy, authority).await, expected);
        let url = format!("http://{}/", authority.trim_end_matches(":443"));
        assert_eq!(request(&world, &proxy, &url).await, expected);
    }
}
