//! A Village in more than one process.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use serde_json::{Value, json};
use testkit::{
    database::{Schema, TestDatabase},
    provider::{ScriptedProvider, Step, Wire},
    redis::OwnRedis,
};

use crate::support::{FREE_PORTS, Person, Served, finished};

#[tokio::test(flavor = "multi_thread")]
async fn a_service_elsewhere_is_called_there_with_the_shared_key() {
    let provider = ScriptedProvider::start(Wire::ChatCompletions).await;
    let keys = Person::new().run(&["keys", "--json"]).ok().json();
    let key = keys[0]["privateKey"].as_str().unwrap();
    let elsewhere = Person::new()
        .with("AGENTSVILLE__KEYS__PRIVATE", key)
        .with("AGENTSVILLE__FETCH__HOSTS", r#"["only.example"]"#);
    let elsewhere = Served::by(&elsewhere);
    let here = Person::new()
        .with("AGENTSVILLE__KEYS__PRIVATE", key)
        .with(
            "AGENTSVILLE__PEERS__FETCH_PROXY",
            format!("http://{}", elsewhere.grpc),
        )
        .with("OPENAI_BASE_URL", provider.base_url());
    let village = Served::by(&here);
    let run = |arguments: &[&str]| {
        let line = [&["--server", village.http.as_str()], arguments].concat();
        here.run(&line)
    };
    run(&["npc", "create", "K", "--model", "openai/scripted"]).ok();
    run(&["grant", "add", "K", "tool:fetch_url"]).ok();
    provider.script([
        Step::new().call("fetch_url", &json!({ "url": "https://example.com/" })),
        Step::new().text("It was refused."),
    ]);
    // Only the fetch-proxy elsewhere has this list of hosts.
    let chat = run(&["chat", "K", "fetch"]).ok();
    assert!(chat.out.contains("only fetch from the hosts"), "{chat:?}");
}

#[test]
fn a_service_elsewhere_needs_a_key_that_it_can_trust() {
    let person = Person::new().with(
        "AGENTSVILLE__PEERS__FETCH_PROXY",
        "http://fetch-proxy.example:7070",
    );
    let run = finished(person.command(&["serve", "--json"]).envs(FREE_PORTS));
    assert_eq!(run.code, Some(1));
    let sentence = run.err.lines().last().unwrap();
    assert!(
        sentence.contains("fetch-proxy") && sentence.contains("keys.private is not set"),
        "{run:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_share_their_database_and_their_events_down_to_the_abort() {
    let provider = ScriptedProvider::start(Wire::ChatCompletions).await;
    let database = TestDatabase::postgres(Schema::Empty).await;
    let redis = OwnRedis::start();
    let token = "a-token-of-the-operator-of-both-replicas";
    let person = || {
        Person::new()
            .with("DATABASE_URL", database.config().url.expose())
            .with("REDIS_URL", redis.url())
            .with("AGENTSVILLE__REPLICAS", "2")
            .with(
                "BETTER_AUTH_SECRET",
                "a-root-secret-of-both-of-the-replicas",
            )
            .with("AGENTSVILLE__OPERATOR_TOKEN", token)
            .with("AGENTSVILLE_TOKEN", token)
            .with("OPENAI_BASE_URL", provider.base_url())
    };
    let (one, other) = (person(), person());
    let (first, second) = (Served::by(&one), Served::by(&other));
    let create = [
        "npc",
        "create",
        "K",
        "--model",
        "openai/scripted",
        "--server",
        &first.http,
    ];
    one.run(&create).ok();
    provider.script([Step::new().text("I begin\n").stall()]);
    let mut chat = other
        .command(&["chat", "K", "hi", "--json", "--server", &second.http])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(chat.stdout.take().unwrap()).lines();
    let start: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let turn = start["messageMetadata"]["turnId"].as_str().unwrap();
    one.run(&["turn", "abort", turn, "--server", &first.http])
        .ok();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(
        rest.iter().any(|line| line.contains(r#""type":"abort""#)),
        "{rest:?}"
    );
    assert_eq!(chat.wait().unwrap().code(), Some(0));
    drop((first, second));
    database.finish().await;
}

#[test]
fn replicas_that_would_share_nothing_are_refused() {
    let run = |more: &[(&str, &str)]| {
        let person = more.iter().fold(
            Person::new().with("AGENTSVILLE__REPLICAS", "2"),
            |person, (name, value)| person.with(name, *value),
        );
        let run = person.run(&["check-config"]);
        assert_eq!(run.code, Some(1), "{run:?}");
        run.err
    };
    let postgres = ("DATABASE_URL", "postgres://h/d");
    let redis = ("REDIS_URL", "redis://h");
    assert!(run(&[]).contains("DATABASE_URL (PostgreSQL) and REDIS_URL are not set"));
    assert!(run(&[postgres]).contains("REDIS_URL is not set"));
    assert!(run(&[redis]).contains("DATABASE_URL (PostgreSQL) is not set"));
    assert!(run(&[postgres, redis]).contains("secret is not set"));
}
