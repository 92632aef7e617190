//! `AuditService`.

use proto::registry::v1::{
    AuditRow, ListAuditRowsRequest, ListAuditRowsResponse, RecordAuditRowRequest,
    RecordAuditRowResponse, audit_service_server::AuditService,
};
use store::Json;
use tonic::{Request, Response, Status};

use crate::{Registry, audit::Entry, page::Page, store::audit::Model};

#[derive(Debug)]
pub(super) struct Audit(pub(super) Registry);

#[async_trait::async_trait]
impl AuditService for Audit {
    async fn list_audit_rows(
        &self,
        request: Request<ListAuditRowsRequest>,
    ) -> Result<Response<ListAuditRowsResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let page = Page::parse(request.page_size, &request.page_token)?;
        let paged = self.0.list_audit(&caller, page).await?;
        Ok(Response::new(ListAuditRowsResponse {
            rows: paged.rows.into_iter().map(render).collect(),
            next_page_token: paged.next,
        }))
    }

    async fn record_audit_row(
        &self,
        request: Request<RecordAuditRowRequest>,
    ) -> Result<Response<RecordAuditRowResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let entry = Entry {
            actor: request.actor,
            action: request.action,
            subject_kind: request.subject_kind,
            subject_id: request.subject_id,
        };
        let id = self.0.record_entry(&caller, entry).await?;
        Ok(Response::new(RecordAuditRowResponse { id: id.to_string() }))
    }
}

fn render(row: Model) -> AuditRow {
    let json = |json: Option<Json>| json.map(|json| json.to_string()).unwrap_or_default();
    AuditRow {
        id: row.id.to_string(),
        at_micros: row.at.timestamp().as_micros(),
        actor: row.actor.into_string(),
        action: row.action.into_string(),
        subject_kind: row.subject_kind.into_string(),
        subject_id: row.subject_id.into_string(),
        before_json: json(row.before),
        after_json: json(row.after),
    }
}
