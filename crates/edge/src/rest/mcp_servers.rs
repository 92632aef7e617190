//! MCP Servers: what offers Tools over the Model Context Protocol.

pub(crate) mod importing;
pub(crate) mod pins;
pub(crate) mod testing;
mod view;

use axum::{Json, extract::State};
use http::StatusCode;
use kernel::Secret;
use proto::registry::v1::{
    CreateMcpServerRequest, DeleteMcpServerRequest, GetMcpServerRequest, ListMcpServersRequest,
    McpTransport, NamedSecret, NamedSecretList, Pinning, UpdateMcpServerRequest,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Page, PageParams, no_such_word, required};
use crate::{
    auth::Authenticated,
    body::{Named, Query, Secrets, Strict},
    problem::{Failure, Problem},
    routes::App,
};
use view::{McpServer, McpServerWithNpcs};

/// A new MCP Server. `url` and `headers` are for `http` and `sse`, the others for `stdio`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewMcpServer {
    /// 1 to 64 characters with at least one letter or digit; its slug starts the names of its Tools. Needed unless it is only tested.
    #[serde(default)]
    name: Option<String>,
    /// `http` (streamable HTTP), `sse` (the older HTTP with server-sent events) or `stdio` (a command on the Village's host; the
    /// Operator's).
    transport: String,
    /// An http or https URL outside of the Village's own network. The values of its query are kept as secrets are.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    url: Option<Secret>,
    /// Sent with every request: names and values. They are encrypted, and never returned.
    #[serde(default)]
    #[schema(value_type = std::collections::HashMap<String, String>, required = false)]
    headers: Secrets,
    /// The program.
    #[serde(default)]
    command: Option<String>,
    /// Its arguments. They are returned by reads: secrets belong into `environment`.
    #[serde(default)]
    arguments: Option<Vec<String>>,
    /// Environment variables: names and values. They are encrypted, and never returned.
    #[serde(default)]
    #[schema(value_type = std::collections::HashMap<String, String>, required = false)]
    environment: Secrets,
    /// The folder that it runs in.
    #[serde(default)]
    working_directory: Option<String>,
    /// Whether it serves only turns that its owner started, and nobody else sees it.
    #[serde(default)]
    private: Option<bool>,
    /// What happens when its Tools change after they were granted: `strict` (the default), `warn` or `off`.
    #[serde(default)]
    pinning: Option<String>,
}

impl NewMcpServer {
    fn into_request(self) -> Result<CreateMcpServerRequest, Problem> {
        Ok(CreateMcpServerRequest {
            name: self.name.unwrap_or_default(),
            transport: transport(&self.transport)?.into(),
            url: self.url.unwrap_or_default().expose().to_owned(),
            headers: named(self.headers),
            command: self.command.unwrap_or_default(),
            arguments: self.arguments.unwrap_or_default(),
            environment: named(self.environment),
            working_directory: self.working_directory.unwrap_or_default(),
            private: self.private.unwrap_or_default(),
            pinning: pinning(self.pinning.as_deref())?.into(),
        })
    }
}

/// Changes of an MCP Server. What is absent stays as it is. `null` stays, too, but for `headers` and `environment`, where `null` and `{}`
/// clear, and an object replaces all that was set.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct McpServerChanges {
    /// Its new name. The names of its Tools change with it.
    #[serde(default)]
    name: Option<String>,
    /// `http`, `sse` or `stdio`, together with what it needs.
    #[serde(default)]
    transport: Option<String>,
    /// The new URL. To another host, the headers must be said again or cleared: they do not go along silently.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    url: Option<Secret>,
    /// Absent: keep. `null` or `{}`: clear. An object: replace them all.
    #[serde(default, deserialize_with = "Secrets::given")]
    #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
    headers: Option<Secrets>,
    /// The new program, with its arguments.
    #[serde(default)]
    command: Option<String>,
    /// Its arguments; they go with `command`.
    #[serde(default)]
    arguments: Option<Vec<String>>,
    /// Absent: keep. `null` or `{}`: clear. An object: replace them all.
    #[serde(default, deserialize_with = "Secrets::given")]
    #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
    environment: Option<Secrets>,
    /// The folder that it runs in; an empty text for the Village's own.
    #[serde(default)]
    working_directory: Option<String>,
    /// Whether it is enabled. A disabled one is kept, and no turn uses it.
    #[serde(default)]
    enabled: Option<bool>,
    /// Whether it serves only turns that its owner started.
    #[serde(default)]
    private: Option<bool>,
    /// `strict`, `warn` or `off`.
    #[serde(default)]
    pinning: Option<String>,
}

impl McpServerChanges {
    fn into_request(self, server: String) -> Result<UpdateMcpServerRequest, Problem> {
        if self.arguments.is_some() && self.command.is_none() {
            return Err(Problem::field(
                "arguments",
                "arguments: they are replaced together with the command; say the command, too",
            ));
        }
        Ok(UpdateMcpServerRequest {
            server,
            url: self.url.map(|url| url.expose().to_owned()),
            headers: self.headers.map(list_of),
            environment: self.environment.map(list_of),
            enabled: self.enabled,
            private: self.private,
            pinning: pinning(self.pinning.as_deref())?.into(),
            transport: match self.transport.as_deref() {
                None => McpTransport::Unspecified,
                Some(word) => transport(word)?,
            }
            .into(),
            command: self.command,
            arguments: self.arguments.unwrap_or_default(),
            working_directory: self.working_directory,
            name: self.name,
        })
    }
}

