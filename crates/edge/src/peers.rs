//! The services that the edge calls, as a caller.

use std::time::Duration;

use kernel::{Caller, ErrorCode, limits::RPC_MESSAGE_BYTES};
use proto::{
    mcp::v1::mcp_service_client::McpServiceClient,
    registry::v1::{
        audit_service_client::AuditServiceClient, grant_service_client::GrantServiceClient,
        mcp_server_service_client::McpServerServiceClient, npc_service_client::NpcServiceClient,
        player_service_client::PlayerServiceClient,
        resolution_service_client::ResolutionServiceClient,
    },
    turn::v1::{
        conversation_service_client::ConversationServiceClient,
        turn_service_client::TurnServiceClient,
    },
};
use runtime::{CallerChannel, Peer};

use crate::problem::Problem;

/// The longest that one watch of a turn may take: the longest turn, and some time to tell its end.
pub(crate) const WATCH_DEADLINE: Duration = Duration::from_mins(61);

/// The longest test of a server: one that is started for the first time may have to install itself.
const TEST_DEADLINE: Duration = Duration::from_secs(150);
/// The longest wait for a server's Tools where they are wanted beside something else.
const LIST_DEADLINE: Duration = Duration::from_secs(25);

/// tool-registry.
#[derive(Debug, Clone)]
pub(crate) struct Registry(pub(crate) Peer);

impl Registry {
    pub(crate) fn npcs(&self, caller: &Caller) -> NpcServiceClient<CallerChannel> {
        NpcServiceClient::new(self.0.as_caller(caller)).max_decoding_message_size(RPC_MESSAGE_BYTES)
    }

    pub(crate) fn grants(&self, caller: &Caller) -> GrantServiceClient<CallerChannel> {
        GrantServiceClient::new(self.0.as_caller(caller))
            .max_decoding_message_size(RPC_MESSAGE_BYTES)
    }

    pub(crate) fn mcp_servers(&self, caller: &Caller) -> McpServerServiceClient<CallerChannel> {
        McpServerServiceClient::new(self.0.as_caller(caller))
            .max_decoding_message_size(RPC_MESSAGE_BYTES)
    }

    pub(crate) fn players(&self, caller: &Caller) -> PlayerServiceClient<CallerChannel> {
        PlayerServiceClient::new(self.0.as_caller(caller))
            .max_decoding_message_size(RPC_MESSAGE_BYTES)
    }

    pub(crate) fn audit(&self, caller: &Caller) -> AuditServiceClient<CallerChannel> {
        AuditServiceClient::new(self.0.as_caller(caller))
            .max_decoding_message_size(RPC_MESSAGE_BYTES)
    }

    pub(crate) fn resolution(&self, caller: &Caller) -> ResolutionServiceClient<CallerChannel> {
        ResolutionServiceClient::new(self.0.as_caller(caller))
    }
}

/// turn-orchestrator.
#[derive(Debug, Clone)]
pub(crate) struct Turns(pub(crate) Peer);

impl Turns {
    pub(crate) fn turns(&self, caller: &Caller) -> TurnServiceClient<CallerChannel> {
        TurnServiceClient::new(self.0.as_caller(caller))
            .max_decoding_message_size(RPC_MESSAGE_BYTES)
    }

    /// For `WatchTurn`, which takes as long as the turn does.
    pub(crate) fn watch(&self, caller: &Caller) -> TurnServiceClient<CallerChannel> {
        TurnServiceClient::new(self.0.channel(caller, WATCH_DEADLINE))
            .max_decoding_message_size(RPC_MESSAGE_BYTES)
    }

    pub(crate) fn conversations(
        &self,
        caller: &Caller,
    ) -> ConversationServiceClient<CallerChannel> {
        ConversationServiceClient::new(self.0.as_caller(caller))
            .max_decoding_message_size(RPC_MESSAGE_BYTES)
    }
}

/// mcp-gateway, where there is one.
#[derive(Debug, Clone)]
pub(crate) struct Gateway(pub(crate) Option<Peer>);

impl Gateway {
    /// For `ListTools`.
    pub(crate) fn listing(
        &self,
        caller: &Caller,
    ) -> Result<McpServiceClient<CallerChannel>, Problem> {
        self.within(caller, LIST_DEADLINE)
    }

    /// For `TestServer`.
    pub(crate) fn testing(
        &self,
        caller: &Caller,
    ) -> Result<McpServiceClient<CallerChannel>, Problem> {
        self.within(caller, TEST_DEADLINE)
    }

    fn within(
        &self,
        caller: &Caller,
        deadline: Duration,
    ) -> Result<McpServiceClient<CallerChannel>, Problem> {
        let peer = self.0.as_ref().ok_or_else(|| {
            Problem::new(
                ErrorCode::Unavailable,
                "no mcp-gateway belongs to this edge, so that MCP Servers cannot be reached; its Operator names one with AGENTSVILLE__PEERS__MCP_GATEWAY",
            )
        })?;
        Ok(McpServiceClient::new(peer.channel(caller, deadline))
            .max_decoding_message_size(RPC_MESSAGE_BYTES))
    }
}
