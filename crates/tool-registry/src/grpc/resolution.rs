//! `ResolutionService`.

use kernel::Secret;
use proto::registry::v1::{
    AuthenticatePlayerRequest, AuthenticatePlayerResponse, BuiltinToolTarget, ColleagueTarget,
    FamilyTarget, McpServerTarget, ResolveNpcRequest, ResolveNpcResponse,
    ResolvedGrant as WireGrant, resolution_service_server::ResolutionService,
    resolved_grant::Target,
};
use tonic::{Request, Response, Status};

use super::{count, mcp_server, npc, player};
use crate::{
    Registry,
    resolve::{ResolvedGrant, ResolvedServer, ResolvedTarget},
};

#[derive(Debug)]
pub(super) struct Resolution(pub(super) Registry);

#[async_trait::async_trait]
impl ResolutionService for Resolution {
    async fn resolve_npc(
        &self,
        request: Request<ResolveNpcRequest>,
    ) -> Result<Response<ResolveNpcResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let result = self.0.resolve(&caller, &request.into_inner().npc).await;
        let resolved = self.0.suggesting(&caller, result).await?;
        Ok(Response::new(ResolveNpcResponse {
            npc: Some(npc::render(resolved.npc)),
            grants: resolved.grants.into_iter().map(render).collect(),
            skills: Vec::new(),
        }))
    }

    async fn authenticate_player(
        &self,
        request: Request<AuthenticatePlayerRequest>,
    ) -> Result<Response<AuthenticatePlayerResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let token = Secret::new(request.into_inner().token);
        let player = self.0.authenticate(&caller, &token).await?;
        Ok(Response::new(AuthenticatePlayerResponse {
            player: Some(player::render(player)),
        }))
    }
}

fn render(resolved: ResolvedGrant) -> WireGrant {
    let ResolvedGrant { grant, target } = resolved;
    let target = match target {
        ResolvedTarget::Tool(name) => Target::Tool(BuiltinToolTarget { name }),
        ResolvedTarget::Family(name) => Target::Family(FamilyTarget { name }),
        ResolvedTarget::McpServer(resolved) => {
            let ResolvedServer { server, pins } = *resolved;
            Target::McpServer(McpServerTarget {
                server_id: server.id.to_string(),
                name: server.name,
                slug: server.slug,
                generation: count(server.generation),
                enabled: server.enabled,
                tools: grant.tools,
                pinning: mcp_server::render_pinning(server.pinning).into(),
                pinned: grant.pinned_at.is_some(),
                pins: pins.into_iter().map(mcp_server::render_pin).collect(),
            })
        }
        ResolvedTarget::Colleague { name, slug, id } => Target::Colleague(ColleagueTarget {
            npc_id: id,
            name,
            slug,
        }),
    };
    WireGrant {
        grant_id: grant.id.to_string(),
        target: Some(target),
    }
}
