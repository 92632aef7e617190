//! The servers of a registry and the gateway's lists, as a test writes them.

use std::sync::{Arc, Mutex, MutexGuard};

use futures::stream::Empty;
use kernel::{ErrorCode, JsonText, ServiceName, ToolDefinition};
use proto::{
    mcp::v1::{
        CallToolRequest, CallToolResponse, ListToolsRequest, ListToolsResponse, McpTool,
        ServerTools, TestServerRequest, TestServerResponse, WithheldTool,
        mcp_service_server::{McpService, McpServiceServer},
    },
    registry::v1::{
        AcceptPinsRequest, AcceptPinsResponse, AddGrantRequest, AddGrantResponse,
        CreateMcpServerRequest, CreateMcpServerResponse, DeleteMcpServerRequest,
        DeleteMcpServerResponse, GetGrantRequest, GetGrantResponse, GetMcpServerRequest,
        GetMcpServerResponse, GetSecretsStatusRequest, GetSecretsStatusResponse, Grant, GrantKind,
        GrantPins, ListGrantsRequest, ListGrantsResponse, ListMcpServersRequest,
        ListMcpServersResponse, ListPinsRequest, ListPinsResponse, McpServer, RemoveGrantRequest,
        RemoveGrantResponse, UpdateGrantRequest, UpdateGrantResponse, UpdateMcpServerRequest,
        UpdateMcpServerResponse,
        grant_service_server::{GrantService, GrantServiceServer},
        mcp_server_service_server::{McpServerService, McpServerServiceServer},
    },
};
use runtime::{GrpcServer, status};
use tonic::{Request, Response, Status};

/// What is there, and what was asked.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// The one server that is there, by any name, once it is set.
    pub(crate) server: Option<McpServer>,
    /// Its Tools.
    pub(crate) tools: Vec<McpTool>,
    /// Tools that it does not offer.
    pub(crate) withheld: Vec<WithheldTool>,
    /// Why its Tools cannot be listed.
    pub(crate) unavailable: String,
    /// What a test of it says.
    pub(crate) test: TestServerResponse,
    /// What was pinned.
    pub(crate) pins: Vec<GrantPins>,
    pub(crate) created: Vec<CreateMcpServerRequest>,
    pub(crate) updated: Vec<UpdateMcpServerRequest>,
    pub(crate) tested: Vec<TestServerRequest>,
    pub(crate) listed: Vec<ListToolsRequest>,
    pub(crate) accepted: Vec<AcceptPinsRequest>,
    pub(crate) granted: Vec<AddGrantRequest>,
}

/// Plays both services.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mcp(Arc<Mutex<Script>>);

/// A Tool with its hash.
pub(crate) fn tool(name: &str, description: &str) -> McpTool {
    let definition = definition(name, description);
    McpTool {
        name: name.to_owned(),
        full_name: format!("docs__{name}"),
        description: description.to_owned(),
        input_schema_json: definition.input_schema.as_str().to_owned(),
        annotations_json: String::new(),
        definition_hash: definition.hash(),
    }
}

pub(crate) fn definition(name: &str, description: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: JsonText::parse(r#"{"type":"object"}"#).unwrap(),
        annotations: None,
    }
}

impl Mcp {
    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }

    /// Adds what the registry has to it.
    pub(crate) fn in_registry(&self, registry: GrpcServer) -> GrpcServer {
        registry
            .add(McpServerServiceServer::new(self.clone()))
            .add(GrantServiceServer::new(self.clone()))
    }

    pub(crate) fn gateway(&self) -> GrpcServer {
        GrpcServer::new(ServiceName::McpGateway).add(McpServiceServer::new(self.clone()))
    }

    fn server(&self) -> Result<McpServer, Status> {
        let server = self.script().server.clone();
        server.ok_or_else(|| status::new(ErrorCode::NotFound, "there is no such MCP Server"))
    }
}

fn unused() -> Status {
    status::new(ErrorCode::Internal, "no test asks for this")
}

#[tonic::async_trait]
impl McpServerService for Mcp {
    async fn create_mcp_server(
        &self,
        request: Request<CreateMcpServerRequest>,
    ) -> Result<Response<CreateMcpServerResponse>, Status> {
        let new = request.into_inner();
        let mut script = self.script();
        if script.created.iter().any(|made| made.name == new.name) || new.name == "Taken" {
            let sentence = format!("there is an MCP Server {:?} already", new.name);
            return Err(status::new(ErrorCode::AlreadyExists, &sentence));
        }
        if new.url.contains("127.0.0.1") {
            return Err(status::new(
                ErrorCode::InvalidArgument,
                "url: 127.0.0.1 is loopback",
            ));
        }
        let server = McpServer {
            id: format!("id-of-{}", new.name),
            name: new.name.clone(),
            transport: new.transport,
            header_names: new.headers.iter().map(|h| h.name.clone()).collect(),
            enabled: true,
            credentials_readable: true,
            ..McpServer::default()
        };
        script.created.push(new);
        Ok(Response::new(CreateMcpServerResponse {
            server: Some(server),
        }))
    }

