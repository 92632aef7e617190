//! The tool-registry, as this service speaks of it.

use std::{sync::Arc, time::Duration};

use kernel::{
    Caller, ErrorCode, McpServerId, McpTransport, OwnedFacts, PlayerId, ServiceName,
    limits::RPC_MESSAGE_BYTES,
};
use proto::registry::v1::{
    McpEra, McpTestResult, McpTransport as WireTransport, ResolveMcpServerRequest,
    ResolveMcpServerResponse, SaveEraRequest, SaveTestResultRequest,
    mcp_server_resolution_service_client::McpServerResolutionServiceClient,
};
use runtime::{CallerChannel, Peer, status};
use vault::{Sealed, UnsealError, Vault};

use crate::{
    Endpoint, Error, Failure, FailureCode, RemoteEndpoint, SealedMap, StdioEndpoint,
    clients::{Era, Target},
    test_server::TestReport,
};

/// How long the registry may take to say how a server is reached.
const RESOLVE_TIME: Duration = Duration::from_secs(3);
/// How long the registry may take to keep what was found out. Nobody needs it at once.
const SAVE_TIME: Duration = Duration::from_secs(3);

/// A server as the registry has it.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// Its id.
    pub(crate) id: McpServerId,
    /// What decisions need to know of it.
    pub(crate) facts: OwnedFacts,
    /// Whether it may be used.
    pub(crate) enabled: bool,
    /// How it is reached.
    pub(crate) target: Arc<Target>,
    /// Why its credentials cannot be read, if they cannot.
    pub(crate) unreadable: Option<Failure>,
}

/// The tool-registry. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    peer: Peer,
    vault: Arc<Vault>,
}

impl Registry {
    pub(crate) const fn new(peer: Peer, vault: Arc<Vault>) -> Self {
        Self { peer, vault }
    }

    /// A server by name or id, in the name of a Player who may see it; of nobody, for one that everybody may see.
    ///
    /// # Errors
    /// [`Error::NoServer`] when there is none, or it is hidden from the Player. [`Error::RegistryAway`].
    pub(crate) async fn resolve(
        &self,
        server: &str,
        player: Option<PlayerId>,
    ) -> Result<Server, Error> {
        let request = ResolveMcpServerRequest {
            server: server.to_owned(),
        };
        let mut client = self.client(player, RESOLVE_TIME);
        match client.resolve_mcp_server(request).await {
            Ok(answer) => self.read(answer.into_inner()),
            Err(refused) => {
                let problem = status::problem(&refused);
                Err(match problem.code {
                    ErrorCode::NotFound => Error::NoServer(server.to_owned()),
                    ErrorCode::Unavailable
                    | ErrorCode::DeadlineExceeded
                    | ErrorCode::Aborted
                    | ErrorCode::ResourceExhausted => Error::RegistryAway,
                    ErrorCode::InvalidArgument
                    | ErrorCode::Unauthenticated
                    | ErrorCode::PermissionDenied
                    | ErrorCode::AlreadyExists
                    | ErrorCode::FailedPrecondition
                    | ErrorCode::Internal => Error::RegistryRefuses(problem.sentence),
                })
            }
        }
    }

    /// Has a test's result kept. What is not kept is logged: the test has its answer all the same.
    pub(crate) async fn save_test(
        &self,
        server: &Server,
        player: Option<PlayerId>,
        report: &TestReport,
    ) {
        let request = SaveTestResultRequest {
            server_id: server.id.to_string(),
            generation: server.target.generation,
            result: Some(test_result(report)),
        };
        let mut client = self.client(player, SAVE_TIME);
        if let Err(refused) = client.save_test_result(request).await {
            let problem = status::problem(&refused).sentence;
            tracing::warn!(server = %server.id, problem, "the result of a test was not kept");
        }
    }

    /// Has the era kept in which a server was spoken to. What is not kept costs the next process a probe.
    pub(crate) async fn save_era(
        &self,
        id: McpServerId,
        generation: u64,
        player: Option<PlayerId>,
        era: Era,
    ) {
        let request = SaveEraRequest {
            server_id: id.to_string(),
            generation,
            era: wire_era(era).into(),
        };
        if let Err(refused) = self.client(player, SAVE_TIME).save_era(request).await {
            let problem = status::problem(&refused).sentence;
            tracing::warn!(server = %id, problem, "the era of a server was not kept");
        }
    }

    fn client(
        &self,
        player: Option<PlayerId>,
        patience: Duration,
    ) -> McpServerResolutionServiceClient<CallerChannel> {
        let caller = Caller::Service {
            name: ServiceName::McpGateway,
            player,
        };
        McpServerResolutionServiceClient::new(self.peer.channel(&caller, patience))
            .max_decoding_message_size(RPC_MESSAGE_BYTES)
            .max_encoding_message_size(RPC_MESSAGE_BYTES)
    }

