use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD, prelude::BASE64_URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use kernel::{Caller, CallerKind, Clock, NpcId, PlayerId, Secret, ServiceName, Timestamp};
use serde_json::json;
use testkit::clock::ManualClock;

use super::*;

const NOW: i64 = 1_800_000_000;
const HERE: ServiceName = ServiceName::ToolRegistry;

struct Rig {
    clock: Arc<ManualClock>,
    key: SigningKey,
    issuer: Issuer,
    trust: Trust,
}

impl Rig {
    fn new(name: &str, mints: &[CallerKind]) -> Self {
        let clock = clock();
        let key = SigningKey::generate().unwrap();
        let trust = Trust::new(clock.clone());
        trust.add(name, &key.public_key(), mints).unwrap();
        Self {
            issuer: Issuer::named(name, key.clone(), clock.clone()),
            clock,
            key,
            trust,
        }
    }

    fn edge() -> Self {
        Self::new("edge", default_mints("edge"))
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// A token with claims of the attacker's choice, signed with the trusted key.
    fn signed(&self, change: impl FnOnce(&mut serde_json::Value)) -> String {
        let mut claims = json!({
            "iss": self.issuer.name(),
            "sub": player().to_string(),
            "kind": "player",
            "aud": "tool-registry",
            "iat": NOW,
            "exp": NOW + 60,
        });
        change(&mut claims);
        jsonwebtoken::encode(&Header::new(Algorithm::EdDSA), &claims, self.key.encoding()).unwrap()
    }

    fn refuses(&self, change: impl FnOnce(&mut serde_json::Value)) -> TokenError {
        self.trust.verify(&self.signed(change), HERE).unwrap_err()
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp::from_micros(NOW * 1_000_000)))
}

fn player() -> PlayerId {
    "01930000-0000-7000-8000-000000000001".parse().unwrap()
}

fn npc() -> NpcId {
    "01930000-0000-7000-8000-000000000002".parse().unwrap()
}

#[test]
fn every_caller_comes_out_as_it_went_in() {
    let rig = Rig::new("turn-orchestrator", default_mints("turn-orchestrator"));
    for caller in [
        Caller::Operator(player()),
        Caller::Player(player()),
        Caller::Npc {
            npc: npc(),
            player: player(),
        },
        Caller::Service {
            name: ServiceName::TurnOrchestrator,
            player: Some(player()),
        },
        Caller::Service {
            name: ServiceName::TurnOrchestrator,
            player: None,
        },
    ] {
        let token = rig.issuer.mint(&caller, HERE).unwrap();
        assert_eq!(rig.trust.verify(&token, HERE), Ok(caller.clone()));
        assert_eq!(rig.trust.verify(&token, HERE), Ok(caller), "from the cache");
    }
}

#[test]
fn a_token_is_minted_anew_when_less_than_twenty_seconds_are_left() {
    let rig = Rig::edge();
    let mint = || rig.issuer.mint(&Caller::Player(player()), HERE).unwrap();
    let first = mint();
    rig.pass(40);
    assert_eq!(mint(), first);
    rig.pass(1);
    let second = mint();
    assert_ne!(second, first);
    assert_ne!(
        rig.issuer
            .mint(&Caller::Player(player()), ServiceName::FetchProxy)
            .unwrap(),
        second
    );
    assert_ne!(
        rig.issuer.mint(&Caller::Operator(player()), HERE).unwrap(),
        second
    );
}

#[test]
fn an_expired_token_is_refused_also_from_the_cache() {
    let rig = Rig::edge();
    let token = rig.issuer.mint(&Caller::Player(player()), HERE).unwrap();
    rig.trust.verify(&token, HERE).unwrap();
    rig.pass(59);
    rig.trust.verify(&token, HERE).unwrap();
    rig.pass(1);
    assert_eq!(rig.trust.verify(&token, HERE), Err(TokenError::Expired));
}

