//! `NpcService`.

use proto::registry::v1::{
    CreateNpcRequest, CreateNpcResponse, DeleteNpcRequest, DeleteNpcResponse, GetNpcRequest,
    GetNpcResponse, ListNpcsRequest, ListNpcsResponse, Npc as WireNpc,
    SandboxNetwork as WireNetwork, SandboxScope as WireScope, UpdateNpcRequest, UpdateNpcResponse,
    npc_service_server::NpcService,
};
use tonic::{Request, Response, Status};

use super::{count, unknown};
use crate::{
    Error, Registry,
    npc::{Fields, Npc, SandboxNetwork, SandboxScope},
    page::Page,
};

#[derive(Debug)]
pub(super) struct Npcs(pub(super) Registry);

#[async_trait::async_trait]
impl NpcService for Npcs {
    async fn create_npc(
        &self,
        request: Request<CreateNpcRequest>,
    ) -> Result<Response<CreateNpcResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let fields = new_fields(request.into_inner())?;
        let npc = self.0.create_npc(&caller, fields).await?;
        Ok(Response::new(CreateNpcResponse {
            npc: Some(render(npc)),
        }))
    }

    async fn get_npc(
        &self,
        request: Request<GetNpcRequest>,
    ) -> Result<Response<GetNpcResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let result = self.0.npc(&caller, &request.into_inner().npc).await;
        let npc = self.0.suggesting(&caller, result).await?;
        Ok(Response::new(GetNpcResponse {
            npc: Some(render(npc)),
        }))
    }

    async fn list_npcs(
        &self,
        request: Request<ListNpcsRequest>,
    ) -> Result<Response<ListNpcsResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let page = Page::parse(request.page_size, &request.page_token)?;
        let paged = self.0.npcs(&caller, page).await?;
        Ok(Response::new(ListNpcsResponse {
            npcs: paged.rows.into_iter().map(render).collect(),
            next_page_token: paged.next,
        }))
    }

    async fn update_npc(
        &self,
        request: Request<UpdateNpcRequest>,
    ) -> Result<Response<UpdateNpcResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let given = request.npc.clone();
        let fields = changed_fields(request)?;
        let result = self.0.update_npc(&caller, &given, fields).await;
        let npc = self.0.suggesting(&caller, result).await?;
        Ok(Response::new(UpdateNpcResponse {
            npc: Some(render(npc)),
        }))
    }

    async fn delete_npc(
        &self,
        request: Request<DeleteNpcRequest>,
    ) -> Result<Response<DeleteNpcResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let result = self.0.delete_npc(&caller, &request.into_inner().npc).await;
        let id = self.0.suggesting(&caller, result).await?;
        Ok(Response::new(DeleteNpcResponse {
            npc_id: id.to_string(),
        }))
    }
}

fn new_fields(request: CreateNpcRequest) -> Result<Fields, Error> {
    Ok(Fields {
        sandbox_scope: scope(request.sandbox_scope)?,
        sandbox_network: network(request.sandbox_network)?,
        name: Some(request.name),
        persona: Some(request.persona),
        model: Some(request.model),
        private: Some(request.private),
        fetch_hosts: Some(request.fetch_hosts),
        sandbox_hosts: Some(request.sandbox_hosts),
    })
}

fn changed_fields(request: UpdateNpcRequest) -> Result<Fields, Error> {
    Ok(Fields {
        sandbox_scope: scope(request.sandbox_scope)?,
        sandbox_network: network(request.sandbox_network)?,
        name: request.name,
        persona: request.persona,
        model: request.model,
        private: request.private,
        fetch_hosts: request.fetch_hosts.map(|list| list.hosts),
        sandbox_hosts: request.sandbox_hosts.map(|list| list.hosts),
    })
}

fn scope(value: i32) -> Result<Option<SandboxScope>, Error> {
    match WireScope::try_from(value) {
        Ok(WireScope::Unspecified) => Ok(None),
        Ok(WireScope::Npc) => Ok(Some(SandboxScope::Npc)),
        Ok(WireScope::Player) => Ok(Some(SandboxScope::Player)),
        Ok(WireScope::Conversation) => Ok(Some(SandboxScope::Conversation)),
        Err(_unknown) => Err(unknown("sandbox_scope", value)),
    }
}

fn network(value: i32) -> Result<Option<SandboxNetwork>, Error> {
    match WireNetwork::try_from(value) {
        Ok(WireNetwork::Unspecified) => Ok(None),
        Ok(WireNetwork::Off) => Ok(Some(SandboxNetwork::Off)),
        Ok(WireNetwork::List) => Ok(Some(SandboxNetwork::List)),
        Ok(WireNetwork::Web) => Ok(Some(SandboxNetwork::Web)),
        Err(_unknown) => Err(unknown("sandbox_network", value)),
    }
}

pub(super) fn render(npc: Npc) -> WireNpc {
    let scope = match npc.sandbox_scope {
        SandboxScope::Npc => WireScope::Npc,
        SandboxScope::Player => WireScope::Player,
        SandboxScope::Conversation => WireScope::Conversation,
    };
    let network = match npc.sandbox_network {
        SandboxNetwork::Off => WireNetwork::Off,
        SandboxNetwork::List => WireNetwork::List,
        SandboxNetwork::Web => WireNetwork::Web,
    };
    WireNpc {
        id: npc.id.to_string(),
        name: npc.name,
        slug: npc.slug,
        owner_id: npc.owner.to_string(),
        persona: npc.persona,
        model: npc.model,
        private: npc.private,
        fetch_hosts: npc.fetch_hosts,
        sandbox_scope: scope.into(),
        sandbox_network: network.into(),
        sandbox_hosts: npc.sandbox_hosts,
        generation: count(npc.generation),
        created_at_micros: npc.created_at.as_micros(),
        updated_at_micros: npc.updated_at.as_micros(),
    }
}
