//! Answers that point inside in ways that no library's server would let one write.

use std::net::{Ipv6Addr, SocketAddr};

use testkit::origin::Reply;

use super::{
    raw,
    setup::{Verdict, World, in_the_internet, page, refusal, verdict},
};

const PUBLIC: &str = "93.184.216.34";
/// The ports of the servers count from here.
const FIRST_PORT: u16 = 20_001;

/// What a server says, what comes of it, and why.
type Row = (&'static str, &'static [u8], Verdict);

const ROWS: [Row; 22] = [
    (
        "another way to the same service",
        b"HTTP/1.1 200 OK\r\nalt-svc: h2=\"10.0.0.1:443\"; ma=86400\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhere\n",
        Verdict::Allow,
    ),
    (
        "places that are not redirects",
        b"HTTP/1.1 200 OK\r\nlocation: https://10.0.0.1/\r\ncontent-location: https://10.0.0.1/\r\nrefresh: 0;url=https://10.0.0.1/\r\nlink: <https://10.0.0.1/>; rel=canonical\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhere\n",
        Verdict::Allow,
    ),
    (
        "a log-in that is asked for",
        b"HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Basic realm=x\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhere\n",
        Verdict::Allow,
    ),
    (
        "a service that asks to be tried again",
        b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\nlocation: https://10.0.0.1/\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhere\n",
        Verdict::Allow,
    ),
    (
        "a server that says it is the wrong one",
        b"HTTP/1.1 421 Misdirected Request\r\nlocation: https://10.0.0.1/\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhere\n",
        Verdict::Allow,
    ),
    (
        "a proxy that is asked for",
        b"HTTP/1.1 305 Use Proxy\r\nlocation: https://10.0.0.1/\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhere\n",
        Verdict::Allow,
    ),
    (
        "hints, and then a redirect inside",
        b"HTTP/1.1 103 Early Hints\r\nlocation: https://other.odd.test/\r\n\r\nHTTP/1.1 302 Found\r\nlocation: https://10.0.0.1/\r\ncontent-length: 0\r\n\r\n",
        Verdict::Block,
    ),
    (
        "two places, the one inside first",
        b"HTTP/1.1 302 Found\r\nlocation: https://10.0.0.1/\r\nlocation: https://other.odd.test/\r\ncontent-length: 0\r\n\r\n",
        Verdict::Block,
    ),
    (
        "spaces and tabs around the place",
        b"HTTP/1.1 302 Found\r\nlocation: \t https://127.0.0.1/ \t\r\ncontent-length: 0\r\n\r\n",
        Verdict::Block,
    ),
    (
        "digits of full width, unescaped",
        b"HTTP/1.1 302 Found\r\nlocation: https://\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1/\r\ncontent-length: 0\r\n\r\n",
        Verdict::Block,
    ),
    (
        "ideographic full stops, unescaped",
        b"HTTP/1.1 302 Found\r\nlocation: https://127\xe3\x80\x820\xe3\x80\x820\xe3\x80\x821/\r\ncontent-length: 0\r\n\r\n",
        Verdict::Block,
    ),
    (
        "digits in circles, unescaped",
        b"HTTP/1.1 302 Found\r\nlocation: https://\xe2\x91\xa0\xe2\x91\xa1\xe2\x91\xa6.0.0.1/\r\ncontent-length: 0\r\n\r\n",
        Verdict::Block,
    ),
    (
        "a soft hyphen in localhost, unescaped",
        b"HTTP/1.1 302 Found\r\nlocation: https://local\xc2\xadhost/\r\ncontent-length: 0\r\n\r\n",
        Verdict::Block,
    ),
    (
        "no path after a mapped address",
        b"HTTP/1.1 302 Found\r\nLOCATION: https://[::ffff:127.0.0.1]\r\ncontent-length: 0\r\n\r\n",
        Verdict::Block,
    ),
    (
        "a reason phrase that looks like a redirect",
        b"HTTP/1.1 302 OK 200\r\nlocation: //10.0.0.1/\r\ncontent-length: 0\r\n\r\n",
        Verdict::Block,
    ),
    (
        "bytes that are no text in the host",
        b"HTTP/1.1 302 Found\r\nlocation: https://127.0.0.1\xff\xfe/\r\ncontent-length: 0\r\n\r\n",
        Verdict::Error,
    ),
    (
        "a NUL in the host",
        b"HTTP/1.1 302 Found\r\nlocation: https://127.0.0.1\0.odd.test/\r\ncontent-length: 0\r\n\r\n",
        Verdict::Error,
    ),
    (
        "a place on two lines",
        b"HTTP/1.1 302 Found\r\nlocation: https://127.0.0.1\r\n .odd.test/\r\ncontent-length: 0\r\n\r\n",
        Verdict::Error,
    ),
    (
        "a place only in the trailers",
        b"HTTP/1.1 302 Found\r\ntransfer-encoding: chunked\r\ntrailer: location\r\n\r\n0\r\nlocation: https://10.0.0.1/\r\n\r\n",
        Verdict::Error,
    ),
    (
        "a place only as where the content is",
        b"HTTP/1.1 302 Found\r\ncontent-location: https://10.0.0.1/\r\ncontent-length: 0\r\n\r\n",
        Verdict::Error,
    ),
    (
        "another protocol from here on",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\nlocation: https://10.0.0.1/\r\n\r\n",
        Verdict::Error,
    ),
    (
        "a status that HTTP does not have",
        b"HTTP/1.1 3020 Found\r\nlocation: https://10.0.0.1/\r\ncontent-length: 0\r\n\r\n",
        Verdict::Error,
    ),
];

#[test]
fn no_odd_answer_leads_inside() {
    in_the_internet(|internet| async move {
        let world = World::start(internet, &["*.odd.test".to_owned()]).await;
        for name in ["www.odd.test", "other.odd.test"] {
            world.host(name, &[PUBLIC]);
        }
        let elsewhere = Reply::text("followed");
        world.web.serve("/", elsewhere);
        let proxy = world.fetch_proxy().await;
        let mut servers = Vec::new();
        for (port, (what, answer, expected)) in (FIRST_PORT..).zip(ROWS) {
            let tls = world.authority.server_config(&["www.odd.test"]);
            let at = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
            let server = raw::https_server(tls, at, answer);
            servers.push(world.internet.world.spawn(server).await);
            let outcome = proxy.fetch(&format!("https://www.odd.test:{port}/")).await;
            assert_eq!(verdict(&outcome), expected, "{what}: {outcome:?}");
            match expected {
                Verdict::Allow => assert_eq!(page(&outcome).trim(), "here", "{what}"),
                Verdict::Block => assert_eq!(refusal(outcome).hop, 1, "{what}"),
                Verdict::Error => assert_eq!(refusal(outcome).hop, 0, "{what}"),
            }
        }
        assert_eq!(world.destinations(), [], "somebody was led on");
    });
}
