//! The wide events of connections, lists and calls: which server and Tool, how big, how it ended. Never arguments, results, URLs or headers.

use std::sync::Arc;

use kernel::{Caller, ErrorCode, PlayerId};
use runtime::{EventKind, Outcome, WideEvent, attributes};

use crate::{
    Call, CallEnd, Endpoint, Facts, Failure, FailureCode, Given, Listed, Piece, Target,
    names::shown,
    service::{Offer, Unavailable},
};

/// How the server is reached: `stdio`, `http` or `sse`.
const TRANSPORT: &str = "agentsville.mcp.transport";
/// Whether the list was there already.
const CACHE_HIT: &str = "agentsville.mcp.cache_hit";
/// Tools that are offered.
const TOOLS: &str = "agentsville.mcp.tools";
/// Tools that are listed and not offered.
const WITHHELD: &str = "agentsville.mcp.withheld";
/// Pieces of a result.
const PIECES: &str = "agentsville.mcp.pieces";
/// The generation that answered.
const GENERATION: &str = "agentsville.mcp_server.generation";

/// A connection as it is recorded.
pub(crate) fn connection(target: &Target) -> WideEvent {
    begin(EventKind::McpConnection, target, "initialize")
}

/// How a connection came about.
pub(crate) fn connected(event: &mut WideEvent, facts: Result<Arc<Facts>, &Failure>) {
    match facts {
        Ok(facts) => {
            event.outcome(Outcome::Ok).set(
                attributes::MCP_PROTOCOL_VERSION,
                shown(&facts.protocol_version),
            );
        }
        Err(failure) => failed(event, failure),
    }
}

/// A test as it is recorded: a connection that is closed afterwards.
pub(crate) fn test(caller: &Caller, target: &Target) -> WideEvent {
    let mut event = connection(target);
    event.set(attributes::CALLER, caller.label());
    player(&mut event, caller.player());
    event
}

/// How a test ended.
pub(crate) fn tested(event: &mut WideEvent, outcome: &Result<Listed, Failure>) {
    connected(
        event,
        outcome.as_ref().map(|listed| Arc::clone(&listed.facts)),
    );
    if let Ok(listed) = outcome {
        event
            .set(TOOLS, listed.listing.tools.len())
            .set(WITHHELD, listed.listing.withheld.len());
    }
}

/// A list as it is recorded.
pub(crate) fn list(server_id: &str, for_player: Option<PlayerId>) -> WideEvent {
    let mut event = WideEvent::begin(EventKind::McpList);
    event
        .set(attributes::MCP_METHOD, "tools/list")
        .set(attributes::MCP_SERVER_ID, server_id.to_owned());
    player(&mut event, for_player);
    event
}

/// How a list ended.
pub(crate) fn listed(event: &mut WideEvent, outcome: &Result<Offer, Unavailable>) {
    match outcome {
        Ok(offer) => {
            event
                .outcome(Outcome::Ok)
                .set(CACHE_HIT, offer.cached)
                .set(GENERATION, offer.generation)
                .set(TOOLS, offer.tools.len())
                .set(WITHHELD, offer.withheld.len() + offer.beyond_limit)
                .set(
                    attributes::MCP_PROTOCOL_VERSION,
                    shown(&offer.facts.protocol_version),
                );
        }
        Err(unavailable) => {
            event
                .outcome(outcome_of(unavailable.code))
                .set(attributes::REASON, unavailable.code.as_str());
        }
    }
}

/// A call as it is recorded.
pub(crate) fn call(server_id: &str, for_player: Option<PlayerId>, call: &Call) -> WideEvent {
    let mut event = WideEvent::begin(EventKind::McpCall);
    event
        .set(attributes::OPERATION, "execute_tool")
        .set(attributes::MCP_METHOD, "tools/call")
        .set(attributes::MCP_SERVER_ID, server_id.to_owned())
        .set(attributes::TOOL_NAME, shown(&call.tool))
        .set(attributes::TOOL_CALL_ID, shown(&call.id))
        .set(attributes::INPUT_BYTES, call.arguments.as_str().len());
    player(&mut event, for_player);
    event
}