/// An MCP Server that is gone, and with it every Grant to it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct McpServerGone {
    /// Its id.
    id: String,
    /// How many Grants went with it.
    grants_removed: u32,
}

/// Registers an MCP Server. Nobody has it until it is granted; test it first.
#[utoipa::path(post, operation_id = "createMcpServer", path = "/v1/mcp-servers", tag = "MCP Servers", request_body = NewMcpServer, responses(
    (status = 201, body = McpServer),
    Failure,
))]
pub(crate) async fn create(
    State(app): State<App>,
    who: Authenticated,
    Strict(new): Strict<NewMcpServer>,
) -> Result<(StatusCode, Json<McpServer>), Problem> {
    if new.name.is_none() {
        return Err(Problem::field("name", "name: say how the server is called"));
    }
    let mut servers = app.registry.mcp_servers(&who.caller);
    let answer = servers.create_mcp_server(new.into_request()?).await?;
    let server = required(answer.into_inner().server, "server")?;
    Ok((StatusCode::CREATED, Json(server.into())))
}

/// Lists the MCP Servers that the caller may see, newest first.
#[utoipa::path(get, operation_id = "listMcpServers", path = "/v1/mcp-servers", tag = "MCP Servers", params(PageParams), responses(
    (status = 200, body = Page<McpServer>),
    Failure,
))]
pub(crate) async fn list(
    State(app): State<App>,
    who: Authenticated,
    query: Query,
) -> Result<Json<Page<McpServer>>, Problem> {
    let page = query.page()?;
    let request = ListMcpServersRequest {
        page_size: page.size,
        page_token: page.token,
    };
    let mut servers = app.registry.mcp_servers(&who.caller);
    let answer = servers.list_mcp_servers(request).await?.into_inner();
    Ok(Json(Page::of(
        answer.servers,
        answer.next_page_token,
        McpServer::from,
    )))
}

/// Reads an MCP Server and the NPCs that have it. Of secrets it says which are set, never what they are.
#[utoipa::path(get, operation_id = "getMcpServer", path = "/v1/mcp-servers/{server}", tag = "MCP Servers",
    params(("server" = String, Path, description = "Name or id")), responses(
    (status = 200, body = McpServerWithNpcs),
    Failure,
))]
pub(crate) async fn show(
    State(app): State<App>,
    who: Authenticated,
    Named(server): Named,
) -> Result<Json<McpServerWithNpcs>, Problem> {
    let mut servers = app.registry.mcp_servers(&who.caller);
    let answer = servers
        .get_mcp_server(GetMcpServerRequest { server })
        .await?
        .into_inner();
    Ok(Json(required(answer.server, "server")?.into()))
}

/// Changes an MCP Server. Its clients are replaced in every turn that runs.
#[utoipa::path(patch, operation_id = "updateMcpServer", path = "/v1/mcp-servers/{server}", tag = "MCP Servers",
    params(("server" = String, Path, description = "Name or id")), request_body = McpServerChanges, responses(
    (status = 200, body = McpServer),
    Failure,
))]
pub(crate) async fn update(
    State(app): State<App>,
    who: Authenticated,
    Named(server): Named,
    Strict(changes): Strict<McpServerChanges>,
) -> Result<Json<McpServer>, Problem> {
    let mut servers = app.registry.mcp_servers(&who.caller);
    let answer = servers
        .update_mcp_server(changes.into_request(server)?)
        .await?;
    Ok(Json(required(answer.into_inner().server, "server")?.into()))
}

/// Deletes an MCP Server and every Grant to it. Its clients are closed.
#[utoipa::path(delete, operation_id = "deleteMcpServer", path = "/v1/mcp-servers/{server}", tag = "MCP Servers",
    params(("server" = String, Path, description = "Name or id")), responses(
    (status = 200, body = McpServerGone),
    Failure,
))]
pub(crate) async fn remove(
    State(app): State<App>,
    who: Authenticated,
    Named(server): Named,
) -> Result<Json<McpServerGone>, Problem> {
    let mut servers = app.registry.mcp_servers(&who.caller);
    let answer = servers
        .delete_mcp_server(DeleteMcpServerRequest { server })
        .await?
        .into_inner();
    Ok(Json(McpServerGone {
        id: answer.server_id,
        grants_removed: answer.grants_removed,
    }))
}

fn named(secrets: Secrets) -> Vec<NamedSecret> {
    let named = |(name, value): (String, Secret)| NamedSecret {
        name,
        value: value.expose().to_owned(),
    };
    secrets.0.into_iter().map(named).collect()
}

fn list_of(secrets: Secrets) -> NamedSecretList {
    NamedSecretList {
        secrets: named(secrets),
    }
}

fn transport(word: &str) -> Result<McpTransport, Problem> {
    match word {
        "http" => Ok(McpTransport::Http),
        "sse" => Ok(McpTransport::Sse),
        "stdio" => Ok(McpTransport::Stdio),
        other => Err(no_such_word("transport", other, ["http", "sse", "stdio"])),
    }
}

fn pinning(word: Option<&str>) -> Result<Pinning, Problem> {
    match word {
        None => Ok(Pinning::Unspecified),
        Some("strict") => Ok(Pinning::Strict),
        Some("warn") => Ok(Pinning::Warn),
        Some("off") => Ok(Pinning::Off),
        Some(other) => Err(no_such_word("pinning", other, ["strict", "warn", "off"])),
    }
}
