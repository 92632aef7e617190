//! MCP Servers as JSON.

use proto::{
    mcp::v1::{self as mcp, WithheldTool},
    registry::v1::{self as registry, McpEra, McpTestResult, McpTransport, Pinning},
};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{
    rest::{said, time},
    ui::raw_json,
};

/// An MCP Server. Secrets show as set or not set.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct McpServer {
    /// Its id.
    id: String,
    /// Its name.
    name: String,
    /// Its name as it is compared, which starts the names of its Tools.
    slug: String,
    /// Who registered it.
    owner_id: String,
    /// `http`, `sse` or `stdio`.
    transport: &'static str,
    /// Its URL, the values of its query masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Names of the query's parameters, whose values are kept as secrets are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    query_names: Vec<String>,
    /// Names of the headers that are set.
    header_names: Vec<String>,
    /// The program.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    /// Its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    arguments: Vec<String>,
    /// The folder that it runs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    working_directory: Option<String>,
    /// Names of the environment variables that are set.
    environment_names: Vec<String>,
    /// Whether its secrets can be read. After the root secret was changed they must be entered again.
    credentials_readable: bool,
    /// What there is to say of its secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials_sentence: Option<String>,
    /// Whether it serves only turns that its owner started.
    private: bool,
    /// Whether it is enabled.
    enabled: bool,
    /// What happens when its Tools change after they were granted: `strict`, `warn` or `off`.
    pinning: &'static str,
    /// The era of the protocol in which it was last spoken to: `legacy` (up to 2025-11-25) or `modern` (from 2026-07-28 on).
    #[serde(skip_serializing_if = "Option::is_none")]
    era: Option<&'static str>,
    /// How its last test went; absent when it was not tested since its last change.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_test: Option<LastTest>,
    /// Counts its changes.
    generation: u64,
    /// When it was registered (RFC 3339, UTC).
    created_at: String,
}

impl From<registry::McpServer> for McpServer {
    fn from(server: registry::McpServer) -> Self {
        Self {
            transport: transport_word(server.transport()),
            pinning: match server.pinning() {
                Pinning::Unspecified | Pinning::Strict => "strict",
                Pinning::Warn => "warn",
                Pinning::Off => "off",
            },
            era: era_word(server.era()),
            id: server.id,
            name: server.name,
            slug: server.slug,
            owner_id: server.owner_id,
            url: said(server.url),
            query_names: server.query_names,
            header_names: server.header_names,
            command: said(server.command),
            arguments: server.arguments,
            working_directory: said(server.working_directory),
            environment_names: server.environment_names,
            credentials_readable: server.credentials_readable,
            credentials_sentence: said(server.credentials_sentence),
            private: server.private,
            enabled: server.enabled,
            last_test: server.last_test.map(LastTest::from),
            generation: server.generation,
            created_at: time(server.created_at_micros),
        }
    }
}

/// An MCP Server and the NPCs that have it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct McpServerWithNpcs {
    /// The server.
    #[serde(flatten)]
    server: McpServer,
    /// The NPCs that have it, as far as the caller may see them, by name.
    npcs: Vec<Holder>,
}

impl From<registry::McpServer> for McpServerWithNpcs {
    fn from(mut server: registry::McpServer) -> Self {
        let npcs = std::mem::take(&mut server.holders)
            .into_iter()
            .map(|holder| Holder {
                id: holder.npc_id,
                name: holder.npc,
                tools: holder.tools,
            })
            .collect();
        Self {
            server: server.into(),
            npcs,
        }
    }
}

/// An NPC that has an MCP Server.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = McpServerHolder)]
pub(crate) struct Holder {
    /// The NPC's id.
    id: String,
    /// Its name.
    name: String,
    /// The Tools that its Grant covers; empty for all of them.
    tools: Vec<String>,
}

/// How a test went.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = McpTestResult)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LastTest {
    /// Whether it connected and listed its Tools.
    ok: bool,
    /// What went wrong, as a stable word: `bad-url`, `private-address`, `unresolvable`, `unreachable`, `tls`, `needs-sign-in`,
    /// `token-rejected`, `forbidden`, `html`, `is-sse`, `is-streamable-http`, `redirects`, `command-not-found`, `exited`, `timed-out`,
    /// `protocol-error`, `http-error`, `credentials-unreadable`, `disabled`, `busy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// What went wrong, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    sentence: Option<String>,
    /// What to do about it, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_step: Option<String>,
    /// How many Tools it listed.
    tool_count: u32,
    /// The transport that was spoken: `http`, `sse` or `stdio`.
    transport: &'static str,
    /// The era that was spoken: `legacy` or `modern`.
    #[serde(skip_serializing_if = "Option::is_none")]
    era: Option<&'static str>,
    /// The protocol's version that was spoken.
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol_version: Option<String>,
    /// How long connecting and listing took, in milliseconds.
    latency_ms: u64,
    /// When (RFC 3339, UTC).
    at: String,
}

impl From<McpTestResult> for LastTest {
    fn from(result: McpTestResult) -> Self {
        Self {
            transport: transport_word(result.transport()),
            era: era_word(result.era()),
            ok: result.ok,
            code: said(result.code),
            sentence: said(result.sentence),
            next_step: said(result.next_step),
            tool_count: result.tools,
            protocol_version: said(result.protocol_version),
            latency_ms: result.latency_micros.div_ceil(1_000),
            at: time(result.at_micros),
        }
    }
}

/// A Tool as its server describes it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct McpTool {
    /// Its name for the model: names are unique in a server.
    id: String,
    /// Its name at the server, which `tools` of a Grant takes.
    name: String,
    /// Its name for the model.
    full_name: String,
    /// What the server says of it. Untrusted.
    description: String,
    /// Its input: a JSON Schema, as the server wrote it.
    #[schema(value_type = Object)]
    input_schema: Box<RawValue>,
    /// Its annotations. Untrusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    annotations: Option<Box<RawValue>>,
    /// Names the definition: SHA-256 in hexadecimal.
    hash: String,
}

impl From<mcp::McpTool> for McpTool {
    fn from(tool: mcp::McpTool) -> Self {
        Self {
            id: tool.full_name.clone(),
            name: tool.name,
            full_name: tool.full_name,
            description: tool.description,
            input_schema: raw_json(&tool.input_schema_json),
            annotations: said(tool.annotations_json).map(|json| raw_json(&json)),
            hash: tool.definition_hash,
        }
    }
}

/// A Tool that a server lists and that is not offered.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WithheldTool)]
pub(crate) struct Withheld {
    /// Its name.
    name: String,
    /// Why, in a sentence.
    reason: String,
}

impl From<WithheldTool> for Withheld {
    fn from(tool: WithheldTool) -> Self {
        Self {
            name: tool.name,
            reason: tool.sentence,
        }
    }
}

const fn transport_word(transport: McpTransport) -> &'static str {
    match transport {
        McpTransport::Unspecified => "unknown",
        McpTransport::Stdio => "stdio",
        McpTransport::Http => "http",
        McpTransport::Sse => "sse",
    }
}

const fn era_word(era: McpEra) -> Option<&'static str> {
    match era {
        McpEra::Unspecified => None,
        McpEra::Legacy => Some("legacy"),
        McpEra::Modern => Some("modern"),
    }
}
