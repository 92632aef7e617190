//! Answers as no proper server gives them: each is read, or ends in a sentence, and none goes on for ever.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Version};
use outbound::{Body, Connector, Consumer, End, Error};
use testkit::{
    dns::ScriptedDns,
    origin::{Act, Authority, RawOrigin},
};

use crate::support::{connector, deadline, exempt, target, text};

type Outcome = Result<http::Response<Body>, Error>;

async fn open_connector(authority: &Authority) -> Connector {
    let dns = ScriptedDns::start().await;
    connector(
        &dns,
        authority,
        vec![exempt("127.0.0.1", &[Consumer::Fetch])],
    )
}

/// What a request of this method gets from a server without TLS that does this once it has the request.
async fn ask(method: Method, acts: &[Act]) -> Outcome {
    let mut script = vec![Act::hear("\r\n\r\n")];
    script.extend_from_slice(acts);
    let origin = RawOrigin::plain(vec![script]).await;
    let connector = open_connector(&Authority::new()).await;
    let url = format!("http://{}/", origin.address());
    let request = Request::builder()
        .method(method)
        .uri(&url)
        .body(Bytes::new())
        .expect("a request");
    connector
        .request(&target(&url), Consumer::Fetch, request, deadline())
        .await
}

async fn get(bytes: &str) -> Outcome {
    ask(Method::GET, &[Act::say(bytes.to_owned()), Act::Close]).await
}

/// Why an answer was refused; the sentence without the host.
fn why(outcome: Outcome) -> String {
    match outcome {
        Err(Error::Http { why, .. }) => why,
        other => panic!("not refused for its HTTP: {other:?}"),
    }
}

/// What was read of the body, and how that ended.
async fn body(outcome: Outcome) -> (String, End) {
    let (bytes, end) = outcome
        .expect("a response")
        .into_body()
        .read_at_most(1_024 * 1_024, deadline())
        .await
        .expect("a body");
    (String::from_utf8(bytes).expect("text"), end)
}

