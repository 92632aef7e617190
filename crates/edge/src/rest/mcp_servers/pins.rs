//! What a server's Tools were when they were granted, and what they are now.

use std::collections::{BTreeMap, BTreeSet};

use axum::{Json, extract::State};
use kernel::{ErrorCode, JsonText, ToolDefinition};
use proto::{
    mcp::v1::{ListToolsRequest, McpTool, WantedServer, WithheldTool},
    registry::v1::{
        AcceptPinsRequest, GetMcpServerRequest, GrantPins, ListPinsRequest, McpServer, ToolPin,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{
    auth::Authenticated,
    body::{Named, Query, Strict, quoted},
    problem::{Failure, Problem},
    rest::required,
    routes::App,
    ui::raw_json,
};

/// The most Tools of a server that are pinned.
const PINS: u32 = 4_096;
/// The longest definition that is kept with its hash, in bytes.
const KEPT_DEFINITION_BYTES: usize = 64 * 1_024;
/// Definitions that one answer shows, in bytes; those beyond are named by what happened to them alone.
const SHOWN_BYTES: usize = 4 * 1_024 * 1_024;
/// Tools that a sentence names.
const NAMED: usize = 3;

/// What changed since a server's Tools were granted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct McpDiff {
    /// The server's id.
    id: String,
    /// The server's name.
    name: String,
    /// One for each Grant that the caller may edit, by NPC.
    grants: Vec<GrantDiff>,
    /// The Tools as they are now, as `accept` takes them in `seen`: name to hash.
    seen: BTreeMap<String, String>,
}

/// What changed for one Grant.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GrantDiff {
    /// The Grant's id.
    id: String,
    /// The NPC's id.
    npc_id: String,
    /// The NPC's name.
    npc: String,
    /// Whether anything was pinned yet. Until then every Tool is new.
    pinned: bool,
    /// The Tools that it covers, by name.
    tools: Vec<ToolDiff>,
}

/// What happened to one Tool.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ToolDiff {
    /// Its name at the server.
    name: String,
    /// `unchanged`, `changed`, `new` or `gone`.
    state: Change,
    /// Its definition when it was granted; of one that changed or is gone, where it was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    before: Option<Box<RawValue>>,
    /// Its definition now; of one that changed or is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    after: Option<Box<RawValue>>,
}

/// What happened to a Tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ToolChange)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Change {
    Unchanged,
    Changed,
    New,
    Gone,
}

/// What is accepted.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Acceptance {
    /// Only for this NPC's Grant, by name or id. Absent: for every Grant that the caller may edit.
    #[serde(default)]
    npc: Option<String>,
    /// The Tools as they were looked at (`seen` of a diff). When they are others by now, nothing is accepted. Absent: whatever is there.
    #[serde(default)]
    seen: Option<BTreeMap<String, String>>,
}

/// What was accepted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Accepted {
    /// The server's id.
    id: String,
    /// Names of the NPCs whose Grants cover the Tools as they are now.
    npcs: Vec<String>,
    /// How many Tools there are.
    tools: usize,
}

/// The Tools of a server as they are now.
#[derive(Debug)]
pub(crate) enum Listed {
    /// They were listed.
    Now {
        tools: Vec<McpTool>,
        withheld: Vec<WithheldTool>,
    },
    /// They cannot be, for this reason.
    Unavailable(String),
}

/// Lists a server's Tools as the caller may: these, or all of them if there are none.
pub(crate) async fn listed(
    app: &App,
    who: &Authenticated,
    server: &McpServer,
    tools: &[String],
) -> Result<Listed, Problem> {
    let request = ListToolsRequest {
        servers: vec![WantedServer {
            server_id: server.id.clone(),
            generation: server.generation,
            tools: tools.to_vec(),
            limit: PINS,
        }],
    };
    let answer = app
        .gateway
        .listing(&who.caller)?
        .list_tools(request)
        .await?
        .into_inner();
    let found = required(answer.servers.into_iter().next(), "servers")?;
    Ok(if found.unavailable.is_empty() {
        Listed::Now {
            tools: found.tools,
            withheld: found.withheld,
        }
    } else {
        Listed::Unavailable(found.unavailable)
    })
}