#[test]
fn a_token_for_another_service_is_refused_also_from_the_cache() {
    let rig = Rig::edge();
    let token = rig.issuer.mint(&Caller::Player(player()), HERE).unwrap();
    rig.trust.verify(&token, HERE).unwrap();
    assert_eq!(
        rig.trust.verify(&token, ServiceName::FetchProxy),
        Err(TokenError::WrongAudience {
            found: "tool-registry".to_owned(),
            expected: ServiceName::FetchProxy
        })
    );
    let list = rig.refuses(|claims| claims["aud"] = json!(["tool-registry", "fetch-proxy"]));
    assert_eq!(list, TokenError::Malformed);
}

#[test]
fn a_forged_token_is_refused() {
    let rig = Rig::edge();
    let forger = Rig::edge();
    let token = forger.issuer.mint(&Caller::Player(player()), HERE).unwrap();
    assert_eq!(
        rig.trust.verify(&token, HERE),
        Err(TokenError::BadSignature("edge".to_owned()))
    );
    // Claims that were changed after signing.
    let token = rig.issuer.mint(&Caller::Player(player()), HERE).unwrap();
    let [header, claims, signature] = token.split('.').collect::<Vec<_>>()[..] else {
        panic!("a JWT has three parts");
    };
    let changed = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(claims).unwrap())
        .unwrap()
        .replace("player", "operator");
    let changed = BASE64_URL_SAFE_NO_PAD.encode(changed);
    assert_eq!(
        rig.trust
            .verify(&format!("{header}.{changed}.{signature}"), HERE),
        Err(TokenError::BadSignature("edge".to_owned()))
    );
}

#[test]
fn an_unknown_issuer_is_refused() {
    let rig = Rig::edge();
    assert_eq!(
        rig.refuses(|claims| claims["iss"] = json!("mallory")),
        TokenError::UnknownIssuer("mallory".to_owned())
    );
}

#[test]
fn one_issuer_cannot_speak_for_another_by_its_own_key() {
    let rig = Rig::new("api-gateway", &[CallerKind::Player]);
    let edge = SigningKey::generate().unwrap();
    rig.trust
        .add("edge", &edge.public_key(), default_mints("edge"))
        .unwrap();
    assert_eq!(
        rig.refuses(|claims| claims["iss"] = json!("edge")),
        TokenError::BadSignature("edge".to_owned())
    );
}

#[test]
fn the_algorithm_is_not_the_tokens_to_choose() {
    let rig = Rig::edge();
    let claims = rig.signed(|_| {});
    let claims = claims.split('.').nth(1).unwrap();
    for header in [
        json!({"alg": "none", "typ": "JWT"}),
        json!({"alg": "None"}),
        json!({"typ": "JWT"}),
    ] {
        let header = BASE64_URL_SAFE_NO_PAD.encode(header.to_string());
        for signature in ["", "AAAA"] {
            let token = format!("{header}.{claims}.{signature}");
            assert_eq!(rig.trust.verify(&token, HERE), Err(TokenError::Malformed));
        }
    }
    // The public key as an HMAC secret: the classic confusion.
    let public = BASE64_STANDARD.decode(rig.key.public_key()).unwrap();
    let body: serde_json::Value =
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    for algorithm in [Algorithm::HS256, Algorithm::HS512] {
        let token = jsonwebtoken::encode(
            &Header::new(algorithm),
            &body,
            &EncodingKey::from_secret(&public),
        )
        .unwrap();
        assert_eq!(rig.trust.verify(&token, HERE), Err(TokenError::Malformed));
    }
}

