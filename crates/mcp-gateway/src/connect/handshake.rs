//! The first words with a server, read leniently: what it says of itself may be missing or odd, and it works all the same.

use std::time::Duration;

use rmcp::{
    RoleClient,
    model::{
        ClientConfig, ClientJsonRpcMessage, ClientNotification, ClientRequest, ClientResult,
        DiscoverRequest, DiscoverRequestParams, ErrorCode, ErrorData, GetExtensions as _,
        Implementation, InitializeRequest, InitializedNotification, JsonRpcMessage, NumberOrString,
        ProtocolVersion, RequestId, RequestMetaObject, ServerCapabilities, ServerPeerInfo,
        ServerRequest, ServerResult,
    },
    transport::Transport,
};
use serde_json::Value;
use tokio::time::timeout;

use crate::{Era, Failure, FailureCode, failure::Redactor};

/// Ids that no later request has: `rmcp` counts from 0.
const DISCOVER: RequestId = NumberOrString::Number(1_000_000_001);
const INITIALIZE: RequestId = NumberOrString::Number(1_000_000_002);
/// Messages that may come before the one that is waited for.
const MAX_BEFORE: usize = 1_024;
/// How long an answer to a server's own request may take to be sent.
const REPLY_TIME: Duration = Duration::from_secs(5);
/// The versions without a handshake that this client speaks.
const MODERN: ProtocolVersion = ProtocolVersion::V_2026_07_28;

/// Why there was no handshake.
#[derive(Debug)]
pub(super) enum Refused {
    /// The transport failed.
    Failed(Failure),
    /// The server answered with an error.
    Rpc(ErrorData),
    /// The server speaks only versions that this client does not.
    Versions(Vec<String>),
    /// The server speaks no version of this era, and one of the other.
    OtherEra,
    /// The server answered what is no handshake.
    Odd,
    /// The connection ended.
    Closed,
}

impl Refused {
    /// Whether asking in the other era would be of no use.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Failed(failure) => match failure.code {
                FailureCode::Html
                | FailureCode::HttpError
                | FailureCode::ProtocolError
                | FailureCode::TimedOut => failure.reached == crate::Reached::Never,
                FailureCode::BadUrl
                | FailureCode::PrivateAddress
                | FailureCode::Unresolvable
                | FailureCode::Unreachable
                | FailureCode::Tls
                | FailureCode::NeedsSignIn
                | FailureCode::TokenRejected
                | FailureCode::Forbidden
                | FailureCode::IsSse
                | FailureCode::IsStreamableHttp
                | FailureCode::Redirects
                | FailureCode::CommandNotFound
                | FailureCode::Exited
                | FailureCode::CredentialsUnreadable
                | FailureCode::Disabled
                | FailureCode::Busy => true,
            },
            // These two are said only by servers of the modern era.
            Self::Rpc(error) => {
                error.code == ErrorCode::HEADER_MISMATCH
                    || error.code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
            }
            Self::Versions(_) => true,
            Self::OtherEra | Self::Odd | Self::Closed => false,
        }
    }

    /// This one, or the other one if that says more.
    pub(super) fn or(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Rpc(error), Self::Failed(_) | Self::Rpc(_) | Self::Versions(_))
                if error.code == ErrorCode::METHOD_NOT_FOUND =>
            {
                other
            }
            (
                Self::OtherEra | Self::Odd | Self::Closed,
                Self::Failed(_) | Self::Rpc(_) | Self::Versions(_),
            ) => other,
            _ => self,
        }
    }

    /// In words.
    pub(super) fn into_failure(self, secrets: &Redactor) -> Failure {
        match self {
            Self::Failed(failure) => failure,
            Self::Rpc(error) => {
                let said = secrets.quote(&error.message);
                Failure::protocol(format_args!(
                    "The server refuses to begin: \"{said}\" (error {}).",
                    error.code.0
                ))
            }
            Self::Versions(versions) => {
                let shown = secrets.quote(&versions.join(", "));
                Failure::new(
                    FailureCode::ProtocolError,
                    format_args!(
                        "The server speaks only versions of MCP that this Village does not: {shown}."
                    ),
                    "Update the server, or the Village.",
                )
                .after_sending()
            }
            Self::OtherEra | Self::Odd => {
                Failure::protocol("What answers does not speak MCP: its answer is no handshake.")
            }
            Self::Closed => Failure::protocol("The connection ended before the server answered."),
        }
    }
}

