//! What the real `ai` package, in its versions 7 and 6, makes of the edge.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use proto::turn::v1::{
    FinishReason, Limit, MediaReference, Notice, Outcome, ReasoningDelta, ReasoningEnded,
    ReasoningStarted, StepEnded, StepStarted, TextDelta, TextEnded, TextStarted, ToolFailed,
    ToolInputAvailable, ToolInputDelta, ToolInputRefused, ToolInputStarted, ToolOutput, TurnEnded,
    TurnStatus, Usage, turn_event::Event,
};
use serde_json::json;
use testkit::provider::Step;
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::{real::RealVillage, scripted::Script, village::Village};

/// Checks of single streams, against scripted turns.
const CLIENT: &str = include_str!("../ai/client.mjs");
/// A chat, against the real services.
const VILLAGE: &str = include_str!("../ai/village.mjs");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_7_of_ai_reads_every_stream_and_every_stored_message() {
    every_stream("ai").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_6_of_ai_reads_every_stream_and_every_stored_message() {
    every_stream("ai6").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_7_of_ai_chats_with_a_real_village() {
    real_chat("ai").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_6_of_ai_chats_with_a_real_village() {
    real_chat("ai6").await;
}

async fn every_stream(package: &str) {
    let village = Village::start().await;
    village.turns.script("whole", whole());
    village.turns.script("failing", failing());
    village.turns.script("held", held());
    let said = run(CLIENT, village.address, &village.player.token, package).await;
    assert_eq!(said.matches("ok: ").count(), 6, "{said}");
}

async fn real_chat(package: &str) {
    let village = RealVillage::start().await;
    let ada = village.player("Ada").await;
    for (path, body) in [
        ("/v1/npcs", json!({"name": "Keeper"})),
        (
            "/v1/npcs/Keeper/grants",
            json!({"what": "tool:current_time"}),
        ),
        ("/v1/npcs/Keeper/grants", json!({"what": "family:sandbox"})),
    ] {
        assert_eq!(ada.post(path, &body).await.status, 201);
    }
    village.provider.answer_with(|request| {
        let messages = request.body["messages"].as_array().unwrap();
        let last = messages.last().unwrap();
        if last["role"] == "tool" {
            Step::new().reasoning("Late.").words("It is late.")
        } else if last["content"].to_string().contains("stall") {
            Step::new().text("half a sentence").stall()
        } else {
            Step::new()
                .text("Let me see.")
                .call("current_time", &json!({}))
        }
    });
    let said = run(VILLAGE, village.address, &ada.token, package).await;
    assert_eq!(said, "ok: the chat went well\n");
}

/// Runs a script to its end, which must be a good one, and gives what it said.
async fn run(script: &str, address: SocketAddr, token: &str, package: &str) -> String {
    let modules = node_modules();
    let mut node = Command::new(modules.join("node/bin/node"))
        .args(["--input-type=module", "-"])
        .arg(format!("http://{address}"))
        .args([token, package])
        // Packages are looked for from here, since the script comes by stdin.
        .current_dir(modules.parent().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = node.stdin.take().unwrap();
    stdin.write_all(script.as_bytes()).await.unwrap();
    drop(stdin);
    let ended = tokio::time::timeout(Duration::from_mins(2), node.wait_with_output());
    let output = ended.await.unwrap().unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{said}");
    said
}

/// Where `node`, `ai` and `ai6` are installed.
fn node_modules() -> PathBuf {
    let modules = match std::env::var_os("AGENTSVILLE_TEST_NODE") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/node/node_modules"),
    };
    for needed in ["node/bin/node", "ai", "ai6"] {
        assert!(
            modules.join(needed).exists(),
            "{needed} is not installed in {}: run scripts/setup-node",
            modules.display()
        );
    }
    modules.canonicalize().unwrap()
}

fn step(step: u32) -> Event {
    Event::StepStarted(StepStarted { step })
}

fn step_ended(step: u32) -> Event {
    Event::StepEnded(StepEnded { step, usage: None })
}

fn text(position: u32, text: &str) -> [Event; 2] {
    [
        Event::TextStarted(TextStarted { position }),
        Event::TextDelta(TextDelta {
            position,
            delta: text.to_owned(),
        }),
    ]
}

fn text_ended(position: u32) -> Event {
    Event::TextEnded(TextEnded { position })
}

fn call(position: u32, call_id: &str, tool: &str) -> Event {
    Event::ToolInputStarted(ToolInputStarted {
        position,
        call_id: call_id.to_owned(),
        tool_name: tool.to_owned(),
    })
}

fn input_delta(call_id: &str, delta: &str) -> Event {
    Event::ToolInputDelta(ToolInputDelta {
        call_id: call_id.to_owned(),
        delta: delta.to_owned(),
    })
}

fn input(call_id: &str, tool: &str, json: &str) -> Event {
    Event::ToolInputAvailable(ToolInputAvailable {
        call_id: call_id.to_owned(),
        tool_name: tool.to_owned(),
        input_json: json.to_owned(),
    })
}

fn media(id: &str, kind: &str, media_type: &str) -> MediaReference {
    MediaReference {
        id: id.to_owned(),
        kind: kind.to_owned(),
        media_type: media_type.to_owned(),
        bytes: 7,
    }
}

fn ended(status: TurnStatus, sentence: &str, steps: u32) -> Event {
    Event::TurnEnded(TurnEnded {
        status: status.into(),
        finish_reason: FinishReason::Stop.into(),
        sentence: sentence.to_owned(),
        limits: vec![Limit::Steps.into()],
        usage: Some(Usage {
            input_tokens: 120,
            output_tokens: 30,
            ..Usage::default()
        }),
        steps,
    })
}

/// Everything that a turn can do.
fn whole() -> Script {
    let mut events = vec![
        Event::Notice(Notice {
            position: 0,
            code: "unavailable-tools".to_owned(),
            sentence: "The sandbox is not there.".to_owned(),
        }),
        step(1),
        Event::ReasoningStarted(ReasoningStarted { position: 1 }),
        Event::ReasoningDelta(ReasoningDelta {
            position: 1,
            delta: "Hm.".to_owned(),
        }),
        Event::ReasoningEnded(ReasoningEnded { position: 1 }),
    ];
    events.extend(text(2, "Let me see 🦊.\n\ndata: [DONE]\n\n"));
    events.extend([
        text_ended(2),
        call(3, "call-1", "docs__search"),
        input_delta("call-1", "{\"q\":"),
        input_delta("call-1", "\"x\"}"),
        input("call-1", "docs__search", "{\"q\":\"x\"}"),
        call(4, "call-2", "nope"),
        Event::ToolInputRefused(ToolInputRefused {
            call_id: "call-2".to_owned(),
            tool_name: "nope".to_owned(),
            input_json: "\"{broken\"".to_owned(),
            sentence: "There is no such Tool.".to_owned(),
        }),
        call(5, "call-3", "fetch_url"),
        input("call-3", "fetch_url", "{\"url\":\"https://x.example\"}"),
        Event::ToolFailed(ToolFailed {
            call_id: "call-3".to_owned(),
            outcome: Outcome::Denied.into(),
            sentence: "The address is not public.".to_owned(),
            media: Vec::new(),
        }),
        Event::ToolOutput(ToolOutput {
            call_id: "call-1".to_owned(),
            output_json: "null".to_owned(),
            media: vec![
                media("m-1", "image", "image/png"),
                media("m-2", "resource", ""),
            ],
        }),
        step_ended(1),
        step(2),
    ]);
    events.extend(text(6, "Done."));
    events.extend([
        text_ended(6),
        step_ended(2),
        ended(TurnStatus::Finished, "", 2),
    ]);
    Script {
        events,
        ..Script::default()
    }
}

/// Some text, and then the Provider fails.
fn failing() -> Script {
    let mut events = vec![step(1)];
    events.extend(text(0, "so far"));
    events.push(ended(
        TurnStatus::Failed,
        "The Provider refused the key.",
        1,
    ));
    Script {
        events,
        ..Script::default()
    }
}

/// In the middle of a text, of a call that runs, and of a call whose arguments stream.
fn held() -> Script {
    let mut events = vec![step(1)];
    events.extend(text(0, "half a sen"));
    events.extend([
        call(1, "call-1", "bash"),
        input("call-1", "bash", "{\"command\":\"sleep 60\"}"),
        call(2, "call-2", "write_file"),
        input_delta("call-2", "{\"path\":\"/a"),
    ]);
    let told = events.len() + 1;
    events.push(ended(TurnStatus::Finished, "", 1));
    Script {
        events,
        hold_after: Some(told),
        ..Script::default()
    }
}