/// Reads a server that the caller may see.
pub(crate) async fn server_of(
    app: &App,
    who: &Authenticated,
    server: String,
) -> Result<McpServer, Problem> {
    let mut servers = app.registry.mcp_servers(&who.caller);
    let answer = servers
        .get_mcp_server(GetMcpServerRequest { server })
        .await?;
    required(answer.into_inner().server, "server")
}

/// Definitions as the registry keeps them.
pub(crate) fn pins_of(tools: &[McpTool]) -> Vec<ToolPin> {
    tools
        .iter()
        .map(|tool| ToolPin {
            tool_name: tool.name.clone(),
            definition_hash: tool.definition_hash.clone(),
            definition_json: definition_of(tool)
                .filter(|json| json.as_str().len() <= KEPT_DEFINITION_BYTES)
                .map(|json| json.as_str().to_owned())
                .unwrap_or_default(),
        })
        .collect()
}

/// The canonical definition, if it is the one that the hash names.
fn definition_of(tool: &McpTool) -> Option<JsonText> {
    let canonical = ToolDefinition {
        name: tool.name.clone(),
        description: tool.description.clone(),
        input_schema: JsonText::parse(&tool.input_schema_json).ok()?,
        annotations: match tool.annotations_json.as_str() {
            "" => None,
            json => Some(JsonText::parse(json).ok()?),
        },
    }
    .canonical();
    (ToolDefinition::hash_of(&canonical) == tool.definition_hash).then_some(canonical)
}

/// What changed since a server's Tools were granted: for each NPC and Tool `unchanged`, `changed`, `new` or `gone`.
#[utoipa::path(get, operation_id = "diffMcpServer", path = "/v1/mcp-servers/{server}/diff", tag = "MCP Servers", params(
    ("server" = String, Path, description = "Name or id"),
    ("npc" = Option<String>, Query, description = "Only this NPC's Grant, by name or id"),
), responses(
    (status = 200, body = McpDiff),
    Failure,
))]
pub(crate) async fn diff(
    State(app): State<App>,
    who: Authenticated,
    Named(server): Named,
    query: Query,
) -> Result<Json<McpDiff>, Problem> {
    let [npc] = query.take(["npc"])?;
    let pinned = Pinned::read(&app, &who, server, npc).await?;
    let mut room = SHOWN_BYTES;
    let grants = pinned
        .grants
        .iter()
        .map(|(grant, covered)| grant_diff(grant, &pinned.lists[covered], &mut room))
        .collect();
    Ok(Json(McpDiff {
        seen: pinned.seen(),
        id: pinned.server.id,
        name: pinned.server.name,
        grants,
    }))
}

/// Accepts a server's Tools as they are now: from the next turn on they are the granted ones.
#[utoipa::path(post, operation_id = "acceptMcpServer", path = "/v1/mcp-servers/{server}/accept", tag = "MCP Servers",
    params(("server" = String, Path, description = "Name or id")), request_body = Acceptance, responses(
    (status = 200, body = Accepted),
    Failure,
))]
pub(crate) async fn accept(
    State(app): State<App>,
    who: Authenticated,
    Named(server): Named,
    Strict(acceptance): Strict<Acceptance>,
) -> Result<Json<Accepted>, Problem> {
    let pinned = Pinned::read(&app, &who, server, acceptance.npc).await?;
    let now = pinned.seen();
    if let Some(seen) = acceptance.seen {
        refuse_others(&seen, &now)?;
    }
    let mut servers = app.registry.mcp_servers(&who.caller);
    let mut npcs = Vec::with_capacity(pinned.grants.len());
    for (grant, covered) in &pinned.grants {
        let request = AcceptPinsRequest {
            server: pinned.server.id.clone(),
            npc: grant.npc_id.clone(),
            pins: pins_of(&pinned.lists[covered]),
        };
        let answer = servers.accept_pins(request).await?;
        npcs.extend(answer.into_inner().npcs);
    }
    Ok(Json(Accepted {
        id: pinned.server.id,
        npcs,
        tools: now.len(),
    }))
}

/// Grants with what they pinned, and the lists that they are compared with.
struct Pinned {
    server: McpServer,
    /// Each with the Tools that it covers, which name its list.
    grants: Vec<(GrantPins, Vec<String>)>,
    /// The Tools now, by the filter that they were listed with.
    lists: BTreeMap<Vec<String>, Vec<McpTool>>,
}

