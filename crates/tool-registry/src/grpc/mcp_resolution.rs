//! `McpServerResolutionService`.

use proto::registry::v1::{
    McpEra as WireEra, McpTestResult, McpTransport as WireTransport, ResolveMcpServerRequest,
    ResolveMcpServerResponse, SaveEraRequest, SaveEraResponse, SavePinsRequest, SavePinsResponse,
    SaveTestResultRequest, SaveTestResultResponse,
    mcp_server_resolution_service_server::McpServerResolutionService,
};
use tonic::{Request, Response, Status};

use super::{count, mcp_server, unknown};
use crate::{
    Error, Registry,
    mcp_server::{Era, Observed, TestResult, sealed::SealedText},
};

#[derive(Debug)]
pub(super) struct McpResolution(pub(super) Registry);

#[async_trait::async_trait]
impl McpServerResolutionService for McpResolution {
    async fn resolve_mcp_server(
        &self,
        request: Request<ResolveMcpServerRequest>,
    ) -> Result<Response<ResolveMcpServerResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let given = request.into_inner().server;
        let shown = self.0.resolve_mcp_server(&caller, &given).await?;
        let sealed = |text: &Option<SealedText>| {
            let text = text.as_ref().map(|text| text.as_str().to_owned());
            text.unwrap_or_default().into()
        };
        let server = &shown.server;
        Ok(Response::new(ResolveMcpServerResponse {
            sealed_url: sealed(&server.sealed_url),
            sealed_headers: sealed(&server.sealed_headers),
            sealed_environment: sealed(&server.sealed_environment),
            credentials_generation: count(server.credentials_generation),
            server: Some(mcp_server::render(shown)),
        }))
    }

    async fn save_test_result(
        &self,
        request: Request<SaveTestResultRequest>,
    ) -> Result<Response<SaveTestResultResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let of = Observed::parse(&request.server_id, request.generation)?;
        let missing = || Error::invalid("result", "there is none");
        let test = test(request.result.ok_or_else(missing)?)?;
        self.0.save_test_result(&caller, of, test).await?;
        Ok(Response::new(SaveTestResultResponse {}))
    }

    async fn save_era(
        &self,
        request: Request<SaveEraRequest>,
    ) -> Result<Response<SaveEraResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let of = Observed::parse(&request.server_id, request.generation)?;
        let era = era(request.era)?;
        self.0.save_era(&caller, of, era).await?;
        Ok(Response::new(SaveEraResponse {}))
    }

    async fn save_pins(
        &self,
        request: Request<SavePinsRequest>,
    ) -> Result<Response<SavePinsResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let pins = mcp_server::pins("pins", request.pins)?;
        let saved = self.0.save_pins(&caller, &request.grant_id, pins).await?;
        Ok(Response::new(SavePinsResponse { saved }))
    }
}

fn test(result: McpTestResult) -> Result<TestResult, Error> {
    let transport = match WireTransport::try_from(result.transport) {
        Ok(WireTransport::Unspecified) => "",
        Ok(WireTransport::Stdio) => "stdio",
        Ok(WireTransport::Http) => "http",
        Ok(WireTransport::Sse) => "sse",
        Err(_unknown) => return Err(unknown("result.transport", result.transport)),
    };
    Ok(TestResult {
        era: era(result.era)?,
        transport: transport.to_owned(),
        ok: result.ok,
        code: result.code,
        sentence: result.sentence,
        next_step: result.next_step,
        tools: result.tools,
        protocol_version: result.protocol_version,
        at_micros: result.at_micros,
        latency_micros: result.latency_micros,
    })
}

fn era(value: i32) -> Result<Option<Era>, Error> {
    match WireEra::try_from(value) {
        Ok(WireEra::Unspecified) => Ok(None),
        Ok(WireEra::Legacy) => Ok(Some(Era::Legacy)),
        Ok(WireEra::Modern) => Ok(Some(Era::Modern)),
        Err(_unknown) => Err(unknown("era", value)),
    }
}
