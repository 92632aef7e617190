//! NPCs and what they can do.

use axum::{Json, extract::State};
use http::StatusCode;
use proto::{
    registry::v1::{
        self as registry, CreateNpcRequest, DeleteNpcRequest, GetNpcRequest, HostList,
        ListGrantsRequest, ListNpcsRequest, UpdateNpcRequest,
    },
    turn::v1::{DescribeToolsRequest, ToolDescription, UnavailableTools},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{Gone, Page, PageParams, grants::Grant, no_such_word, required, said, time};
use crate::{
    auth::Authenticated,
    body::{Named, Query, Strict},
    problem::{Failure, Problem},
    routes::App,
    ui::raw_json,
};

/// An agent.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Npc {
    /// Its id, a UUIDv7.
    id: String,
    /// Its name, as its owner wrote it.
    name: String,
    /// Its name as it is compared: unique in the Village.
    slug: String,
    /// The Player who owns it.
    owner_id: String,
    /// Who it is, in words for the model.
    persona: String,
    /// `PROVIDER/MODEL`; empty for the Village's default.
    model: String,
    /// Whether only its owner and the Operator may see it.
    private: bool,
    /// Hosts that `fetch_url` may reach for it; empty for every public host.
    fetch_hosts: Vec<String>,
    /// Who shares a Sandbox: `npc`, `player` or `conversation`.
    sandbox_scope: &'static str,
    /// What its Sandbox may reach: `off`, `list` or `web`.
    sandbox_network: &'static str,
    /// Hosts that its Sandbox may reach when the network is `list`.
    sandbox_hosts: Vec<String>,
    /// When it was created (RFC 3339, UTC).
    created_at: String,
    /// When it was last changed (RFC 3339, UTC).
    updated_at: String,
}

impl From<registry::Npc> for Npc {
    fn from(npc: registry::Npc) -> Self {
        let sandbox_scope = match npc.sandbox_scope() {
            registry::SandboxScope::Unspecified | registry::SandboxScope::Npc => "npc",
            registry::SandboxScope::Player => "player",
            registry::SandboxScope::Conversation => "conversation",
        };
        let sandbox_network = match npc.sandbox_network() {
            registry::SandboxNetwork::Unspecified | registry::SandboxNetwork::Off => "off",
            registry::SandboxNetwork::List => "list",
            registry::SandboxNetwork::Web => "web",
        };
        Self {
            id: npc.id,
            name: npc.name,
            slug: npc.slug,
            owner_id: npc.owner_id,
            persona: npc.persona,
            model: npc.model,
            private: npc.private,
            fetch_hosts: npc.fetch_hosts,
            sandbox_scope,
            sandbox_network,
            sandbox_hosts: npc.sandbox_hosts,
            created_at: time(npc.created_at_micros),
            updated_at: time(npc.updated_at_micros),
        }
    }
}

/// An agent and its Grants.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NpcWithGrants {
    /// The NPC.
    #[serde(flatten)]
    npc: Npc,
    /// What it was granted, newest first.
    grants: Vec<Grant>,
}

/// A new NPC.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewNpc {
    /// 1 to 64 characters with at least one letter or digit.
    name: String,
    /// Who it is, in words for the model. At most 32 KiB.
    #[serde(default)]
    persona: Option<String>,
    /// `PROVIDER/MODEL`.
    #[serde(default)]
    model: Option<String>,
    /// Whether only its owner and the Operator may see it.
    #[serde(default)]
    private: Option<bool>,
    /// Hosts that `fetch_url` may reach for it.
    #[serde(default)]
    fetch_hosts: Option<Vec<String>>,
    /// `npc`, `player` or `conversation`.
    #[serde(default)]
    sandbox_scope: Option<String>,
    /// `off`, `list` or `web`.
    #[serde(default)]
    sandbox_network: Option<String>,
    /// Hosts that its Sandbox may reach when the network is `list`.
    #[serde(default)]
    sandbox_hosts: Option<Vec<String>>,
}

