//! A server is changed through one replica while a turn runs on another: the next call is refused or uses the new client, and the old one is closed.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::{
    mcp::{Eras, Manner, Script, ScriptedMcp, Speaks},
    provider::{Gate, Step},
};

use crate::village::{OPERATOR_TOKEN, Options, Shape, Village};

/// Nothing takes longer.
const PATIENCE: Duration = Duration::from_mins(1);

/// A split Village with two replicas, and a server that an NPC was granted.
struct Town {
    village: Village,
    /// The edge of the second replica.
    other: String,
    server: ScriptedMcp,
}

impl Town {
    async fn new() -> Self {
        let options = Options {
            settings: vec![(
                "AGENTSVILLE__OUTBOUND__ALLOW",
                r#"["127.0.0.0/8"]"#.to_owned(),
            )],
        };
        let mut village = Village::start_with(Shape::Split, options).await;
        let other = village.start_replica().await;
        let server = server().await;
        village.npc("keeper", "openai/scripted");
        village.cli_json(&["mcp", "add", "Docs", "http", &server.url()]);
        village.cli_json(&["grant", "add", "keeper", "mcp:Docs"]);
        Self {
            village,
            other,
            server,
        }
    }

    /// A turn on the second replica that calls `count` twice; between the calls `change` happens through the first. Gives both calls.
    async fn turn(&self, change: impl AsyncFnOnce(&Village)) -> [Value; 2] {
        let gate = Gate::new();
        self.village.chat_completions.script([
            Step::new().call("docs__count", &json!({})),
            Step::new().gate(&gate).call("docs__count", &json!({})),
            Step::new().text("Done."),
        ]);
        let message =
            json!({"id": "m", "role": "user", "parts": [{"type": "text", "text": "Count."}]});
        let body = json!({
            "id": "c", "messages": [message], "trigger": "submit-message", "npc": "keeper",
        });
        let turn = async {
            let asked = self
                .village
                .request_at(&self.other, OPERATOR_TOKEN, Method::POST, "/v1/chat")
                .json(&body)
                .send();
            asked.await.unwrap().text().await.unwrap()
        };
        let between = async {
            gate.reached().await;
            change(&self.village).await;
            gate.open();
        };
        let ran = tokio::time::timeout(PATIENCE, async { tokio::join!(turn, between) });
        ran.await.unwrap();
        let shown = self.village.conversation("c").await;
        let parts = shown["messages"][1]["parts"].as_array().unwrap();
        let calls: Vec<Value> = parts
            .iter()
            .filter(|part| part["type"] == "dynamic-tool")
            .cloned()
            .collect();
        calls
            .try_into()
            .unwrap_or_else(|calls| panic!("{calls:#?}"))
    }

    /// Waits until the server's sessions are ended: its clients were closed in every replica.
    async fn until_closed(&self) {
        let closed = tokio::time::timeout(PATIENCE, async {
            while self.server.sessions() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        assert!(closed.await.is_ok(), "{} are open", self.server.sessions());
    }
}

async fn server() -> ScriptedMcp {
    let script = Script::new(Eras::Legacy);
    ScriptedMcp::start(script, Speaks::Http(Manner::Json)).await
}

fn output(call: &Value) -> &str {
    assert_eq!(call["state"], "output-available", "{call:#}");
    call["output"].as_str().unwrap()
}

fn error(call: &Value) -> &str {
    assert_eq!(call["state"], "output-error", "{call:#}");
    call["errorText"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_deleted_elsewhere_refuses_the_next_call() {
    let town = Town::new().await;
    let calls = town
        .turn(async |village| {
            village.cli_json(&["mcp", "delete", "Docs"]);
            town.until_closed().await;
        })
        .await;
    assert!(output(&calls[0]).contains('1'), "{calls:#?}");
    assert!(error(&calls[1]).contains("removed"), "{calls:#?}");
    assert_eq!(
        town.village.cli_json(&["grant", "list", "keeper"]),
        json!([])
    );
    town.village.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_disabled_elsewhere_refuses_the_next_call() {
    let town = Town::new().await;
    let calls = town
        .turn(async |village| {
            village.cli_json(&["mcp", "edit", "Docs", "--disable"]);
            town.until_closed().await;
        })
        .await;
    assert!(error(&calls[1]).contains("removed"), "{calls:#?}");
    town.village.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_url_is_edited_elsewhere_is_called_where_it_is_now() {
    let town = Town::new().await;
    let moved = server().await;
    let calls = town
        .turn(async |village| {
            village.cli_json(&["mcp", "edit", "Docs", "--url", &moved.url()]);
            town.until_closed().await;
        })
        .await;
    // A session of its own: it counts from the start.
    assert!(output(&calls[1]).contains('1'), "{calls:#?}");
    assert_eq!(town.server.script().count("tools/call"), 1);
    assert_eq!(moved.script().count("tools/call"), 1);
    town.village.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_headers_are_edited_elsewhere_gets_the_new_ones() {
    let town = Town::new().await;
    let calls = town
        .turn(async |village| {
            village.cli_json(&["mcp", "edit", "Docs", "--header", "x-key: the-new-one"]);
            town.until_closed().await;
        })
        .await;
    assert!(output(&calls[1]).contains('1'), "{calls:#?}");
    let last = town.server.requests();
    let with_key = last.iter().filter(|request| {
        request
            .headers
            .get("x-key")
            .is_some_and(|value| value == "the-new-one")
    });
    assert!(with_key.count() > 0);
    town.village.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_is_revoked_elsewhere_is_gone_at_the_next_turn() {
    let town = Town::new().await;
    let calls = town
        .turn(async |village| {
            village.cli_json(&["grant", "remove", "keeper", "mcp:Docs"]);
        })
        .await;
    // The turn that runs keeps its Tool set.
    assert!(output(&calls[1]).contains('2'), "{calls:#?}");
    town.village.chat("keeper", "next", "And now?").await;
    let request = town.village.chat_completions.requests().pop().unwrap();
    assert_eq!(request.tools(), Vec::<&str>::new());
    town.village.finish().await;
}