    fn read(&self, answer: ResolveMcpServerResponse) -> Result<Server, Error> {
        let bad = Error::BadRegistry;
        let server = answer.server.ok_or(bad("MCP Server"))?;
        let transport =
            read_transport(server.transport()).ok_or(bad("transport that is known here"))?;
        let era = match server.era() {
            McpEra::Unspecified => None,
            McpEra::Legacy => Some(Era::Legacy),
            McpEra::Modern => Some(Era::Modern),
        };
        let mut damaged = false;
        let mut sealed = |field: &'static str, bytes: &[u8]| {
            let read = read_sealed(bytes);
            damaged |= read.is_err();
            let stored = read.unwrap_or_default();
            SealedMap::stored(&self.vault, &server.id, field, stored)
        };
        let maps = [
            sealed("url", &answer.sealed_url),
            sealed("headers", &answer.sealed_headers),
            sealed("environment", &answer.sealed_environment),
        ];
        let unreadable = if damaged {
            Some(UnsealError::Corrupt)
        } else {
            maps.iter().find_map(|map| map.open().err())
        };
        let [sealed_url, headers, environment] = maps;
        let remote = RemoteEndpoint {
            shown_url: server.url,
            sealed_url,
            headers,
        };
        let endpoint = match transport {
            McpTransport::Http => Endpoint::Http(remote),
            McpTransport::Sse => Endpoint::Sse(remote),
            McpTransport::Stdio => Endpoint::Stdio(StdioEndpoint {
                command: server.command,
                arguments: server.arguments,
                working_directory: server.working_directory,
                environment,
            }),
        };
        Ok(Server {
            id: server
                .id
                .parse()
                .map_err(|_invalid| bad("id that is one"))?,
            facts: OwnedFacts {
                owner: server
                    .owner_id
                    .parse()
                    .map_err(|_invalid| bad("owner's id that is one"))?,
                private: server.private,
                transport,
            },
            enabled: server.enabled,
            unreadable: unreadable.map(|why| unreadable_failure(&server.name, &why)),
            target: Arc::new(Target {
                server_id: server.id,
                slug: server.slug,
                name: server.name,
                generation: server.generation,
                credentials_generation: answer.credentials_generation,
                era,
                endpoint,
            }),
        })
    }
}

fn read_sealed(bytes: &[u8]) -> Result<Option<Sealed>, UnsealError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let text = std::str::from_utf8(bytes).map_err(|_not_text| UnsealError::Corrupt)?;
    let sealed = text.parse().map_err(|_not_sealed| UnsealError::Corrupt)?;
    Ok(Some(sealed))
}

fn unreadable_failure(name: &str, why: &UnsealError) -> Failure {
    Failure::new(
        FailureCode::CredentialsUnreadable,
        format_args!("{name}: {why}."),
        "Enter the server's headers, URL or environment again.",
    )
}

/// A transport as contracts have it; `None` for one that is not said or not known.
pub(crate) const fn read_transport(transport: WireTransport) -> Option<McpTransport> {
    match transport {
        WireTransport::Unspecified => None,
        WireTransport::Stdio => Some(McpTransport::Stdio),
        WireTransport::Http => Some(McpTransport::Http),
        WireTransport::Sse => Some(McpTransport::Sse),
    }
}

/// A test's result as contracts have it.
pub(crate) fn test_result(report: &TestReport) -> McpTestResult {
    let transport = match report.transport {
        McpTransport::Stdio => WireTransport::Stdio,
        McpTransport::Http => WireTransport::Http,
        McpTransport::Sse => WireTransport::Sse,
    };
    let latency = report.tested.latency.as_micros();
    let common = McpTestResult {
        at_micros: report.at.as_micros(),
        latency_micros: u64::try_from(latency).unwrap_or(u64::MAX),
        transport: transport.into(),
        ..McpTestResult::default()
    };
    match &report.tested.outcome {
        Ok(listed) => McpTestResult {
            ok: true,
            tools: u32::try_from(listed.listing.tools.len()).unwrap_or(u32::MAX),
            protocol_version: listed.facts.protocol_version.clone(),
            era: wire_era(listed.facts.era).into(),
            ..common
        },
        Err(failure) => McpTestResult {
            sentence: failure.sentence.clone(),
            code: failure.code.as_str().to_owned(),
            next_step: failure.next_step.clone(),
            ..common
        },
    }
}

/// An era as contracts have it.
const fn wire_era(era: Era) -> McpEra {
    match era {
        Era::Legacy => McpEra::Legacy,
        Era::Modern => McpEra::Modern,
    }
}
