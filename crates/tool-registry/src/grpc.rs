//! The gRPC face, a module per service: parse in, call, render out. Only this module and those below it name tonic and the
//! generated types.

mod audit;
mod grant;
mod mcp_resolution;
mod mcp_server;
mod npc;
mod player;
mod resolution;

use kernel::{ServiceName, limits::RPC_MESSAGE_BYTES};
use proto::registry::v1::{
    audit_service_server::AuditServiceServer, grant_service_server::GrantServiceServer,
    mcp_server_resolution_service_server::McpServerResolutionServiceServer,
    mcp_server_service_server::McpServerServiceServer, npc_service_server::NpcServiceServer,
    player_service_server::PlayerServiceServer, resolution_service_server::ResolutionServiceServer,
};
use runtime::GrpcServer;
use tonic::Status;

use crate::{Error, Registry};

/// The services, without layers.
pub(crate) fn server(registry: &Registry) -> GrpcServer {
    let npcs = NpcServiceServer::new(npc::Npcs(registry.clone()));
    let grants = GrantServiceServer::new(grant::Grants(registry.clone()));
    let players = PlayerServiceServer::new(player::Players(registry.clone()));
    let audit = AuditServiceServer::new(audit::Audit(registry.clone()));
    let resolution = ResolutionServiceServer::new(resolution::Resolution(registry.clone()));
    let servers = McpServerServiceServer::new(mcp_server::McpServers(registry.clone()));
    let mcp_resolution =
        McpServerResolutionServiceServer::new(mcp_resolution::McpResolution(registry.clone()));
    GrpcServer::new(ServiceName::ToolRegistry)
        .add(npcs.max_decoding_message_size(RPC_MESSAGE_BYTES))
        .add(grants.max_decoding_message_size(RPC_MESSAGE_BYTES))
        .add(players.max_decoding_message_size(RPC_MESSAGE_BYTES))
        .add(audit.max_decoding_message_size(RPC_MESSAGE_BYTES))
        .add(resolution.max_decoding_message_size(RPC_MESSAGE_BYTES))
        .add(servers.max_decoding_message_size(RPC_MESSAGE_BYTES))
        .add(mcp_resolution.max_decoding_message_size(RPC_MESSAGE_BYTES))
        .describe(proto::FILE_DESCRIPTOR_SET)
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        runtime::status::from_error(&error, error.code(), error.field())
    }
}

fn unknown(field: &'static str, value: i32) -> Error {
    Error::invalid(
        field,
        format_args!("this release does not know the value {value}"),
    )
}

/// A count that is never negative, as the contract has it.
fn count(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
