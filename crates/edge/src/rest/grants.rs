//! Grants: what an NPC may use.

use axum::{Json, extract::State};
use http::StatusCode;
use kernel::{Caller, GrantWhat, ServiceName};
use proto::{
    registry::v1::{
        self as registry, AddGrantRequest, ListGrantsRequest, RemoveGrantRequest, ToolPin,
    },
    turn::v1::{AbortTurnRequest, abort_turn_request::Target},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Page,
    mcp_servers::pins::{self, Listed},
    required, time,
};
use crate::{
    auth::Authenticated,
    body::{Named, Query, Strict, quoted},
    problem::{Failure, Problem},
    routes::App,
};

/// Tools whose absence is told.
const NAMED: usize = 8;

/// What an NPC was granted.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Grant {
    /// Its id.
    id: String,
    /// The NPC that has it.
    npc_id: String,
    /// `tool`, `family`, `mcp` or `npc`.
    kind: &'static str,
    /// As a person writes it: `tool:current_time`, `mcp:Docs`.
    what: String,
    /// The Tools of a server that it covers; empty for all of them.
    tools: Vec<String>,
    /// Of an MCP Server: whether its Tools' definitions are pinned, so that a change of them is noticed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pinned: Option<bool>,
    /// When it was granted (RFC 3339, UTC).
    created_at: String,
}

impl From<registry::Grant> for Grant {
    fn from(grant: registry::Grant) -> Self {
        let kind = match grant.kind() {
            registry::GrantKind::Unspecified => "unknown",
            registry::GrantKind::Tool => "tool",
            registry::GrantKind::Family => "family",
            registry::GrantKind::Mcp => "mcp",
            registry::GrantKind::Npc => "npc",
        };
        Self {
            id: grant.id,
            npc_id: grant.npc_id,
            kind,
            what: grant.what,
            tools: grant.tools,
            pinned: (kind == "mcp").then_some(grant.pinned),
            created_at: time(grant.created_at_micros),
        }
    }
}

/// A Grant that was made.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GrantMade {
    /// The Grant.
    #[serde(flatten)]
    grant: Grant,
    /// What there is to say of an MCP Server's Tools: that they could not be listed, or that one of those in `tools` is not among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    sentence: Option<String>,
}

/// A new Grant.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewGrant {
    /// `tool:NAME`, `family:NAME`, `mcp:SERVER` or `npc:NPC`.
    what: String,
    /// Only these Tools of the server. For `mcp:` alone.
    #[serde(default)]
    tools: Option<Vec<String>>,
}

/// A Grant that is gone.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GrantGone {
    /// Its id.
    id: String,
    /// What was granted.
    what: String,
    /// Turns that were stopped with it, by id.
    aborted_turns: Vec<String>,
}

/// Grants something to an NPC. Granting what is granted already changes nothing but its Tools.
///
/// For an MCP Server, its Tools are listed first, so that what is pinned is what was there when it was granted. When they cannot be, the
/// Grant is made all the same: `pinned` is false, `sentence` says why, and what is listed first is pinned.
#[utoipa::path(post, operation_id = "addGrant", path = "/v1/npcs/{npc}/grants", tag = "Grants", params(("npc" = String, Path, description = "Name or id")),
    request_body = NewGrant, responses(
    (status = 201, body = GrantMade),
    Failure,
))]
pub(crate) async fn add(
    State(app): State<App>,
    who: Authenticated,
    Named(npc): Named,
    Strict(new): Strict<NewGrant>,
) -> Result<(StatusCode, Json<GrantMade>), Problem> {
    let tools = new.tools.unwrap_or_default();
    let (seen, sentence) = match new.what.parse() {
        Ok(GrantWhat::Mcp(server)) => seen(&app, &who, server, &tools).await?,
        // The registry says what is wrong with it.
        Ok(GrantWhat::Tool(_) | GrantWhat::Family(_) | GrantWhat::Npc(_)) | Err(_) => {
            (Vec::new(), None)
        }
    };
    let request = AddGrantRequest {
        npc,
        what: new.what,
        tools,
        seen,
    };
    let mut grants = app.registry.grants(&who.caller);
    let grant = grants.add_grant(request).await?.into_inner().grant;
    let made = GrantMade {
        grant: required(grant, "grant")?.into(),
        sentence,
    };
    Ok((StatusCode::CREATED, Json(made)))
}

