//! What a stranger tries, and what the edge makes of it.

use std::{sync::Arc, time::Duration};

use http::{Method, header};
use kernel::SystemClock;
use runtime::Stopped;
use serde_json::json;
use testkit::port::HeldPort;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    scripted::{Script, say},
    village::{Village, config},
};

#[tokio::test]
async fn a_name_that_was_rebound_to_our_address_is_misdirected() {
    let village = Village::start().await;
    for host in [
        "evil.example",
        "evil.example:8080",
        "127.0.0.1.evil.example",
        "[::2]",
    ] {
        let answer = village.get("/v1/me").header("host", host).send().await;
        assert!(
            answer.problem(421).contains("does not answer to the host"),
            "{host}"
        );
    }
    // Asked of no registry: the token was not even looked at.
    assert_eq!(village.registry.times_asked(), 0);
    for host in ["localhost", "localhost:3000", "127.0.0.1:1", "[::1]:80"] {
        let answer = village.get("/v1/me").header("host", host).send().await;
        assert_eq!(answer.status, 200, "{host}");
    }
}

#[tokio::test]
async fn two_hosts_or_none_are_refused() {
    let village = Village::start().await;
    let twice = village.get("/v1/me").also("host", "evil.example");
    assert!(twice.send().await.problem(400).contains("stands twice"));
    let none = raw(&village, "GET /v1/me HTTP/1.1\r\nconnection: close\r\n\r\n").await;
    assert!(none.starts_with("HTTP/1.1 400"), "{none}");
    let absolute =
        "GET http://evil.example/v1/me HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let absolute = raw(&village, absolute).await;
    assert!(absolute.starts_with("HTTP/1.1 421"), "{absolute}");
}

#[tokio::test]
async fn a_page_of_another_origin_cannot_call() {
    let village = Village::start().await;
    for origin in [
        "https://evil.example",
        "http://localhost:1",
        "null",
        "file://",
    ] {
        let answer = village
            .chat("Keeper", "c", "u")
            .header("origin", origin)
            .send()
            .await;
        assert!(answer.problem(403).contains("may not call"), "{origin}");
        assert!(
            !answer
                .headers
                .contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN)
        );
    }
    assert!(village.turns.asked().is_empty());
    let preflight = village
        .ask(Method::OPTIONS, "/v1/chat")
        .header("origin", "https://evil.example")
        .header("access-control-request-method", "POST")
        .send()
        .await;
    preflight.problem(403);
    let own = village
        .get("/v1/me")
        .header("origin", &format!("http://{}", village.address));
    assert_eq!(own.send().await.status, 200);
}

#[tokio::test]
async fn a_page_of_an_allowed_origin_can_call() {
    let mut config = config();
    config.cors_origins = vec!["https://village.example".to_owned()];
    let village = Village::with(config, Arc::new(SystemClock)).await;
    let preflight = village
        .ask(Method::OPTIONS, "/v1/chat")
        .header("origin", "https://village.example")
        .header("access-control-request-method", "POST")
        .header(
            "access-control-request-headers",
            "authorization,content-type",
        )
        .send()
        .await;
    assert_eq!(preflight.status, 204);
    let allowed = |name: &str| preflight.headers[name].to_str().unwrap().to_owned();
    assert_eq!(
        allowed("access-control-allow-origin"),
        "https://village.example"
    );
    assert!(allowed("access-control-allow-headers").contains("authorization"));
    assert!(allowed("access-control-allow-methods").contains("PATCH"));
    assert!(
        !preflight
            .headers
            .contains_key("access-control-allow-credentials")
    );
    let answer = village
        .get("/v1/me")
        .header("origin", "https://village.example")
        .send()
        .await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.headers["access-control-allow-origin"],
        "https://village.example"
    );
    assert_eq!(answer.headers["vary"], "origin");
}

