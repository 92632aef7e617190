//! Connections to scripted servers, over real sockets: each fault, and what a person is told.

mod eras;
mod support;

use std::time::Duration;

use http::Method;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ListToolsRequest, ServerResult,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::{Value, json};
use testkit::{
    mcp::{Eras, Fault, HttpFault, Manner, Script, ScriptedMcp, Speaks},
    origin::Authority,
};

use super::*;
use crate::Reached;
use support::{Place, http, place, sse};

const BOTH_MANNERS: [Manner; 2] = [Manner::Json, Manner::Sse];

async fn server(eras: Eras, manner: Manner, faults: Vec<Fault>) -> ScriptedMcp {
    ScriptedMcp::start(Script::with(eras, faults), Speaks::Http(manner)).await
}

async fn sse_server(faults: Vec<Fault>) -> ScriptedMcp {
    ScriptedMcp::start(Script::with(Eras::Legacy, faults), Speaks::Sse).await
}

/// Calls a Tool with nothing of the pool between.
async fn call(
    connection: &Connection,
    tool: &'static str,
    arguments: Value,
) -> Result<String, ServiceError> {
    let arguments = arguments.as_object().cloned().expect("an object");
    let params = CallToolRequestParams::new(tool).with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let options = PeerRequestOptions::with_timeout(Duration::from_secs(20));
    let handle = connection
        .peer()
        .send_request_with_option(request, options)
        .await?;
    let id = handle.id.clone();
    let read = handle.await_response().await?;
    let text = connection.answers().take_call(&id, &read);
    let text = text.expect("a result as it came");
    Ok(text.as_str().to_owned())
}

