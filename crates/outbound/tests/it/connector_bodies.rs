//! Bodies of requests, and what a request may not say.

use std::{convert::Infallible, pin::Pin, time::Duration};

use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, Request};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt as _, Full, StreamBody};
use outbound::{Connector, Consumer, Error, RequestBody};
use testkit::{
    dns::ScriptedDns,
    origin::{Act, Authority, RawOrigin, Reply, TlsOrigin},
};

use crate::support::{connector, deadline, exempt, target, text};

async fn open_connector(authority: &Authority) -> Connector {
    let dns = ScriptedDns::start().await;
    connector(&dns, authority, vec![exempt("127.0.0.1", &[Consumer::Mcp])])
}

/// What a server without TLS heard of a request.
async fn heard<B: Into<RequestBody>>(request: http::request::Builder, body: B) -> String {
    let origin = RawOrigin::plain(vec![vec![
        Act::hear("\r\n\r\n"),
        Act::Pause(Duration::from_millis(50)),
        Act::say("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
    ]])
    .await;
    let connector = open_connector(&Authority::new()).await;
    let url = target(&format!("http://{}/", origin.address()));
    let request = request.body(body).expect("a request");
    connector
        .request(&url, Consumer::Mcp, request, deadline())
        .await
        .expect("a response");
    origin
        .heard()
        .concat()
        .replace(&origin.address().to_string(), "HOST")
}

fn pieces(pieces: &'static [&'static str]) -> RequestBody {
    let frames = pieces
        .iter()
        .map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::from_static(piece.as_bytes()))));
    RequestBody::streamed(StreamBody::new(stream::iter(frames)))
}

#[tokio::test]
async fn a_request_is_framed_by_its_body_alone() {
    assert_eq!(
        heard(Request::get("/a?b"), Bytes::new()).await,
        "GET /a?b HTTP/1.1\r\nhost: HOST\r\n\r\n"
    );
    assert_eq!(
        heard(Request::post("/"), Bytes::from_static(b"hello")).await,
        "POST / HTTP/1.1\r\nhost: HOST\r\ncontent-length: 5\r\n\r\nhello"
    );
    assert_eq!(
        heard(Request::post("/"), pieces(&["hel", "lo"])).await,
        "POST / HTTP/1.1\r\nhost: HOST\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
    );
    let exact = RequestBody::streamed(Full::new(Bytes::from_static(b"hello")));
    assert_eq!(
        heard(Request::put("/"), exact).await,
        "PUT / HTTP/1.1\r\nhost: HOST\r\ncontent-length: 5\r\n\r\nhello"
    );
}

#[tokio::test]
async fn a_caller_cannot_frame_a_request_or_speak_for_the_connection() {
    let request = Request::post("https://elsewhere.test:1/a")
        .header("host", "elsewhere.test")
        .header("content-length", "1000")
        .header("transfer-encoding", "chunked")
        .header("connection", "keep-alive, x-hop, x-other")
        .header("keep-alive", "timeout=1000")
        .header("proxy-connection", "keep-alive")
        .header("proxy-authorization", "Bearer secret")
        .header("upgrade", "websocket")
        .header("expect", "100-continue")
        .header("te", "trailers")
        .header("trailer", "x-late")
        .header("x-hop", "gone")
        .header("x-kept", "here");
    assert_eq!(
        heard(request, Bytes::from_static(b"hello")).await,
        "POST /a HTTP/1.1\r\nx-kept: here\r\nhost: HOST\r\ncontent-length: 5\r\n\r\nhello"
    );
}

#[tokio::test]
async fn over_http_2_a_caller_cannot_either() {
    let authority = Authority::new();
    let origin = TlsOrigin::start(&authority, &["127.0.0.1"]).await;
    origin.serve("/a", Reply::text("hello"));
    let connector = open_connector(&authority).await;
    let url = format!("https://{}/a", origin.address());
    let request = Request::post("http://elsewhere.test:1/a")
        .version(http::Version::HTTP_11)
        .header("host", "elsewhere.test")
        .header("content-length", "1000")
        .header("transfer-encoding", "chunked")
        .header("connection", "x-hop")
        .header("upgrade", "websocket")
        .header("te", "gzip")
        .header("x-hop", "gone")
        .header("x-kept", "here")
        .body(Bytes::from_static(b"hello"))
        .expect("a request");
    let response = connector
        .request(&target(&url), Consumer::Mcp, request, deadline())
        .await
        .expect("a response");
    assert_eq!(text(response).await, "hello");
    let seen = origin.requests().remove(0);
    assert_eq!(seen.host, origin.address().to_string());
    let mut headers: Vec<(&str, &[u8])> = seen
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    headers.sort_unstable();
    assert_eq!(
        headers,
        [
            ("content-length", b"5".as_slice()),
            ("x-kept", b"here".as_slice())
        ]
    );
}

#[tokio::test]
async fn a_request_that_would_open_a_tunnel_is_not_sent() {
    let origin = RawOrigin::plain(vec![]).await;
    let connector = open_connector(&Authority::new()).await;
    let url = target(&format!("http://{}/", origin.address()));
    let request = Request::connect("inside.test:80")
        .body(Bytes::new())
        .expect("a request");
    let outcome = connector
        .request(&url, Consumer::Mcp, request, deadline())
        .await;
    assert!(
        matches!(outcome, Err(Error::Unsendable { .. })),
        "{outcome:?}"
    );
    assert_eq!(origin.heard().concat(), "");
}

