//! MCP Servers as other clients write them down: `{"mcpServers": {…}}` (Claude Desktop, Cursor) and `{"servers": {…}}` (VS Code).

mod entry;

use axum::{Json, extract::State};
use futures::{StreamExt as _, stream};
use kernel::ErrorCode;
use proto::registry::v1::UpdateMcpServerRequest;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{
    auth::Authenticated,
    body::Tolerant,
    problem::{Failure, Problem},
    rest::required,
    routes::App,
};
use entry::Entry;

/// Entries of one import.
const ENTRIES: usize = 100;
/// Entries that are registered at the same time: each has its address looked up.
const AT_ONCE: usize = 4;

/// MCP Servers, as other clients write them down.
#[derive(ToSchema)]
#[schema(as = McpImport)]
#[expect(dead_code, reason = "it documents what `import` reads")]
pub(crate) struct Import {
    /// Name to entry: `command`, `args`, `env`, `cwd`; or `url`, `headers`; and `type` or `transport` (`http`, `streamable-http`, `sse`,
    /// `stdio`), `disabled`. At most 100. VS Code calls it `servers`.
    #[schema(rename = "mcpServers")]
    mcp_servers: std::collections::HashMap<String, Object>,
}

/// Any JSON object.
#[derive(ToSchema)]
#[schema(value_type = Object)]
#[expect(dead_code, reason = "it documents an entry")]
pub(crate) struct Object(Value);

/// What became of each entry.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = McpImported)]
pub(crate) struct Imported {
    /// One for each entry, by name.
    items: Vec<ImportedEntry>,
}

/// What became of one entry.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ImportedEntry {
    /// The entry's name, which is unique among them.
    id: String,
    /// The entry's name.
    name: String,
    /// `created`, `exists` or `refused`.
    outcome: Outcome,
    /// What was done, or why it was not, in a sentence.
    sentence: String,
    /// The id of the server that was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
}

/// What became of an entry.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(as = ImportOutcome)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Created,
    Exists,
    Refused,
}

/// Registers servers as other clients write them down. What is wrong with one entry stops none of the others.
#[utoipa::path(post, operation_id = "importMcpServers", path = "/v1/mcp-servers/import", tag = "MCP Servers", request_body = Import, responses(
    (status = 200, body = Imported),
    Failure,
))]
pub(crate) async fn import(
    State(app): State<App>,
    who: Authenticated,
    Tolerant(body): Tolerant,
) -> Result<Json<Imported>, Problem> {
    let entries = entries(body)?;
    let items = stream::iter(entries)
        .map(|(name, entry)| one(&app, &who, name, entry))
        .buffered(AT_ONCE)
        .collect()
        .await;
    Ok(Json(Imported { items }))
}

fn entries(mut body: Map<String, Value>) -> Result<Map<String, Value>, Problem> {
    let (field, entries) = ["mcpServers", "servers"]
        .into_iter()
        .find_map(|field| Some((field, body.remove(field)?)))
        .ok_or_else(|| {
            Problem::field(
                "mcpServers",
                "mcpServers: there is neither mcpServers nor servers in the body; write {\"mcpServers\": {\"name\": {…}}}",
            )
        })?;
    let Value::Object(entries) = entries else {
        return Err(Problem::field(
            field,
            format!("{field}: write an object of names and servers"),
        ));
    };
    if entries.len() > ENTRIES {
        return Err(Problem::field(
            field,
            format!(
                "{field}: there are {} servers in it; import at most {ENTRIES} at a time",
                entries.len()
            ),
        ));
    }
    Ok(entries)
}

async fn one(app: &App, who: &Authenticated, name: String, entry: Value) -> ImportedEntry {
    let (outcome, sentence, server) = match Entry::read(&name, entry) {
        Err(sentence) => (Outcome::Refused, sentence, None),
        Ok(entry) => match register(app, who, entry).await {
            Ok((server, sentence)) => (Outcome::Created, sentence, Some(server)),
            Err(problem) if problem.code == ErrorCode::AlreadyExists => {
                (Outcome::Exists, problem.detail, None)
            }
            Err(problem) => (Outcome::Refused, problem.detail, None),
        },
    };
    ImportedEntry {
        id: name.clone(),
        name,
        outcome,
        sentence,
        server,
    }
}

/// Gives the new server's id, and what there is to say.
async fn register(
    app: &App,
    who: &Authenticated,
    entry: Entry,
) -> Result<(String, String), Problem> {
    let mut servers = app.registry.mcp_servers(&who.caller);
    let answer = servers.create_mcp_server(entry.request).await?;
    let server = required(answer.into_inner().server, "server")?;
    let mut said = vec!["registered".to_owned()];
    if entry.disabled {
        let disable = UpdateMcpServerRequest {
            server: server.id.clone(),
            enabled: Some(false),
            ..UpdateMcpServerRequest::default()
        };
        said.push(match servers.update_mcp_server(disable).await {
            Ok(_) => "disabled, as it was".to_owned(),
            Err(status) => format!("it could not be disabled: {}", Problem::from(status).detail),
        });
    }
    if !entry.ignored.is_empty() {
        said.push(format!(
            "nothing here corresponds to {}",
            entry.ignored.join(", ")
        ));
    }
    Ok((server.id, said.join("; ")))
}
