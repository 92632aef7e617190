//! Who may do what: table A of the requirements as one pure decision that every service asks.

#[cfg(test)]
mod tests;

use crate::{Caller, PlayerId, ServiceName};

/// How an MCP Server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum McpTransport {
    /// A command on the host. The Operator's alone.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// The older HTTP with server-sent events.
    Sse,
}

/// What a decision needs to know of an NPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NpcFacts {
    /// Who made it.
    pub owner: PlayerId,
    /// Whether only its owner and the Operator may see it.
    pub private: bool,
}

/// What a decision needs to know of an MCP Server or Connector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedFacts {
    /// Who registered it.
    pub owner: PlayerId,
    /// Whether it serves only its owner's turns.
    pub private: bool,
    /// How it is reached.
    pub transport: McpTransport,
}

/// What the caller wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Create an NPC.
    CreateNpc,
    /// Change an NPC.
    EditNpc(NpcFacts),
    /// Delete an NPC.
    DeleteNpc(NpcFacts),
    /// See an NPC, its Grants and its Tool list.
    SeeNpc(NpcFacts),
    /// Talk to an NPC: start a turn with it.
    TalkToNpc(NpcFacts),
    /// Grant something to an NPC, or take it away.
    ChangeGrants(NpcFacts),
    /// Read all that a turn needs of an NPC. Services do, for the Player whose turn it is.
    ResolveNpc(NpcFacts),
    /// Register an MCP Server of this transport.
    RegisterMcpServer(McpTransport),
    /// See an MCP Server and read its Tools.
    SeeMcpServer(OwnedFacts),
    /// Test an MCP Server.
    TestMcpServer(OwnedFacts),
    /// Change an MCP Server, keeping or changing its transport to the one given.
    EditMcpServer(OwnedFacts, McpTransport),
    /// Delete an MCP Server.
    DeleteMcpServer(OwnedFacts),
    /// Use an MCP Server in a turn that this caller's Player started.
    UseMcpServer(OwnedFacts),
    /// Change a Skill of the whole Village.
    ChangeVillageSkill,
    /// Change a Skill of one NPC.
    ChangeNpcSkill(NpcFacts),
    /// Read a Conversation of this Player.
    ReadConversation(PlayerId),
    /// Change or delete a Conversation of this Player, start or stop its turns.
    ChangeConversation(PlayerId),
    /// List memory rows about this Player.
    ListMemoriesAbout(PlayerId),
    /// Read the content of memory rows about this Player, or edit it.
    ReadMemoriesAbout(PlayerId),
    /// Delete memory rows about this Player.
    DeleteMemoriesAbout(PlayerId),
    /// Read the shared memory of an NPC.
    ReadSharedMemories(NpcFacts),
    /// Change the shared memory of an NPC.
    ChangeSharedMemories(NpcFacts),
    /// Players, settings, exemptions, the audit log.
    Administer,
    /// Turn a bearer token into a Player. The edge does.
    AuthenticatePlayer,
    /// Fetch a page for an NPC.
    Fetch,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Yes.
    Allow,
    /// Yes, and an audit row is written.
    AllowAudited,
    /// Yes, but content is left out.
    AllowWithoutContent,
    /// No, and the caller may know that the thing exists: `PermissionDenied`.
    Deny,
    /// No, and the caller may not know: `NotFound`.
    Hide,
}

impl Decision {
    /// Whether the act may go on in some form.
    pub const fn allows(self) -> bool {
        matches!(
            self,
            Self::Allow | Self::AllowAudited | Self::AllowWithoutContent
        )
    }
}

/// Decides whether `caller` may do `act`. A thing that the caller may not see is hidden, not denied.
pub fn decide(caller: &Caller, act: Act) -> Decision {
    match caller {
        Caller::Operator(operator) => operator_may(*operator, act),
        Caller::Player(player) => player_may(*player, act),
        Caller::Npc { .. } => npc_may(act),
        Caller::Service { name, player } => service_may(*name, *player, act),
    }
}

