//! One wide event for each tunnel and request, on every path, and what it says.

use serde_json::{Map, Value, json};
use testkit::events;

use super::{
    setup::{Proxy, Shape, World},
    wire::{Wire, ask, connect, get},
};

async fn started() -> (World, Proxy, events::Events) {
    let captured = events::capture();
    let world = World::start().await;
    let proxy = world.proxy(Shape::InProcess, &[]).await;
    (world, proxy, captured)
}

/// The next event, which is the only one so far.
async fn recorded(captured: &events::Events, count: usize) -> Map<String, Value> {
    let mut events = captured.wait_for("egress_tunnel", count).await;
    assert_eq!(events.len(), count);
    events.remove(count - 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_passed_on_leaves_who_where_how_much_and_how_it_ended() {
    let (world, proxy, captured) = started().await;
    world.web.file("/secret-path", "hello");
    let url = format!("http://{}/secret-path?q=secret", world.index());
    let token = world.token();
    let mut wire = Wire::to(proxy.address).await;
    wire.say(get(&url, &token)).await;
    wire.answer().await;
    let event = recorded(&captured, 1).await;
    for (name, value) in [
        ("outcome", json!("ok")),
        ("agentsville.form", json!("absolute")),
        ("http.request.method", json!("GET")),
        ("gen_ai.agent.id", json!(world.npc.to_string())),
        ("agentsville.player.id", json!(world.player.to_string())),
        ("server.address", json!("index.test")),
        ("server.port", json!(world.web.port())),
        ("http.response.status_code", json!(200)),
        ("agentsville.verdict", json!("allow")),
        ("agentsville.reason", json!("complete")),
        ("agentsville.input.bytes", json!(0)),
        ("agentsville.output.bytes", json!(5)),
    ] {
        assert_eq!(event.get(name), Some(&value), "{name} {event:?}");
    }
    let all = captured.text();
    assert!(!all.contains("secret"), "{all}");
    assert!(!all.contains(&token), "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_leaves_its_bytes_each_way_when_it_ends() {
    let (world, proxy, captured) = started().await;
    let mut wire = Wire::to(proxy.address).await;
    wire.say(connect(&world.index(), &world.token())).await;
    assert_eq!(wire.head_answer().await.status, 200);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    wire.say(request).await;
    let answer = wire.rest().await;
    drop(wire);
    let event = recorded(&captured, 1).await;
    for (name, value) in [
        ("outcome", json!("ok")),
        ("agentsville.form", json!("connect")),
        ("agentsville.verdict", json!("allow")),
        ("agentsville.reason", json!("complete")),
        ("agentsville.input.bytes", json!(request.len())),
        ("agentsville.output.bytes", json!(answer.len())),
    ] {
        assert_eq!(event.get(name), Some(&value), "{name} {event:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_leaves_the_rule_and_whose_it_was() {
    let (world, proxy, captured) = started().await;
    let token = world.token();
    let listed = world.token_for(&["index.test"]);
    let asked = [
        (connect("10.0.0.1:443", &token), "denied", "private"),
        (
            connect("secure.test:443", &listed),
            "denied",
            "host-not-allowed",
        ),
        (connect("nowhere.test:443", &token), "error", "unresolvable"),
        (
            "GET http://a.test/ HTTP/1.1\r\n\r\n".to_owned(),
            "error",
            "token-missing",
        ),
        (get("/", &token), "error", "form"),
        ("nonsense\r\n\r\n".to_owned(), "error", "malformed"),
    ];
    for (count, (request, outcome, rule)) in asked.into_iter().enumerate() {
        ask(proxy.address, request).await;
        let event = recorded(&captured, count + 1).await;
        assert_eq!(event.get("outcome"), Some(&json!(outcome)), "{event:?}");
        assert_eq!(event.get("agentsville.verdict"), Some(&json!(rule)));
        let has_identity = event.contains_key("gen_ai.agent.id");
        let is_late = matches!(rule, "private" | "host-not-allowed" | "unresolvable");
        assert_eq!(has_identity, is_late, "{event:?}");
    }
    let all = captured.text();
    assert!(!all.contains(&token) && !all.contains(&listed), "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_that_is_cut_off_by_the_end_of_the_process_is_recorded_too() {
    let (world, proxy, captured) = started().await;
    let mut wire = Wire::to(proxy.address).await;
    wire.say(connect(&world.index(), &world.token())).await;
    assert_eq!(wire.head_answer().await.status, 200);
    let lifecycle = proxy.lifecycle.clone().expect("a lifecycle");
    let no_time = std::time::Duration::ZERO;
    lifecycle.drain(no_time, std::future::pending()).await;
    let event = recorded(&captured, 1).await;
    assert_eq!(event.get("outcome"), Some(&json!("interrupted")));
    assert_eq!(event.get("agentsville.reason"), Some(&json!("interrupted")));
    assert_eq!(event.get("server.address"), Some(&json!("index.test")));
    assert_eq!(wire.rest().await, b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_in_the_middle_of_an_answer_leaves_an_interrupted_record() {
    use testkit::origin::{Act, RawOrigin};
    let captured = events::capture();
    let world = World::start().await;
    let server = RawOrigin::plain(vec![vec![
        Act::hear("\r\n\r\n"),
        Act::say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"),
    ]])
    .await;
    let port = server.port();
    let allow = format!(r#"[{{to = "index.test:{port}", for = ["egress"]}}]"#);
    let settings = [("AGENTSVILLE__OUTBOUND__ALLOW", allow.as_str())];
    let proxy = world.proxy(Shape::InProcess, &settings).await;
    let mut wire = Wire::to(proxy.address).await;
    let url = format!("http://index.test:{port}/");
    wire.say(get(&url, &world.token())).await;
    wire.head_answer().await;
    assert_eq!(wire.take(9).await, b"only this");
    drop(wire);
    let event = recorded(&captured, 1).await;
    assert_eq!(event.get("outcome"), Some(&json!("interrupted")));
    assert_eq!(event.get("agentsville.output.bytes"), Some(&json!(9)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_that_a_bound_ends_says_which() {
    use testkit::origin::{Act, RawOrigin};
    let captured = events::capture();
    let world = World::start().await;
    let babble = vec![Act::hear("babble"), Act::babble("x".repeat(1_000))];
    let server = RawOrigin::plain(vec![babble]).await;
    let port = server.port();
    let allow = format!(r#"[{{to = "index.test:{port}", for = ["egress"]}}]"#);
    let settings = [
        ("AGENTSVILLE__OUTBOUND__ALLOW", allow.as_str()),
        ("AGENTSVILLE__EGRESS__TUNNEL_BYTES", "5000"),
        ("AGENTSVILLE__EGRESS__IDLE_SECONDS", "1"),
    ];
    let proxy = world.proxy(Shape::InProcess, &settings).await;
    let token = world.token_for(&["index.test"]);
    // The first bytes of a hello that is none.
    let no_hello = "\u{16}\u{3}\u{1}\0\u{4}abcd";
    for (count, (said, outcome, reason)) in [
        ("babble", "error", "too-many-bytes"),
        ("nothing", "interrupted", "idle"),
        (no_hello, "denied", "not-tls"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut wire = Wire::to(proxy.address).await;
        wire.say(connect(&format!("index.test:{port}"), &token))
            .await;
        assert_eq!(wire.head_answer().await.status, 200);
        wire.say(said).await;
        wire.rest().await;
        let event = recorded(&captured, count + 1).await;
        assert_eq!(event.get("outcome"), Some(&json!(outcome)), "{event:?}");
        assert_eq!(event.get("agentsville.reason"), Some(&json!(reason)));
    }
}
