//! What is stored of Conversations and turns.
//!
//! **Invariants.** A Conversation has at most one running turn: `active_turn_id` changes from null by compare-and-swap alone. Only
//! the owner of a running turn writes its Parts, and every write of it checks that it still is. A turn that is not running has no
//! Part without a terminal state.

mod conversation;
mod end;
mod entity;
mod media;
mod part;
mod start;
mod turn;

use std::sync::Arc;

use kernel::{Clock, ConversationId, MessageId, NpcId, PlayerId, Timestamp, TurnId};
use llm::Usage;

use crate::{
    limits::Limit,
    parts::{FinishReason, Part, TurnStatus},
};

pub(crate) use conversation::Page;
pub(crate) use end::Ending;
pub(crate) use start::{Plan, Started, Trigger};

/// Why a turn has no end of its own.
pub(crate) const OWNER_DIED: &str =
    "The process that ran this turn ended before the turn did; what it had done is kept.";

/// A Conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conversation {
    /// Its id.
    pub(crate) id: ConversationId,
    /// Its id as the client chose it.
    pub(crate) client_id: String,
    /// The Player.
    pub(crate) player: PlayerId,
    /// The NPC.
    pub(crate) npc: NpcId,
    /// The turn that runs.
    pub(crate) active_turn: Option<TurnId>,
    /// When it started.
    pub(crate) created_at: Timestamp,
    /// When it was last added to.
    pub(crate) updated_at: Timestamp,
}

/// Who wrote a Message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The Player.
    User,
    /// The NPC.
    Assistant,
}

impl Role {
    const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A Message with its Parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// Its id.
    pub(crate) id: MessageId,
    /// Its Conversation.
    pub(crate) conversation: ConversationId,
    /// Its id as the client chose it; empty for the NPC's.
    pub(crate) client_id: String,
    /// Who wrote it.
    pub(crate) role: Role,
    /// Its Parts, in order.
    pub(crate) parts: Vec<Part>,
    /// The turn that wrote it; none for the Player's.
    pub(crate) turn: Option<TurnId>,
    /// Whether another Message took its place in the model's history.
    pub(crate) replaced: bool,
    /// When it was written.
    pub(crate) created_at: Timestamp,
}

/// A turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Its id.
    pub(crate) id: TurnId,
    /// Its Conversation.
    pub(crate) conversation: ConversationId,
    /// The Message that it writes.
    pub(crate) message: MessageId,
    /// Its NPC.
    pub(crate) npc: NpcId,
    /// Its Player.
    pub(crate) player: PlayerId,
    /// How it stands.
    pub(crate) status: TurnStatus,
    /// Until when its owner may be believed to run it.
    pub(crate) lease_until: Timestamp,
    /// Steps begun.
    pub(crate) step: u32,
    /// The last event that the stored Parts contain.
    pub(crate) last_event: u64,
    /// Limits that it met.
    pub(crate) limits: Vec<Limit>,
    /// Tokens.
    pub(crate) usage: Usage,
    /// The reason of its last step.
    pub(crate) finish: Option<FinishReason>,
    /// Why it ended, in a sentence.
    pub(crate) sentence: Option<String>,
    /// When it started.
    pub(crate) started_at: Timestamp,
    /// When it ended.
    pub(crate) ended_at: Option<Timestamp>,
}

/// The tables of this service. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct TurnStore {
    store: store::Store,
    clock: Arc<dyn Clock>,
    /// This process, as it signs leases.
    owner: Arc<str>,
}

impl TurnStore {
    /// Makes a store that signs leases with `owner`.
    pub(crate) fn new(store: store::Store, clock: Arc<dyn Clock>, owner: String) -> Self {
        Self {
            store,
            clock,
            owner: owner.into(),
        }
    }
}
