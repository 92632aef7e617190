//! How sealed credentials stand.

use axum::{Json, extract::State};
use proto::registry::v1::GetSecretsStatusRequest;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    auth::Authenticated,
    problem::{Failure, Problem},
    routes::App,
};

/// What the root secret reads.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SecretsStatus {
    /// The id of the key that is derived from the root secret. It says nothing of either.
    key_id: String,
    /// MCP Servers whose credentials it reads.
    readable: u64,
    /// MCP Servers whose credentials were sealed under another secret, or are damaged: they must be entered again.
    unreadable: u64,
}

/// How many MCP Servers' credentials the root secret reads. The Operator's.
#[utoipa::path(get, operation_id = "getSecretsStatus", path = "/v1/secrets", tag = "MCP Servers", responses(
    (status = 200, body = SecretsStatus),
    Failure,
))]
pub(crate) async fn status(
    State(app): State<App>,
    who: Authenticated,
) -> Result<Json<SecretsStatus>, Problem> {
    let mut servers = app.registry.mcp_servers(&who.caller);
    let status = servers
        .get_secrets_status(GetSecretsStatusRequest {})
        .await?
        .into_inner();
    Ok(Json(SecretsStatus {
        key_id: status.key_id,
        readable: status.readable,
        unreadable: status.unreadable,
    }))
}