/// Changes of an NPC. What is absent or `null` stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NpcChanges {
    /// Its new name.
    #[serde(default)]
    name: Option<String>,
    /// Who it is.
    #[serde(default)]
    persona: Option<String>,
    /// `PROVIDER/MODEL`, or an empty text for the Village's default.
    #[serde(default)]
    model: Option<String>,
    /// Whether it is private.
    #[serde(default)]
    private: Option<bool>,
    /// Hosts that `fetch_url` may reach for it; an empty list for every public host.
    #[serde(default)]
    fetch_hosts: Option<Vec<String>>,
    /// `npc`, `player` or `conversation`.
    #[serde(default)]
    sandbox_scope: Option<String>,
    /// `off`, `list` or `web`.
    #[serde(default)]
    sandbox_network: Option<String>,
    /// Hosts that its Sandbox may reach when the network is `list`.
    #[serde(default)]
    sandbox_hosts: Option<Vec<String>>,
}

/// What an NPC can do, as the model would see it now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Tools {
    /// In the order in which the model sees them.
    tools: Vec<Tool>,
    /// What was granted and cannot be offered now.
    unavailable: Vec<Unavailable>,
}

/// One Tool, word for word as the model sees it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tool {
    /// Its name: names are unique in a Tool set.
    id: String,
    /// Its name.
    name: String,
    /// Its description.
    description: String,
    /// Its input: a JSON Schema.
    #[schema(value_type = Object)]
    input_schema: Box<RawValue>,
    /// Where it comes from: `tool:current_time`, `family:sandbox`, `mcp:Docs`.
    origin: String,
    /// What is to be known of its definition: that it is new, or changed since it was granted, or will be pinned.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// What was granted and cannot be offered now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Unavailable {
    /// The Grant: `family:sandbox`, `mcp:Docs`.
    what: String,
    /// Why, in a sentence.
    reason: String,
}

impl From<ToolDescription> for Tool {
    fn from(tool: ToolDescription) -> Self {
        Self {
            id: tool.name.clone(),
            name: tool.name,
            description: tool.description,
            input_schema: raw_json(&tool.input_schema_json),
            origin: tool.origin,
            note: said(tool.note),
        }
    }
}

impl From<UnavailableTools> for Unavailable {
    fn from(unavailable: UnavailableTools) -> Self {
        Self {
            what: unavailable.what,
            reason: unavailable.sentence,
        }
    }
}

/// Creates an NPC that the caller owns. It has no Grants.
#[utoipa::path(post, operation_id = "createNpc", path = "/v1/npcs", tag = "NPCs", request_body = NewNpc, responses(
    (status = 201, body = Npc),
    Failure,
))]
pub(crate) async fn create(
    State(app): State<App>,
    who: Authenticated,
    Strict(new): Strict<NewNpc>,
) -> Result<(StatusCode, Json<Npc>), Problem> {
    let request = CreateNpcRequest {
        name: new.name,
        persona: new.persona.unwrap_or_default(),
        model: new.model.unwrap_or_default(),
        private: new.private.unwrap_or_default(),
        fetch_hosts: new.fetch_hosts.unwrap_or_default(),
        sandbox_scope: scope(new.sandbox_scope.as_deref())?.into(),
        sandbox_network: network(new.sandbox_network.as_deref())?.into(),
        sandbox_hosts: new.sandbox_hosts.unwrap_or_default(),
    };
    let mut npcs = app.registry.npcs(&who.caller);
    let npc = npcs.create_npc(request).await?.into_inner().npc;
    Ok((StatusCode::CREATED, Json(required(npc, "npc")?.into())))
}

/// Lists the NPCs that the caller may see, newest first.
#[utoipa::path(get, operation_id = "listNpcs", path = "/v1/npcs", tag = "NPCs", params(PageParams), responses(
    (status = 200, body = Page<Npc>),
    Failure,
))]
pub(crate) async fn list(
    State(app): State<App>,
    who: Authenticated,
    query: Query,
) -> Result<Json<Page<Npc>>, Problem> {
    let page = query.page()?;
    let request = ListNpcsRequest {
        page_size: page.size,
        page_token: page.token,
    };
    let mut npcs = app.registry.npcs(&who.caller);
    let answer = npcs.list_npcs(request).await?.into_inner();
    Ok(Json(Page::of(
        answer.npcs,
        answer.next_page_token,
        Npc::from,
    )))
}

