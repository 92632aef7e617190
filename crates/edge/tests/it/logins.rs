//! Tokens: who has one, who lost it, who guesses.

use std::{sync::Arc, time::Duration};

use http::Method;
use kernel::SystemClock;
use testkit::clock::ManualClock;

use crate::village::{Village, config};

/// Every path that is described, but the description itself.
fn described() -> Vec<(Method, String)> {
    let document: serde_json::Value = serde_json::from_str(&edge::openapi_json()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    paths
        .iter()
        .flat_map(|(path, methods)| {
            let path = path.replace(['{', '}'], "x");
            methods.as_object().unwrap().keys().map(move |method| {
                let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
                (method, path.clone())
            })
        })
        .collect()
}

#[tokio::test]
async fn every_described_call_needs_a_token() {
    let mut config = config();
    config.failed_logins_per_minute = 1_000;
    let village = Village::with(config, Arc::new(SystemClock)).await;
    let calls = described();
    assert_eq!(calls.len(), 32);
    for (method, path) in calls {
        let answer = village.ask(method.clone(), &path).send().await;
        assert!(answer.problem(401).contains("Bearer"), "{method} {path}");
        assert_eq!(
            answer.headers["www-authenticate"],
            "Bearer realm=\"agentsville\""
        );
        let wrong = village
            .ask(method.clone(), &path)
            .token("guess")
            .send()
            .await;
        assert_eq!(wrong.problem(401), answer.problem(401), "{method} {path}");
    }
}

#[tokio::test]
async fn the_description_and_the_front_page_need_none() {
    let village = Village::start().await;
    let document = village.ask(Method::GET, "/v1/openapi.json").send().await;
    assert_eq!(document.json()["openapi"], "3.1.0");
    assert_eq!(document.body, edge::openapi_json());
    let front = village.ask(Method::GET, "/").send().await;
    assert!(front.body.contains("/v1/openapi.json"));
}

#[tokio::test]
async fn a_player_is_known_by_the_token() {
    let village = Village::start().await;
    let me = village.get("/v1/me").send().await.json();
    assert_eq!(me["name"], "ada");
    assert_eq!(me["operator"], false);
    assert_eq!(me["id"], village.player.id.to_string());
}

#[tokio::test]
async fn a_revoked_token_ends_within_five_seconds() {
    let clock = Arc::new(ManualClock::default());
    let village = Village::with(config(), clock.clone()).await;
    assert_eq!(village.get("/v1/me").send().await.status, 200);
    assert_eq!(village.get("/v1/me").send().await.status, 200);
    assert_eq!(village.registry.times_asked(), 1);
    village.registry.revoke(&village.player);
    clock.advance(Duration::from_secs(5));
    village.get("/v1/me").send().await.problem(401);
}

#[tokio::test]
async fn guessing_is_slowed_down_and_known_players_are_not_locked_out() {
    let clock = Arc::new(ManualClock::default());
    let village = Village::with(config(), clock.clone()).await;
    assert_eq!(village.get("/v1/me").send().await.status, 200);
    for guess in 0..10 {
        let answer = village
            .ask(Method::GET, "/v1/me")
            .token(&format!("guess-{guess}"))
            .send()
            .await;
        answer.problem(401);
    }
    let asked = village.registry.times_asked();
    let answer = village
        .ask(Method::GET, "/v1/me")
        .token("guess-10")
        .send()
        .await;
    assert!(answer.problem(429).contains("failed logins"));
    assert_eq!(answer.headers["retry-after"], "6");
    assert_eq!(village.registry.times_asked(), asked);
    // From the same address, with a token that was good a while ago.
    clock.advance(Duration::from_secs(5));
    assert_eq!(village.get("/v1/me").send().await.status, 200);
    clock.advance(Duration::from_secs(5));
    let newcomer = village.registry.player("bob");
    let answer = village.ask(Method::GET, "/v1/me").token(&newcomer.token);
    assert_eq!(answer.send().await.status, 200);
}

#[tokio::test]
async fn a_token_that_asks_too_often_waits_and_the_others_do_not() {
    let clock = Arc::new(ManualClock::default());
    let mut config = config();
    config.requests_per_minute = 3;
    let village = Village::with(config, clock.clone()).await;
    for _ in 0..3 {
        assert_eq!(village.get("/v1/me").send().await.status, 200);
    }
    let answer = village.get("/v1/me").send().await;
    assert!(
        answer
            .problem(429)
            .contains("more than 3 requests in a minute")
    );
    assert_eq!(answer.headers["retry-after"], "20");
    let other = village.registry.player("bob");
    let answer = village.ask(Method::GET, "/v1/me").token(&other.token);
    assert_eq!(answer.send().await.status, 200);
    clock.advance(Duration::from_secs(20));
    assert_eq!(village.get("/v1/me").send().await.status, 200);
}

#[tokio::test]
async fn settings_that_let_nobody_in_are_refused_by_name() {
    let refusal = |change: fn(&mut edge::Config)| {
        let mut config = config();
        change(&mut config);
        let scripted = crate::scripted::Registry::default();
        let turns = crate::scripted::Turns::default();
        let deps = crate::village::peers(
            scripted.server(),
            turns.server(),
            None,
            Arc::new(SystemClock),
        );
        edge::build(config, deps, runtime::Lifecycle::new())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refusal(|config| config.requests_per_minute = 0),
        "edge.requests_per_minute is 0, which lets nobody in; set at least 1"
    );
    assert!(refusal(|config| config.cors_origins = vec!["*".to_owned()]).contains("cors_origins"));
    assert!(
        refusal(|config| config.allowed_hosts = vec!["https://a".to_owned()])
            .contains("allowed_hosts")
    );
}

#[tokio::test]
async fn tokens_texts_and_queries_never_reach_the_log() {
    let events = testkit::events::capture();
    let village = Village::start().await;
    let secrets = ["s3cret-token", "s3cret-text", "s3cret-query"];
    let guess = village
        .ask(Method::GET, "/v1/npcs?pageToken=s3cret-query")
        .token("s3cret-token");
    guess.send().await.problem(401);
    let mut question = crate::village::question("Keeper", "c", "u1");
    question["messages"][0]["parts"][0]["text"] = serde_json::json!("s3cret-text");
    village
        .post("/v1/chat")
        .json(&question)
        .send()
        .await
        .problem(404);
    let logged = events.text();
    for said in ["request answered", "POST", "/v1/chat"] {
        assert!(logged.contains(said), "{said} is not in {logged}");
    }
    for secret in secrets.into_iter().chain([village.player.token.as_str()]) {
        assert!(!logged.contains(secret), "{secret} is in {logged}");
    }
}
