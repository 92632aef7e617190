//! The wide events of a turn and of its steps.

use kernel::ErrorCode;
use runtime::{EventKind, WideEvent, attributes};

use super::{End, Turn, Work};
use crate::{limits::Limit, running::Stop};

/// Limits that a turn met, as a list of words.
const LIMITS: &str = "agentsville.limits";
/// MCP Servers whose Tools were asked for at the start.
const MCP_SERVERS: &str = "agentsville.mcp_servers";
/// Those of them that were unavailable.
const MCP_UNAVAILABLE: &str = "agentsville.mcp_servers.unavailable";
/// Tools of theirs that were listed and withheld.
const MCP_WITHHELD: &str = "agentsville.mcp_tools.withheld";
/// How long their lists took together, in milliseconds.
const MCP_LIST_MS: &str = "agentsville.mcp_list_ms";
/// Grants whose definitions were pinned as this turn found them.
const MCP_PINNED: &str = "agentsville.mcp_grants.pinned";

impl Turn {
    /// The wide event of the turn.
    pub(super) fn begin_event(&self) -> WideEvent {
        let mut event = WideEvent::begin(EventKind::Turn);
        self.place(&mut event)
            .set(attributes::OPERATION, "invoke_agent")
            .set(attributes::NPC_NAME, self.npc.name.clone())
            .set_display(attributes::PLAYER_ID, self.player);
        event
    }

    /// The wide event of a step.
    pub(super) fn begin_step_event(&self, number: u32) -> WideEvent {
        let mut event = WideEvent::begin(EventKind::Step);
        self.place(&mut event)
            .set(attributes::OPERATION, "chat")
            .set(attributes::STEP, number);
        event
    }

    fn place<'e>(&self, event: &'e mut WideEvent) -> &'e mut WideEvent {
        event
            .set_display(attributes::TURN_ID, self.started.turn)
            .set_display(attributes::CONVERSATION_ID, self.started.conversation)
            .set_display(attributes::NPC_ID, self.npc.id)
            .set(attributes::PROVIDER, self.model.provider().to_owned())
            .set(attributes::REQUEST_MODEL, self.model.model().to_owned())
    }
}

/// How a turn ended.
pub(super) fn end(event: &mut WideEvent, end: &End) {
    match end {
        End::Answered(finish) => event
            .outcome(runtime::Outcome::Ok)
            .set(attributes::FINISH_REASONS, finish.as_str()),
        End::Failed(code, _) => event.outcome(runtime::Outcome::Error(*code)),
        End::Time => event
            .outcome(runtime::Outcome::Ok)
            .set(attributes::REASON, Limit::Time.as_str()),
        End::Stopped(why) => event.outcome(runtime::Outcome::Interrupted).set(
            attributes::REASON,
            match why {
                Stop::Aborted => "aborted",
                Stop::Shutdown => "shutdown",
            },
        ),
        End::Lost => event
            .outcome(runtime::Outcome::Error(ErrorCode::Aborted))
            .set(attributes::REASON, "lease-lost"),
    };
}

/// What a turn came to.
pub(super) fn work(event: &mut WideEvent, work: &Work) {
    event
        .set(attributes::STEPS, work.journal.recorder.step())
        .set(attributes::TOOL_CALLS, work.calls)
        .set_some(attributes::INPUT_TOKENS, work.usage.input)
        .set_some(attributes::OUTPUT_TOKENS, work.usage.output)
        .set_some(attributes::CACHED_TOKENS, work.usage.cached_input);
    if let Some(asked) = &work.asked
        && asked.servers > 0
    {
        let took = u64::try_from(asked.took.as_millis()).unwrap_or(u64::MAX);
        event
            .set(MCP_SERVERS, asked.servers)
            .set(MCP_UNAVAILABLE, asked.unavailable)
            .set(MCP_WITHHELD, asked.withheld)
            .set(MCP_LIST_MS, took)
            .set(MCP_PINNED, asked.pinned);
    }
    if !work.met.is_empty() {
        let met: Vec<&str> = work.met.iter().map(|limit| limit.as_str()).collect();
        event.set(LIMITS, met.join(","));
    }
}
