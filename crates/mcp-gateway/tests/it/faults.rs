//! What servers do wrong, over every transport that can carry it, through the pool as a turn uses it: each fault costs its own call or its own
//! Tool, and ends in time.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use kernel::{JsonText, PlayerId, Secret, SystemClock};
use mcp_gateway::{
    Call, CallEnd, ClientDeps, Clients, Config, Endpoint, Failure, FailureCode, Given, Handling,
    Listed, Piece, RemoteEndpoint, SealedMap, StdioEndpoint, Target,
};
use outbound::{Connector, Exemption};
use serde_json::{Value, json};
use testkit::mcp::{Eras, Fault, Manner, Script, ScriptedMcp, Speaks};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use vault::Vault;

/// Longer than any fault may hold a call.
const PATIENCE: Duration = Duration::from_mins(1);

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    HttpWithJson,
    HttpWithEvents,
    ModernHttp,
    Sse,
    Stdio,
    ModernStdio,
}

/// Makes each fault a test over each transport.
macro_rules! over_every_transport {
    ($($fault:ident),+ $(,)?) => {
        over_every_transport!(@ over_http_with_json, HttpWithJson, $($fault),+);
        over_every_transport!(@ over_http_with_events, HttpWithEvents, $($fault),+);
        over_every_transport!(@ over_modern_http, ModernHttp, $($fault),+);
        over_every_transport!(@ over_sse, Sse, $($fault),+);
        over_every_transport!(@ over_stdio, Stdio, $($fault),+);
        over_every_transport!(@ over_modern_stdio, ModernStdio, $($fault),+);
    };
    (@ $module:ident, $way:ident, $($fault:ident),+) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $fault() {
                    super::$fault(super::Way::$way).await;
                }
            )+
        }
    };
}

over_every_transport!(
    a_tool_with_a_schema_that_is_none_costs_itself,
    a_definition_that_is_too_large_costs_its_own_tool,
    a_schema_that_is_too_deep_costs_its_own_tool,
    names_that_no_provider_takes_are_called_by_what_they_are,
    every_page_of_a_list_is_read,
    a_list_that_repeats_itself_ends,
    a_list_that_never_comes_is_a_failure_in_time,
    an_answer_that_is_lost_is_an_error_and_no_wait,
    an_answer_that_never_comes_ends_at_the_limit,
    an_answer_for_another_request_is_no_answer,
    an_answer_that_is_no_json_fails_its_call,
    progress_keeps_a_slow_call_alive,
    a_server_that_notifies_first_is_heard_out,
    a_server_that_asks_is_declined_at_once_and_its_call_completes,
    a_flood_of_notifications_costs_its_own_call,
    a_result_that_is_huge_is_cut_and_says_so,
    a_result_of_an_unknown_kind_is_described,
    a_tool_that_fails_keeps_its_words,
    a_list_that_changed_is_asked_for_again,
);

/// A server with these faults, and clients that know it.
struct World {
    clients: Clients,
    ended: CancellationToken,
    target: Arc<Target>,
    player: Option<PlayerId>,
    server: Option<ScriptedMcp>,
}

