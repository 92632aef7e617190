//! The services that the edge calls, as a caller.

use std::time::Duration;

use kernel::{Caller, limits::RPC_MESSAGE_BYTES};
use proto::{
    registry::v1::{
        audit_service_client::AuditServiceClient, grant_service_client::GrantServiceClient,
        npc_service_client::NpcServiceClient, player_service_client::PlayerServiceClient,
        resolution_service_client::ResolutionServiceClient,
    },
    turn::v1::{
        conversation_service_client::ConversationServiceClient,
        turn_service_client::TurnServiceClient,
    },
};
use runtime::{CallerChannel, Peer};

/// The longest that one watch of a turn may take: the longest turn, and some time to tell its end.
pub(crate) const WATCH_DEADLINE: Duration = Duration::from_mins(61);

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