/// A server's Tools as whoever grants it would see them now, and what there is to say of them.
async fn seen(
    app: &App,
    who: &Authenticated,
    server: String,
    tools: &[String],
) -> Result<(Vec<ToolPin>, Option<String>), Problem> {
    let server = pins::server_of(app, who, server).await?;
    let listed = pins::listed(app, who, &server, tools)
        .await
        .unwrap_or_else(|problem| Listed::Unavailable(problem.detail));
    Ok(match listed {
        Listed::Unavailable(why) => (
            Vec::new(),
            Some(format!(
                "the Tools of {} could not be listed, and what is listed first will be pinned: {why}",
                server.name
            )),
        ),
        Listed::Now {
            tools: now,
            withheld,
        } => {
            let missing = withheld
                .into_iter()
                .filter(|withheld| tools.contains(&withheld.name))
                .map(|withheld| withheld.sentence)
                .take(NAMED)
                .collect::<Vec<_>>();
            let sentence = (!missing.is_empty()).then(|| missing.join(" "));
            (pins::pins_of(&now), sentence)
        }
    })
}

/// Lists an NPC's Grants, newest first. There are at most 256, on one page.
#[utoipa::path(get, operation_id = "listGrants", path = "/v1/npcs/{npc}/grants", tag = "Grants", params(("npc" = String, Path, description = "Name or id")), responses(
    (status = 200, body = Page<Grant>),
    Failure,
))]
pub(crate) async fn list(
    State(app): State<App>,
    who: Authenticated,
    Named(npc): Named,
) -> Result<Json<Page<Grant>>, Problem> {
    let mut grants = app.registry.grants(&who.caller);
    let answer = grants
        .list_grants(ListGrantsRequest { npc })
        .await?
        .into_inner();
    Ok(Json(Page::of(answer.grants, String::new(), Grant::from)))
}

/// Takes a Grant away. It takes effect at the next turn; `abortTurns=true` also stops those that run.
#[utoipa::path(delete, operation_id = "removeGrant", path = "/v1/npcs/{npc}/grants", tag = "Grants", params(
    ("npc" = String, Path, description = "Name or id"),
    ("what" = String, Query, description = "What was granted: tool:current_time, mcp:Docs, …"),
    ("abortTurns" = Option<bool>, Query, description = "Whether to stop the NPC's running turns"),
), responses(
    (status = 200, body = GrantGone),
    Failure,
))]
pub(crate) async fn remove(
    State(app): State<App>,
    who: Authenticated,
    Named(npc): Named,
    query: Query,
) -> Result<Json<GrantGone>, Problem> {
    let [what, abort_turns] = query.take(["what", "abortTurns"])?;
    let what = what.ok_or_else(|| {
        Problem::field(
            "what",
            "say what to take away: ?what=tool:NAME, family:NAME, mcp:SERVER or npc:NPC",
        )
    })?;
    let running = match abort_turns.as_deref() {
        None | Some("false") => Running::GoOn,
        Some("true") => Running::Stop,
        Some(other) => {
            return Err(Problem::field(
                "abortTurns",
                format!("abortTurns is {}, and not true or false", quoted(other)),
            ));
        }
    };
    let request = RemoveGrantRequest {
        npc,
        what: what.clone(),
    };
    let mut grants = app.registry.grants(&who.caller);
    let removed = grants.remove_grant(request).await?.into_inner();
    let aborted_turns = match running {
        Running::GoOn => Vec::new(),
        Running::Stop => abort_turns_of(&app, &who, removed.npc_id).await?,
    };
    Ok(Json(GrantGone {
        id: removed.grant_id,
        what,
        aborted_turns,
    }))
}

enum Running {
    GoOn,
    Stop,
}

/// Stops the turns of every Player with an NPC. Its owner may not, so the edge does, once the registry let the owner change the Grants.
async fn abort_turns_of(
    app: &App,
    who: &Authenticated,
    npc_id: String,
) -> Result<Vec<String>, Problem> {
    let edge = Caller::Service {
        name: ServiceName::Edge,
        player: who.player_id(),
    };
    let request = AbortTurnRequest {
        target: Some(Target::NpcId(npc_id)),
    };
    let answer = app.turns.turns(&edge).abort_turn(request).await?;
    Ok(answer.into_inner().turn_ids)
}
