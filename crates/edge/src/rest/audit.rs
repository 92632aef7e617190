//! The audit log.

use axum::{Json, extract::State};
use proto::registry::v1::{self as registry, ListAuditRowsRequest};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{Page, PageParams, time};
use crate::{
    auth::Authenticated,
    body::Query,
    problem::{Failure, Problem},
    routes::App,
    ui::raw_json,
};

/// Who changed what.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditRow {
    /// Its id.
    id: String,
    /// When (RFC 3339, UTC).
    at: String,
    /// Who: `operator:…`, `player:…`, `service:…`.
    actor: String,
    /// What was done: `npc.create`, `grant.remove`, …
    action: String,
    /// The kind of thing: `npc`, `grant`, `player`, …
    subject_kind: String,
    /// The thing's id.
    subject_id: String,
    /// The thing before, without secrets; absent where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    before: Option<Box<RawValue>>,
    /// The thing after, without secrets; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    after: Option<Box<RawValue>>,
}

impl From<registry::AuditRow> for AuditRow {
    fn from(row: registry::AuditRow) -> Self {
        let shown = |json: String| {
            Some(json)
                .filter(|json| !json.is_empty())
                .map(|json| raw_json(&json))
        };
        Self {
            id: row.id,
            at: time(row.at_micros),
            actor: row.actor,
            action: row.action,
            subject_kind: row.subject_kind,
            subject_id: row.subject_id,
            before: shown(row.before_json),
            after: shown(row.after_json),
        }
    }
}

/// Lists audit rows, newest first. The Operator's.
#[utoipa::path(get, operation_id = "listAuditRows", path = "/v1/audit", tag = "Audit", params(PageParams), responses(
    (status = 200, body = Page<AuditRow>),
    Failure,
))]
pub(crate) async fn list(
    State(app): State<App>,
    who: Authenticated,
    query: Query,
) -> Result<Json<Page<AuditRow>>, Problem> {
    let page = query.page()?;
    let request = ListAuditRowsRequest {
        page_size: page.size,
        page_token: page.token,
    };
    let mut audit = app.registry.audit(&who.caller);
    let answer = audit.list_audit_rows(request).await?.into_inner();
    Ok(Json(Page::of(
        answer.rows,
        answer.next_page_token,
        AuditRow::from,
    )))
}