#[tokio::test]
async fn answers_that_are_unusual_and_proper_are_read() {
    let proper = [
        // A length by the connection's end.
        "HTTP/1.0 200 OK\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello",
        "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\nhello",
        "HTTP/1.1 200\r\ncontent-length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\ncontent-length: 5\n\nhello",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello and more",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n2;a=b;c=\"d\"\r\nhe\r\n0003\r\nllo\r\n0\r\nexpires: never\r\n\r\n",
        // Interim answers before it.
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    ];
    for answer in proper {
        assert_eq!(
            body(get(answer).await).await,
            ("hello".to_owned(), End::Complete),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn answers_without_a_body_have_none_whatever_their_length_says() {
    let announced = "content-length: 1000\r\n\r\n";
    let outcome = ask(
        Method::HEAD,
        &[Act::say(format!("HTTP/1.1 200 OK\r\n{announced}"))],
    )
    .await
    .expect("a response");
    assert_eq!(outcome.headers()["content-length"], "1000");
    assert_eq!(text(outcome).await, "");
    for status in ["204 No Content", "304 Not Modified"] {
        let act = Act::say(format!("HTTP/1.1 {status}\r\n{announced}"));
        let outcome = ask(Method::GET, &[act]).await;
        assert_eq!(body(outcome).await, (String::new(), End::Complete));
    }
}

#[tokio::test]
async fn a_body_that_ends_before_its_announced_end_is_broken() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n-1\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\nfffffffffffffffff\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalfX\r\n0\r\n\r\n",
    ] {
        assert_eq!(
            body(get(answer).await).await,
            ("half".to_owned(), End::Broken),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn answers_whose_length_contradicts_itself_are_refused() {
    for lengths in [
        "content-length: 5\r\ncontent-length: 6",
        "content-length: 5, 6",
        "content-length: -1",
        "content-length: +5",
        "content-length: 0x5",
        "content-length: 5 5",
        "content-length: 99999999999999999999999",
        "content-length:",
    ] {
        let said = why(get(&format!("HTTP/1.1 200 OK\r\n{lengths}\r\n\r\nhello")).await);
        assert!(said.contains("content-length"), "{lengths:?}: {said}");
    }
}

#[tokio::test]
async fn heads_that_are_not_in_proper_form_are_refused() {
    for head in [
        // A folded line, a bare carriage return, a NUL, a space before the colon, no colon.
        "HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n",
        "HTTP/1.1 200 OK\r\na: b\rset-cookie: c\r\n\r\n",
        "HTTP/1.1 200 OK\r\na: b\0c\r\n\r\n",
        "HTTP/1.1 200 OK\r\na : b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 099 Odd\r\n\r\n",
        "HTTP/3.0 200 OK\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "hello, I am a web page",
        "220 smtp.test ESMTP\r\n",
        "",
    ] {
        let said = why(get(head).await);
        assert!(!said.is_empty() && !said.contains('\r'), "{head:?}: {said}");
    }
}

#[tokio::test]
async fn transfer_codings_other_than_chunks_are_refused() {
    for coding in ["gzip, chunked", "gzip", "identity", "chunked, chunked"] {
        let outcome = get(&format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: {coding}\r\n\r\n0\r\n\r\n"
        ))
        .await;
        assert!(matches!(outcome, Err(Error::Http { .. })), "{coding}");
    }
    let twice = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    assert!(matches!(get(twice).await, Err(Error::Http { .. })));
    let old = "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    assert!(matches!(get(old).await, Err(Error::Http { .. })));
}

#[tokio::test]
async fn a_switch_to_another_protocol_is_refused() {
    let said = why(get(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    )
    .await);
    assert_eq!(
        said,
        "it switched to another protocol (status 101), which nobody asked for"
    );
}

#[tokio::test]
async fn heads_that_do_not_end_are_ended() {
    for (head, over_and_over) in [
        // One line without end, lines without end, interim answers without end, chunk extensions, trailers.
        ("HTTP/1.1 200 OK\r\nx: ", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        ("HTTP/1.1 200 OK\r\n", "a: b\r\n"),
        ("HTTP/1.1 200 ", "OK and "),
        ("", "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"),
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
        ("", "\r\n"),
    ] {
        let acts = [Act::say(head), Act::babble(over_and_over.repeat(100))];
        let said = why(ask(Method::GET, &acts).await);
        assert!(!said.is_empty(), "{over_and_over:?}");
    }
}

#[tokio::test]
async fn bodies_that_say_nothing_without_end_are_ended() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for over_and_over in [
        "1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nx\r\n",
        "0\r\na: b\r\n",
    ] {
        let acts = [Act::say(head), Act::babble(over_and_over.repeat(100))];
        let (_read, end) = body(ask(Method::GET, &acts).await).await;
        assert_eq!(end, End::Broken, "{over_and_over:?}");
    }
    let acts = [
        Act::say(format!("{head}0\r\n")),
        Act::babble("a: b\r\n".repeat(100)),
    ];
    let (_read, end) = body(ask(Method::GET, &acts).await).await;
    assert_eq!(end, End::Broken);
}

#[tokio::test]
async fn a_head_that_drips_is_given_up_at_the_deadline() {
    let mut acts = vec![Act::say("HTTP/1.1 200 OK\r\n")];
    for _ in 0..1_000 {
        acts.push(Act::say("a"));
        acts.push(Act::Pause(Duration::from_millis(20)));
    }
    let mut script = vec![Act::hear("\r\n\r\n")];
    script.append(&mut acts);
    let origin = RawOrigin::plain(vec![script]).await;
    let connector = open_connector(&Authority::new()).await;
    let url = format!("http://{}/", origin.address());
    let request = Request::get(&url).body(Bytes::new()).expect("a request");
    let soon = tokio::time::Instant::now() + Duration::from_millis(200);
    let outcome = connector
        .request(&target(&url), Consumer::Fetch, request, soon)
        .await;
    assert!(
        matches!(outcome, Err(Error::TimedOut { .. })),
        "{outcome:?}"
    );
}

/// A frame of HTTP/2 (RFC 9113 section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload");
    let mut bytes = length.to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const ACK_OR_END_OF_STREAM: u8 = 1;
const END_OF_HEADERS: u8 = 4;
const PADDED: u8 = 8;
/// `:status 200` in HPACK's static table (RFC 7541 appendix A).
const OK: &[u8] = &[0x88];
/// `:status 103`, the name from that table.
const EARLY_HINTS: &[u8] = &[0x08, 3, b'1', b'0', b'3'];

fn two(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Act {
    Act::say(frame(kind, flags, stream, payload))
}

/// What a GET over HTTP/2 gets from a server that does this once it has the request.
async fn ask_two(acts: &[Act]) -> Outcome {
    let authority = Authority::new();
    let mut script = vec![
        two(SETTINGS, 0, 0, &[]),
        // HEADERS on stream 1 that end both headers and stream.
        Act::hear(vec![HEADERS, 5, 0, 0, 0, 1]),
        two(SETTINGS, ACK_OR_END_OF_STREAM, 0, &[]),
    ];
    script.extend_from_slice(acts);
    let origin = RawOrigin::tls(&authority, &["127.0.0.1"], "h2", vec![script]).await;
    let connector = open_connector(&authority).await;
    let url = format!("https://{}/", origin.address());
    let request = Request::get(&url).body(Bytes::new()).expect("a request");
    connector
        .request(&target(&url), Consumer::Fetch, request, deadline())
        .await
}

#[tokio::test]
async fn frames_that_make_an_answer_are_read() {
    let outcome = ask_two(&[
        two(HEADERS, END_OF_HEADERS, 1, EARLY_HINTS),
        two(HEADERS, END_OF_HEADERS, 1, OK),
        two(DATA, 0, 1, b""),
        two(DATA, 0, 1, b"hel"),
        two(PING, 0, 0, &[0; 8]),
        two(DATA, ACK_OR_END_OF_STREAM, 1, b"lo"),
    ])
    .await;
    assert_eq!(
        outcome.as_ref().map(http::Response::version),
        Ok(Version::HTTP_2)
    );
    assert_eq!(body(outcome).await, ("hello".to_owned(), End::Complete));
}

#[tokio::test]
async fn floods_of_frames_before_the_answer_are_ended() {
    let header = {
        // A literal header `a: bbbb…` of 1,003 bytes, not indexed: the length in HPACK's seven-bit prefix form.
        let mut bytes = vec![0x00, 1, b'a', 0x7f, 0xe9, 0x06];
        bytes.extend([b'b'; 1_000]);
        bytes
    };
    let floods = [
        ("settings", frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0])),
        ("pings", frame(PING, 0, 0, &[0; 8])),
        ("interim", frame(HEADERS, END_OF_HEADERS, 1, EARLY_HINTS)),
        ("unknown frames", frame(0xbb, 0, 0, &[0; 100])),
        ("windows", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("continuations", frame(CONTINUATION, 0, 1, &header)),
        ("empty continuations", frame(CONTINUATION, 0, 1, &[])),
    ];
    for (name, flood) in floods {
        let mut acts = Vec::new();
        if name.ends_with("continuations") {
            acts.push(two(HEADERS, 0, 1, OK));
        }
        acts.push(Act::babble(flood.repeat(100)));
        let said = why(ask_two(&acts).await);
        assert!(!said.is_empty(), "{name}");
    }
}

#[tokio::test]
async fn floods_of_frames_within_the_body_are_ended() {
    let mut padded = vec![255, b'x'];
    padded.extend([0; 255]);
    let floods = [
        ("pings", frame(PING, 0, 0, &[0; 8])),
        ("empty data", frame(DATA, 0, 1, b"")),
        ("padding", frame(DATA, PADDED, 1, &padded)),
        ("settings", frame(SETTINGS, 0, 0, &[])),
    ];
    for (name, flood) in floods {
        let acts = [
            two(HEADERS, END_OF_HEADERS, 1, OK),
            Act::babble(flood.repeat(100)),
        ];
        let (_read, end) = body(ask_two(&acts).await).await;
        assert_eq!(end, End::Broken, "{name}");
    }
}

#[tokio::test]
async fn frames_that_break_the_rules_are_refused() {
    for (name, acts) in [
        (
            "a push",
            vec![two(PUSH_PROMISE, END_OF_HEADERS, 1, &[0, 0, 0, 2, 0x82])],
        ),
        ("a reset", vec![two(RESET, 0, 1, &[0, 0, 0, 2])]),
        (
            "a farewell",
            vec![two(GO_AWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 0])],
        ),
        (
            "a frame of another stream",
            vec![two(HEADERS, END_OF_HEADERS, 3, OK)],
        ),
        (
            "a window beyond its bound",
            vec![two(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff])],
        ),
        (
            "a window of nothing",
            vec![two(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 0])],
        ),
        (
            "settings beyond their bound",
            vec![two(SETTINGS, 0, 0, &[0, 4, 0xff, 0xff, 0xff, 0xff])],
        ),
        ("no status", vec![two(HEADERS, END_OF_HEADERS, 1, &[0x82])]),
        (
            "a table index that does not exist",
            vec![two(HEADERS, END_OF_HEADERS, 1, &[0xff, 0xff, 0xff])],
        ),
        (
            "a frame that is too long",
            vec![Act::say(vec![0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1])],
        ),
        (
            "an answer in HTTP/1.1",
            vec![Act::say("HTTP/1.1 200 OK\r\n\r\n"), Act::Close],
        ),
    ] {
        let said = why(ask_two(&acts).await);
        assert!(!said.is_empty(), "{name}");
    }
}