impl Pinned {
    async fn read(
        app: &App,
        who: &Authenticated,
        server: String,
        npc: Option<String>,
    ) -> Result<Self, Problem> {
        let server = server_of(app, who, server).await?;
        let request = ListPinsRequest {
            server: server.id.clone(),
            npc: npc.unwrap_or_default(),
        };
        let mut servers = app.registry.mcp_servers(&who.caller);
        let grants: Vec<_> = servers
            .list_pins(request)
            .await?
            .into_inner()
            .grants
            .into_iter()
            .map(|grant| {
                let covered: BTreeSet<_> = grant.tools.iter().cloned().collect();
                (grant, covered.into_iter().collect::<Vec<_>>())
            })
            .collect();
        let mut lists = BTreeMap::new();
        for (_, covered) in &grants {
            if lists.contains_key(covered) {
                continue;
            }
            match listed(app, who, &server, covered).await? {
                Listed::Now { tools, .. } => {
                    lists.insert(covered.clone(), tools);
                }
                Listed::Unavailable(why) => {
                    return Err(Problem::new(
                        ErrorCode::FailedPrecondition,
                        format!("{} cannot say which Tools it has now: {why}", server.name),
                    ));
                }
            }
        }
        Ok(Self {
            server,
            grants,
            lists,
        })
    }

    fn seen(&self) -> BTreeMap<String, String> {
        self.lists
            .values()
            .flatten()
            .map(|tool| (tool.name.clone(), tool.definition_hash.clone()))
            .collect()
    }
}

/// Refuses to accept what nobody looked at.
fn refuse_others(
    seen: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
) -> Result<(), Problem> {
    let others: BTreeSet<_> = seen
        .keys()
        .chain(now.keys())
        .filter(|name| seen.get(*name) != now.get(*name))
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    let more = match others.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names: Vec<_> = others.iter().take(NAMED).map(|name| quoted(name)).collect();
    Err(Problem {
        field: Some("seen".to_owned()),
        ..Problem::new(
            ErrorCode::Aborted,
            format!(
                "seen: {}{more} changed since they were looked at, and nothing was accepted; look at the diff again",
                names.join(", ")
            ),
        )
    })
}

fn grant_diff(grant: &GrantPins, now: &[McpTool], room: &mut usize) -> GrantDiff {
    let before: BTreeMap<_, _> = grant
        .pins
        .iter()
        .filter(|pin| grant.tools.is_empty() || grant.tools.contains(&pin.tool_name))
        .map(|pin| (pin.tool_name.as_str(), pin))
        .collect();
    let now: BTreeMap<_, _> = now.iter().map(|tool| (tool.name.as_str(), tool)).collect();
    let names: BTreeSet<_> = before.keys().chain(now.keys()).copied().collect();
    let mut shown = |json: Option<&str>| {
        let json = json.filter(|json| !json.is_empty() && json.len() <= *room)?;
        *room -= json.len();
        Some(raw_json(json))
    };
    let tools = names
        .into_iter()
        .map(|name| {
            let (pin, tool) = (before.get(name).copied(), now.get(name).copied());
            let state = state_of(pin, tool);
            let pinned = || pin.map(|pin| pin.definition_json.clone());
            let current = || tool.and_then(definition_of);
            let (before, after) = match state {
                Change::Unchanged => (None, None),
                Change::Changed => (pinned(), current()),
                Change::New => (None, current()),
                Change::Gone => (pinned(), None),
            };
            ToolDiff {
                name: name.to_owned(),
                state,
                before: shown(before.as_deref()),
                after: shown(after.as_ref().map(JsonText::as_str)),
            }
        })
        .collect();
    GrantDiff {
        id: grant.grant_id.clone(),
        npc_id: grant.npc_id.clone(),
        npc: grant.npc.clone(),
        pinned: grant.pinned,
        tools,
    }
}

fn state_of(pin: Option<&ToolPin>, tool: Option<&McpTool>) -> Change {
    match (pin, tool) {
        (Some(pin), Some(tool)) if pin.definition_hash == tool.definition_hash => Change::Unchanged,
        (Some(_), Some(_)) => Change::Changed,
        (None, _) => Change::New,
        (Some(_), None) => Change::Gone,
    }
}