/// Begins in the modern era.
pub(super) async fn discover<T>(
    transport: &mut T,
    me: &ClientConfig,
) -> Result<ServerPeerInfo, Refused>
where
    T: Transport<RoleClient, Error = Failure>,
{
    send(transport, discover_message(me)).await?;
    let mut outcome = answer(transport, &[DISCOVER]).await?.1;
    if outcome.as_ref().is_err_and(names_modern) {
        // It refuses the version that it says it speaks: a server that is just being replaced, or a balancer before two of them.
        send(transport, discover_message(me)).await?;
        outcome = answer(transport, &[DISCOVER]).await?.1;
    }
    discovered(outcome)
}

/// Begins in the old way.
pub(super) async fn initialize<T>(
    transport: &mut T,
    me: &ClientConfig,
) -> Result<ServerPeerInfo, Refused>
where
    T: Transport<RoleClient, Error = Failure>,
{
    send(transport, initialize_message(me)).await?;
    let outcome = answer(transport, &[INITIALIZE]).await?;
    let info = initialized(outcome.1)?;
    confirm(transport).await?;
    Ok(info)
}

/// Begins in whichever era the server speaks, on one transport: in the modern one, and if the server says nothing for so long, in the
/// old way as well. Whatever it answers first decides; servers that are slow to start answer both.
pub(super) async fn either<T>(
    transport: &mut T,
    me: &ClientConfig,
    patience: Duration,
) -> Result<(ServerPeerInfo, Era), Refused>
where
    T: Transport<RoleClient, Error = Failure>,
{
    send(transport, discover_message(me)).await?;
    let early = timeout(patience, answer(transport, &[DISCOVER])).await;
    let mut refused = match early {
        Ok(outcome) => match discovered(outcome?.1) {
            Ok(info) => return Ok((info, Era::Modern)),
            Err(refused) if refused.is_final() => return Err(refused),
            Err(refused) => Some(refused),
        },
        Err(_silent) => None,
    };
    send(transport, initialize_message(me)).await?;
    let mut wanted = match refused {
        Some(_) => vec![INITIALIZE],
        None => vec![INITIALIZE, DISCOVER],
    };
    loop {
        let (id, outcome) = answer(transport, &wanted).await?;
        wanted.retain(|wanted| *wanted != id);
        let begun = if id == DISCOVER {
            discovered(outcome).map(|info| (info, Era::Modern))
        } else {
            initialized(outcome).map(|info| (info, Era::Legacy))
        };
        match begun {
            Ok((info, Era::Modern)) => return Ok((info, Era::Modern)),
            Ok((info, Era::Legacy)) => {
                confirm(transport).await?;
                return Ok((info, Era::Legacy));
            }
            Err(next) => {
                let said = match refused.take() {
                    Some(first) => next.or(first),
                    None => next,
                };
                if wanted.is_empty() || said.is_final() {
                    return Err(said);
                }
                refused = Some(said);
            }
        }
    }
}

fn discover_message(me: &ClientConfig) -> ClientJsonRpcMessage {
    let mut request = DiscoverRequest::new(DiscoverRequestParams {});
    let meta = RequestMetaObject::with_client_context(
        MODERN,
        me.client_info.clone(),
        me.capabilities.clone(),
    );
    request.extensions_mut().insert(meta);
    ClientJsonRpcMessage::request(ClientRequest::DiscoverRequest(request), DISCOVER)
}

fn initialize_message(me: &ClientConfig) -> ClientJsonRpcMessage {
    let request = InitializeRequest::new(me.clone());
    ClientJsonRpcMessage::request(ClientRequest::InitializeRequest(request), INITIALIZE)
}

/// Says that the handshake is over.
async fn confirm<T>(transport: &mut T) -> Result<(), Refused>
where
    T: Transport<RoleClient, Error = Failure>,
{
    let confirmed = InitializedNotification::default();
    let message = ClientNotification::InitializedNotification(confirmed);
    send(transport, ClientJsonRpcMessage::notification(message)).await
}

async fn send<T>(transport: &mut T, message: ClientJsonRpcMessage) -> Result<(), Refused>
where
    T: Transport<RoleClient, Error = Failure>,
{
    transport.send(message).await.map_err(Refused::Failed)
}