#[test]
fn an_issuer_cannot_mint_kinds_that_it_may_not() {
    let gateway = Rig::new("api-gateway", default_mints("api-gateway"));
    gateway.trust.verify(&gateway.signed(|_| {}), HERE).unwrap();
    for kind in ["operator", "npc", "service"] {
        assert!(
            matches!(
                gateway.refuses(|claims| claims["kind"] = json!(kind)),
                TokenError::KindNotAllowed { .. }
            ),
            "{kind}"
        );
    }
    for (service, kinds) in [
        ("fetch-proxy", &["operator", "player", "npc"][..]),
        ("mcp-gateway", &["operator", "player", "npc"]),
        ("tool-registry", &["operator", "player", "npc"]),
        ("sandbox-broker", &["operator", "player"]),
    ] {
        let rig = Rig::new(service, default_mints(service));
        for kind in kinds {
            assert!(
                matches!(
                    rig.refuses(|claims| claims["kind"] = json!(kind)),
                    TokenError::KindNotAllowed { .. }
                ),
                "{service} {kind}"
            );
        }
    }
}

fn pass(hosts: &[&str]) -> EgressPass {
    EgressPass {
        npc: npc(),
        player: player(),
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
    }
}

#[test]
fn a_pass_for_the_way_out_comes_out_as_it_went_in() {
    let rig = Rig::new("sandbox-broker", default_mints("sandbox-broker"));
    let many: Vec<String> = (0..256)
        .map(|n| format!("host-{n}.docs.example.org"))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for hosts in [&[][..], &["example.org", "*.docs.example"], &many] {
        let token = rig.issuer.mint_egress(&pass(hosts)).unwrap();
        assert_eq!(rig.trust.verify_egress(&token), Ok(pass(hosts)));
    }
    rig.pass(60);
    let token = rig.issuer.mint_egress(&pass(&[])).unwrap();
    rig.pass(60);
    assert_eq!(rig.trust.verify_egress(&token), Err(TokenError::Expired));
}

#[test]
fn an_npcs_token_without_a_list_of_hosts_is_a_pass_to_every_public_host() {
    let rig = Rig::new("turn-orchestrator", default_mints("turn-orchestrator"));
    let caller = Caller::Npc {
        npc: npc(),
        player: player(),
    };
    let token = rig.issuer.mint(&caller, ServiceName::FetchProxy).unwrap();
    assert_eq!(rig.trust.verify_egress(&token), Ok(pass(&[])));
}

#[test]
fn a_pass_for_the_way_out_is_good_for_no_call() {
    let rig = Rig::new("sandbox-broker", default_mints("sandbox-broker"));
    let token = rig
        .issuer
        .mint_egress(&pass(&["only-this.example"]))
        .unwrap();
    assert_eq!(
        rig.trust.verify(&token, ServiceName::FetchProxy),
        Err(TokenError::EgressOnly)
    );
    rig.trust.verify_egress(&token).unwrap();
    assert_eq!(
        rig.trust.verify(&token, ServiceName::FetchProxy),
        Err(TokenError::EgressOnly)
    );
}

#[test]
fn the_sandbox_broker_speaks_for_npcs_to_the_fetch_proxy_alone() {
    let rig = Rig::new("sandbox-broker", default_mints("sandbox-broker"));
    let npcs = Caller::Npc {
        npc: npc(),
        player: player(),
    };
    for service in ServiceName::ALL {
        let token = rig.issuer.mint(&npcs, service).unwrap();
        let verified = rig.trust.verify(&token, service);
        if service == ServiceName::FetchProxy {
            assert_eq!(verified, Ok(npcs.clone()));
        } else {
            assert!(
                matches!(verified, Err(TokenError::NotThere { .. })),
                "{service}: {verified:?}"
            );
        }
    }
}

