//! Who may ask.

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use kernel::{Caller, Clock as _, ServiceName, SystemClock};
use serde_json::json;

use super::{
    in_both_shapes,
    setup::{Shape, World},
    wire::{Answer, Wire, ask, connect, get},
};

in_both_shapes!(
    without_a_token_nothing_is_served_and_the_schemes_are_named,
    a_token_in_the_wrong_header_is_none,
    an_expired_token_is_refused,
    a_forged_token_is_refused,
    a_token_of_another_kind_is_refused,
    a_token_for_another_service_is_refused,
    a_token_that_is_not_signed_is_refused,
    a_token_that_outlives_a_minute_is_refused,
    every_request_of_a_connection_shows_a_token,
    a_tunnel_outlives_its_token_and_shows_it_to_nobody,
    no_answer_repeats_a_token,
    an_npcs_token_of_the_orchestrator_leads_to_every_public_host,
);

/// Both forms with this header line instead of a token's.
async fn asked_with(world: &World, proxy: &super::setup::Proxy, header: &str) -> [Answer; 2] {
    let (index, secure) = (world.index(), world.secure());
    [
        ask(
            proxy.address,
            format!("CONNECT {secure} HTTP/1.1\r\nHost: {secure}\r\n{header}\r\n"),
        )
        .await,
        ask(
            proxy.address,
            format!("GET http://{index}/ HTTP/1.1\r\nHost: {index}\r\n{header}\r\n"),
        )
        .await,
    ]
}

async fn refused(shape: Shape, token: impl FnOnce(&World) -> String, rule: &str) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    let token = token(&world);
    let header = format!("Proxy-Authorization: Bearer {token}\r\n");
    for answer in asked_with(&world, &proxy, &header).await {
        assert_eq!(answer.facts(), (407, rule));
        assert!(!answer.text().contains(&token), "{}", answer.text());
    }
    assert!(world.web.asked().is_empty());
    assert_eq!(world.secure.accepted(), 0);
    assert!(world.dns.queries().is_empty(), "nobody looked anything up");
}

async fn without_a_token_nothing_is_served_and_the_schemes_are_named(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    for answer in asked_with(&world, &proxy, "").await {
        assert_eq!(answer.facts(), (407, "token-missing"));
        let schemes: Vec<&str> = answer
            .head
            .lines()
            .filter_map(|line| line.strip_prefix("proxy-authenticate: "))
            .collect();
        assert_eq!(
            schemes,
            [
                "Bearer realm=\"agentsville\"",
                "Basic realm=\"agentsville\", charset=\"UTF-8\""
            ]
        );
    }
    assert!(world.dns.queries().is_empty());
}

async fn a_token_in_the_wrong_header_is_none(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    let token = world.token();
    for header in [
        format!("Authorization: Bearer {token}\r\n"),
        format!("X-Proxy-Authorization: Bearer {token}\r\n"),
        format!("Cookie: Proxy-Authorization={token}\r\n"),
    ] {
        for answer in asked_with(&world, &proxy, &header).await {
            assert_eq!(answer.facts(), (407, "token-missing"), "{header}");
        }
    }
    let twice = format!("Proxy-Authorization: Bearer {token}\r\n").repeat(2);
    for answer in asked_with(&world, &proxy, &twice).await {
        assert_eq!(answer.facts(), (407, "token-malformed"));
    }
}

async fn an_expired_token_is_refused(shape: Shape) {
    let late = |world: &World| {
        let issuer = &world.issuers.late_broker;
        issuer.mint_egress(&world.pass(&[])).expect("a token")
    };
    refused(shape, late, "token-expired").await;
}

async fn a_forged_token_is_refused(shape: Shape) {
    let forged = |world: &World| {
        let issuer = &world.issuers.forger;
        issuer.mint_egress(&world.pass(&[])).expect("a token")
    };
    refused(shape, forged, "token-untrusted").await;
}

async fn a_token_of_another_kind_is_refused(shape: Shape) {
    for kind in ["player", "operator", "service", "npc of the edge"] {
        let token = |world: &World| {
            let (issuers, player) = (&world.issuers, world.player);
            let (issuer, caller) = match kind {
                "player" => (&issuers.edge, Caller::Player(player)),
                "operator" => (&issuers.edge, Caller::Operator(player)),
                "service" => {
                    let service = Caller::Service {
                        name: ServiceName::SandboxBroker,
                        player: Some(player),
                    };
                    (&issuers.broker, service)
                }
                _ => (&issuers.edge, world.as_npc()),
            };
            issuer
                .mint(&caller, ServiceName::FetchProxy)
                .expect("a token")
        };
        refused(shape, token, "token-kind").await;
    }
}