#[tokio::test]
async fn every_answer_says_that_it_is_no_page_and_is_not_to_be_kept() {
    let village = Village::start().await;
    for path in ["/", "/v1/me", "/v1/nothing", "/v1/openapi.json"] {
        let answer = village.ask(Method::GET, path).send().await;
        let said = |name: &str| answer.headers[name].to_str().unwrap().to_owned();
        assert!(said("content-security-policy").starts_with("default-src 'none'"));
        assert_eq!(said("x-content-type-options"), "nosniff");
        assert_eq!(said("cache-control"), "no-store");
        assert_eq!(said("referrer-policy"), "no-referrer");
        assert!(!answer.headers.contains_key("server"));
    }
}

#[tokio::test]
async fn an_oversize_body_is_refused_before_it_is_read_and_while_it_is() {
    let village = Village::start().await;
    let large = "x".repeat(3 * 1_024 * 1_024);
    let body = json!({"id": "c", "npc": "n", "messages": [], "padding": large});
    let declared = raw(
        &village,
        &format!(
            "POST /v1/chat HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            village.player.token,
            body.to_string().len()
        ),
    )
    .await;
    assert!(declared.starts_with("HTTP/1.1 413"), "{declared}");
    assert!(declared.contains("2097152 bytes"), "{declared}");
    // In chunks, it does not say how long it is.
    let mut chunked = format!(
        "POST /v1/chat HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        village.player.token
    );
    let chunk = format!("10000\r\n{}\r\n", &large[..65_536]);
    chunked.push_str(&chunk.repeat(33));
    let chunked = raw(&village, &chunked).await;
    assert!(chunked.starts_with("HTTP/1.1 413"), "{chunked}");
    assert!(village.turns.asked().is_empty());
}

#[tokio::test]
async fn an_oversize_head_is_refused_with_its_bound() {
    let village = Village::start().await;
    let answer = village
        .get("/v1/me")
        .header("x-padding", &"x".repeat(20_000))
        .send()
        .await;
    assert!(answer.problem(431).contains("at most 16384 are read"));
    let path = format!("/v1/npcs?pageToken={}", "x".repeat(20_000));
    village.get(&path).send().await.problem(431);
    // Far past the bound hyper answers by itself, and hangs up.
    let huge = format!(
        "GET /v1/me HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n",
        "x".repeat(200_000)
    );
    let huge = raw(&village, &huge).await;
    assert!(
        huge.is_empty() || huge.starts_with("HTTP/1.1 431"),
        "{huge}"
    );
}

#[tokio::test]
async fn a_client_that_drips_its_head_is_hung_up_on() {
    let mut config = config();
    config.timeouts.head = Duration::from_millis(200);
    let village = Village::with(config, Arc::new(SystemClock)).await;
    for start in ["", "GET /v1/me HTTP/1.1\r\nhost: local"] {
        let mut stream = TcpStream::connect(village.address).await.unwrap();
        stream.write_all(start.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut rest));
        assert!(ended.await.is_ok(), "{start:?} is waited for");
    }
}

