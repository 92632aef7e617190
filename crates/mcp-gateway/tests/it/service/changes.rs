//! Servers that are edited, disabled or deleted while turns have them.

use std::time::Duration;

use proto::{
    mcp::v1::{CallEnd, call_tool_response::Item},
    registry::v1::{DeleteMcpServerRequest, McpServer, UpdateMcpServerRequest},
};
use testkit::mcp::ScriptedMcp;

use super::village::{Shape, Village, of, scripted, turn};

async fn edit(village: &Village, request: UpdateMcpServerRequest) -> McpServer {
    let edited = village
        .servers(&village.ada)
        .update_mcp_server(request)
        .await;
    let edited = edited.expect("an edit").into_inner().server;
    edited.expect("an MCP Server")
}

async fn delete(village: &Village, server: &McpServer) {
    let request = DeleteMcpServerRequest {
        server: server.id.clone(),
    };
    village
        .servers(&village.ada)
        .delete_mcp_server(request)
        .await
        .expect("a deletion");
}

fn change(server: &McpServer) -> UpdateMcpServerRequest {
    UpdateMcpServerRequest {
        server: server.id.clone(),
        ..UpdateMcpServerRequest::default()
    }
}

/// Waits until the clients of a server have said goodbye.
async fn left(scripted: &ScriptedMcp) {
    for _look in 0..1_000 {
        if scripted.sessions() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} sessions are still open", scripted.sessions());
}

#[tokio::test]
async fn a_call_after_an_edit_goes_to_the_new_address_and_the_old_client_is_closed() {
    let village = Village::new(Shape::InProcess).await;
    let (old, new) = (scripted([]).await, scripted([]).await);
    let docs = village.docs(&old).await;
    assert_eq!(
        village.call(&village.ada, &docs, "echo", "{}").await.end(),
        CallEnd::Ok
    );
    let calls = old.script().count("tools/call");
    let url = Some(new.url());
    edit(
        &village,
        UpdateMcpServerRequest {
            url,
            ..change(&docs)
        },
    )
    .await;
    // The turn has the server as it was.
    let ended = village.call(&village.ada, &docs, "echo", "{}").await;
    assert_eq!(ended.end(), CallEnd::Ok, "{ended:?}");
    assert_eq!(old.script().count("tools/call"), calls);
    assert_eq!(new.script().count("tools/call"), 1);
    left(&old).await;
}

#[tokio::test]
async fn a_call_after_a_deletion_or_when_it_is_disabled_says_that_the_server_was_removed() {
    let village = Village::new(Shape::InProcess).await;
    let fine = scripted([]).await;
    let docs = village.docs(&fine).await;
    village.call(&village.ada, &docs, "echo", "{}").await;
    let enabled = Some(false);
    edit(
        &village,
        UpdateMcpServerRequest {
            enabled,
            ..change(&docs)
        },
    )
    .await;
    let ended = village.call(&village.ada, &docs, "echo", "{}").await;
    assert_eq!(
        (ended.end(), &*ended.sentence),
        (CallEnd::ServerRemoved, "Docs is disabled.")
    );
    left(&fine).await;
    let enabled = Some(true);
    edit(
        &village,
        UpdateMcpServerRequest {
            enabled,
            ..change(&docs)
        },
    )
    .await;
    let ended = village.call(&village.ada, &docs, "echo", "{}").await;
    assert_eq!(ended.end(), CallEnd::Ok, "{ended:?}");
    delete(&village, &docs).await;
    let calls = fine.script().count("tools/call");
    let ended = village.call(&village.ada, &docs, "echo", "{}").await;
    assert_eq!(ended.end(), CallEnd::ServerRemoved);
    assert_eq!(fine.script().count("tools/call"), calls);
    left(&fine).await;
}

#[tokio::test]
async fn a_call_that_runs_ends_when_its_server_is_deleted() {
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
    delete(&village, &docs).await;
    let result = loop {
        let item = items.message().await.expect("an item").expect("a result");
        if let Some(Item::Result(result)) = item.item {
            break result;
        }
    };
    assert_eq!(result.end(), CallEnd::ServerRemoved, "{result:?}");
    assert!(
        result.sentence.starts_with("Docs was deleted"),
        "{result:?}"
    );
}

#[tokio::test]
async fn a_server_that_becomes_private_is_gone_for_others_at_once() {
    let village = Village::new(Shape::InProcess).await;
    let fine = scripted([]).await;
    let docs = village.docs(&fine).await;
    assert_eq!(
        village.call(&village.ben, &docs, "echo", "{}").await.end(),
        CallEnd::Ok
    );
    let private = Some(true);
    edit(
        &village,
        UpdateMcpServerRequest {
            private,
            ..change(&docs)
        },
    )
    .await;
    let ended = village.call(&village.ben, &docs, "echo", "{}").await;
    assert_eq!(ended.end(), CallEnd::ServerRemoved, "{ended:?}");
    let ended = village.call(&village.ada, &docs, "echo", "{}").await;
    assert_eq!(ended.end(), CallEnd::Ok, "{ended:?}");
}

#[tokio::test]
async fn at_the_end_of_the_process_servers_are_taken_leave_of() {
    let village = Village::new(Shape::InProcess).await;
    let fine = scripted([]).await;
    let docs = village.docs(&fine).await;
    village.call(&village.ada, &docs, "echo", "{}").await;
    assert_eq!(fine.sessions(), 1);
    let grace = Duration::from_mins(1);
    let stopped = village.lifecycle.drain(grace, std::future::pending()).await;
    assert_eq!(stopped, runtime::Stopped::Drained);
    assert_eq!(fine.sessions(), 0);
}
