//! Who is calling.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{NpcId, PlayerId, nearest};

/// What a caller is. Each issuer of caller tokens may mint only some kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallerKind {
    /// The administrator of the Village.
    Operator,
    /// A user.
    Player,
    /// An agent, in a turn that a Player started.
    Npc,
    /// One of the Village's own services.
    Service,
}

/// The services of the house, as they name themselves in tokens, settings and logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceName {
    /// The turn loop.
    TurnOrchestrator,
    /// NPCs, Grants, Players.
    ToolRegistry,
    /// Clients of MCP Servers.
    McpGateway,
    /// Guarded outbound fetch.
    FetchProxy,
    /// Containers of NPCs.
    SandboxBroker,
    /// HTTP for web clients.
    Edge,
}

impl ServiceName {
    /// Every service.
    pub const ALL: [Self; 6] = [
        Self::TurnOrchestrator,
        Self::ToolRegistry,
        Self::McpGateway,
        Self::FetchProxy,
        Self::SandboxBroker,
        Self::Edge,
    ];

    /// The name: `turn-orchestrator`, `tool-registry`, …
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TurnOrchestrator => "turn-orchestrator",
            Self::ToolRegistry => "tool-registry",
            Self::McpGateway => "mcp-gateway",
            Self::FetchProxy => "fetch-proxy",
            Self::SandboxBroker => "sandbox-broker",
            Self::Edge => "edge",
        }
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no service {name:?}{}", .nearest.map(|n| format!("; did you mean {n}?")).unwrap_or_default())]
pub struct UnknownServiceName {
    /// What was given.
    pub name: String,
    /// The nearest that exists.
    pub nearest: Option<&'static str>,
}

impl FromStr for ServiceName {
    type Err = UnknownServiceName;

    fn from_str(text: &str) -> Result<Self, UnknownServiceName> {
        Self::ALL
            .into_iter()
            .find(|service| service.as_str() == text)
            .ok_or_else(|| UnknownServiceName {
                name: text.chars().take(64).collect(),
                nearest: nearest(text, Self::ALL.map(Self::as_str)),
            })
    }
}

/// A verified caller. Only `runtime`'s token layer makes one from outside; models never supply one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Caller {
    /// The Operator, who is a Player too.
    Operator(PlayerId),
    /// A Player.
    Player(PlayerId),
    /// An NPC, in a turn that this Player started.
    Npc {
        /// The agent.
        npc: NpcId,
        /// The Player whose turn it is.
        player: PlayerId,
    },
    /// A service, by itself or on behalf of a Player.
    Service {
        /// Which service.
        name: ServiceName,
        /// The Player it acts for, if any.
        player: Option<PlayerId>,
    },
}

impl Caller {
    /// What kind of caller this is.
    pub const fn kind(&self) -> CallerKind {
        match self {
            Self::Operator(_) => CallerKind::Operator,
            Self::Player(_) => CallerKind::Player,
            Self::Npc { .. } => CallerKind::Npc,
            Self::Service { .. } => CallerKind::Service,
        }
    }

    /// The Player who calls, or for whom it is called.
    pub const fn player(&self) -> Option<PlayerId> {
        match self {
            Self::Operator(player) | Self::Player(player) | Self::Npc { player, .. } => {
                Some(*player)
            }
            Self::Service { player, .. } => *player,
        }
    }

    /// Who it is, for audit rows and wide events: `operator:…`, `player:…`, `npc:…`, `service:…`.
    pub fn label(&self) -> String {
        match self {
            Self::Operator(player) => format!("operator:{player}"),
            Self::Player(player) => format!("player:{player}"),
            Self::Npc { npc, .. } => format!("npc:{npc}"),
            Self::Service { name, .. } => format!("service:{name}"),
        }
    }
}