/// Reads an NPC and its Grants.
#[utoipa::path(get, operation_id = "getNpc", path = "/v1/npcs/{npc}", tag = "NPCs", params(("npc" = String, Path, description = "Name or id")), responses(
    (status = 200, body = NpcWithGrants),
    Failure,
))]
pub(crate) async fn show(
    State(app): State<App>,
    who: Authenticated,
    Named(npc): Named,
) -> Result<Json<NpcWithGrants>, Problem> {
    let (mut npcs, mut grants) = (
        app.registry.npcs(&who.caller),
        app.registry.grants(&who.caller),
    );
    let (found, granted) = futures::try_join!(
        npcs.get_npc(GetNpcRequest { npc: npc.clone() }),
        grants.list_grants(ListGrantsRequest { npc }),
    )?;
    Ok(Json(NpcWithGrants {
        npc: required(found.into_inner().npc, "npc")?.into(),
        grants: granted
            .into_inner()
            .grants
            .into_iter()
            .map(Grant::from)
            .collect(),
    }))
}

/// Changes an NPC.
#[utoipa::path(patch, operation_id = "updateNpc", path = "/v1/npcs/{npc}", tag = "NPCs", params(("npc" = String, Path, description = "Name or id")),
    request_body = NpcChanges, responses(
    (status = 200, body = Npc),
    Failure,
))]
pub(crate) async fn update(
    State(app): State<App>,
    who: Authenticated,
    Named(npc): Named,
    Strict(changes): Strict<NpcChanges>,
) -> Result<Json<Npc>, Problem> {
    let request = UpdateNpcRequest {
        npc,
        name: changes.name,
        persona: changes.persona,
        model: changes.model,
        private: changes.private,
        fetch_hosts: changes.fetch_hosts.map(|hosts| HostList { hosts }),
        sandbox_scope: scope(changes.sandbox_scope.as_deref())?.into(),
        sandbox_network: network(changes.sandbox_network.as_deref())?.into(),
        sandbox_hosts: changes.sandbox_hosts.map(|hosts| HostList { hosts }),
    };
    let mut npcs = app.registry.npcs(&who.caller);
    let npc = npcs.update_npc(request).await?.into_inner().npc;
    Ok(Json(required(npc, "npc")?.into()))
}

/// Deletes an NPC, its Grants, and every Grant to it as a colleague.
#[utoipa::path(delete, operation_id = "deleteNpc", path = "/v1/npcs/{npc}", tag = "NPCs", params(("npc" = String, Path, description = "Name or id")), responses(
    (status = 200, body = Gone),
    Failure,
))]
pub(crate) async fn remove(
    State(app): State<App>,
    who: Authenticated,
    Named(npc): Named,
) -> Result<Json<Gone>, Problem> {
    let mut npcs = app.registry.npcs(&who.caller);
    let answer = npcs
        .delete_npc(DeleteNpcRequest { npc })
        .await?
        .into_inner();
    Ok(Json(Gone { id: answer.npc_id }))
}

/// What an NPC can do: its Tool set exactly as the model would see it now.
#[utoipa::path(get, operation_id = "listNpcTools", path = "/v1/npcs/{npc}/tools", tag = "NPCs", params(("npc" = String, Path, description = "Name or id")), responses(
    (status = 200, body = Tools),
    Failure,
))]
pub(crate) async fn tools(
    State(app): State<App>,
    who: Authenticated,
    Named(npc): Named,
) -> Result<Json<Tools>, Problem> {
    let mut turns = app.turns.turns(&who.caller);
    let answer = turns
        .describe_tools(DescribeToolsRequest { npc })
        .await?
        .into_inner();
    Ok(Json(Tools {
        tools: answer.tools.into_iter().map(Tool::from).collect(),
        unavailable: answer
            .unavailable
            .into_iter()
            .map(Unavailable::from)
            .collect(),
    }))
}

fn scope(word: Option<&str>) -> Result<registry::SandboxScope, Problem> {
    match word {
        None => Ok(registry::SandboxScope::Unspecified),
        Some("npc") => Ok(registry::SandboxScope::Npc),
        Some("player") => Ok(registry::SandboxScope::Player),
        Some("conversation") => Ok(registry::SandboxScope::Conversation),
        Some(other) => Err(no_such_word(
            "sandboxScope",
            other,
            ["npc", "player", "conversation"],
        )),
    }
}

fn network(word: Option<&str>) -> Result<registry::SandboxNetwork, Problem> {
    match word {
        None => Ok(registry::SandboxNetwork::Unspecified),
        Some("off") => Ok(registry::SandboxNetwork::Off),
        Some("list") => Ok(registry::SandboxNetwork::List),
        Some("web") => Ok(registry::SandboxNetwork::Web),
        Some(other) => Err(no_such_word(
            "sandboxNetwork",
            other,
            ["off", "list", "web"],
        )),
    }
}
