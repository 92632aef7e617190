//! `GrantService`.

use kernel::GrantKind;
use proto::registry::v1::{
    AddGrantRequest, AddGrantResponse, GetGrantRequest, GetGrantResponse, Grant as WireGrant,
    GrantKind as WireKind, ListGrantsRequest, ListGrantsResponse, RemoveGrantRequest,
    RemoveGrantResponse, UpdateGrantRequest, UpdateGrantResponse,
    grant_service_server::GrantService,
};
use tonic::{Request, Response, Status};

use crate::{
    Registry,
    grant::{NamedGrant, Wish},
};

#[derive(Debug)]
pub(super) struct Grants(pub(super) Registry);

#[async_trait::async_trait]
impl GrantService for Grants {
    async fn add_grant(
        &self,
        request: Request<AddGrantRequest>,
    ) -> Result<Response<AddGrantResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let wish = Wish::parse(
            request.npc,
            &request.what,
            request.tools,
            super::mcp_server::pins("seen", request.seen)?,
        )?;
        let result = self.0.add_grant(&caller, wish).await;
        let grant = self.0.suggesting(&caller, result).await?;
        Ok(Response::new(AddGrantResponse {
            grant: Some(render(grant)),
        }))
    }

    async fn get_grant(
        &self,
        request: Request<GetGrantRequest>,
    ) -> Result<Response<GetGrantResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let grant = self
            .0
            .grant(&caller, &request.into_inner().grant_id)
            .await?;
        Ok(Response::new(GetGrantResponse {
            grant: Some(render(grant)),
        }))
    }

    async fn list_grants(
        &self,
        request: Request<ListGrantsRequest>,
    ) -> Result<Response<ListGrantsResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let result = self.0.grants(&caller, &request.into_inner().npc).await;
        let grants = self.0.suggesting(&caller, result).await?;
        Ok(Response::new(ListGrantsResponse {
            grants: grants.into_iter().map(render).collect(),
        }))
    }

    async fn update_grant(
        &self,
        request: Request<UpdateGrantRequest>,
    ) -> Result<Response<UpdateGrantResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let grant = self
            .0
            .update_grant(&caller, &request.grant_id, request.tools)
            .await?;
        Ok(Response::new(UpdateGrantResponse {
            grant: Some(render(grant)),
        }))
    }

    async fn remove_grant(
        &self,
        request: Request<RemoveGrantRequest>,
    ) -> Result<Response<RemoveGrantResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let wish = Wish::parse(request.npc, &request.what, Vec::new(), Vec::new())?;
        let result = self.0.remove_grant(&caller, wish).await;
        let grant = self.0.suggesting(&caller, result).await?;
        Ok(Response::new(RemoveGrantResponse {
            grant_id: grant.id.to_string(),
            npc_id: grant.npc.to_string(),
        }))
    }
}

fn render(named: NamedGrant) -> WireGrant {
    let NamedGrant { grant, what } = named;
    let kind = match grant.kind {
        GrantKind::Tool => WireKind::Tool,
        GrantKind::Family => WireKind::Family,
        GrantKind::Mcp => WireKind::Mcp,
        GrantKind::Npc => WireKind::Npc,
    };
    WireGrant {
        id: grant.id.to_string(),
        npc_id: grant.npc.to_string(),
        kind: kind.into(),
        target: grant.target,
        what,
        tools: grant.tools,
        created_at_micros: grant.created_at.as_micros(),
        pinned: grant.pinned_at.is_some(),
    }
}
