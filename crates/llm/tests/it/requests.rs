//! What is sent, byte for byte, on both wires.

use llm::{AssistantBlock, Message, StepRequest, ToolResult, ToolUse};
use testkit::provider::{Manner, Step, Wire};

use crate::support::{Pair, ask, call, json, outcome, result};

/// A history with everything in it.
fn history() -> StepRequest {
    let mut request = ask("What time is it?");
    request.messages.extend([
        Message::Assistant {
            blocks: vec![
                AssistantBlock::Reasoning {
                    text: "They ask for the time.".to_owned(),
                    meta: None,
                },
                AssistantBlock::Text("Let me look.".to_owned()),
                call(
                    "0193a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b",
                    r#"{"n":12345678901234567890123}"#,
                ),
                AssistantBlock::Call {
                    id: "bash:0".to_owned(),
                    name: "functions.bash".to_owned(),
                    arguments: json("{}"),
                    meta: None,
                },
            ],
        },
        Message::ToolResults(vec![
            result(
                "0193a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b",
                "2026-11-30T10:00:00Z",
            ),
            ToolResult {
                call_id: "bash:0".to_owned(),
                name: "functions.bash".to_owned(),
                text: "There is no Tool functions.bash.".to_owned(),
                failed: true,
            },
        ]),
        Message::Assistant {
            blocks: vec![AssistantBlock::Text("Ten.".to_owned())],
        },
        Message::User {
            text: "Thanks! 🦀".to_owned(),
        },
    ]);
    request
}

/// The body that a request becomes, byte for byte but for line ends before its parts.
async fn sent(wire: Wire, request: &StepRequest) -> String {
    let pair = Pair::with(wire, Manner::Strict, |config| {
        config.max_output_tokens = Some(1_000);
    })
    .await;
    pair.scripted.script([Step::new().text("done")]);
    assert_eq!(outcome(&*pair.provider, request).await.text, "done");
    let mut text = pair.scripted.requests().remove(0).text;
    for part in [
        r#"{"role""#,
        r#"{"type""#,
        r#"{"id""#,
        r#"{"name""#,
        r#""tools""#,
        r#""stream""#,
    ] {
        text = text.replace(part, &format!("\n{part}"));
    }
    text
}

#[tokio::test]
async fn chat_completions_request() {
    insta::assert_snapshot!(sent(Wire::ChatCompletions, &history()).await);
}

#[tokio::test]
async fn anthropic_request() {
    insta::assert_snapshot!(sent(Wire::Anthropic, &history()).await);
}

#[tokio::test]
async fn the_last_step_of_chat_completions_has_no_tools() {
    let mut request = history();
    request.tool_use = ToolUse::None;
    let body = sent(Wire::ChatCompletions, &request).await;
    assert!(!body.contains("\"tools\"") && !body.contains("tool_choice"));
}

#[tokio::test]
async fn the_requests_own_limit_goes_before_the_settings() {
    let mut request = history();
    request.max_output_tokens = Some(77);
    for wire in [Wire::ChatCompletions, Wire::Anthropic] {
        assert!(sent(wire, &request).await.contains("\"max_tokens\":77"));
    }
}
