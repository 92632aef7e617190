//! Calls of Tools.

use std::time::Duration;

use kernel::{ErrorCode, limits::TOOL_ARGUMENT_BYTES};
use proto::{
    mcp::v1::{CallEnd, CallToolRequest, Content, content::Kind},
    registry::v1::CreateMcpServerRequest,
};
use testkit::mcp::Fault;

use super::village::{Setup, Shape, Village, http, in_both_shapes, of, scripted, turn};

in_both_shapes!(
    a_call_gives_what_the_tool_gave,
    a_private_server_is_gone_for_everybody_elses_turns,
);

fn text(content: &[Content]) -> &str {
    match content {
        [
            Content {
                kind: Some(Kind::Text(text)),
            },
        ] => text,
        other => panic!("one text was expected: {other:?}"),
    }
}

async fn a_call_gives_what_the_tool_gave(shape: Shape) {
    let village = Village::new(shape).await;
    let fine = scripted([]).await;
    let docs = village.docs(&fine).await;
    let said = village
        .call(&village.ben, &docs, "echo", r#"{"text":"Grüße"}"#)
        .await;
    assert_eq!((said.end(), text(&said.content)), (CallEnd::Ok, "Grüße"));
    assert_eq!((&*said.sentence, &*said.code), ("", ""));
    let failed = village.call(&village.ben, &docs, "fail", "{}").await;
    assert_eq!(failed.end(), CallEnd::ToolError);
    assert_eq!(text(&failed.content), "it failed, as it was told to");
    let structured = village.call(&village.ben, &docs, "structured", "{}").await;
    assert_eq!(structured.structured_json, r#"{"answer":42}"#);
    let image = village.call(&village.ben, &docs, "image", "{}").await;
    let Some(Kind::Media(image)) = &image.content[0].kind else {
        panic!("{image:?}");
    };
    assert_eq!((&*image.kind, &*image.media_type), ("image", "image/png"));
    assert!(image.data.starts_with(b"\x89PNG"));
    let unknown = village
        .call(&village.ben, &docs, "no such tool", "{}")
        .await;
    assert_eq!(unknown.end(), CallEnd::BadAnswer, "{unknown:?}");
    assert!(unknown.sentence.contains("Unknown tool"), "{unknown:?}");
}

async fn a_private_server_is_gone_for_everybody_elses_turns(shape: Shape) {
    let village = Village::new(shape).await;
    let fine = scripted([]).await;
    let request = CreateMcpServerRequest {
        private: true,
        ..http("Diary", &fine)
    };
    let diary = village.register(&village.ada, request).await;
    let own = village.call(&village.ada, &diary, "echo", "{}").await;
    assert_eq!(own.end(), CallEnd::Ok);
    let calls = fine.script().count("tools/call");
    for stranger in [&village.ben, &village.operator] {
        let gone = village.call(stranger, &diary, "echo", "{}").await;
        assert_eq!(gone.end(), CallEnd::ServerRemoved, "{gone:?}");
        assert!(!gone.sentence.contains("Diary"), "{gone:?}");
    }
    assert_eq!(fine.script().count("tools/call"), calls);
}

#[tokio::test]
async fn each_player_has_a_state_of_its_own_at_a_server_that_keeps_one() {
    let village = Village::new(Shape::InProcess).await;
    let fine = scripted([]).await;
    let docs = village.docs(&fine).await;
    for (player, expected) in [
        (&village.ada, "1"),
        (&village.ada, "2"),
        (&village.ben, "1"),
        (&village.ada, "3"),
    ] {
        let counted = village.call(player, &docs, "count", "{}").await;
        assert_eq!(text(&counted.content), expected);
    }
}

#[tokio::test]
async fn progress_comes_before_the_one_result() {
    let village = Village::new(Shape::InProcess).await;
    let fine = scripted([]).await;
    let docs = village.docs(&fine).await;
    let arguments = r#"{"steps":3,"step_milliseconds":150}"#;
    let (progress, result) = village
        .try_call(&village.ada, of(&docs, "slow", arguments))
        .await
        .expect("a result");
    assert_eq!((result.end(), text(&result.content)), (CallEnd::Ok, "done"));
    assert!(!progress.is_empty());
    assert!(
        progress
            .iter()
            .all(|step| (step.total - 3.0).abs() < f64::EPSILON)
    );
    assert_eq!(progress[0].message, "step 1");
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled_at_its_server() {
    let village = Village::new(Shape::InProcess).await;
    let fine = scripted([]).await;
    let docs = village.docs(&fine).await;
    let arguments = r#"{"steps":1000,"step_milliseconds":100}"#;
    let mut client = village.gateway(&turn(&village.ada));
    let mut items = client
        .call_tool(of(&docs, "slow", arguments))
        .await
        .expect("a stream")
        .into_inner();
    items.message().await.expect("progress").expect("progress");
    drop((items, client));
    for _look in 0..1_000 {
        if fine.script().count("notifications/cancelled") > 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it was not cancelled: {:?}", fine.script().seen());
}

#[tokio::test]
async fn a_call_ends_before_its_callers_deadline_in_words() {
    let village = Village::new(Shape::InProcess).await;
    let silent = scripted([Fault::NeverAnswers("tools/call")]).await;
    let docs = village.docs(&silent).await;
    let mut client = village.gateway_within(&turn(&village.ada), Duration::from_secs(2));
    let mut items = client
        .call_tool(of(&docs, "echo", "{}"))
        .await
        .expect("a stream")
        .into_inner();
    let item = items
        .message()
        .await
        .expect("an answer in time")
        .expect("a result");
    let told = format!("{item:?}");
    assert!(told.contains("timed-out"), "{told}");
}

#[tokio::test]
async fn what_is_wrong_with_a_call_is_refused_with_its_field() {
    let village = Village::new(Shape::InProcess).await;
    let fine = scripted([]).await;
    let docs = village.docs(&fine).await;
    let call = |tool: &str, arguments: &str| of(&docs, tool, arguments);
    let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(TOOL_ARGUMENT_BYTES));
    let unnamed = CallToolRequest {
        call_id: String::new(),
        ..call("echo", "{}")
    };
    let nowhere = CallToolRequest {
        server_id: "docs".to_owned(),
        ..call("echo", "{}")
    };
    for (request, field) in [
        (call("echo", "[]"), "arguments_json"),
        (call("echo", "{"), "arguments_json"),
        (call("echo", ""), "arguments_json"),
        (call("echo", &long), "arguments_json"),
        (call("", "{}"), "tool_name"),
        (call(&"x".repeat(1_025), "{}"), "tool_name"),
        (unnamed, "call_id"),
        (nowhere, "server_id"),
    ] {
        let problem = village
            .try_call(&village.ada, request)
            .await
            .expect_err("it is refused");
        assert_eq!(problem.code, ErrorCode::InvalidArgument, "{problem:?}");
        assert_eq!(problem.field.as_deref(), Some(field), "{problem:?}");
    }
    assert_eq!(fine.accepted(), 0);
}

#[tokio::test]
async fn arguments_and_results_are_in_no_event_and_no_log() {
    let events = testkit::events::capture();
    let village = Village::new(Shape::InProcess).await;
    let fine = scripted([]).await;
    let mut request = http("Docs", &fine);
    request.headers = vec![proto::registry::v1::NamedSecret {
        name: "authorization".to_owned(),
        value: "Bearer planted-header".to_owned(),
    }];
    request.url = format!("{}?key=planted-query", fine.url());
    let docs = village.register(&village.ada, request).await;
    let said = village
        .call(
            &village.ada,
            &docs,
            "echo",
            r#"{"text":"planted-argument"}"#,
        )
        .await;
    assert_eq!(text(&said.content), "planted-argument");
    let sent = &fine.requests()[0];
    let sent = format!("{sent:?}");
    assert!(
        sent.contains("planted-header") && sent.contains("planted-query"),
        "{sent}"
    );
    let event = events.one("mcp_call");
    assert_eq!(event["outcome"], "ok");
    assert_eq!(event["gen_ai.tool.name"], "echo");
    assert_eq!(event["gen_ai.tool.call.id"], "call-1");
    assert_eq!(event["agentsville.mcp_server.id"], docs.id);
    let told = events.text();
    assert!(!told.contains("planted"), "{told}");
}

#[tokio::test]
async fn credentials_of_another_root_secret_are_a_state_with_its_own_sentence() {
    let setup = Setup {
        secret: "another root secret, of 32 bytes at least",
        ..Setup::of(Shape::InProcess)
    };
    let village = Village::with(setup).await;
    let fine = scripted([]).await;
    let mut request = http("Docs", &fine);
    request.headers = vec![proto::registry::v1::NamedSecret {
        name: "authorization".to_owned(),
        value: "Bearer planted".to_owned(),
    }];
    let docs = village.register(&village.ada, request).await;
    let ended = village.call(&village.ada, &docs, "echo", "{}").await;
    assert_eq!(ended.end(), CallEnd::NotSent);
    assert_eq!(ended.code, "credentials-unreadable");
    assert!(
        ended
            .sentence
            .contains("credentials unreadable, enter them again"),
        "{ended:?}"
    );
    assert_eq!(fine.accepted(), 0);
}
