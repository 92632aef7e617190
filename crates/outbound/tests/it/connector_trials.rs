//! Answers nobody thought of: whatever bytes a server says, a request ends, within its bounds, as an answer or as a sentence.

use bytes::Bytes;
use http::Request;
use outbound::{Connector, Consumer, Error, LaneBounds};
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config as Trials, TestRunner},
};
use testkit::{
    dns::ScriptedDns,
    origin::{Act, Authority, RawOrigin},
};

use crate::support::{connector, deadline, exempt, target};

/// Cases of one trial. Each is a server and a connection.
const CASES: u32 = 400;
/// More than any answer here has a body.
const BODY_BYTES: usize = 64 * 1_024;

/// Sends a request to a server that says this and closes; reads what comes. Nothing may take so long as the deadline.
async fn ask(
    connector: &Connector,
    authority: Option<&Authority>,
    said: &[u8],
) -> Result<(), String> {
    let script = vec![vec![Act::say(said.to_vec()), Act::Close]];
    let (origin, scheme) = match authority {
        None => (RawOrigin::plain(script).await, "http"),
        Some(authority) => (
            RawOrigin::tls(authority, &["127.0.0.1"], "h2", script).await,
            "https",
        ),
    };
    let url = format!("{scheme}://{}/", origin.address());
    let request = Request::get(&url).body(Bytes::new()).expect("a request");
    let lane = connector.lane(Consumer::Fetch, LaneBounds::default());
    let answered = lane.request(&target(&url), request, deadline()).await;
    let ended = match answered {
        Err(error) => Err(error),
        Ok(response) => {
            if response.headers().len() > 128 {
                return Err(format!("{} header lines", response.headers().len()));
            }
            response
                .into_body()
                .read_at_most(BODY_BYTES, deadline())
                .await
        }
    };
    match ended {
        Ok((read, _end)) if read.len() <= said.len() => Ok(()),
        Ok((read, _end)) => Err(format!("{} bytes of {}", read.len(), said.len())),
        Err(Error::Http { why, .. }) if !why.is_empty() && why.len() <= 1_200 => {
            if why.chars().any(char::is_control) {
                Err(format!("control characters: {why:?}"))
            } else {
                Ok(())
            }
        }
        Err(error) => Err(error.to_string()),
    }
}

fn try_all(strategy: impl Strategy<Value = Vec<u8>>, is_http2: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let authority = Authority::new();
    let connector = runtime.block_on(async {
        let dns = ScriptedDns::start().await;
        connector(
            &dns,
            &authority,
            vec![exempt("127.0.0.1", &[Consumer::Fetch])],
        )
    });
    let authority = is_http2.then_some(&authority);
    let mut runner = TestRunner::new(Trials {
        cases: CASES,
        failure_persistence: None,
        ..Trials::default()
    });
    runner
        .run(&strategy, |said| {
            runtime
                .block_on(ask(&connector, authority, &said))
                .map_err(TestCaseError::fail)
        })
        .expect("every answer ends");
}

/// What heads and bodies are made of, right and wrong.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.0 200 OK\r\n",
        "HTTP/1.1 100 Continue\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n",
        "HTTP/1.1 204 No Content\r\n",
        "HTTP/1.1 302 Found\r\n",
        "content-length: 5\r\n",
        "content-length: 0\r\n",
        "content-length: 18446744073709551615\r\n",
        "transfer-encoding: chunked\r\n",
        "transfer-encoding: gzip\r\n",
        "connection: close\r\n",
        "connection: keep-alive, upgrade\r\n",
        "location: https://elsewhere.test/\r\n",
        "\u{1b}[31m: red\r\n",
        "\r\n",
        "\n",
        "\r",
        " ",
        ":",
        "5\r\nhello\r\n",
        "0\r\n\r\n",
        "ffffffffffffffff\r\n",
        "7fffffffffffffff\r\n",
        "1;a=b\r\nx\r\n",
        "hello",
        "\0",
    ])
    .prop_map(|piece| piece.as_bytes().to_vec());
    let noise = vec(any::<u8>(), 0..20);
    vec(prop_oneof![8 => known, 1 => noise], 0..30).prop_map(|pieces| pieces.concat())
}

/// A frame of HTTP/2 with a length that is right, mostly.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![9 => 0_u8..10, 1 => any::<u8>()];
    let stream = prop_oneof![4 => Just(1_u32), 2 => Just(0), 1 => 0_u32..5, 1 => any::<u32>()];
    let payload = prop_oneof![
        2 => Just(vec![0x88]),
        1 => Just(Vec::new()),
        2 => vec(any::<u8>(), 0..40),
        1 => Just(vec![0; 8]),
        1 => Just(vec![b'x'; 500]),
    ];
    (kind, any::<u8>(), stream, payload, 0_u8..20).prop_map(
        |(kind, flags, stream, payload, luck)| {
            let length = u32::try_from(payload.len()).expect("a short payload");
            let length = if luck == 0 { length + 1 } else { length };
            let mut bytes = length.to_be_bytes()[1..].to_vec();
            bytes.extend([kind, flags]);
            bytes.extend(stream.to_be_bytes());
            bytes.extend(payload);
            bytes
        },
    )
}

#[test]
fn whatever_a_server_says_in_http_1_a_request_ends() {
    try_all(pieces(), false);
}

#[test]
fn whatever_frames_a_server_sends_a_request_ends() {
    let settings = vec![0, 0, 0, 4, 0, 0, 0, 0, 0];
    let frames = vec(frame(), 0..20).prop_map(move |frames| {
        let mut said = settings.clone();
        said.extend(frames.concat());
        said
    });
    try_all(frames, true);
}
