//! The pool against scripted servers over real sockets.
#![expect(
    clippy::unnecessary_wraps,
    reason = "a principal is a Player or nobody"
)]

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use kernel::{Secret, SystemClock};
use outbound::{Connector, Exemption};
use serde_json::json;
use testkit::mcp::{Eras, Fault, HttpFault, Manner, Script, ScriptedMcp, Speaks};
use vault::Vault;

use super::*;
use crate::{FailureCode, Given, Piece, Reached, RemoteEndpoint, SealedMap};

const PATIENCE: Duration = Duration::from_secs(10);

struct Bench {
    clients: Clients,
    ended: CancellationToken,
    vault: Arc<Vault>,
}

impl Bench {
    fn new(config: Config) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let tracker = TaskTracker::new();
        let ended = CancellationToken::new();
        let allow: Exemption = serde_json::from_value(json!("127.0.0.0/8")).unwrap();
        let outbound = outbound::Config {
            allow: vec![allow],
            ..outbound::Config::default()
        };
        let deps = Deps {
            connector: Connector::new(&outbound, tracker.clone()).unwrap(),
            program: PathBuf::new(),
            tracker,
            ended: ended.clone(),
            handling: Handling::default(),
        };
        Self {
            clients: Clients::new(Arc::new(config), deps),
            ended,
            vault: Arc::new(Vault::new(&Secret::new("0123456789abcdef0123456789abcdef")).unwrap()),
        }
    }

    fn target(&self, server: &ScriptedMcp) -> Arc<Target> {
        Arc::new(self.target_of(server, false))
    }

    fn target_of(&self, server: &ScriptedMcp, sse: bool) -> Target {
        let none = || SealedMap::seal(&self.vault, "headers", &BTreeMap::new()).unwrap();
        let remote = RemoteEndpoint {
            shown_url: server.url(),
            sealed_url: none(),
            headers: none(),
        };
        Target {
            server_id: "docs-id".to_owned(),
            slug: "docs".to_owned(),
            name: "Docs".to_owned(),
            generation: 1,
            credentials_generation: 1,
            era: None,
            endpoint: if sse {
                Endpoint::Sse(remote)
            } else {
                Endpoint::Http(remote)
            },
        }
    }

    async fn call(&self, target: &Arc<Target>, player: Option<PlayerId>, tool: &str) -> CallEnd {
        self.call_with(target, player, tool, json!({})).await
    }

    async fn call_with(
        &self,
        target: &Arc<Target>,
        player: Option<PlayerId>,
        tool: &str,
        arguments: serde_json::Value,
    ) -> CallEnd {
        let call = call_of(tool, &JsonText::of(&arguments));
        self.clients.call(target, player, call, &|_| {}).await
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

fn call_of(tool: &str, arguments: &JsonText) -> Call {
    Call {
        tool: tool.to_owned(),
        arguments: arguments.clone(),
        id: "call".to_owned(),
        deadline: Instant::now() + PATIENCE,
    }
}

fn player() -> Option<PlayerId> {
    Some(PlayerId::mint(&SystemClock))
}

fn text(end: &CallEnd) -> String {
    let CallEnd::Ok(Given { pieces, .. }) = end else {
        panic!("{end:?}");
    };
    let [Piece::Text(text)] = pieces.as_slice() else {
        panic!("{pieces:?}");
    };
    text.clone()
}

async fn http(eras: Eras, faults: impl IntoIterator<Item = Fault>) -> ScriptedMcp {
    ScriptedMcp::start(Script::with(eras, faults), Speaks::Http(Manner::Json)).await
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(waited.await.is_ok(), "{what}");
}

#[tokio::test]
async fn everybody_who_waits_for_a_server_shares_one_connection_and_one_list() {
    let server = http(Eras::Legacy, []).await;
    let bench = Bench::new(Config::default());
    let target = bench.target(&server);
    let player = player();
    let lists = (0..20).map(|_| bench.clients.tools(&target, player));
    for listed in futures::future::join_all(lists).await {
        assert!(listed.unwrap().listing.tools.len() > 5);
    }
    assert_eq!(server.script().count("initialize"), 1);
    assert_eq!(server.script().count("tools/list"), 1);
    assert!(bench.clients.tools(&target, player).await.unwrap().cached);
    assert_eq!(bench.clients.count(), 1);
}

#[tokio::test]
async fn players_share_no_client_of_a_server_that_keeps_a_state() {
    for speaks in [
        Speaks::Http(Manner::Json),
        Speaks::Http(Manner::Sse),
        Speaks::Sse,
    ] {
        let server = ScriptedMcp::start(Script::new(Eras::Legacy), speaks).await;
        let bench = Bench::new(Config::default());
        let target = Arc::new(bench.target_of(&server, speaks == Speaks::Sse));
        let (anna, ben) = (player(), player());
        assert_eq!(text(&bench.call(&target, anna, "count").await), "1");
        assert_eq!(text(&bench.call(&target, anna, "count").await), "2");
        assert_eq!(
            text(&bench.call(&target, ben, "count").await),
            "1",
            "{speaks:?}"
        );
        assert_eq!(bench.clients.count(), 2);
    }
}

#[tokio::test]
async fn players_who_connect_at_the_same_time_share_no_state_either() {
    let server = http(Eras::Legacy, []).await;
    let bench = Bench::new(Config::default());
    let target = bench.target(&server);
    let calls = (0..8).map(|_| bench.call(&target, player(), "count"));
    for end in futures::future::join_all(calls).await {
        assert_eq!(text(&end), "1");
    }
}

#[tokio::test]
async fn a_server_without_a_state_has_one_client_for_all() {
    let server = http(Eras::Modern, []).await;
    let bench = Bench::new(Config::default());
    let target = bench.target(&server);
    for _ in 0..5 {
        assert_eq!(
            bench.call(&target, player(), "echo").await,
            CallEnd::Ok(Given {
                pieces: vec![Piece::Text(String::new())],
                ..Given::default()
            })
        );
    }
    assert_eq!(bench.clients.count(), 1);
}

#[tokio::test]
async fn a_client_that_had_a_transport_error_is_never_used_again() {
    let server = http(Eras::Legacy, []).await;
    let bench = Bench::new(Config::default());
    let target = bench.target(&server);
    let player = player();
    assert_eq!(text(&bench.call(&target, player, "count").await), "1");
    server.script().set_faults([Fault::BreaksOff("tools/call")]);
    let CallEnd::Failed(failure) = bench.call(&target, player, "count").await else {
        panic!("it broke off");
    };
    assert_eq!(failure.reached, Reached::Maybe, "{failure:?}");
    server.script().set_faults([]);
    // A client of its own again: the state is new.
    assert_eq!(text(&bench.call(&target, player, "count").await), "1");
    assert_eq!(server.script().count("initialize"), 2);
    // What may have been begun was not made twice.
    assert_eq!(server.script().count("tools/call"), 3);
}

#[tokio::test]
async fn an_edit_closes_the_old_client_and_the_next_call_uses_the_new_one() {
    let server = http(Eras::Legacy, []).await;
    let bench = Bench::new(Config::default());
    let target = bench.target(&server);
    let player = player();
    assert_eq!(text(&bench.call(&target, player, "count").await), "1");
    let edited = Arc::new(Target {
        generation: 2,
        ..(*target).clone()
    });
    bench.clients.changed("docs-id", Some(2));
    assert_eq!(bench.clients.count(), 0);
    assert_eq!(text(&bench.call(&edited, player, "count").await), "1");
    // A late word of the same change closes nothing.
    bench.clients.changed("docs-id", Some(2));
    assert_eq!(text(&bench.call(&edited, player, "count").await), "2");
}

#[tokio::test]
async fn a_call_that_runs_ends_when_its_server_is_removed() {
    let server = http(Eras::Legacy, [Fault::NeverAnswers("tools/call")]).await;
    let bench = Bench::new(Config::default());
    let target = bench.target(&server);
    let call = bench.call(&target, player(), "echo");
    let remove = async {
        until("the call arrives", || {
            server.script().count("tools/call") == 1
        })
        .await;
        bench.clients.changed("docs-id", None);
    };
    let (end, ()) = tokio::join!(call, remove);
    assert_eq!(end, CallEnd::ServerRemoved);
    assert_eq!(bench.clients.count(), 0);
}

#[tokio::test]
async fn an_idle_client_is_closed_and_its_session_ended() {
    let server = http(Eras::Legacy, []).await;
    let bench = Bench::new(Config {
        idle_seconds: 1,
        ..Config::default()
    });
    let target = bench.target(&server);
    assert_eq!(text(&bench.call(&target, player(), "count").await), "1");
    assert_eq!(server.sessions(), 1);
    until("the client is closed", || bench.clients.count() == 0).await;
    until("the session is ended", || server.sessions() == 0).await;
}

#[tokio::test]
async fn the_clients_of_one_server_are_bounded_and_the_idlest_makes_way() {
    let server = http(Eras::Legacy, []).await;
    let bench = Bench::new(Config {
        max_clients_per_server: 2,
        ..Config::default()
    });
    let target = bench.target(&server);
    let (anna, ben, cleo) = (player(), player(), player());
    assert_eq!(text(&bench.call(&target, anna, "count").await), "1");
    assert_eq!(text(&bench.call(&target, ben, "count").await), "1");
    assert_eq!(text(&bench.call(&target, ben, "count").await), "2");
    assert_eq!(text(&bench.call(&target, cleo, "count").await), "1");
    assert_eq!(bench.clients.count(), 2);
    assert_eq!(text(&bench.call(&target, ben, "count").await), "3");
    assert_eq!(text(&bench.call(&target, anna, "count").await), "1");
}

#[tokio::test]
async fn when_all_clients_are_in_use_one_more_is_refused_in_words() {
    let server = http(Eras::Legacy, [Fault::NeverAnswers("tools/call")]).await;
    let bench = Bench::new(Config {
        max_clients: 1,
        ..Config::default()
    });
    let target = bench.target(&server);
    let busy = bench.call(&target, player(), "echo");
    let more = async {
        until("the call arrives", || {
            server.script().count("tools/call") == 1
        })
        .await;
        let end = bench.call(&target, player(), "echo").await;
        bench.clients.changed("docs-id", None);
        end
    };
    let (_, refused) = tokio::join!(busy, more);
    let CallEnd::Failed(failure) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(failure.code, FailureCode::Busy);
    assert!(failure.sentence.contains("as many clients"), "{failure}");
}

#[tokio::test]
async fn a_server_that_fails_is_left_alone_for_a_while_and_its_sentence_remembered() {
    let answer = HttpFault::Answers {
        status: 502,
        headers: Vec::new(),
        body: String::new(),
    };
    let server = http(Eras::Both, [Fault::Http(answer)]).await;
    let bench = Bench::new(Config::default());
    let target = bench.target(&server);
    let player = player();
    let first = bench.clients.tools(&target, player).await.unwrap_err();
    let asked = server.accepted() + server.script().seen().len();
    let second = bench.clients.tools(&target, player).await.unwrap_err();
    assert_eq!(first, second);
    assert_eq!(asked, server.accepted() + server.script().seen().len());
    // A test asks all the same.
    server.script().set_faults([]);
    assert!(bench.clients.test(&target, None).await.outcome.is_ok());
    let recovered = tokio::time::timeout(PATIENCE, async {
        while bench.clients.tools(&target, player).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    recovered.await.unwrap();
}

#[tokio::test]
async fn turns_wait_once_for_a_server_that_never_answers_and_not_each_time() {
    for silent in [
        Fault::Http(HttpFault::NeverAnswers),
        Fault::NeverAnswers("tools/list"),
    ] {
        let server = http(Eras::Legacy, [silent]).await;
        let bench = Bench::new(Config {
            connect_seconds: 60,
            list_seconds: 60,
            ..Config::default()
        });
        let target = bench.target(&server);
        let player = player();
        let first = bench.clients.tools_for_turn(&target, player).await;
        assert_eq!(first.unwrap_err().code, FailureCode::TimedOut);
        // It is being asked still, and this turn is told so without a wait.
        let asked = server.accepted() + server.script().seen().len();
        for _turn in 0..1_000 {
            let next = bench.clients.tools_for_turn(&target, player).await;
            assert_eq!(next.unwrap_err().code, FailureCode::TimedOut);
        }
        assert_eq!(asked, server.accepted() + server.script().seen().len());
    }
}

#[tokio::test]
async fn a_server_that_answers_again_is_there_at_one_of_the_next_turns() {
    let server = http(Eras::Legacy, [Fault::NeverAnswers("tools/list")]).await;
    let bench = Bench::new(Config {
        list_seconds: 1,
        ..Config::default()
    });
    let target = bench.target(&server);
    let player = player();
    assert!(bench.clients.tools_for_turn(&target, player).await.is_err());
    server.script().set_faults([]);
    let recovered = tokio::time::timeout(PATIENCE, async {
        while bench.clients.tools_for_turn(&target, player).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    recovered.await.unwrap();
}

#[tokio::test]
async fn a_test_leaves_no_client_behind() {
    let server = http(Eras::Legacy, []).await;
    let bench = Bench::new(Config::default());
    let tested = bench.clients.test(&bench.target(&server), None).await;
    assert!(tested.outcome.unwrap().listing.tools.len() > 5);
    assert_eq!(bench.clients.count(), 0);
    until("the session is ended", || server.sessions() == 0).await;
}

#[tokio::test]
async fn a_test_that_went_well_has_connected_for_the_players_first_turn() {
    let server = http(Eras::Legacy, []).await;
    let bench = Bench::new(Config::default());
    let target = bench.target(&server);
    let (anna, ben) = (player(), player());
    bench.clients.test(&target, anna).await.outcome.unwrap();
    assert!(bench.clients.tools(&target, anna).await.unwrap().cached);
    assert_eq!(server.script().count("initialize"), 1);
    // It is nobody else's.
    assert!(!bench.clients.tools(&target, ben).await.unwrap().cached);
    // One more test asks again, and keeps what is there.
    bench.clients.test(&target, anna).await.outcome.unwrap();
    assert_eq!(bench.clients.count(), 2);
    assert_eq!(server.script().count("initialize"), 3);
}

#[tokio::test]
async fn a_list_that_changed_is_asked_for_again() {
    let script = Script::with(Eras::Legacy, [Fault::ListChangesAfterCalls]);
    let server = ScriptedMcp::start(script, Speaks::Http(Manner::Sse)).await;
    let bench = Bench::new(Config::default());
    let target = bench.target(&server);
    let player = player();
    bench.clients.tools(&target, player).await.unwrap();
    assert!(bench.clients.tools(&target, player).await.unwrap().cached);
    bench.call(&target, player, "echo").await;
    let asked_again = tokio::time::timeout(PATIENCE, async {
        while bench.clients.tools(&target, player).await.unwrap().cached {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    asked_again.await.unwrap();
    assert_eq!(server.script().count("tools/list"), 2);
}

async fn listed(
    faults: impl IntoIterator<Item = Fault>,
    config: Config,
) -> (ScriptedMcp, Result<Listed, Failure>) {
    let server = http(Eras::Legacy, faults).await;
    let bench = Bench::new(config);
    let listed = bench.clients.tools(&bench.target(&server), player()).await;
    (server, listed)
}

#[tokio::test]
async fn a_tool_with_a_null_schema_costs_itself() {
    let bad = json!({"name": "bad", "inputSchema": null});
    let (_server, listed) = listed([Fault::ListsToo(bad)], Config::default()).await;
    let listing = listed.unwrap().listing;
    assert!(
        listing
            .tools
            .iter()
            .any(|tool| tool.full_name == "docs__echo")
    );
    assert_eq!(listing.withheld.len(), 1);
    assert_eq!(listing.withheld[0].name, "bad");
}

#[tokio::test]
async fn every_page_is_read() {
    let faults = [Fault::ManyTools(100), Fault::PagesOf(7)];
    let (server, listed) = listed(faults, Config::default()).await;
    let listing = listed.unwrap().listing;
    assert!(listing.tools.len() > 100);
    assert_eq!(listing.cut, "");
    assert!(server.script().count("tools/list") >= 15);
}

#[tokio::test]
async fn a_cursor_that_never_advances_ends_the_list_and_is_said() {
    for fault in [Fault::CursorNeverAdvances, Fault::CursorIsEmpty] {
        let (server, listed) = listed([fault], Config::default()).await;
        let listing = listed.unwrap().listing;
        assert!(!listing.tools.is_empty());
        assert!(listing.cut.contains("repeats"), "{}", listing.cut);
        assert_eq!(server.script().count("tools/list"), 2);
    }
}

#[tokio::test]
async fn an_empty_cursor_is_not_the_end() {
    let (server, listed) = listed([Fault::EmptyCursorOnce], Config::default()).await;
    assert_eq!(listed.unwrap().listing.cut, "");
    assert_eq!(server.script().count("tools/list"), 2);
}

#[tokio::test]
async fn an_endless_list_is_cut_at_the_pages() {
    let config = Config {
        max_pages: 3,
        ..Config::default()
    };
    let (server, listed) = listed([Fault::ManyTools(1_000), Fault::PagesOf(10)], config).await;
    let listing = listed.unwrap().listing;
    assert!(listing.cut.contains("more than 3 pages"), "{}", listing.cut);
    assert_eq!(server.script().count("tools/list"), 3);
}

#[tokio::test]
async fn a_list_that_never_comes_is_a_failure_in_time() {
    let config = Config {
        list_seconds: 1,
        ..Config::default()
    };
    let (_server, listed) = listed([Fault::NeverAnswers("tools/list")], config).await;
    let failure = listed.unwrap_err();
    assert_eq!(failure.code, FailureCode::TimedOut);
    assert!(failure.sentence.contains("tools/list"), "{failure}");
}

#[tokio::test]
async fn a_list_that_is_none_is_a_failure_in_words() {
    for odd in [json!({}), json!({"tools": 7}), json!([]), json!("x")] {
        let (_server, listed) = listed([Fault::ListIs(odd.clone())], Config::default()).await;
        let failure = listed.expect_err("no list");
        assert_eq!(
            failure.code,
            FailureCode::ProtocolError,
            "{odd}: {failure:?}"
        );
    }
}

#[tokio::test]
async fn progress_is_told_and_keeps_a_slow_call_alive() {
    let script = Script::new(Eras::Legacy);
    let server = ScriptedMcp::start(script, Speaks::Http(Manner::Sse)).await;
    let bench = Bench::new(Config {
        call_seconds: 1,
        ..Config::default()
    });
    let target = bench.target(&server);
    let told = Mutex::new(Vec::new());
    let arguments = JsonText::of(&json!({"steps": 4, "step_milliseconds": 500}));
    let end = bench
        .clients
        .call(&target, player(), call_of("slow", &arguments), &|step| {
            told.lock().unwrap().push(step.message);
        })
        .await;
    assert_eq!(text(&end), "done");
    let told = told.into_inner().unwrap();
    assert_eq!(told.first().map(String::as_str), Some("step 1"), "{told:?}");
}

#[tokio::test]
async fn progress_does_not_keep_a_call_alive_for_ever() {
    let script = Script::new(Eras::Legacy);
    let server = ScriptedMcp::start(script, Speaks::Http(Manner::Sse)).await;
    let bench = Bench::new(Config {
        call_seconds: 1,
        call_total_seconds: 2,
        ..Config::default()
    });
    let target = bench.target(&server);
    let arguments = json!({"steps": 1_000, "step_milliseconds": 100});
    let CallEnd::Failed(failure) = bench.call_with(&target, player(), "slow", arguments).await
    else {
        panic!("it has an end");
    };
    assert_eq!(failure.code, FailureCode::TimedOut);
    assert!(failure.sentence.contains("2 seconds"), "{failure}");
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled_at_the_server() {
    let server = http(Eras::Legacy, [Fault::NeverAnswers("tools/call")]).await;
    let bench = Bench::new(Config::default());
    let target = bench.target(&server);
    let arrives = until("the call arrives", || {
        server.script().count("tools/call") == 1
    });
    tokio::select! {
        end = bench.call(&target, player(), "echo") => panic!("{end:?}"),
        () = arrives => {}
    }
    until("it is cancelled", || {
        server.script().count("notifications/cancelled") == 1
    })
    .await;
}

#[tokio::test]
async fn results_of_every_kind_come_through() {
    for eras in [Eras::Legacy, Eras::Modern] {
        let server = http(eras, []).await;
        let bench = Bench::new(Config::default());
        let target = bench.target(&server);
        let player = player();
        for tool in [
            "image",
            "audio",
            "resource",
            "link",
            "unknown",
            "structured",
        ] {
            assert!(
                matches!(bench.call(&target, player, tool).await, CallEnd::Ok(_)),
                "{tool}"
            );
        }
        assert!(matches!(
            bench.call(&target, player, "fail").await,
            CallEnd::ToolError(_)
        ));
        let CallEnd::BadAnswer(sentence) = bench.call(&target, player, "no-such").await else {
            panic!("no such Tool");
        };
        assert!(sentence.contains("Unknown tool: no-such"), "{sentence}");
    }
}

#[tokio::test]
async fn structured_content_keeps_every_digit_on_its_way() {
    let result = json!({"content": [], "structuredContent": {"n": u64::MAX}});
    let server = http(Eras::Modern, [Fault::ResultIs(result)]).await;
    let bench = Bench::new(Config::default());
    let CallEnd::Ok(given) = bench.call(&bench.target(&server), None, "echo").await else {
        panic!("a result");
    };
    assert_eq!(
        given.structured.unwrap().as_str(),
        r#"{"n":18446744073709551615}"#
    );
}

#[tokio::test]
async fn a_session_that_expires_is_begun_anew_and_the_call_made_again() {
    for (status, body) in [(404, String::new()), (400, "Session not found".to_owned())] {
        let fault = HttpFault::SessionExpiresEvery {
            posts: 4,
            status,
            body,
        };
        let server = http(Eras::Legacy, [Fault::Http(fault)]).await;
        let bench = Bench::new(Config::default());
        let target = bench.target(&server);
        let player = player();
        for _ in 0..8 {
            assert!(matches!(
                bench.call(&target, player, "echo").await,
                CallEnd::Ok(_)
            ));
        }
        assert!(server.script().count("initialize") >= 2);
    }
}

#[tokio::test]
async fn closing_the_pool_closes_every_client() {
    let server = http(Eras::Legacy, []).await;
    let bench = Bench::new(Config::default());
    let target = bench.target(&server);
    for _ in 0..3 {
        assert_eq!(text(&bench.call(&target, player(), "count").await), "1");
    }
    bench.clients.close().await;
    assert_eq!((bench.clients.count(), server.sessions()), (0, 0));
    assert!(bench.clients.tools(&target, player()).await.is_err());
}