/// How a call ended.
pub(crate) fn called(event: &mut WideEvent, end: &CallEnd) {
    match end {
        CallEnd::Ok(given) => {
            event.outcome(Outcome::Ok);
            result(event, given);
        }
        CallEnd::ToolError(given) => {
            event
                .outcome(Outcome::Error(ErrorCode::FailedPrecondition))
                .set(attributes::REASON, "tool-error");
            result(event, given);
        }
        CallEnd::BadAnswer(_) => {
            event
                .outcome(Outcome::Error(ErrorCode::Unavailable))
                .set(attributes::REASON, "bad-answer");
        }
        CallEnd::Failed(failure) => failed(event, failure),
        CallEnd::ServerRemoved => {
            event
                .outcome(Outcome::Error(ErrorCode::FailedPrecondition))
                .set(attributes::REASON, "server-removed");
        }
    }
}

fn begin(kind: EventKind, target: &Target, method: &'static str) -> WideEvent {
    let transport = match &target.endpoint {
        Endpoint::Stdio(_) => "stdio",
        Endpoint::Http(_) => "http",
        Endpoint::Sse(_) => "sse",
    };
    let mut event = WideEvent::begin(kind);
    event
        .set(attributes::MCP_METHOD, method)
        .set(attributes::MCP_SERVER_ID, target.server_id.clone())
        .set(GENERATION, target.generation)
        .set(TRANSPORT, transport);
    event
}

fn player(event: &mut WideEvent, player: Option<PlayerId>) {
    event.set_some(
        attributes::PLAYER_ID,
        player.map(|player| player.to_string()),
    );
}

fn failed(event: &mut WideEvent, failure: &Failure) {
    event
        .outcome(outcome_of(failure.code))
        .set(attributes::REASON, failure.code.as_str());
}

fn result(event: &mut WideEvent, given: &Given) {
    let bytes: usize = given.pieces.iter().map(bytes_of).sum();
    let structured = given
        .structured
        .as_ref()
        .map_or(0, |json| json.as_str().len());
    event
        .set(PIECES, given.pieces.len())
        .set(attributes::OUTPUT_BYTES, bytes + structured)
        .set(attributes::TRUNCATED, given.left_out_bytes > 0);
}

fn bytes_of(piece: &Piece) -> usize {
    match piece {
        Piece::Text(text) | Piece::Resource { text, .. } => text.len(),
        Piece::Media(media) => media.data.len(),
        Piece::Link { uri, .. } => uri.len(),
        Piece::Unknown(_) => 0,
    }
}

/// How a failure is classed in events.
const fn outcome_of(code: FailureCode) -> Outcome {
    match code {
        FailureCode::PrivateAddress => Outcome::Denied,
        FailureCode::TimedOut => Outcome::Error(ErrorCode::DeadlineExceeded),
        FailureCode::Busy => Outcome::Error(ErrorCode::ResourceExhausted),
        FailureCode::BadUrl | FailureCode::CredentialsUnreadable | FailureCode::Disabled => {
            Outcome::Error(ErrorCode::FailedPrecondition)
        }
        FailureCode::NeedsSignIn | FailureCode::TokenRejected | FailureCode::Forbidden => {
            Outcome::Error(ErrorCode::PermissionDenied)
        }
        FailureCode::Unresolvable
        | FailureCode::Unreachable
        | FailureCode::Tls
        | FailureCode::Html
        | FailureCode::IsSse
        | FailureCode::IsStreamableHttp
        | FailureCode::Redirects
        | FailureCode::CommandNotFound
        | FailureCode::Exited
        | FailureCode::ProtocolError
        | FailureCode::HttpError => Outcome::Error(ErrorCode::Unavailable),
    }
}