async fn a_token_for_another_service_is_refused(shape: Shape) {
    let token = |world: &World| {
        let issuer = &world.issuers.orchestrator;
        issuer
            .mint(&world.as_npc(), ServiceName::McpGateway)
            .expect("a token")
    };
    refused(shape, token, "token-audience").await;
}

/// A token of the broker's with claims of the attacker's choice.
fn claims(world: &World, lifetime: i64) -> serde_json::Value {
    let now = SystemClock.now().as_seconds();
    json!({
        "iss": "sandbox-broker",
        "sub": world.npc.to_string(),
        "for": world.player.to_string(),
        "kind": "npc",
        "aud": "fetch-proxy",
        "iat": now,
        "exp": now + lifetime,
    })
}

async fn a_token_that_is_not_signed_is_refused(shape: Shape) {
    use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
    let unsigned = |world: &World| {
        let encode = |value: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        format!(
            "{}.{}.",
            encode(json!({"alg": "none", "typ": "JWT"})),
            encode(claims(world, 60))
        )
    };
    refused(shape, unsigned, "token-malformed").await;
    // The public key as if it were a shared secret.
    let confused = |world: &World| {
        let key = EncodingKey::from_secret(world.issuers.broker.public_key().as_bytes());
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims(world, 60), &key)
            .expect("a token")
    };
    refused(shape, confused, "token-malformed").await;
}

async fn a_token_that_outlives_a_minute_is_refused(shape: Shape) {
    let long = |world: &World| {
        let key = world.issuers.broker_key().private_key();
        let pem = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            key.expose()
        );
        let key = EncodingKey::from_ed_pem(pem.as_bytes()).expect("a key");
        let claims = claims(world, 3_600);
        jsonwebtoken::encode(&Header::new(Algorithm::EdDSA), &claims, &key).expect("a token")
    };
    refused(shape, long, "token-expired").await;
}

async fn every_request_of_a_connection_shows_a_token(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    world.web.file("/", "hello");
    let url = format!("http://{}/", world.index());
    let mut wire = Wire::to(proxy.address).await;
    wire.say(get(&url, &world.token())).await;
    assert_eq!(wire.answer().await.text(), "hello");
    wire.say(format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n"))
        .await;
    assert_eq!(wire.answer().await.facts(), (407, "token-missing"));
    let late = &world.issuers.late_broker;
    let late = late.mint_egress(&world.pass(&[])).expect("a token");
    wire.say(get(&url, &late)).await;
    assert_eq!(wire.answer().await.facts(), (407, "token-expired"));
    wire.say(get(&url, &world.token())).await;
    assert_eq!(wire.answer().await.text(), "hello");
    assert_eq!(world.web.asked().len(), 2);
}

async fn a_tunnel_outlives_its_token_and_shows_it_to_nobody(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    let server = testkit::origin::RawOrigin::plain(vec![vec![
        testkit::origin::Act::hear("ping"),
        testkit::origin::Act::say("pong"),
        testkit::origin::Act::Close,
    ]])
    .await;
    let allow = format!(
        r#"[{{to = "127.0.0.1/32:{}", for = ["egress"]}}]"#,
        server.port()
    );
    drop(proxy);
    let proxy = world
        .proxy(shape, &[("AGENTSVILLE__OUTBOUND__ALLOW", &allow)])
        .await;
    let mut wire = Wire::to(proxy.address).await;
    let authority = format!("127.0.0.1:{}", server.port());
    wire.say(connect(&authority, &world.token())).await;
    assert_eq!(wire.head_answer().await.status, 200);
    wire.say("ping").await;
    assert_eq!(wire.rest().await, b"pong");
    assert_eq!(server.heard(), ["ping"]);
}

async fn no_answer_repeats_a_token(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    let token = world.token();
    for request in [
        connect("169.254.169.254:80", &token),
        connect("nowhere.test:443", &token),
        get("http://dead.test/", &token),
        get("https://secure.test/", &token),
        format!("GET / HTTP/1.1\r\nProxy-Authorization: Bearer {token}\r\nbroken\r\n\r\n"),
    ] {
        let answer = ask(proxy.address, &request).await;
        assert!(answer.status >= 400, "{answer:?}");
        let told = format!("{}{}", answer.head, answer.text());
        assert!(!told.contains(&token), "{told}");
    }
}

async fn an_npcs_token_of_the_orchestrator_leads_to_every_public_host(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    world.web.file("/", "hello");
    let token = world
        .issuers
        .orchestrator
        .mint(&world.as_npc(), ServiceName::FetchProxy)
        .expect("a token");
    let answer = ask(
        proxy.address,
        get(&format!("http://{}/", world.index()), &token),
    )
    .await;
    assert_eq!((answer.status, answer.text()), (200, "hello".to_owned()));
}