/// `SETTINGS_MAX_CONCURRENT_STREAMS` and `SETTINGS_INITIAL_WINDOW_SIZE` (RFC 9113 section 6.5.2), each nothing.
#[tokio::test]
async fn a_server_that_gives_no_room_is_waited_for_until_the_deadline_only() {
    let authority = Authority::new();
    let connector = open_connector(&authority).await;
    for setting in [[0, 3, 0, 0, 0, 0], [0, 4, 0, 0, 0, 0]] {
        let script = vec![two(SETTINGS, 0, 0, &setting)];
        let origin = RawOrigin::tls(&authority, &["127.0.0.1"], "h2", vec![script]).await;
        let target = target(&format!("https://{}/", origin.address()));
        let connection = connector
            .connect(&target, Consumer::Fetch, deadline())
            .await
            .expect("a connection");
        let request = Request::post("/")
            .body(Bytes::from_static(b"hello"))
            .expect("a request");
        let soon = tokio::time::Instant::now() + Duration::from_millis(200);
        let outcome = connection.send(request, soon).await;
        assert!(
            matches!(outcome, Err(Error::TimedOut { .. })),
            "{outcome:?}"
        );
    }
}

#[tokio::test]
async fn more_data_than_the_window_allows_is_cut_off() {
    let piece = frame(DATA, 0, 1, &[b'x'; 16_384]);
    let outcome = ask_two(&[
        two(HEADERS, END_OF_HEADERS, 1, OK),
        // 512 KiB at once, into a window of 256 KiB that nobody empties.
        Act::say(piece.repeat(32)),
    ])
    .await
    .expect("a response");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (read, end) = outcome
        .into_body()
        .read_at_most(1_024 * 1_024, deadline())
        .await
        .expect("a body");
    assert_eq!(end, End::Broken);
    assert!(read.len() <= 256 * 1_024, "{}", read.len());
}

#[tokio::test]
async fn more_header_lines_than_the_bound_are_refused_over_http_2_too() {
    let mut headers = OK.to_vec();
    for _ in 0..129 {
        headers.extend([0x00, 1, b'a', 1, b'b']);
    }
    let outcome = ask_two(&[two(HEADERS, 5, 1, &headers)]).await;
    assert_eq!(
        why(outcome),
        "its answer has 129 header lines, and at most 128 are read"
    );
}