#[tokio::test]
async fn a_client_that_drips_its_body_is_told_and_hung_up_on() {
    let mut config = config();
    config.timeouts.body = Duration::from_millis(200);
    let village = Village::with(config, Arc::new(SystemClock)).await;
    let head = format!(
        "POST /v1/chat HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{",
        village.player.token
    );
    let answer = raw(&village, &head).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[tokio::test]
async fn a_client_that_does_not_read_its_stream_is_hung_up_on() {
    let mut config = config();
    config.timeouts.write = Duration::from_millis(200);
    let village = Village::with(config, Arc::new(SystemClock)).await;
    let words = "x".repeat(64 * 1_024);
    let script = Script {
        events: say(&[words.as_str(); 512]),
        hold_after: Some(4),
        ..Script::default()
    };
    village.turns.script("Keeper", script);
    let mut reader = village.chat("Keeper", "c", "u1").read().await;
    reader.until("text-delta").await;
    assert_eq!(village.turns.open_watches(), 1);
    village.turns.release();
    // The reader is still there, and reads nothing.
    while village.turns.open_watches() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(reader);
}

#[tokio::test]
async fn what_is_not_there_and_wrong_methods_are_problems_too() {
    let village = Village::start().await;
    let answer = village.get("/v1/npc").send().await;
    assert_eq!(
        answer.problem(404),
        "there is nothing at \"/v1/npc\"; /v1/openapi.json lists what there is"
    );
    let answer = village.ask(Method::PUT, "/v1/npcs").send().await;
    assert!(answer.problem(405).contains("does not take \"PUT\""));
    assert_eq!(answer.headers["allow"], "GET,HEAD,POST");
    for path in [
        "/v1/../../etc/passwd",
        "/v1/npcs/..%2f..%2fetc%2fpasswd",
        "/v1/conversations/%2e%2e%2f%00",
        "/v1/npcs/%ff",
        "//evil.example/",
    ] {
        let answer = village.get(path).send().await;
        assert!(answer.status.is_client_error(), "{path}: {}", answer.status);
        assert_eq!(answer.headers["content-type"], "application/problem+json");
    }
}

#[tokio::test]
async fn a_body_that_is_no_json_is_named_as_such() {
    let village = Village::start().await;
    let post = || village.post("/v1/chat");
    let form = post()
        .header("content-type", "application/x-www-form-urlencoded")
        .body("npc=x");
    assert!(form.send().await.problem(415).contains("content-type"));
    // What a page may send without asking first.
    let simple = post().header("content-type", "text/plain").body("{}");
    simple.send().await.problem(415);
    let broken = post()
        .header("content-type", "application/json")
        .body("{\"id\": ");
    let broken = broken.send().await;
    assert!(broken.problem(400).contains("not JSON"));
    assert_eq!(broken.code(), "invalid_argument");
    let list = post().json(&json!([]));
    assert!(list.send().await.problem(400).contains("not an object"));
    let unknown = village
        .post("/v1/npcs")
        .json(&json!({"name": "Keeper", "personna": "x"}))
        .send()
        .await;
    assert!(unknown.problem(400).contains("did you mean persona?"));
    assert_eq!(unknown.json()["field"], "personna");
}

#[tokio::test]
async fn a_village_that_stops_takes_no_more_requests_and_waits_for_no_idle_client() {
    let port = HeldPort::new();
    let village = Village::on(&port).await;
    let _silent = TcpStream::connect(village.address).await.unwrap();
    let mut kept = TcpStream::connect(village.address).await.unwrap();
    kept.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut answer = [0; 4_096];
    assert!(kept.read(&mut answer).await.unwrap() > 0);
    let stopped = village
        .lifecycle
        .drain(Duration::from_secs(5), std::future::pending())
        .await;
    assert_eq!(stopped, Stopped::Drained);
    assert!(TcpStream::connect(village.address).await.is_err());
}

#[tokio::test]
async fn a_stream_goes_on_while_the_village_stops() {
    let port = HeldPort::new();
    let village = Village::on(&port).await;
    let script = Script {
        events: say(&["hel", "lo"]),
        hold_after: Some(4),
        ..Script::default()
    };
    village.turns.script("Keeper", script);
    let mut reader = village.chat("Keeper", "c", "u1").read().await;
    reader.until("hel").await;
    village.lifecycle.stop();
    while TcpStream::connect(village.address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    village.turns.release();
    assert!(reader.rest().await.ends_with("data: [DONE]\n\n"));
}

/// Sends bytes as they are, and reads until the edge hangs up.
async fn raw(village: &Village, request: &str) -> String {
    let mut stream = TcpStream::connect(village.address).await.unwrap();
    // The edge may hang up before it has read everything.
    let _refused = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let mut piece = [0; 4_096];
    let read = async {
        while let Ok(count) = stream.read(&mut piece).await {
            answer.extend_from_slice(&piece[..count]);
            let whole = String::from_utf8_lossy(&answer);
            if count == 0 || whole.ends_with('}') {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), read)
        .await
        .unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}