#[test]
fn only_npcs_have_a_way_out() {
    let rig = Rig::new(
        "turn-orchestrator",
        &[
            CallerKind::Operator,
            CallerKind::Player,
            CallerKind::Npc,
            CallerKind::Service,
        ],
    );
    for caller in [
        Caller::Operator(player()),
        Caller::Player(player()),
        Caller::Service {
            name: ServiceName::TurnOrchestrator,
            player: Some(player()),
        },
    ] {
        let token = rig.issuer.mint(&caller, ServiceName::FetchProxy).unwrap();
        assert_eq!(
            rig.trust.verify_egress(&token),
            Err(TokenError::NotAnNpc(caller.kind()))
        );
    }
    let elsewhere = Caller::Npc {
        npc: npc(),
        player: player(),
    };
    let token = rig.issuer.mint(&elsewhere, HERE).unwrap();
    assert!(matches!(
        rig.trust.verify_egress(&token),
        Err(TokenError::WrongAudience { .. })
    ));
    let odd = rig.signed(|claims| {
        claims["kind"] = json!("npc");
        claims["for"] = json!(player().to_string());
        claims["aud"] = json!("fetch-proxy");
        claims["egress"] = json!({"hosts": ["a.example"], "ports": [25]});
    });
    assert_eq!(
        rig.trust.verify_egress(&odd),
        Err(TokenError::Malformed),
        "a policy that is not understood is not half heeded"
    );
}

#[test]
fn a_service_cannot_pose_as_another_service() {
    let rig = Rig::new("fetch-proxy", default_mints("fetch-proxy"));
    let wrong = rig.refuses(|claims| {
        claims["kind"] = json!("service");
        claims["sub"] = json!("turn-orchestrator");
    });
    assert_eq!(wrong, TokenError::WrongSubject);
}

#[test]
fn a_subject_must_fit_its_kind() {
    let rig = Rig::new("turn-orchestrator", default_mints("turn-orchestrator"));
    for (kind, sub, on_behalf_of) in [
        ("player", "not-an-id", None),
        ("player", "", None),
        ("operator", "operator", None),
        ("npc", "01930000-0000-7000-8000-000000000002", None),
        ("npc", "01930000-0000-7000-8000-000000000002", Some("x")),
        (
            "player",
            "01930000-0000-7000-8000-000000000001",
            Some("01930000-0000-7000-8000-000000000009"),
        ),
    ] {
        let wrong = rig.refuses(|claims| {
            claims["kind"] = json!(kind);
            claims["sub"] = json!(sub);
            if let Some(player) = on_behalf_of {
                claims["for"] = json!(player);
            }
        });
        assert_eq!(wrong, TokenError::WrongSubject, "{kind} {sub}");
    }
}

#[test]
fn an_over_long_or_future_token_is_refused() {
    let rig = Rig::edge();
    for (iat, exp) in [
        (NOW, NOW + 61),
        (NOW - 3_600, NOW + 30),
        (NOW + 6, NOW + 60),
        (i64::MIN, i64::MAX),
        (NOW + 100, NOW + 50),
    ] {
        let refused = rig.refuses(|claims| {
            claims["iat"] = json!(iat);
            claims["exp"] = json!(exp);
        });
        assert_eq!(refused, TokenError::WrongTimes, "{iat} {exp}");
    }
    // A clock that is a few seconds ahead is no attack.
    let token = rig.signed(|claims| {
        claims["iat"] = json!(NOW + 5);
        claims["exp"] = json!(NOW + 65);
    });
    rig.trust.verify(&token, HERE).unwrap();
}

#[test]
fn missing_unknown_and_mistyped_claims_are_refused() {
    let rig = Rig::edge();
    for name in ["iss", "sub", "kind", "aud", "iat", "exp"] {
        let refused = rig.refuses(|claims| {
            claims.as_object_mut().unwrap().remove(name);
        });
        assert_eq!(refused, TokenError::Malformed, "{name}");
    }
    assert_eq!(
        rig.refuses(|claims| claims["admin"] = json!(true)),
        TokenError::Malformed
    );
    assert_eq!(
        rig.refuses(|claims| claims["exp"] = json!("never")),
        TokenError::Malformed
    );
    assert_eq!(
        rig.refuses(|claims| claims["kind"] = json!("root")),
        TokenError::Malformed
    );
}