    async fn get_mcp_server(
        &self,
        _request: Request<GetMcpServerRequest>,
    ) -> Result<Response<GetMcpServerResponse>, Status> {
        let server = Some(self.server()?);
        Ok(Response::new(GetMcpServerResponse { server }))
    }

    async fn list_mcp_servers(
        &self,
        _request: Request<ListMcpServersRequest>,
    ) -> Result<Response<ListMcpServersResponse>, Status> {
        Ok(Response::new(ListMcpServersResponse {
            servers: self.script().server.clone().into_iter().collect(),
            next_page_token: String::new(),
        }))
    }

    async fn update_mcp_server(
        &self,
        request: Request<UpdateMcpServerRequest>,
    ) -> Result<Response<UpdateMcpServerResponse>, Status> {
        self.script().updated.push(request.into_inner());
        let server = Some(self.server().unwrap_or_default());
        Ok(Response::new(UpdateMcpServerResponse { server }))
    }

    async fn delete_mcp_server(
        &self,
        _request: Request<DeleteMcpServerRequest>,
    ) -> Result<Response<DeleteMcpServerResponse>, Status> {
        Ok(Response::new(DeleteMcpServerResponse {
            server_id: self.server()?.id,
            grants_removed: 2,
        }))
    }

    async fn list_pins(
        &self,
        _request: Request<ListPinsRequest>,
    ) -> Result<Response<ListPinsResponse>, Status> {
        let grants = self.script().pins.clone();
        Ok(Response::new(ListPinsResponse { grants }))
    }

    async fn accept_pins(
        &self,
        request: Request<AcceptPinsRequest>,
    ) -> Result<Response<AcceptPinsResponse>, Status> {
        let request = request.into_inner();
        let npcs = vec![request.npc.clone()];
        self.script().accepted.push(request);
        Ok(Response::new(AcceptPinsResponse { npcs }))
    }

    async fn get_secrets_status(
        &self,
        _request: Request<GetSecretsStatusRequest>,
    ) -> Result<Response<GetSecretsStatusResponse>, Status> {
        Ok(Response::new(GetSecretsStatusResponse {
            key_id: "k1".to_owned(),
            readable: 3,
            unreadable: 1,
        }))
    }
}

#[tonic::async_trait]
impl GrantService for Mcp {
    async fn add_grant(
        &self,
        request: Request<AddGrantRequest>,
    ) -> Result<Response<AddGrantResponse>, Status> {
        let request = request.into_inner();
        let grant = Grant {
            id: "grant".to_owned(),
            kind: GrantKind::Mcp.into(),
            what: request.what.clone(),
            tools: request.tools.clone(),
            pinned: !request.seen.is_empty(),
            ..Grant::default()
        };
        self.script().granted.push(request);
        Ok(Response::new(AddGrantResponse { grant: Some(grant) }))
    }

    async fn get_grant(
        &self,
        _request: Request<GetGrantRequest>,
    ) -> Result<Response<GetGrantResponse>, Status> {
        Err(unused())
    }

    async fn list_grants(
        &self,
        _request: Request<ListGrantsRequest>,
    ) -> Result<Response<ListGrantsResponse>, Status> {
        Err(unused())
    }

    async fn update_grant(
        &self,
        _request: Request<UpdateGrantRequest>,
    ) -> Result<Response<UpdateGrantResponse>, Status> {
        Err(unused())
    }

    async fn remove_grant(
        &self,
        _request: Request<RemoveGrantRequest>,
    ) -> Result<Response<RemoveGrantResponse>, Status> {
        Err(unused())
    }
}

#[tonic::async_trait]
impl McpService for Mcp {
    type CallToolStream = Empty<Result<CallToolResponse, Status>>;

    async fn test_server(
        &self,
        request: Request<TestServerRequest>,
    ) -> Result<Response<TestServerResponse>, Status> {
        let mut script = self.script();
        script.tested.push(request.into_inner());
        Ok(Response::new(script.test.clone()))
    }

    async fn list_tools(
        &self,
        request: Request<ListToolsRequest>,
    ) -> Result<Response<ListToolsResponse>, Status> {
        let mut script = self.script();
        let request = request.into_inner();
        let wanted = request.servers[0].clone();
        script.listed.push(request);
        let tools = if script.unavailable.is_empty() {
            script.tools.clone()
        } else {
            Vec::new()
        };
        let servers = vec![ServerTools {
            server_id: wanted.server_id,
            tools: tools
                .into_iter()
                .filter(|tool| wanted.tools.is_empty() || wanted.tools.contains(&tool.name))
                .collect(),
            unavailable: script.unavailable.clone(),
            withheld: script.withheld.clone(),
            ..ServerTools::default()
        }];
        Ok(Response::new(ListToolsResponse { servers }))
    }

    async fn call_tool(
        &self,
        _request: Request<CallToolRequest>,
    ) -> Result<Response<Self::CallToolStream>, Status> {
        Err(unused())
    }
}