#[tokio::test]
async fn a_body_that_fails_while_it_is_sent_breaks_the_request_off() {
    for protocol in ["h2", "http/1.1"] {
        let authority = Authority::new();
        let anywhere = ([127, 0, 0, 1], 0).into();
        let origin =
            TlsOrigin::start_speaking(&authority, &["127.0.0.1"], anywhere, &[protocol]).await;
        origin.serve("/", Reply::text("late").after(Duration::from_hours(1)));
        let connector = open_connector(&authority).await;
        let url = format!("https://{}/", origin.address());
        let frames = [
            Ok(Frame::data(Bytes::from_static(b"half"))),
            Err(std::io::Error::other("the disk is gone")),
        ];
        let body = RequestBody::streamed(StreamBody::new(stream::iter(frames)));
        let request = Request::post(&url).body(body).expect("a request");
        let outcome = connector
            .request(&target(&url), Consumer::Mcp, request, deadline())
            .await;
        assert_eq!(
            outcome.err(),
            Some(Error::Unsendable {
                host: "127.0.0.1".to_owned(),
                why: "its body broke off: the disk is gone".to_owned(),
            }),
            "{protocol}"
        );
    }
}

#[tokio::test]
async fn an_answer_is_read_while_the_request_is_still_being_sent() {
    let origin = RawOrigin::plain(vec![vec![
        Act::hear("one"),
        Act::say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nuno\r\n"),
        Act::hear("two"),
        Act::say("3\r\ndos\r\n0\r\n\r\n"),
    ]])
    .await;
    let connector = open_connector(&Authority::new()).await;
    let url = format!("http://{}/", origin.address());
    let (sender, receiver) = tokio::sync::mpsc::channel::<Bytes>(1);
    let frames = stream::unfold(receiver, |mut receiver| async move {
        let bytes = receiver.recv().await?;
        Some((Ok::<_, Infallible>(Frame::data(bytes)), receiver))
    });
    let body = RequestBody::streamed(StreamBody::new(frames));
    let request = Request::post(&url).body(body).expect("a request");
    sender.send(Bytes::from_static(b"one")).await.expect("room");
    let mut answer = connector
        .request(&target(&url), Consumer::Mcp, request, deadline())
        .await
        .expect("a response")
        .into_body();
    assert_eq!(answer.next_piece().await, Ok(Some("uno".into())));
    sender.send(Bytes::from_static(b"two")).await.expect("room");
    assert_eq!(answer.next_piece().await, Ok(Some("dos".into())));
    assert_eq!(answer.next_piece().await, Ok(None));
}

#[tokio::test]
async fn a_body_tells_its_length_its_end_and_its_trailers() {
    let script = |body: &str| {
        vec![vec![
            Act::hear("\r\n\r\n"),
            Act::say(format!("HTTP/1.1 200 OK\r\n{body}")),
        ]]
    };
    let connector = open_connector(&Authority::new()).await;
    let get = async |origin: &RawOrigin| {
        let url = format!("http://{}/", origin.address());
        let request = Request::get(&url).body(Bytes::new()).expect("a request");
        connector
            .request(&target(&url), Consumer::Mcp, request, deadline())
            .await
            .expect("a response")
            .into_body()
    };
    let origin = RawOrigin::plain(script("content-length: 5\r\n\r\nhello")).await;
    let mut body = get(&origin).await;
    assert_eq!(body.size_hint().exact(), Some(5));
    assert!(!body.is_end_stream());
    let frame = body.frame().await.expect("a frame").expect("no error");
    assert_eq!(frame.into_data().expect("data"), "hello");
    assert!(body.is_end_stream());

    let origin = RawOrigin::plain(script(
        "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n",
    ))
    .await;
    let collected = Pin::new(&mut get(&origin).await)
        .collect()
        .await
        .expect("a body");
    let trailers: HeaderMap = collected.trailers().expect("trailers").clone();
    assert_eq!(trailers["x-sum"], "1");
    assert_eq!(collected.to_bytes(), "hello");
}

#[tokio::test]
async fn a_long_stream_of_small_events_is_read_to_its_end() {
    for protocol in ["h2", "http/1.1"] {
        let authority = Authority::new();
        let anywhere = ([127, 0, 0, 1], 0).into();
        let origin =
            TlsOrigin::start_speaking(&authority, &["127.0.0.1"], anywhere, &[protocol]).await;
        let mut reply = Reply::ok("text/event-stream", ":\n");
        for number in 0..20_000 {
            reply = reply.piece("\n");
            // HTTP/2 lets some thousands of frames wait unread, and no more; a reader needs its turn.
            if number % 1_000 == 0 {
                reply = reply.pause(Duration::from_millis(1));
            }
        }
        origin.serve("/", reply);
        let connector = open_connector(&authority).await;
        let url = format!("https://{}/", origin.address());
        let request = Request::get(&url).body(Bytes::new()).expect("a request");
        let response = connector
            .request(&target(&url), Consumer::Mcp, request, deadline())
            .await
            .expect("a response");
        assert_eq!(text(response).await.len(), 20_002, "{protocol}");
    }
}
