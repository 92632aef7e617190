//! `McpServerService`.

use kernel::{McpTransport, Secret};
use proto::registry::v1::{
    AcceptPinsRequest, AcceptPinsResponse, CreateMcpServerRequest, CreateMcpServerResponse,
    DeleteMcpServerRequest, DeleteMcpServerResponse, GetMcpServerRequest, GetMcpServerResponse,
    GetSecretsStatusRequest, GetSecretsStatusResponse, GrantPins as WireGrantPins,
    ListMcpServersRequest, ListMcpServersResponse, ListPinsRequest, ListPinsResponse,
    McpEra as WireEra, McpServer as WireServer, McpServerHolder, McpTestResult,
    McpTransport as WireTransport, NamedSecret as WireSecret, Pinning as WirePinning, ToolPin,
    UpdateMcpServerRequest, UpdateMcpServerResponse, mcp_server_service_server::McpServerService,
};
use tonic::{Request, Response, Status};

use super::{count, unknown};
use crate::{
    Error, Registry,
    mcp_server::{Era, Fields, NamedSecret, Pinning, Shown, TestResult, transport_of},
    page::Page,
    pin::{Given, GrantPins, Pin},
};

#[derive(Debug)]
pub(super) struct McpServers(pub(super) Registry);

#[async_trait::async_trait]
impl McpServerService for McpServers {
    async fn create_mcp_server(
        &self,
        request: Request<CreateMcpServerRequest>,
    ) -> Result<Response<CreateMcpServerResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let fields = new_fields(request.into_inner())?;
        let server = self.0.create_mcp_server(&caller, fields).await?;
        Ok(Response::new(CreateMcpServerResponse {
            server: Some(render(server)),
        }))
    }

    async fn get_mcp_server(
        &self,
        request: Request<GetMcpServerRequest>,
    ) -> Result<Response<GetMcpServerResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let given = request.into_inner().server;
        let result = self.0.mcp_server(&caller, &given).await;
        let server = self.0.suggesting(&caller, result).await?;
        Ok(Response::new(GetMcpServerResponse {
            server: Some(render(server)),
        }))
    }

    async fn list_mcp_servers(
        &self,
        request: Request<ListMcpServersRequest>,
    ) -> Result<Response<ListMcpServersResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let page = Page::parse(request.page_size, &request.page_token)?;
        let paged = self.0.mcp_servers(&caller, page).await?;
        Ok(Response::new(ListMcpServersResponse {
            servers: paged.rows.into_iter().map(render).collect(),
            next_page_token: paged.next,
        }))
    }

    async fn update_mcp_server(
        &self,
        request: Request<UpdateMcpServerRequest>,
    ) -> Result<Response<UpdateMcpServerResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let given = request.server.clone();
        let fields = changed_fields(request)?;
        let result = self.0.update_mcp_server(&caller, &given, fields).await;
        let server = self.0.suggesting(&caller, result).await?;
        Ok(Response::new(UpdateMcpServerResponse {
            server: Some(render(server)),
        }))
    }

    async fn delete_mcp_server(
        &self,
        request: Request<DeleteMcpServerRequest>,
    ) -> Result<Response<DeleteMcpServerResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let given = request.into_inner().server;
        let result = self.0.delete_mcp_server(&caller, &given).await;
        let (id, grants) = self.0.suggesting(&caller, result).await?;
        Ok(Response::new(DeleteMcpServerResponse {
            server_id: id.to_string(),
            grants_removed: u32::try_from(grants).unwrap_or(u32::MAX),
        }))
    }

    async fn list_pins(
        &self,
        request: Request<ListPinsRequest>,
    ) -> Result<Response<ListPinsResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let result = self.0.pins(&caller, &request.server, &request.npc).await;
        let grants = self.0.suggesting(&caller, result).await?;
        Ok(Response::new(ListPinsResponse {
            grants: grants.into_iter().map(render_grant).collect(),
        }))
    }

    async fn accept_pins(
        &self,
        request: Request<AcceptPinsRequest>,
    ) -> Result<Response<AcceptPinsResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let pins = pins("pins", request.pins)?;
        let accepted = self
            .0
            .accept_pins(&caller, &request.server, &request.npc, pins);
        let npcs = self.0.suggesting(&caller, accepted.await).await?;
        Ok(Response::new(AcceptPinsResponse { npcs }))
    }

    async fn get_secrets_status(
        &self,
        request: Request<GetSecretsStatusRequest>,
    ) -> Result<Response<GetSecretsStatusResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let status = self.0.secrets_status(&caller).await?;
        Ok(Response::new(GetSecretsStatusResponse {
            key_id: status.key_id,
            readable: status.readable,
            unreadable: status.unreadable,
        }))
    }
}

/// Nothing given of a new server is nothing said, so that fields of another transport may be there and empty.
fn new_fields(request: CreateMcpServerRequest) -> Result<Fields, Error> {
    fn some<T: Default + PartialEq>(given: T) -> Option<T> {
        (given != T::default()).then_some(given)
    }
    let transport = transport(request.transport)?;
    let is_stdio = transport == Some(McpTransport::Stdio);
    Ok(Fields {
        transport,
        name: Some(request.name),
        // What the transport needs is judged even when it is empty, so that the error says what is wrong with it.
        url: (!is_stdio || !request.url.is_empty()).then(|| Secret::new(request.url)),
        headers: some(request.headers).map(secrets),
        command: (is_stdio || !request.command.is_empty()).then_some(request.command),
        arguments: some(request.arguments),
        working_directory: some(request.working_directory),
        environment: some(request.environment).map(secrets),
        private: Some(request.private),
        enabled: None,
        pinning: pinning(request.pinning)?,
    })
}

