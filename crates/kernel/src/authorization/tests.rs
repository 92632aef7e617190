//! Every cell of table A.

use super::{Decision::*, *};
use crate::{Clock, NpcId, Timestamp};

#[derive(Debug)]
struct Zero;
impl Clock for Zero {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(0)
    }
}

/// The columns of the table: Operator, owner, another Player, NPC.
fn row(owner: PlayerId, act: Act) -> [Decision; 4] {
    let player = || PlayerId::mint(&Zero);
    [
        decide(&Caller::Operator(player()), act),
        decide(&Caller::Player(owner), act),
        decide(&Caller::Player(player()), act),
        decide(
            &Caller::Npc {
                npc: NpcId::mint(&Zero),
                player: owner,
            },
            act,
        ),
    ]
}

#[test]
fn npcs_and_grants() {
    let owner = PlayerId::mint(&Zero);
    let open = NpcFacts {
        owner,
        private: false,
    };
    let private = NpcFacts {
        owner,
        private: true,
    };
    for (act, cells) in [
        (Act::CreateNpc, [Allow, Allow, Allow, Deny]),
        (Act::EditNpc(open), [Allow, Allow, Deny, Deny]),
        (Act::EditNpc(private), [Allow, Allow, Hide, Deny]),
        (Act::DeleteNpc(open), [Allow, Allow, Deny, Deny]),
        (Act::DeleteNpc(private), [Allow, Allow, Hide, Deny]),
        (Act::SeeNpc(open), [Allow, Allow, Allow, Deny]),
        (Act::SeeNpc(private), [Allow, Allow, Hide, Deny]),
        (Act::TalkToNpc(open), [Allow, Allow, Allow, Deny]),
        (Act::TalkToNpc(private), [Allow, Allow, Hide, Deny]),
        (Act::ChangeGrants(open), [Allow, Allow, Deny, Deny]),
        (Act::ChangeGrants(private), [Allow, Allow, Hide, Deny]),
    ] {
        assert_eq!(row(owner, act), cells, "{act:?}");
    }
}

#[test]
fn mcp_servers() {
    let owner = PlayerId::mint(&Zero);
    let http = OwnedFacts {
        owner,
        private: false,
        transport: McpTransport::Http,
    };
    let private = OwnedFacts {
        private: true,
        ..http
    };
    let stdio = OwnedFacts {
        transport: McpTransport::Stdio,
        ..http
    };
    for (act, cells) in [
        (
            Act::RegisterMcpServer(McpTransport::Http),
            [Allow, Allow, Allow, Deny],
        ),
        (
            Act::RegisterMcpServer(McpTransport::Sse),
            [Allow, Allow, Allow, Deny],
        ),
        (
            Act::RegisterMcpServer(McpTransport::Stdio),
            [Allow, Deny, Deny, Deny],
        ),
        (Act::SeeMcpServer(http), [Allow, Allow, Allow, Deny]),
        (Act::SeeMcpServer(private), [Hide, Allow, Hide, Deny]),
        (Act::TestMcpServer(http), [Allow, Allow, Allow, Deny]),
        (Act::TestMcpServer(private), [Hide, Allow, Hide, Deny]),
        (Act::TestMcpServer(stdio), [Allow, Deny, Deny, Deny]),
        (
            Act::EditMcpServer(http, McpTransport::Http),
            [Allow, Allow, Deny, Deny],
        ),
        (
            Act::EditMcpServer(http, McpTransport::Stdio),
            [Allow, Deny, Deny, Deny],
        ),
        (
            Act::EditMcpServer(private, McpTransport::Http),
            [Hide, Allow, Hide, Deny],
        ),
        (
            Act::EditMcpServer(stdio, McpTransport::Http),
            [Allow, Deny, Deny, Deny],
        ),
        (Act::DeleteMcpServer(http), [Allow, Allow, Deny, Deny]),
        (Act::DeleteMcpServer(private), [Allow, Allow, Hide, Deny]),
        (Act::DeleteMcpServer(stdio), [Allow, Deny, Deny, Deny]),
        (Act::UseMcpServer(http), [Allow, Allow, Allow, Deny]),
        (Act::UseMcpServer(private), [Hide, Allow, Hide, Deny]),
    ] {
        assert_eq!(row(owner, act), cells, "{act:?}");
    }
}

#[test]
fn skills_conversations_and_memory() {
    let owner = PlayerId::mint(&Zero);
    let npc = NpcFacts {
        owner,
        private: false,
    };
    for (act, cells) in [
        (Act::ChangeVillageSkill, [Allow, Deny, Deny, Deny]),
        (Act::ChangeNpcSkill(npc), [Allow, Allow, Deny, Deny]),
        (
            Act::ReadConversation(owner),
            [AllowAudited, Allow, Hide, Deny],
        ),
        (Act::ChangeConversation(owner), [Deny, Allow, Hide, Deny]),
        (
            Act::ListMemoriesAbout(owner),
            [AllowWithoutContent, Allow, Hide, Deny],
        ),
        (Act::ReadMemoriesAbout(owner), [Deny, Allow, Hide, Deny]),
        (Act::DeleteMemoriesAbout(owner), [Allow, Allow, Hide, Deny]),
        (Act::ReadSharedMemories(npc), [Allow, Allow, Allow, Deny]),
        (Act::ChangeSharedMemories(npc), [Allow, Deny, Deny, Deny]),
        (Act::Administer, [Allow, Deny, Deny, Deny]),
        (Act::AuthenticatePlayer, [Deny, Deny, Deny, Deny]),
        (Act::Fetch, [Deny, Deny, Deny, Allow]),
    ] {
        assert_eq!(row(owner, act), cells, "{act:?}");
    }
}

#[test]
fn a_service_does_only_its_own_and_only_for_its_player() {
    let owner = PlayerId::mint(&Zero);
    let private = NpcFacts {
        owner,
        private: true,
    };
    let service = |name, player| Caller::Service { name, player };
    let orchestrator = ServiceName::TurnOrchestrator;
    assert_eq!(
        decide(
            &service(orchestrator, Some(owner)),
            Act::ResolveNpc(private)
        ),
        Allow
    );
    assert_eq!(
        decide(
            &service(orchestrator, Some(PlayerId::mint(&Zero))),
            Act::ResolveNpc(private)
        ),
        Hide
    );
    assert_eq!(
        decide(&service(orchestrator, None), Act::ResolveNpc(private)),
        Hide
    );
    assert_eq!(
        decide(
            &service(ServiceName::FetchProxy, Some(owner)),
            Act::ResolveNpc(private)
        ),
        Deny
    );
    assert_eq!(
        decide(&service(ServiceName::Edge, None), Act::AuthenticatePlayer),
        Allow
    );
    assert_eq!(
        decide(&service(orchestrator, None), Act::AuthenticatePlayer),
        Deny
    );
    assert_eq!(
        decide(&service(orchestrator, Some(owner)), Act::Administer),
        Deny
    );
}