#[test]
fn what_is_no_token_or_endless_is_refused() {
    let rig = Rig::edge();
    for text in ["", ".", "..", "a.b.c", "Bearer x", "\u{1F98A}"] {
        assert_eq!(rig.trust.verify(text, HERE), Err(TokenError::Malformed));
    }
    let long = rig.refuses(|claims| claims["sub"] = json!("x".repeat(10_000)));
    assert_eq!(long, TokenError::Malformed);
}

#[test]
fn both_caches_are_bounded() {
    let rig = Rig::edge();
    for number in 0..u32::try_from(CACHED).unwrap() + 10 {
        let player: PlayerId = format!("01930000-0000-7000-8000-0000{number:08}")
            .parse()
            .unwrap();
        let token = rig.issuer.mint(&Caller::Player(player), HERE).unwrap();
        rig.trust.verify(&token, HERE).unwrap();
    }
    assert!(rig.issuer.cached() <= CACHED);
    assert!(rig.trust.cached() <= CACHED);
}

#[test]
fn trusting_an_issuer_anew_forgets_what_its_old_key_vouched_for() {
    let rig = Rig::edge();
    let token = rig.issuer.mint(&Caller::Player(player()), HERE).unwrap();
    rig.trust.verify(&token, HERE).unwrap();
    let other = SigningKey::generate().unwrap();
    rig.trust
        .add("edge", &other.public_key(), default_mints("edge"))
        .unwrap();
    assert_eq!(
        rig.trust.verify(&token, HERE),
        Err(TokenError::BadSignature("edge".to_owned()))
    );
}

#[test]
fn a_key_survives_its_setting() {
    let key = SigningKey::generate().unwrap();
    let again = SigningKey::from_setting(&key.private_key()).unwrap();
    assert_eq!(again.public_key(), key.public_key());
    let debug = format!("{key:?}");
    assert!(!debug.contains(key.private_key().expose()), "{debug}");
}

#[test]
fn keys_that_openssl_made_are_read() {
    // openssl genpkey -algorithm ed25519, and openssl pkey -pubout of it.
    let private = "-----BEGIN PRIVATE KEY-----\n\
                   MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n\
                   -----END PRIVATE KEY-----\n";
    let key = SigningKey::from_setting(&Secret::new(private)).unwrap();
    let public = format!(
        "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA{}\n-----END PUBLIC KEY-----\n",
        key.public_key()
    );
    // RFC 8032 §7.1, test 1.
    assert_eq!(
        key.public_key(),
        "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
    );
    let clock = clock();
    let trust = Trust::new(clock.clone());
    trust.add("edge", &public, default_mints("edge")).unwrap();
    let token = Issuer::new(ServiceName::Edge, key, clock)
        .mint(&Caller::Player(player()), HERE)
        .unwrap();
    trust.verify(&token, HERE).unwrap();
}

#[test]
fn what_is_no_key_is_a_sentence_without_the_key() {
    for text in ["", "hunter2", "aHVudGVyMg==", &"A".repeat(1_000_000)] {
        assert_eq!(
            SigningKey::from_setting(&Secret::new(text)).unwrap_err(),
            KeyError::Private
        );
        let rig = Rig::edge();
        let error = rig.trust.add("edge", text, &[]).unwrap_err();
        assert_eq!(
            error,
            KeyError::Public {
                issuer: "edge".to_owned()
            }
        );
    }
}

#[test]
fn the_services_of_one_process_trust_each_other_and_nobody_else() {
    let clock: Arc<dyn Clock> = clock();
    let village = Village::generate(&clock).unwrap();
    for service in ServiceName::ALL {
        let caller = Caller::Service {
            name: service,
            player: None,
        };
        let token = village.issuer(service).mint(&caller, HERE).unwrap();
        assert_eq!(village.trust().verify(&token, HERE), Ok(caller));
    }
    let stranger = Rig::edge();
    let token = stranger
        .issuer
        .mint(&Caller::Operator(player()), HERE)
        .unwrap();
    assert!(village.trust().verify(&token, HERE).is_err());
}