fn changed_fields(request: UpdateMcpServerRequest) -> Result<Fields, Error> {
    let arguments = request.arguments;
    Ok(Fields {
        transport: transport(request.transport)?,
        name: request.name,
        url: request.url.map(Secret::new),
        headers: request.headers.map(|list| secrets(list.secrets)),
        arguments: (request.command.is_some() || !arguments.is_empty()).then_some(arguments),
        command: request.command,
        working_directory: request.working_directory,
        environment: request.environment.map(|list| secrets(list.secrets)),
        private: request.private,
        enabled: request.enabled,
        pinning: pinning(request.pinning)?,
    })
}

fn secrets(given: Vec<WireSecret>) -> Vec<NamedSecret> {
    let secrets = given.into_iter().map(|secret| NamedSecret {
        name: secret.name,
        value: Secret::new(secret.value),
    });
    secrets.collect()
}

fn transport(value: i32) -> Result<Option<McpTransport>, Error> {
    match WireTransport::try_from(value) {
        Ok(WireTransport::Unspecified) => Ok(None),
        Ok(WireTransport::Stdio) => Ok(Some(McpTransport::Stdio)),
        Ok(WireTransport::Http) => Ok(Some(McpTransport::Http)),
        Ok(WireTransport::Sse) => Ok(Some(McpTransport::Sse)),
        Err(_unknown) => Err(unknown("transport", value)),
    }
}

fn pinning(value: i32) -> Result<Option<Pinning>, Error> {
    match WirePinning::try_from(value) {
        Ok(WirePinning::Unspecified) => Ok(None),
        Ok(WirePinning::Strict) => Ok(Some(Pinning::Strict)),
        Ok(WirePinning::Warn) => Ok(Some(Pinning::Warn)),
        Ok(WirePinning::Off) => Ok(Some(Pinning::Off)),
        Err(_unknown) => Err(unknown("pinning", value)),
    }
}

/// Definitions that somebody saw.
pub(super) fn pins(field: &'static str, given: Vec<ToolPin>) -> Result<Vec<Pin>, Error> {
    let given = given.into_iter().map(|pin| Given {
        tool: pin.tool_name,
        hash: pin.definition_hash,
        definition: pin.definition_json,
    });
    Pin::parse_all(field, given.collect())
}

pub(super) fn render(shown: Shown) -> WireServer {
    let Shown {
        server,
        credentials,
        notice,
        holders,
    } = shown;
    let sentence = match &credentials {
        Ok(()) => notice.unwrap_or_default(),
        Err(unreadable) => unreadable.to_string(),
    };
    WireServer {
        id: server.id.to_string(),
        name: server.name,
        slug: server.slug,
        owner_id: server.owner.to_string(),
        transport: wire_transport(Some(server.transport)).into(),
        url: server.url,
        command: server.command,
        arguments: server.arguments,
        working_directory: server.working_directory,
        header_names: server.header_names,
        environment_names: server.environment_names,
        private: server.private,
        enabled: server.enabled,
        pinning: render_pinning(server.pinning).into(),
        generation: count(server.generation),
        preset: server.preset,
        credentials_readable: credentials.is_ok(),
        last_test: server.last_test.map(render_test),
        created_at_micros: server.created_at.as_micros(),
        era: render_era(server.era).into(),
        query_names: server.query_names,
        credentials_sentence: sentence,
        holders: holders
            .into_iter()
            .map(|holder| McpServerHolder {
                npc_id: holder.npc_id,
                npc: holder.npc,
                tools: holder.tools,
            })
            .collect(),
    }
}

pub(super) const fn render_pinning(pinning: Pinning) -> WirePinning {
    match pinning {
        Pinning::Strict => WirePinning::Strict,
        Pinning::Warn => WirePinning::Warn,
        Pinning::Off => WirePinning::Off,
    }
}

const fn render_era(era: Option<Era>) -> WireEra {
    match era {
        None => WireEra::Unspecified,
        Some(Era::Legacy) => WireEra::Legacy,
        Some(Era::Modern) => WireEra::Modern,
    }
}

const fn wire_transport(transport: Option<McpTransport>) -> WireTransport {
    match transport {
        None => WireTransport::Unspecified,
        Some(McpTransport::Stdio) => WireTransport::Stdio,
        Some(McpTransport::Http) => WireTransport::Http,
        Some(McpTransport::Sse) => WireTransport::Sse,
    }
}

fn render_test(test: TestResult) -> McpTestResult {
    McpTestResult {
        ok: test.ok,
        sentence: test.sentence,
        tools: test.tools,
        protocol_version: test.protocol_version,
        at_micros: test.at_micros,
        code: test.code,
        next_step: test.next_step,
        latency_micros: test.latency_micros,
        era: render_era(test.era).into(),
        transport: wire_transport(transport_of(&test.transport)).into(),
    }
}

fn render_grant(of: GrantPins) -> WireGrantPins {
    WireGrantPins {
        grant_id: of.grant.id.to_string(),
        npc_id: of.npc.id.to_string(),
        npc: of.npc.name,
        pinned: of.grant.pinned_at.is_some(),
        pins: of.pins.into_iter().map(render_pin).collect(),
        tools: of.grant.tools,
    }
}

pub(super) fn render_pin(pin: Pin) -> ToolPin {
    ToolPin {
        tool_name: pin.tool,
        definition_hash: pin.hash,
        definition_json: pin
            .definition
            .map(|json| json.as_str().to_owned())
            .unwrap_or_default(),
    }
}
