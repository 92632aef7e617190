//! Testing a server before anybody has it.

use axum::{Json, extract::State};
use proto::mcp::v1::{TestServerRequest, TestServerResponse, test_server_request::Server};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    NewMcpServer,
    view::{LastTest, McpTool, Withheld},
};
use crate::{
    auth::Authenticated,
    body::{Named, Strict},
    problem::{Failure, Problem},
    rest::{required, said},
    routes::App,
};

/// What a server that is tested without a name is called: its Tools' names need one.
const NAMELESS: &str = "server";

/// How a test went, and the Tools that the server offers.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct McpTest {
    /// How it went.
    #[serde(flatten)]
    result: LastTest,
    /// The server's own name and version. Untrusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    server_info: Option<String>,
    /// What the server says of itself. Untrusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    /// Its Tools, by their names for the model.
    tools: Vec<McpTool>,
    /// Tools that it lists and that would not be offered.
    withheld: Vec<Withheld>,
}

/// Connects to a saved server and lists its Tools. A failure is an answer: `ok` is false, `sentence` and `nextStep` say more.
#[utoipa::path(post, operation_id = "testMcpServer", path = "/v1/mcp-servers/{server}/test", tag = "MCP Servers",
    params(("server" = String, Path, description = "Name or id")), responses(
    (status = 200, body = McpTest),
    Failure,
))]
pub(crate) async fn saved(
    State(app): State<App>,
    who: Authenticated,
    Named(server): Named,
) -> Result<Json<McpTest>, Problem> {
    test(&app, &who, Server::Saved(server)).await
}

/// Connects to a server that is not saved, and lists its Tools.
#[utoipa::path(post, operation_id = "testUnsavedMcpServer", path = "/v1/mcp-servers/test", tag = "MCP Servers",
    request_body = NewMcpServer, responses(
    (status = 200, body = McpTest),
    Failure,
))]
pub(crate) async fn unsaved(
    State(app): State<App>,
    who: Authenticated,
    Strict(mut new): Strict<NewMcpServer>,
) -> Result<Json<McpTest>, Problem> {
    new.name.get_or_insert_with(|| NAMELESS.to_owned());
    test(&app, &who, Server::Unsaved(new.into_request()?)).await
}

async fn test(app: &App, who: &Authenticated, server: Server) -> Result<Json<McpTest>, Problem> {
    let request = TestServerRequest {
        server: Some(server),
    };
    let TestServerResponse {
        result,
        tools,
        instructions,
        withheld,
        server_info,
    } = app
        .gateway
        .testing(&who.caller)?
        .test_server(request)
        .await?
        .into_inner();
    Ok(Json(McpTest {
        result: required(result, "result")?.into(),
        server_info: said(server_info),
        instructions: said(instructions),
        tools: tools.into_iter().map(McpTool::from).collect(),
        withheld: withheld.into_iter().map(Withheld::from).collect(),
    }))
}