async fn echo(connection: &Connection, text: &str) -> Result<String, ServiceError> {
    let result = call(connection, "echo", json!({"text": text})).await?;
    let result: Value = serde_json::from_str(&result).expect("JSON");
    Ok(result["content"][0]["text"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

async fn tools(connection: &Connection) -> usize {
    let request = ClientRequest::ListToolsRequest(ListToolsRequest::default());
    match connection.peer().send_request(request).await {
        Ok(ServerResult::ListToolsResult(list)) => list.tools.len(),
        other => panic!("no list: {other:?}"),
    }
}

async fn refused(place: &Place, endpoint: &Endpoint) -> Failure {
    let connected = connect(endpoint, &place.how, None).await;
    let failure = connected.expect_err("it must not connect");
    assert!(!failure.sentence.is_empty() && !failure.next_step.is_empty());
    failure
}

/// Why a call failed, as the transport noted it.
fn noted(connection: &Connection, error: &ServiceError) -> Failure {
    if let ServiceError::TransportSend(error) = error {
        let failure = error.error.downcast_ref::<Failure>();
        return failure.expect("a failure of ours").clone();
    }
    let last = connection.trouble().last();
    last.unwrap_or_else(|| panic!("nothing is noted of {error:?}"))
}

#[tokio::test]
async fn both_eras_and_both_manners_connect_list_and_call() {
    let place = place();
    for (eras, era) in [
        (Eras::Legacy, Era::Legacy),
        (Eras::Modern, Era::Modern),
        (Eras::Both, Era::Modern),
    ] {
        for manner in BOTH_MANNERS {
            let server = server(eras, manner, vec![]).await;
            let connection = connect(&http(&place, &server.url()), &place.how, None)
                .await
                .unwrap_or_else(|failure| panic!("{eras:?} {manner:?}: {failure}"));
            let facts = connection.facts();
            assert_eq!(
                (facts.era, facts.server_info.as_str()),
                (era, "scripted 1.0.0")
            );
            assert_eq!(connection.is_stateful(), era == Era::Legacy);
            assert_eq!(facts.instructions, "Use echo to hear yourself.");
            assert_eq!(tools(&connection).await, testkit::mcp::all_tools().len());
            assert_eq!(
                echo(&connection, "häl\"lo").await.expect("an echo"),
                "häl\"lo"
            );
            assert!(connection.ping().await && !connection.is_broken());
            connection.close().await;
            assert_eq!(server.sessions(), 0, "{eras:?}: the session is ended");
        }
    }
}

#[tokio::test]
async fn the_older_kind_connects_lists_and_calls() {
    let place = place();
    let server = sse_server(vec![Fault::Http(HttpFault::Comments)]).await;
    let connection = connect(&sse(&place, &server.url()), &place.how, None)
        .await
        .expect("a connection");
    assert!(connection.is_stateful());
    assert_eq!(tools(&connection).await, testkit::mcp::all_tools().len());
    assert_eq!(echo(&connection, "a").await.expect("an echo"), "a");
    assert!(connection.ping().await);
    connection.close().await;
    assert!(echo(&connection, "a").await.is_err());
}

#[tokio::test]
async fn the_era_that_was_spoken_is_spoken_at_once() {
    let place = place();
    let server = server(Eras::Legacy, Manner::Json, vec![]).await;
    let endpoint = http(&place, &server.url());
    let connection = connect(&endpoint, &place.how, Some(Era::Legacy)).await;
    connection.expect("a connection").close().await;
    assert_eq!(server.script().count("server/discover"), 0);
    // A server that was updated is found all the same, and one that was downgraded.
    let modern = self::server(Eras::Modern, Manner::Json, vec![]).await;
    let endpoint = http(&place, &modern.url());
    let connection = connect(&endpoint, &place.how, Some(Era::Legacy)).await;
    assert_eq!(connection.expect("a connection").facts().era, Era::Modern);
    let endpoint = http(&place, &server.url());
    let connection = connect(&endpoint, &place.how, Some(Era::Modern)).await;
    assert_eq!(connection.expect("a connection").facts().era, Era::Legacy);
}

#[tokio::test]
async fn a_server_that_is_silent_in_the_modern_era_is_spoken_to_in_the_old_way() {
    let place = place();
    let faults = vec![Fault::NeverAnswers("server/discover")];
    let server = server(Eras::Legacy, Manner::Sse, faults).await;
    let endpoint = http(&place, &server.url());
    let connection = connect(&endpoint, &place.how, None)
        .await
        .expect("it connects");
    assert_eq!(connection.facts().era, Era::Legacy);
    assert_eq!(echo(&connection, "a").await.expect("an echo"), "a");
}

#[tokio::test]
async fn a_modern_server_that_starts_slowly_stays_modern() {
    let place = place();
    let faults = vec![Fault::AnswersAfter(
        "server/discover",
        Duration::from_secs(3),
    )];
    let server = server(Eras::Modern, Manner::Json, faults).await;
    let endpoint = http(&place, &server.url());
    let connection = connect(&endpoint, &place.how, None)
        .await
        .expect("it connects");
    assert_eq!(connection.facts().era, Era::Modern);
}

#[tokio::test]
async fn old_servers_refuse_the_modern_era_in_many_ways_and_are_found_all_the_same() {
    let place = place();
    for (status, body) in [
        (400, "Bad Request: Server not initialized"),
        (404, ""),
        (405, "Method Not Allowed"),
        (406, "{\"error\":\"not acceptable\"}"),
        (500, "Internal Server Error"),
        (200, "{}"),
    ] {
        let script = Script::new(Eras::Legacy);
        let server = ScriptedMcp::start(script, Speaks::Http(Manner::Json)).await;
        server
            .script()
            .set_faults([Fault::Http(HttpFault::AnswersMethod {
                method: "server/discover",
                status,
                body: body.to_owned(),
            })]);
        let endpoint = http(&place, &server.url());
        let connection = connect(&endpoint, &place.how, None).await;
        let connection = connection.unwrap_or_else(|failure| panic!("{status}: {failure}"));
        assert_eq!(connection.facts().era, Era::Legacy, "{status}");
    }
    for code in [
        -32_601, -32_602, -32_600, -32_000, -32_001, -32_603, -32_022,
    ] {
        let fault = Fault::ErrorIs {
            method: "server/discover",
            code,
            message: "no".to_owned(),
        };
        let server = server(Eras::Legacy, Manner::Sse, vec![fault]).await;
        let endpoint = http(&place, &server.url());
        let connection = connect(&endpoint, &place.how, None).await;
        connection.unwrap_or_else(|failure| panic!("{code}: {failure}"));
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_url_is_told_in_words() {
    let place = place();
    let answers = |status: u16, headers: Vec<(&'static str, String)>, body: &str| {
        Fault::Http(HttpFault::Answers {
            status,
            headers,
            body: body.to_owned(),
        })
    };
    let html = vec![("content-type", "text/html".to_owned())];
    let challenge = vec![("www-authenticate", "Bearer realm=\"x\"".to_owned())];
    let other = vec![(
        "location",
        "https://other.example/mcp?key=abcdef".to_owned(),
    )];
    for (fault, code, says) in [
        (
            answers(200, html.clone(), "<!doctype html><title>Sign in</title>"),
            FailureCode::Html,
            "A web page answers (HTTP 200)",
        ),
        (
            answers(200, vec![], "<html><body>hi</body></html>"),
            FailureCode::Html,
            "A web page answers",
        ),
        (
            answers(401, vec![], ""),
            FailureCode::NeedsSignIn,
            "HTTP 401",
        ),
        (
            answers(401, challenge, "{\"error\":\"invalid_token\"}"),
            FailureCode::NeedsSignIn,
            "invalid_token",
        ),
        (
            answers(403, html, "<html>no</html>"),
            FailureCode::Forbidden,
            "HTTP 403",
        ),
        (
            answers(404, vec![], "nothing"),
            FailureCode::HttpError,
            "HTTP 404",
        ),
        (
            answers(503, vec![], "down"),
            FailureCode::HttpError,
            "It says: \"down\"",
        ),
        (
            answers(302, other, ""),
            FailureCode::Redirects,
            "This URL redirects to https://other.example/mcp?….",
        ),
        (
            answers(
                200,
                vec![("content-type", "application/json".into())],
                "{\"a\":1}",
            ),
            FailureCode::ProtocolError,
            "does not speak MCP",
        ),
        (
            answers(200, vec![("content-type", "image/png".into())], "PNG"),
            FailureCode::ProtocolError,
            "content type \"image/png\"",
        ),
        (
            answers(200, vec![("content-type", "application/json".into())], ""),
            FailureCode::ProtocolError,
            "does not speak MCP",
        ),
    ] {
        let server = server(Eras::Both, Manner::Json, vec![fault.clone()]).await;
        let failure = refused(&place, &http(&place, &server.url())).await;
        assert_eq!(failure.code, code, "{fault:?}: {failure:?}");
        assert!(failure.sentence.contains(says), "{fault:?}: {failure:?}");
    }
}

#[tokio::test]
async fn a_token_that_is_not_taken_is_told_from_one_that_is_missing() {
    let place = place();
    let fault = HttpFault::Answers {
        status: 401,
        headers: vec![],
        body: "expired".to_owned(),
    };
    let server = server(Eras::Both, Manner::Json, vec![Fault::Http(fault)]).await;
    let endpoint = place.remote(&server.url(), &[("authorization", "Bearer abcdefgh")]);
    let failure = refused(&place, &Endpoint::Http(endpoint)).await;
    assert_eq!(failure.code, FailureCode::TokenRejected);
}

#[tokio::test]
async fn servers_that_repeat_headers_and_urls_do_not_spread_secrets() {
    let place = place();
    for speaks in [Speaks::Http(Manner::Json), Speaks::Sse] {
        let faults = [Fault::Http(HttpFault::EchoesAll)];
        let script = Script::with(Eras::Legacy, faults);
        let server = ScriptedMcp::start(script, speaks).await;
        let url = format!("{}?key=planted-in-query", server.url());
        let endpoint = place.remote(&url, &[("x-api-key", "planted-in-header")]);
        let endpoint = match speaks {
            Speaks::Http(_) => Endpoint::Http(endpoint),
            Speaks::Sse => Endpoint::Sse(endpoint),
        };
        let failure = refused(&place, &endpoint).await;
        let told = format!("{failure:?}");
        assert!(!told.contains("planted"), "{told}");
        let seen = format!("{:?}", server.requests());
        assert!(seen.contains("planted-in-query"), "it was sent: {seen}");
    }
}

#[tokio::test]
async fn the_wrong_transport_is_recognised_both_ways() {
    let place = place();
    let older = sse_server(vec![]).await;
    let failure = refused(&place, &http(&place, &older.url())).await;
    assert_eq!(failure.code, FailureCode::IsSse, "{failure:?}");
    for eras in [Eras::Legacy, Eras::Modern] {
        let newer = server(eras, Manner::Json, vec![]).await;
        let failure = refused(&place, &sse(&place, &newer.url())).await;
        assert_eq!(failure.code, FailureCode::IsStreamableHttp, "{failure:?}");
        assert_eq!(newer.sessions(), 0);
    }
}

#[tokio::test]
async fn redirects_are_followed_within_the_origin_and_not_in_circles() {
    let place = place();
    for manner in BOTH_MANNERS {
        let fault = |status, location: &str| {
            vec![Fault::Http(HttpFault::Redirects {
                status,
                location: location.to_owned(),
            })]
        };
        let slash = server(Eras::Legacy, manner, fault(307, "/mcp/")).await;
        let connection = connect(&http(&place, &slash.url()), &place.how, None)
            .await
            .expect("it is followed");
        assert_eq!(echo(&connection, "a").await.expect("an echo"), "a");
        connection.close().await;
        let circle = server(Eras::Legacy, manner, fault(308, "/mcp")).await;
        let failure = refused(&place, &http(&place, &circle.url())).await;
        assert_eq!(failure.code, FailureCode::Redirects, "{failure:?}");
        assert!(circle.count(&Method::POST) <= 8);
    }
}

#[tokio::test]
async fn a_redirect_to_another_origin_gets_no_credentials() {
    let place = place();
    let other = server(Eras::Legacy, Manner::Json, vec![]).await;
    for status in [301, 302, 303, 307, 308] {
        let fault = HttpFault::Redirects {
            status,
            location: other.url(),
        };
        let server = server(Eras::Legacy, Manner::Json, vec![Fault::Http(fault)]).await;
        let endpoint = place.remote(&server.url(), &[("authorization", "Bearer abcdefgh")]);
        let failure = refused(&place, &Endpoint::Http(endpoint)).await;
        assert_eq!(failure.code, FailureCode::Redirects);
        assert!(failure.next_step.contains(&other.url()), "{failure:?}");
    }
    assert_eq!(other.accepted(), 0);
}

#[tokio::test]
async fn an_address_inside_is_refused_before_a_socket_opens() {
    let place = support::place_without_exemptions();
    let server = server(Eras::Legacy, Manner::Json, vec![]).await;
    for endpoint in [http(&place, &server.url()), sse(&place, &server.url())] {
        let failure = refused(&place, &endpoint).await;
        assert_eq!(failure.code, FailureCode::PrivateAddress);
        assert_eq!(failure.reached, Reached::Never);
    }
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn a_name_that_came_to_mean_an_address_inside_is_refused_when_it_is_connected_to() {
    let dns = testkit::dns::ScriptedDns::start().await;
    let place = support::place_asking(&dns);
    let script = Script::new(Eras::Legacy);
    let server = ScriptedMcp::start(script, Speaks::Http(Manner::Json)).await;
    let port = server.address().port();
    for name in ["rebound.example", "rebound-sse.example"] {
        dns.host(name, &["127.0.0.1"]);
        let url = format!("http://{name}:{port}/mcp");
        for endpoint in [http(&place, &url), sse(&place, &url)] {
            let failure = refused(&place, &endpoint).await;
            assert_eq!(failure.code, FailureCode::PrivateAddress, "{failure:?}");
        }
    }
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn nobody_there_is_told_apart_from_a_server_that_says_nothing() {
    let place = place();
    let held = testkit::port::HeldPort::new();
    let url = format!("http://127.0.0.1:{}/mcp", held.number());
    let failure = refused(&place, &http(&place, &url)).await;
    assert_eq!(
        (failure.code, failure.reached),
        (FailureCode::Unreachable, Reached::Never)
    );
    let faults = vec![Fault::Http(HttpFault::NeverAnswers)];
    let silent = server(Eras::Legacy, Manner::Json, faults).await;
    let hasty = support::place_with(|config| config.connect_seconds = 3);
    let failure = refused(&hasty, &http(&hasty, &silent.url())).await;
    assert_eq!(failure.code, FailureCode::TimedOut, "{failure:?}");
}

#[tokio::test]
async fn tls_is_checked_and_spoken() {
    let authority = Authority::new();
    let script = Script::new(Eras::Both);
    let speaks = Speaks::Http(Manner::Sse);
    let server = ScriptedMcp::start_tls(script, speaks, &authority, &["localhost"]).await;
    let trusting = support::place_trusting(&authority);
    let url = server.url_of("localhost");
    let connection = connect(&http(&trusting, &url), &trusting.how, None)
        .await
        .expect("a connection");
    assert_eq!(echo(&connection, "a").await.expect("an echo"), "a");
    let place = place();
    let failure = refused(&place, &http(&place, &url)).await;
    assert_eq!(failure.code, FailureCode::Tls, "{failure:?}");
}

#[tokio::test]
async fn versions_that_nobody_here_speaks_are_named() {
    let place = place();
    let fault = Fault::AnswersWith {
        method: "initialize",
        result: json!({"protocolVersion": "2031-01-01", "capabilities": {}}),
    };
    let server = server(Eras::Legacy, Manner::Json, vec![fault]).await;
    let failure = refused(&place, &http(&place, &server.url())).await;
    assert!(failure.sentence.contains("2031-01-01"), "{failure:?}");
}

#[tokio::test]
async fn a_server_that_says_little_of_itself_works_all_the_same() {
    let place = place();
    for (eras, method, result) in [
        (
            Eras::Legacy,
            "initialize",
            json!({"protocolVersion": "2025-06-18"}),
        ),
        (
            Eras::Modern,
            "server/discover",
            json!({"supportedVersions": ["2026-07-28"]}),
        ),
        (
            Eras::Legacy,
            "initialize",
            json!({"protocolVersion": "2024-11-05", "capabilities": 7, "serverInfo": "me", "instructions": []}),
        ),
    ] {
        let fault = Fault::AnswersWith { method, result };
        let server = server(eras, Manner::Json, vec![fault]).await;
        let endpoint = http(&place, &server.url());
        let connection = connect(&endpoint, &place.how, None)
            .await
            .expect("it connects");
        assert_eq!(echo(&connection, "a").await.expect("an echo"), "a");
        assert_eq!(connection.facts().server_info, "");
    }
}

#[tokio::test]
async fn a_session_that_ends_is_begun_again_and_no_call_is_lost() {
    let place = place();
    for (status, body) in [
        (404, ""),
        (400, "Bad Request: No valid session ID provided"),
        (400, ""),
        (
            200,
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32000,\"message\":\"Session not found\"}}",
        ),
    ] {
        let fault = HttpFault::SessionExpiresEvery {
            posts: 4,
            status,
            body: body.to_owned(),
        };
        let server = server(Eras::Legacy, Manner::Json, vec![Fault::Http(fault)]).await;
        let endpoint = http(&place, &server.url());
        let connection = connect(&endpoint, &place.how, Some(Era::Legacy)).await;
        let connection = connection.expect("a connection");
        for number in 0..8 {
            let text = number.to_string();
            let echoed = echo(&connection, &text).await;
            let echoed = echoed.unwrap_or_else(|error| panic!("{status} {body}: {error}"));
            assert_eq!(echoed, text);
        }
        assert!(server.script().count("initialize") >= 2);
        assert!(!connection.is_broken());
    }
}

#[tokio::test]
async fn a_session_that_never_lasts_fails_the_call_after_one_new_beginning() {
    let place = place();
    let fault = HttpFault::SessionExpiresEvery {
        posts: 1,
        status: 404,
        body: String::new(),
    };
    let server = server(Eras::Legacy, Manner::Json, vec![Fault::Http(fault)]).await;
    let endpoint = http(&place, &server.url());
    let connection = connect(&endpoint, &place.how, Some(Era::Legacy)).await;
    let connection = connection.expect("a connection");
    let error = echo(&connection, "a").await.expect_err("it fails");
    assert_eq!(noted(&connection, &error).code, FailureCode::ProtocolError);
    assert!(connection.is_broken());
    assert_eq!(server.script().count("initialize"), 2);
    assert_eq!(server.script().count("tools/call"), 0);
}

#[tokio::test]
async fn an_unknown_method_is_no_dead_session() {
    let place = place();
    let server = server(Eras::Legacy, Manner::Json, vec![]).await;
    let endpoint = http(&place, &server.url());
    let connection = connect(&endpoint, &place.how, Some(Era::Legacy)).await;
    let connection = connection.expect("a connection");
    server
        .script()
        .set_faults([Fault::Http(HttpFault::AnswersMethod {
            method: "tools/call",
            status: 404,
            body: "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32601,\"message\":\"no\"}}"
                .to_owned(),
        })]);
    let error = echo(&connection, "a").await.expect_err("it is refused");
    assert!(matches!(error, ServiceError::McpError(_)), "{error:?}");
    assert_eq!(server.script().count("initialize"), 1);
}

#[tokio::test]
async fn a_get_stream_that_is_empty_or_refused_makes_no_loop() {
    let place = place();
    for fault in [
        HttpFault::GetIsEmpty,
        HttpFault::AnswersGet(405),
        HttpFault::AnswersGet(404),
        HttpFault::AnswersGet(400),
        HttpFault::AnswersGet(200),
    ] {
        let server = server(Eras::Legacy, Manner::Json, vec![Fault::Http(fault.clone())]).await;
        let endpoint = http(&place, &server.url());
        let connection = connect(&endpoint, &place.how, Some(Era::Legacy)).await;
        let connection = connection.expect("a connection");
        for _ in 0..20 {
            assert_eq!(echo(&connection, "a").await.expect("an echo"), "a");
        }
        assert!(server.count(&Method::GET) <= 3, "{fault:?}");
        assert!(!connection.is_broken(), "{fault:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_broken_off_fails_its_call_and_no_other() {
    let place = place();
    for manner in BOTH_MANNERS {
        for fault in [
            Fault::BreaksOff("tools/call"),
            Fault::SaysInstead {
                method: "tools/call",
                text: "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"cont".to_owned(),
            },
            Fault::AnswersForAnother("tools/call"),
        ] {
            let server = server(Eras::Legacy, manner, vec![fault.clone()]).await;
            let endpoint = http(&place, &server.url());
            let connection = connect(&endpoint, &place.how, Some(Era::Legacy)).await;
            let connection = connection.expect("a connection");
            if manner == Manner::Json && fault == Fault::AnswersForAnother("tools/call") {
                // Nobody can know that no other answer comes: the call's own deadline ends it.
                continue;
            }
            let error = echo(&connection, "a").await.expect_err("it fails");
            assert!(
                !matches!(error, ServiceError::Timeout { .. }),
                "{manner:?} {fault:?}"
            );
            assert_eq!(tools(&connection).await, testkit::mcp::all_tools().len());
        }
    }
}

#[tokio::test]
async fn the_older_kind_fails_a_call_whose_stream_breaks_off() {
    let place = place();
    for fault in [
        Fault::BreaksOff("tools/call"),
        Fault::SaysInstead {
            method: "tools/call",
            text: "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"cont".to_owned(),
        },
    ] {
        let server = sse_server(vec![fault.clone()]).await;
        let connection = connect(&sse(&place, &server.url()), &place.how, None).await;
        let connection = connection.expect("a connection");
        let error = echo(&connection, "a").await.expect_err("it fails");
        assert!(
            !matches!(error, ServiceError::Timeout { .. }),
            "{fault:?}: {error:?}"
        );
        assert!(connection.is_broken());
        assert_eq!(noted(&connection, &error).code, FailureCode::ProtocolError);
    }
}

#[tokio::test]
async fn a_restart_of_the_older_kind_fails_what_waits_and_the_next_connection_works() {
    let place = place();
    let server = sse_server(vec![Fault::NeverAnswers("tools/call")]).await;
    let connection = connect(&sse(&place, &server.url()), &place.how, None).await;
    let connection = connection.expect("a connection");
    let waiting = echo(&connection, "a");
    let restart = async {
        while server.script().count("tools/call") == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        server.forget_sessions();
        server.script().set_faults([]);
    };
    let (outcome, ()) = tokio::join!(waiting, restart);
    assert!(outcome.is_err() && connection.is_broken());
    let connection = connect(&sse(&place, &server.url()), &place.how, None).await;
    assert_eq!(
        echo(&connection.expect("a connection"), "b")
            .await
            .expect("an echo"),
        "b"
    );
}

#[tokio::test]
async fn the_address_for_messages_is_read_against_the_stream_and_stays_at_home() {
    let place = place();
    let elsewhere = server(Eras::Legacy, Manner::Json, vec![]).await;
    let own = sse_server(vec![]).await;
    let absolute = format!(
        "http://127.0.0.1:{}/message?sessionId=session-0",
        own.address().port()
    );
    for (endpoint, fine) in [
        ("/message?sessionId=session-0".to_owned(), true),
        ("message?sessionId=session-0".to_owned(), true),
        (absolute, true),
        (elsewhere.url(), false),
        ("//other.example/message".to_owned(), false),
        (
            format!("https://127.0.0.1:{}/message", own.address().port()),
            false,
        ),
        ("data:text/plain,hello".to_owned(), false),
        (String::new(), false),
        ("x".repeat(5_000), false),
    ] {
        let named = HttpFault::Endpoint(endpoint.clone());
        // Session ids are counted; each server is new, but for the one that is named by its port.
        let is_absolute = endpoint.starts_with("http://127.0.0.1") && fine;
        let fresh = sse_server(vec![]).await;
        let server = if is_absolute { &own } else { &fresh };
        server.script().set_faults([Fault::Http(named)]);
        let connected = connect(&sse(&place, &server.url()), &place.how, None).await;
        match connected {
            Ok(connection) => {
                assert!(fine, "{endpoint} is taken");
                assert_eq!(echo(&connection, "a").await.expect("an echo"), "a");
            }
            Err(failure) => {
                assert!(!fine, "{endpoint}: {failure}");
                assert_eq!(failure.code, FailureCode::ProtocolError, "{endpoint}");
            }
        }
    }
    assert_eq!(elsewhere.accepted(), 0, "nothing went elsewhere");
}

#[tokio::test]
async fn a_stream_without_an_address_is_not_waited_for_for_ever() {
    let place = support::place_with(|config| config.connect_seconds = 1);
    let server = sse_server(vec![Fault::Http(HttpFault::NoEndpoint)]).await;
    let failure = refused(&place, &sse(&place, &server.url())).await;
    assert_eq!(failure.code, FailureCode::TimedOut, "{failure:?}");
}

#[tokio::test]
async fn what_is_longer_than_the_setting_fails_its_call() {
    let place = support::place_with(|config| config.answer_bytes = 64 * 1_024);
    for speaks in [
        Speaks::Http(Manner::Json),
        Speaks::Http(Manner::Sse),
        Speaks::Sse,
    ] {
        let script = Script::with(Eras::Legacy, [Fault::HugeResult(1_024 * 1_024)]);
        let server = ScriptedMcp::start(script, speaks).await;
        let endpoint = match speaks {
            Speaks::Http(_) => http(&place, &server.url()),
            Speaks::Sse => sse(&place, &server.url()),
        };
        let connection = connect(&endpoint, &place.how, None)
            .await
            .expect("a connection");
        let error = echo(&connection, "a").await.expect_err("it fails");
        let failure = noted(&connection, &error);
        assert!(
            failure.sentence.contains("longer than 65536 bytes"),
            "{speaks:?}: {failure:?}"
        );
    }
}

#[tokio::test]
async fn a_body_without_end_is_not_read_without_end() {
    let place = support::place_with(|config| config.answer_bytes = 256 * 1_024);
    let faults = vec![Fault::Http(HttpFault::EndlessBody)];
    let server = server(Eras::Legacy, Manner::Json, faults).await;
    let failure = refused(&place, &http(&place, &server.url())).await;
    assert_eq!(failure.code, FailureCode::ProtocolError, "{failure:?}");
}

#[tokio::test]
async fn a_flood_of_notifications_costs_its_own_call_nothing() {
    let place = place();
    for speaks in [Speaks::Http(Manner::Sse), Speaks::Sse] {
        let script = Script::with(Eras::Legacy, [Fault::FloodOfNotifications(20_000)]);
        let server = ScriptedMcp::start(script, speaks).await;
        let endpoint = match speaks {
            Speaks::Http(_) => http(&place, &server.url()),
            Speaks::Sse => sse(&place, &server.url()),
        };
        let connection = connect(&endpoint, &place.how, None)
            .await
            .expect("a connection");
        assert_eq!(echo(&connection, "a").await.expect("an echo"), "a");
    }
}

#[tokio::test]
async fn what_a_server_asks_is_declined_at_once_and_the_call_completes() {
    let place = place();
    let questions = [
        (
            "elicitation/create",
            json!({"message": "Your password?", "requestedSchema": {"type": "object", "properties": {}}}),
        ),
        (
            "sampling/createMessage",
            json!({"messages": [], "maxTokens": 10}),
        ),
        ("roots/list", json!({})),
        ("made/up", json!({})),
    ];
    for (method, params) in questions {
        for speaks in [
            Speaks::Http(Manner::Sse),
            Speaks::Http(Manner::Json),
            Speaks::Sse,
        ] {
            let fault = Fault::AsksFirst(method, params.clone());
            let script = Script::with(Eras::Legacy, [fault]);
            let server = ScriptedMcp::start(script, speaks).await;
            let endpoint = match speaks {
                Speaks::Http(_) => http(&place, &server.url()),
                Speaks::Sse => sse(&place, &server.url()),
            };
            let connection = connect(&endpoint, &place.how, None)
                .await
                .expect("a connection");
            if speaks == Speaks::Http(Manner::Json) {
                // The question comes on the GET stream; it must be open before.
                while server.count(&Method::GET) == 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            let echoed = echo(&connection, "a").await;
            assert_eq!(echoed.expect("an echo"), "a", "{method} {speaks:?}");
            let replies = server.script().replies();
            let reply = replies.first().expect("a reply");
            let declined = reply["result"]["action"] == "decline" || reply["error"].is_object();
            assert!(declined, "{method}: {reply}");
        }
    }
}

#[tokio::test]
async fn a_server_that_asks_without_end_does_not_keep_its_call_from_ending() {
    let place = place();
    let server = server(Eras::Legacy, Manner::Sse, vec![Fault::AsksOften(2_000)]).await;
    let endpoint = http(&place, &server.url());
    let connection = connect(&endpoint, &place.how, None)
        .await
        .expect("a connection");
    assert_eq!(echo(&connection, "a").await.expect("an echo"), "a");
    assert!(server.script().replies().len() < 200);
}

#[tokio::test]
async fn a_notification_before_the_handshake_is_no_answer() {
    let place = place();
    for speaks in [Speaks::Http(Manner::Sse), Speaks::Sse] {
        let script = Script::with(Eras::Legacy, [Fault::NotifiesBeforeInitialize]);
        let server = ScriptedMcp::start(script, speaks).await;
        let endpoint = match speaks {
            Speaks::Http(_) => http(&place, &server.url()),
            Speaks::Sse => sse(&place, &server.url()),
        };
        let connection = connect(&endpoint, &place.how, None)
            .await
            .expect("a connection");
        assert_eq!(echo(&connection, "a").await.expect("an echo"), "a");
    }
}

#[tokio::test]
async fn a_list_that_changed_is_noticed() {
    let place = place();
    for speaks in [Speaks::Http(Manner::Sse), Speaks::Sse] {
        let script = Script::with(Eras::Legacy, [Fault::ListChangesAfterCalls]);
        let server = ScriptedMcp::start(script, speaks).await;
        let endpoint = match speaks {
            Speaks::Http(_) => http(&place, &server.url()),
            Speaks::Sse => sse(&place, &server.url()),
        };
        let connection = connect(&endpoint, &place.how, None)
            .await
            .expect("a connection");
        let before = connection.list_changes();
        assert_eq!(echo(&connection, "a").await.expect("an echo"), "a");
        while connection.list_changes() == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_stream_that_ends_early_is_resumed_where_it_was() {
    let place = place();
    let fault = HttpFault::Resumes {
        retry: Duration::from_millis(20),
    };
    let server = server(Eras::Legacy, Manner::Sse, vec![Fault::Http(fault)]).await;
    let endpoint = http(&place, &server.url());
    let connection = connect(&endpoint, &place.how, None)
        .await
        .expect("a connection");
    assert_eq!(echo(&connection, "a").await.expect("an echo"), "a");
    let resumed = server
        .requests()
        .iter()
        .filter(|request| request.headers.contains_key("last-event-id"))
        .count();
    assert_eq!(resumed, 1);
}

#[tokio::test]
async fn an_answer_may_come_on_the_stream_that_answers_nothing_in_particular() {
    let place = place();
    let server = server(Eras::Legacy, Manner::Json, vec![]).await;
    let endpoint = http(&place, &server.url());
    let connection = connect(&endpoint, &place.how, None)
        .await
        .expect("a connection");
    while server.count(&Method::GET) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server
        .script()
        .set_faults([Fault::Http(HttpFault::AnswersOnGet)]);
    assert_eq!(echo(&connection, "a").await.expect("an echo"), "a");
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_any_more_is_cancelled_at_its_server() {
    let place = place();
    for (eras, speaks) in [
        (Eras::Modern, Speaks::Http(Manner::Sse)),
        (Eras::Legacy, Speaks::Http(Manner::Sse)),
        (Eras::Legacy, Speaks::Sse),
    ] {
        let script = Script::with(eras, [Fault::NeverAnswers("tools/call")]);
        let server = ScriptedMcp::start(script, speaks).await;
        let endpoint = match speaks {
            Speaks::Http(_) => http(&place, &server.url()),
            Speaks::Sse => sse(&place, &server.url()),
        };
        let connection = connect(&endpoint, &place.how, None)
            .await
            .expect("a connection");
        let params = CallToolRequestParams::new("echo");
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let handle = connection
            .peer()
            .send_request_with_option(request, PeerRequestOptions::no_options())
            .await
            .expect("it is sent");
        while server.script().count("tools/call") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        handle.cancel(None).await.expect("it is cancelled");
        let is_told = || match eras {
            // The end of the stream is the cancellation.
            Eras::Modern => server.aborted() >= 1,
            Eras::Legacy | Eras::Both => server.script().count("notifications/cancelled") == 1,
        };
        while !is_told() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(!connection.is_broken(), "{eras:?} {speaks:?}");
    }
}

#[tokio::test]
async fn closing_does_not_wait_for_a_server_that_never_lets_go() {
    let place = place();
    let faults = vec![Fault::Http(HttpFault::DeleteHangs)];
    let server = server(Eras::Legacy, Manner::Json, faults).await;
    let endpoint = http(&place, &server.url());
    let connection = connect(&endpoint, &place.how, None)
        .await
        .expect("a connection");
    connection.close().await;
    assert!(connection.peer().is_transport_closed());
    assert_eq!(server.count(&Method::DELETE), 1);
}

#[tokio::test]
async fn a_connection_that_is_dropped_ends_its_session_all_the_same() {
    let place = place();
    let server = server(Eras::Legacy, Manner::Sse, vec![]).await;
    let endpoint = http(&place, &server.url());
    let connection = connect(&endpoint, &place.how, None)
        .await
        .expect("a connection");
    drop(connection);
    while server.sessions() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn progress_is_told_while_a_call_runs() {
    let place = place();
    for (eras, speaks) in [
        (Eras::Modern, Speaks::Http(Manner::Sse)),
        (Eras::Legacy, Speaks::Http(Manner::Sse)),
        (Eras::Legacy, Speaks::Sse),
    ] {
        let server = ScriptedMcp::start(Script::new(eras), speaks).await;
        let endpoint = match speaks {
            Speaks::Http(_) => http(&place, &server.url()),
            Speaks::Sse => sse(&place, &server.url()),
        };
        let connection = connect(&endpoint, &place.how, None)
            .await
            .expect("a connection");
        let arguments = json!({"steps": 3, "step_milliseconds": 50});
        let params = CallToolRequestParams::new("slow")
            .with_arguments(arguments.as_object().cloned().expect("an object"));
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let handle = connection
            .peer()
            .send_request_with_option(request, PeerRequestOptions::no_options())
            .await
            .expect("it is sent");
        let mut told = connection.progress(Some(handle.progress_token.clone()));
        let step = told.recv().await.expect("a step");
        assert_eq!((step.done, step.total), (1.0, Some(3.0)));
        assert_eq!(step.message, "step 1");
        handle.await_response().await.expect("a result");
    }
}

#[tokio::test]
async fn calls_one_after_another_share_connections() {
    let place = place();
    for eras in [Eras::Legacy, Eras::Modern] {
        for manner in BOTH_MANNERS {
            let server = server(eras, manner, vec![]).await;
            let endpoint = http(&place, &server.url());
            let connection = connect(&endpoint, &place.how, None).await;
            let connection = connection.expect("a connection");
            for _ in 0..40 {
                assert_eq!(echo(&connection, "a").await.expect("an echo"), "a");
            }
            // One for the stream, and as many as are read to their end while the next call begins.
            let accepted = server.accepted();
            assert!(accepted <= 6, "{eras:?} {manner:?}: {accepted}");
        }
    }
}

#[tokio::test]
async fn many_calls_run_beside_each_other() {
    let place = place();
    for speaks in [
        Speaks::Http(Manner::Json),
        Speaks::Http(Manner::Sse),
        Speaks::Sse,
    ] {
        let faults = [Fault::AnswersAfter(
            "tools/call",
            Duration::from_millis(100),
        )];
        let server = ScriptedMcp::start(Script::with(Eras::Legacy, faults), speaks).await;
        let endpoint = match speaks {
            Speaks::Http(_) => http(&place, &server.url()),
            Speaks::Sse => sse(&place, &server.url()),
        };
        let connection = connect(&endpoint, &place.how, None)
            .await
            .expect("a connection");
        let calls = (0..64).map(|number| {
            let connection = &connection;
            async move {
                let text = number.to_string();
                (echo(connection, &text).await.expect("an echo"), text)
            }
        });
        for (echoed, text) in futures::future::join_all(calls).await {
            assert_eq!(echoed, text);
        }
    }
}

#[tokio::test]
async fn credentials_that_cannot_be_opened_are_told_as_that() {
    let place = place();
    let endpoint = place.unreadable("http://127.0.0.1:8081/mcp");
    for endpoint in [Endpoint::Http(endpoint.clone()), Endpoint::Sse(endpoint)] {
        let failure = refused(&place, &endpoint).await;
        assert_eq!(failure.code, FailureCode::CredentialsUnreadable);
    }
}

#[tokio::test]
async fn a_record_cannot_set_the_headers_of_the_protocol() {
    let place = place();
    let server = server(Eras::Modern, Manner::Json, vec![]).await;
    let headers = [
        ("accept", "text/html"),
        ("mcp-protocol-version", "1"),
        ("x-mine", "yes"),
    ];
    let endpoint = Endpoint::Http(place.remote(&server.url(), &headers));
    let connection = connect(&endpoint, &place.how, None)
        .await
        .expect("a connection");
    assert_eq!(echo(&connection, "a").await.expect("an echo"), "a");
    for request in server.requests() {
        let header = |name: &str| request.headers.get_all(name).iter().count();
        assert_eq!(
            (
                header("accept"),
                header("mcp-protocol-version"),
                header("x-mine")
            ),
            (1, 1, 1)
        );
        assert!(!request.headers.contains_key("origin"));
    }
}