impl World {
    /// The faults are given as values and, for a process, as the words that name them.
    async fn new(way: Way, config: Config, faults: Vec<Fault>, words: &[String]) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let vault = Arc::new(Vault::new(&Secret::new("v".repeat(32))).expect("long enough"));
        let none = || SealedMap::seal(&vault, "headers", &BTreeMap::new()).expect("nothing");
        let eras = match way {
            Way::HttpWithJson | Way::HttpWithEvents | Way::Sse | Way::Stdio => Eras::Legacy,
            Way::ModernHttp | Way::ModernStdio => Eras::Modern,
        };
        let speaks = match way {
            Way::HttpWithJson => Some(Speaks::Http(Manner::Json)),
            Way::HttpWithEvents | Way::ModernHttp => Some(Speaks::Http(Manner::Sse)),
            Way::Sse => Some(Speaks::Sse),
            Way::Stdio | Way::ModernStdio => None,
        };
        let server = match speaks {
            Some(speaks) => Some(ScriptedMcp::start(Script::with(eras, faults), speaks).await),
            None => None,
        };
        let remote = || RemoteEndpoint {
            shown_url: server.as_ref().map(ScriptedMcp::url).unwrap_or_default(),
            sealed_url: none(),
            headers: none(),
        };
        let era = if eras == Eras::Legacy {
            "legacy"
        } else {
            "modern"
        };
        let endpoint = match way {
            Way::HttpWithJson | Way::HttpWithEvents | Way::ModernHttp => Endpoint::Http(remote()),
            Way::Sse => Endpoint::Sse(remote()),
            Way::Stdio | Way::ModernStdio => Endpoint::Stdio(StdioEndpoint {
                command: peer().display().to_string(),
                arguments: [&[era.to_owned()], words].concat(),
                working_directory: String::new(),
                environment: none(),
            }),
        };
        let tracker = TaskTracker::new();
        let allow: Exemption = serde_json::from_value(json!("127.0.0.0/8")).expect("one");
        let outbound = outbound::Config {
            allow: vec![allow],
            ..outbound::Config::default()
        };
        let ended = CancellationToken::new();
        let deps = ClientDeps {
            connector: Connector::new(&outbound, tracker.clone()).expect("a connector"),
            program: peer(),
            tracker,
            ended: ended.clone(),
            handling: Handling::Decline,
        };
        Self {
            clients: Clients::new(Arc::new(config), deps),
            ended,
            target: Arc::new(Target {
                server_id: "faulty".to_owned(),
                slug: "docs".to_owned(),
                name: "Docs".to_owned(),
                generation: 1,
                credentials_generation: 1,
                era: None,
                endpoint,
            }),
            player: Some(PlayerId::mint(&SystemClock)),
            server,
        }
    }

    async fn of(way: Way, fault: Fault, word: &str) -> Self {
        Self::new(way, Config::default(), vec![fault], &[word.to_owned()]).await
    }

    async fn without_faults(way: Way, config: Config) -> Self {
        Self::new(way, config, Vec::new(), &[]).await
    }

    /// A server that answers with JSON asks on the stream that the client opens beside; before it is open, nobody would hear it.
    async fn until_it_can_ask(&self, way: Way) {
        let Some(server) = self.server.as_ref().filter(|_| way == Way::HttpWithJson) else {
            return;
        };
        let opened = tokio::time::timeout(PATIENCE, async {
            while server.count(&http::Method::GET) == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        assert!(opened.await.is_ok(), "the stream is opened");
    }

    async fn listed(&self) -> Result<Listed, Failure> {
        let listing = self.clients.tools(&self.target, self.player);
        tokio::time::timeout(PATIENCE, listing)
            .await
            .expect("a list comes or fails in time")
    }

    async fn call(&self, tool: &str, arguments: Value) -> CallEnd {
        let call = Call {
            tool: tool.to_owned(),
            arguments: JsonText::of(&arguments),
            id: "call".to_owned(),
            deadline: Instant::now() + PATIENCE,
        };
        self.clients
            .call(&self.target, self.player, call, &|_step| {})
            .await
    }

    async fn failure(&self, tool: &str) -> Failure {
        let end = self.call(tool, json!({})).await;
        let CallEnd::Failed(failure) = end else {
            panic!("{end:?}");
        };
        failure
    }

    async fn given(&self, tool: &str, arguments: Value) -> Given {
        let end = self.call(tool, arguments).await;
        let CallEnd::Ok(given) = end else {
            panic!("{end:?}");
        };
        given
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

/// `examples/stdio_peer.rs`, which cargo builds with the tests: supervisor and server.
fn peer() -> PathBuf {
    let this = std::env::current_exe().expect("a path");
    let target = this.parent().and_then(|deps| deps.parent());
    let program = target.expect("a folder").join("examples/stdio_peer");
    assert!(
        program.exists(),
        "{} is missing: run `cargo build --package mcp-gateway --examples`",
        program.display()
    );
    program
}

/// One Tool beside the usual ones.
async fn with_tool(way: Way, tool: Value) -> (World, Listed) {
    let words = format!("lists-too={tool}");
    let world = World::of(way, Fault::ListsToo(tool), &words).await;
    let listed = world.listed().await.expect("a list");
    (world, listed)
}

fn assert_withheld(listed: &Listed, name: &str, why: &str) {
    let listing = &listed.listing;
    assert!(
        listing
            .tools
            .iter()
            .any(|tool| tool.full_name == "docs__echo")
    );
    let [withheld] = listing.withheld.as_slice() else {
        panic!("{:?}", listing.withheld);
    };
    assert_eq!(withheld.name, name);
    assert!(withheld.sentence.contains(why), "{}", withheld.sentence);
}

async fn a_tool_with_a_schema_that_is_none_costs_itself(way: Way) {
    let (_world, listed) = with_tool(way, json!({"name": "bad", "inputSchema": null})).await;
    assert_withheld(&listed, "bad", "no inputSchema");
}

async fn a_definition_that_is_too_large_costs_its_own_tool(way: Way) {
    let description = "x".repeat(100_000);
    let tool = json!({"name": "huge", "description": description, "inputSchema": {}});
    let (_world, listed) = with_tool(way, tool).await;
    assert_withheld(&listed, "huge", "at most 65536");
}

async fn a_schema_that_is_too_deep_costs_its_own_tool(way: Way) {
    let mut schema = json!({});
    for _level in 0..25 {
        schema = json!({"properties": {"a": schema}});
    }
    let (_world, listed) = with_tool(way, json!({"name": "deep", "inputSchema": schema})).await;
    assert_withheld(&listed, "deep", "nests");
}

async fn names_that_no_provider_takes_are_called_by_what_they_are(way: Way) {
    let name = format!("tool_0/with.dots and \u{441}yrillic {}", "x".repeat(60));
    let tool = json!({"name": name, "inputSchema": {"type": "object"}});
    let (world, listed) = with_tool(way, tool).await;
    let tools = listed.listing.tools.iter();
    let found = tools.clone().find(|tool| tool.definition.name == name);
    let full_name = &found.expect("the Tool").full_name;
    assert!(full_name.parse::<kernel::ToolName>().is_ok(), "{full_name}");
    // The server knows it by its own name.
    let given = world.given(&name, json!({})).await;
    assert_eq!(given.pieces, [Piece::Text(name)]);
}

async fn every_page_of_a_list_is_read(way: Way) {
    let faults = vec![Fault::ManyTools(50), Fault::PagesOf(7)];
    let words = ["many-tools=50", "pages-of=7"].map(str::to_owned);
    let world = World::new(way, Config::default(), faults, &words).await;
    let listing = world.listed().await.expect("a list").listing;
    assert!(listing.tools.len() > 50, "{}", listing.tools.len());
    assert_eq!(listing.cut, "");
}

async fn a_list_that_repeats_itself_ends(way: Way) {
    let world = World::of(way, Fault::CursorNeverAdvances, "cursor-never-advances").await;
    let listing = world.listed().await.expect("a list").listing;
    assert!(!listing.tools.is_empty());
    assert!(listing.cut.contains("repeats"), "{}", listing.cut);
}

async fn a_list_that_never_comes_is_a_failure_in_time(way: Way) {
    let config = Config {
        list_seconds: 1,
        ..Config::default()
    };
    let fault = vec![Fault::NeverAnswers("tools/list")];
    let world = World::new(way, config, fault, &["never-answers=tools/list".to_owned()]).await;
    let failure = world.listed().await.expect_err("no list");
    assert_eq!(failure.code, FailureCode::TimedOut, "{failure:?}");
}

async fn an_answer_that_is_lost_is_an_error_and_no_wait(way: Way) {
    let fault = Fault::BreaksOff("tools/call");
    let world = World::of(way, fault, "breaks-off=tools/call").await;
    let failure = world.failure("echo").await;
    assert_eq!(failure.reached, mcp_gateway::Reached::Maybe, "{failure:?}");
    assert!(!failure.sentence.is_empty());
    // Its Tools are still there for the next turn.
    world.listed().await.expect("a list");
}

async fn an_answer_that_never_comes_ends_at_the_limit(way: Way) {
    let config = Config {
        call_seconds: 1,
        ..Config::default()
    };
    let fault = vec![Fault::NeverAnswers("tools/call")];
    let world = World::new(way, config, fault, &["never-answers=tools/call".to_owned()]).await;
    let failure = world.failure("echo").await;
    assert_eq!(failure.code, FailureCode::TimedOut, "{failure:?}");
    assert!(failure.sentence.contains("1 second"), "{failure}");
}

async fn an_answer_for_another_request_is_no_answer(way: Way) {
    let config = Config {
        call_seconds: 1,
        ..Config::default()
    };
    let fault = vec![Fault::AnswersForAnother("tools/call")];
    let words = ["answers-for-another=tools/call".to_owned()];
    let world = World::new(way, config, fault, &words).await;
    let end = world.call("echo", json!({})).await;
    assert!(matches!(end, CallEnd::Failed(_)), "{end:?}");
}

async fn an_answer_that_is_no_json_fails_its_call(way: Way) {
    let config = Config {
        call_seconds: 2,
        ..Config::default()
    };
    let text = "{\"jsonrpc\": \"2.0\", \"result\": {broken";
    let fault = Fault::SaysInstead {
        method: "tools/call",
        text: text.to_owned(),
    };
    let words = [format!("says-instead=tools/call:{text}")];
    let world = World::new(way, config, vec![fault], &words).await;
    let end = world.call("echo", json!({})).await;
    assert!(
        matches!(end, CallEnd::Failed(_) | CallEnd::BadAnswer(_)),
        "{end:?}"
    );
    world.listed().await.expect("a list");
}

async fn progress_keeps_a_slow_call_alive(way: Way) {
    // Twice as long as a silent call may take.
    let config = Config {
        call_seconds: 2,
        ..Config::default()
    };
    let world = World::without_faults(way, config).await;
    let arguments = json!({"steps": 16, "step_milliseconds": 250});
    let given = world.given("slow", arguments).await;
    assert_eq!(given.pieces, [Piece::Text("done".to_owned())]);
}

async fn a_server_that_notifies_first_is_heard_out(way: Way) {
    let world = World::of(way, Fault::NotifiesBeforeInitialize, "notifies-first").await;
    assert!(
        !world
            .listed()
            .await
            .expect("a list")
            .listing
            .tools
            .is_empty()
    );
}

async fn a_server_that_asks_is_declined_at_once_and_its_call_completes(way: Way) {
    // Without sessions a server has no way to ask.
    if matches!(way, Way::ModernHttp | Way::ModernStdio) {
        let result = json!({"resultType": "input_required", "inputRequests": {}});
        let words = format!("result-is={result}");
        let world = World::of(way, Fault::ResultIs(result), &words).await;
        let end = world.call("echo", json!({})).await;
        assert!(
            matches!(&end, CallEnd::BadAnswer(sentence) if sentence.contains("input from a person")),
            "{end:?}"
        );
        return;
    }
    let fault = Fault::AsksFirst("elicitation/create", json!({}));
    let world = World::of(way, fault, "asks-for-words").await;
    world.listed().await.expect("a list");
    world.until_it_can_ask(way).await;
    let given = world.given("echo", json!({"text": "went on"})).await;
    assert_eq!(given.pieces, [Piece::Text("went on".to_owned())]);
}

async fn a_flood_of_notifications_costs_its_own_call(way: Way) {
    let fault = Fault::FloodOfNotifications(5_000);
    let world = World::of(way, fault, "flood=5000").await;
    let given = world.given("echo", json!({"text": "through"})).await;
    assert_eq!(given.pieces, [Piece::Text("through".to_owned())]);
}

async fn a_result_that_is_huge_is_cut_and_says_so(way: Way) {
    let fault = Fault::HugeResult(3_000_000);
    let world = World::of(way, fault, "huge-result=3000000").await;
    let given = world.given("echo", json!({})).await;
    let [Piece::Text(text)] = given.pieces.as_slice() else {
        panic!("{:?}", given.pieces.len());
    };
    assert_eq!(text.len(), Config::default().result_bytes);
    assert_eq!(given.left_out_bytes, 3_000_000 - text.len() as u64);
}

async fn a_result_of_an_unknown_kind_is_described(way: Way) {
    let world = World::without_faults(way, Config::default()).await;
    let given = world.given("unknown", json!({})).await;
    assert_eq!(given.pieces, [Piece::Unknown("hologram".to_owned())]);
}

async fn a_tool_that_fails_keeps_its_words(way: Way) {
    let world = World::without_faults(way, Config::default()).await;
    let end = world.call("fail", json!({})).await;
    let CallEnd::ToolError(given) = end else {
        panic!("{end:?}");
    };
    let words = Piece::Text("it failed, as it was told to".to_owned());
    assert_eq!(given.pieces, [words]);
}

async fn a_list_that_changed_is_asked_for_again(way: Way) {
    let world = World::of(way, Fault::ListChangesAfterCalls, "list-changes").await;
    world.listed().await.expect("a list");
    assert!(world.listed().await.expect("a list").cached);
    world.given("echo", json!({})).await;
    let asked_again = tokio::time::timeout(PATIENCE, async {
        while world.listed().await.expect("a list").cached {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(asked_again.await.is_ok(), "the change is noticed");
}