fn operator_may(operator: PlayerId, act: Act) -> Decision {
    match act {
        Act::CreateNpc
        | Act::EditNpc(_)
        | Act::DeleteNpc(_)
        | Act::SeeNpc(_)
        | Act::TalkToNpc(_)
        | Act::ChangeGrants(_)
        | Act::RegisterMcpServer(_)
        | Act::ChangeVillageSkill
        | Act::ChangeNpcSkill(_)
        | Act::ReadSharedMemories(_)
        | Act::ChangeSharedMemories(_)
        | Act::Administer => Decision::Allow,
        Act::SeeMcpServer(server) | Act::TestMcpServer(server) | Act::EditMcpServer(server, _)
            if server.private =>
        {
            only(server.owner == operator)
        }
        Act::SeeMcpServer(_)
        | Act::TestMcpServer(_)
        | Act::EditMcpServer(..)
        | Act::DeleteMcpServer(_) => Decision::Allow,
        Act::UseMcpServer(server) => only(!server.private || server.owner == operator),
        Act::ReadConversation(owner) if owner == operator => Decision::Allow,
        Act::ReadConversation(_) => Decision::AllowAudited,
        Act::ChangeConversation(owner) if owner == operator => Decision::Allow,
        Act::ChangeConversation(_) => Decision::Deny,
        Act::ListMemoriesAbout(player) if player == operator => Decision::Allow,
        Act::ListMemoriesAbout(_) => Decision::AllowWithoutContent,
        Act::ReadMemoriesAbout(player) if player == operator => Decision::Allow,
        Act::ReadMemoriesAbout(_) => Decision::Deny,
        Act::DeleteMemoriesAbout(_) => Decision::Allow,
        Act::ResolveNpc(_) | Act::AuthenticatePlayer | Act::Fetch => Decision::Deny,
    }
}

fn player_may(player: PlayerId, act: Act) -> Decision {
    match act {
        Act::CreateNpc => Decision::Allow,
        Act::SeeNpc(npc) | Act::TalkToNpc(npc) | Act::ReadSharedMemories(npc) => {
            only(sees_npc(player, npc))
        }
        Act::EditNpc(npc)
        | Act::DeleteNpc(npc)
        | Act::ChangeGrants(npc)
        | Act::ChangeNpcSkill(npc) => owned(npc.owner == player, sees_npc(player, npc)),
        Act::RegisterMcpServer(transport) => permitted(transport != McpTransport::Stdio),
        Act::SeeMcpServer(server) | Act::UseMcpServer(server) => only(sees_server(player, server)),
        Act::TestMcpServer(server) => match server.transport {
            McpTransport::Stdio => owned(false, sees_server(player, server)),
            McpTransport::Http | McpTransport::Sse => only(sees_server(player, server)),
        },
        Act::EditMcpServer(server, transport) => owned(
            server.owner == player
                && server.transport != McpTransport::Stdio
                && transport != McpTransport::Stdio,
            sees_server(player, server),
        ),
        Act::DeleteMcpServer(server) => owned(
            server.owner == player && server.transport != McpTransport::Stdio,
            sees_server(player, server),
        ),
        Act::ReadConversation(owner)
        | Act::ChangeConversation(owner)
        | Act::ListMemoriesAbout(owner)
        | Act::ReadMemoriesAbout(owner)
        | Act::DeleteMemoriesAbout(owner) => only(owner == player),
        Act::ChangeSharedMemories(npc) => owned(false, sees_npc(player, npc)),
        Act::ChangeVillageSkill
        | Act::Administer
        | Act::ResolveNpc(_)
        | Act::AuthenticatePlayer
        | Act::Fetch => Decision::Deny,
    }
}

/// What a model can set off. Everything else that a turn does for it, services do in its Player's name.
fn npc_may(act: Act) -> Decision {
    permitted(matches!(act, Act::Fetch))
}

fn service_may(name: ServiceName, player: Option<PlayerId>, act: Act) -> Decision {
    match (name, act) {
        (ServiceName::Edge, Act::AuthenticatePlayer) => Decision::Allow,
        (ServiceName::TurnOrchestrator, Act::ResolveNpc(npc)) => {
            only(player.is_some_and(|player| sees_npc(player, npc)))
        }
        (ServiceName::TurnOrchestrator | ServiceName::McpGateway, Act::UseMcpServer(server)) => {
            only(
                player.is_some_and(|player| sees_server(player, server))
                    || (player.is_none() && !server.private),
            )
        }
        _ => Decision::Deny,
    }
}

fn sees_npc(player: PlayerId, npc: NpcFacts) -> bool {
    !npc.private || npc.owner == player
}

fn sees_server(player: PlayerId, server: OwnedFacts) -> bool {
    !server.private || server.owner == player
}

/// Allowed, or hidden.
fn only(yes: bool) -> Decision {
    if yes { Decision::Allow } else { Decision::Hide }
}

/// Allowed, or denied in the open.
fn permitted(yes: bool) -> Decision {
    if yes { Decision::Allow } else { Decision::Deny }
}

/// Allowed; else denied to whoever may see the thing, and hidden from everybody else.
fn owned(yes: bool, sees: bool) -> Decision {
    match (yes, sees) {
        (true, _) => Decision::Allow,
        (false, true) => Decision::Deny,
        (false, false) => Decision::Hide,
    }
}
