//! The client under test of the protocol's official conformance suite: `conformance SERVER_URL`.
//!
//! It goes through the pool and the client layer as a turn does: lists the Tools, and calls each that is offered, or those that the scenario
//! names in `MCP_CONFORMANCE_CONTEXT`. Only here are a server's questions answered; in a Village they are declined.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a program for developers: the suite speaks to it through the environment, and it stops when it cannot go on"
)]

mod arguments;

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use kernel::{JsonText, PlayerId, Secret, SystemClock};
use mcp_gateway::{
    Call, ClientDeps, Clients, Config, Endpoint, Handling, RemoteEndpoint, SealedMap, Target,
};
use outbound::{Connector, Exemption};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use vault::Vault;

/// The longest call.
const CALL: Duration = Duration::from_secs(30);

/// How long what is opened beside may take.
const SETTLED: Duration = Duration::from_millis(500);

/// What a scenario tells besides the address.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Context {
    tool_calls: Vec<ToolCall>,
}

#[derive(Debug, Deserialize)]
struct ToolCall {
    name: String,
    #[serde(default)]
    arguments: Value,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let Some(url) = std::env::args()
        .next_back()
        .filter(|url| url.starts_with("http"))
    else {
        eprintln!("usage: conformance SERVER_URL");
        return ExitCode::from(2);
    };
    drop(rustls::crypto::ring::default_provider().install_default());
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT")
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    if run(&url, context).await {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Lists and calls. False when the list could not be had.
async fn run(url: &str, context: Context) -> bool {
    let tracker = TaskTracker::new();
    let clients = clients(&tracker);
    let target = Arc::new(target(url));
    let player = Some(PlayerId::mint(&SystemClock));
    let listed = match clients.tools(&target, player).await {
        Ok(listed) => listed,
        Err(failure) => {
            eprintln!("{}: {failure}", failure.code.as_str());
            return false;
        }
    };
    println!("{:?}", listed.facts);
    let calls = if context.tool_calls.is_empty() {
        let tools = listed.listing.tools.iter();
        tools
            .map(|tool| ToolCall {
                name: tool.definition.name.clone(),
                arguments: arguments::that_fit(&tool.definition.input_schema),
            })
            .collect()
    } else {
        context.tool_calls
    };
    // The stream on which a server of the older era speaks is opened beside; `sse-retry` takes one that comes later for a reconnection.
    tokio::time::sleep(SETTLED).await;
    for ToolCall { name, arguments } in calls {
        let call = Call {
            tool: name.clone(),
            arguments: JsonText::of(&arguments),
            id: name.clone(),
            deadline: Instant::now() + CALL,
        };
        let end = clients.call(&target, player, call, &|_| {}).await;
        println!("{name}: {end:?}");
    }
    clients.close().await;
    true
}

/// Clients of servers on this machine, which answer what servers ask.
fn clients(tracker: &TaskTracker) -> Clients {
    let allow = ["localhost", "127.0.0.0/8", "::1/128"]
        .map(|open| serde_json::from_value::<Exemption>(json!(open)).expect("an exemption"));
    let outbound = outbound::Config {
        allow: allow.to_vec(),
        ..outbound::Config::default()
    };
    let deps = ClientDeps {
        connector: Connector::new(&outbound, tracker.clone()).expect("a connector"),
        program: PathBuf::new(),
        tracker: tracker.clone(),
        ended: CancellationToken::new(),
        handling: Handling::AnswerWithDefaults,
    };
    Clients::new(Arc::new(Config::default()), deps)
}

fn target(url: &str) -> Target {
    let vault = Arc::new(
        Vault::new(&Secret::new("a secret of nothing, 32 bytes long")).expect("long enough"),
    );
    let none = || SealedMap::seal(&vault, "headers", &BTreeMap::new()).expect("nothing to seal");
    Target {
        server_id: "conformance".to_owned(),
        slug: "conformance".to_owned(),
        name: "The suite's server".to_owned(),
        generation: 1,
        credentials_generation: 1,
        era: None,
        endpoint: Endpoint::Http(RemoteEndpoint {
            shown_url: url.to_owned(),
            sealed_url: none(),
            headers: none(),
        }),
    }
}