/// The first answer to one of these requests. What comes before it is skipped, but for pings.
async fn answer<T>(
    transport: &mut T,
    wanted: &[RequestId],
) -> Result<(RequestId, Result<ServerResult, ErrorData>), Refused>
where
    T: Transport<RoleClient, Error = Failure>,
{
    for _before in 0..MAX_BEFORE {
        match transport.receive().await.ok_or(Refused::Closed)? {
            JsonRpcMessage::Response(response) => {
                if let Some(id) = find(wanted, &response.id) {
                    return Ok((id, Ok(response.result)));
                }
            }
            JsonRpcMessage::Error(error) => {
                // A server that could not read the request names none.
                let id = match &error.id {
                    Some(id) => find(wanted, id),
                    None => wanted.first().cloned(),
                };
                if let Some(id) = id {
                    return Ok((id, Err(error.error)));
                }
            }
            JsonRpcMessage::Request(request) => {
                if matches!(request.request, ServerRequest::PingRequest(_)) {
                    let pong = ClientJsonRpcMessage::response(ClientResult::empty(()), request.id);
                    // A server that does not take it may answer all the same.
                    drop(timeout(REPLY_TIME, transport.send(pong)).await);
                }
            }
            JsonRpcMessage::Notification(_) => {}
        }
    }
    Err(Refused::Odd)
}

/// Some servers answer a number with the same number as text.
fn find(wanted: &[RequestId], came: &RequestId) -> Option<RequestId> {
    wanted
        .iter()
        .find(|id| *id == came || id.to_string() == came.to_string())
        .cloned()
}

/// What a server of the modern era says of itself.
fn discovered(outcome: Result<ServerResult, ErrorData>) -> Result<ServerPeerInfo, Refused> {
    let result = outcome.map_err(unsupported)?;
    let result = plain(&result)?;
    let Some(versions) = result["supportedVersions"].as_array() else {
        return Err(Refused::Odd);
    };
    let versions: Vec<String> = versions
        .iter()
        .filter_map(|version| version.as_str().map(str::to_owned))
        .collect();
    if !versions.iter().any(|version| version == MODERN.as_str()) {
        return Err(other_versions(versions));
    }
    let info = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
    Ok(peer_info(MODERN, &result, info))
}

/// What an older server says of itself.
fn initialized(outcome: Result<ServerResult, ErrorData>) -> Result<ServerPeerInfo, Refused> {
    let result = outcome.map_err(unsupported)?;
    let result = plain(&result)?;
    let version = result["protocolVersion"].as_str().ok_or(Refused::Odd)?;
    let version = ProtocolVersion::KNOWN_VERSIONS
        .iter()
        .find(|known| known.as_str() == version)
        .cloned()
        .ok_or_else(|| Refused::Versions(vec![version.to_owned()]))?;
    Ok(peer_info(version, &result, &result["serverInfo"]))
}

/// An error that names the versions which the server speaks says more than that it is one.
fn unsupported(error: ErrorData) -> Refused {
    if error.code != ErrorCode::UNSUPPORTED_PROTOCOL_VERSION {
        return Refused::Rpc(error);
    }
    let supported = error.data.as_ref().map(|data| &data["supported"]);
    let Some(supported) = supported.and_then(Value::as_array) else {
        return Refused::OtherEra;
    };
    other_versions(
        supported
            .iter()
            .filter_map(|version| version.as_str().map(str::to_owned))
            .collect(),
    )
}

/// Whether an error says that another version was asked for than the one that was.
fn names_modern(error: &ErrorData) -> bool {
    let supported = error.data.as_ref().map(|data| &data["supported"]);
    let mut supported = supported.and_then(Value::as_array).into_iter().flatten();
    error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
        && supported.any(|version| version == MODERN.as_str())
}

/// What to make of versions among which the one that was asked for is not.
fn other_versions(versions: Vec<String>) -> Refused {
    let is_known = |version: &String| {
        ProtocolVersion::KNOWN_VERSIONS
            .iter()
            .any(|known| known.as_str() == version)
    };
    if versions.is_empty() || versions.iter().any(is_known) {
        Refused::OtherEra
    } else {
        Refused::Versions(versions)
    }
}

fn peer_info(version: ProtocolVersion, result: &Value, info: &Value) -> ServerPeerInfo {
    let capabilities = ServerCapabilities::deserialize_or_default(&result["capabilities"]);
    let mut peer = ServerPeerInfo::new(version, capabilities);
    if let Ok(info) = serde_json::from_value::<Implementation>(info.clone()) {
        peer = peer.with_server_info(info);
    }
    if let Some(instructions) = result["instructions"].as_str() {
        peer = peer.with_instructions(instructions);
    }
    peer
}

trait OrDefault {
    fn deserialize_or_default(value: &Value) -> Self;
}

impl OrDefault for ServerCapabilities {
    fn deserialize_or_default(value: &Value) -> Self {
        serde_json::from_value(value.clone()).unwrap_or_default()
    }
}

/// A result as JSON: which of its types `rmcp` took it for says little.
fn plain(result: &ServerResult) -> Result<Value, Refused> {
    serde_json::to_value(result).map_err(|_source| Refused::Odd)
}
