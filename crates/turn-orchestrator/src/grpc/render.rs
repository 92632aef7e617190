//! Our types as generated ones.

use kernel::Timestamp;
use llm::Usage;
use proto::turn::v1::{self as wire, part::Content as Wire};

use crate::{
    limits::Limit,
    parts::{Call, Content, FinishReason, Media, Outcome, Part, Progress, Prose, TurnStatus},
    store::{Conversation, Message, Role, Turn},
    toolset::ToolSet,
    watch::Snapshot,
};

pub(super) fn conversation(conversation: Conversation) -> wire::Conversation {
    wire::Conversation {
        id: conversation.id.to_string(),
        client_id: conversation.client_id,
        player_id: conversation.player.to_string(),
        npc_id: conversation.npc.to_string(),
        active_turn_id: conversation
            .active_turn
            .map(|turn| turn.to_string())
            .unwrap_or_default(),
        created_at_micros: conversation.created_at.as_micros(),
        updated_at_micros: conversation.updated_at.as_micros(),
    }
}

pub(super) fn message(message: Message) -> wire::Message {
    wire::Message {
        id: message.id.to_string(),
        client_id: message.client_id,
        role: match message.role {
            Role::User => wire::Role::User,
            Role::Assistant => wire::Role::Assistant,
        }
        .into(),
        parts: message.parts.into_iter().map(part).collect(),
        turn_id: message
            .turn
            .map(|turn| turn.to_string())
            .unwrap_or_default(),
        replaced: message.replaced,
        created_at_micros: message.created_at.as_micros(),
    }
}

fn part(part: Part) -> wire::Part {
    let started_at = part.started_at;
    let ended_at = part.ended_at;
    wire::Part {
        position: part.position,
        step: part.step,
        content: Some(match part.content {
            Content::Text(Prose {
                text, streaming, ..
            }) => Wire::Text(wire::TextPart { text, streaming }),
            Content::Reasoning(Prose {
                text, streaming, ..
            }) => Wire::Reasoning(wire::ReasoningPart { text, streaming }),
            Content::Call(call) => Wire::ToolCall(tool_call(*call, started_at, ended_at)),
            Content::Notice { code, sentence } => Wire::Notice(wire::NoticePart {
                code: code.as_str().to_owned(),
                sentence,
            }),
        }),
    }
}

fn tool_call(call: Call, started_at: Timestamp, ended_at: Option<Timestamp>) -> wire::ToolCallPart {
    let outcome_of = call.progress.outcome();
    wire::ToolCallPart {
        state: match call.progress {
            Progress::InputStreaming => wire::ToolCallState::InputStreaming,
            Progress::Running => wire::ToolCallState::Running,
            Progress::Ended(_) => wire::ToolCallState::Ended,
            Progress::Refused(_) => wire::ToolCallState::Refused,
        }
        .into(),
        output_json: outcome_of
            .and_then(Outcome::output)
            .map(|output| output.as_str().to_owned())
            .unwrap_or_default(),
        sentence: outcome_of
            .and_then(Outcome::sentence)
            .unwrap_or_default()
            .to_owned(),
        outcome: outcome_of
            .map_or(wire::Outcome::Unspecified, outcome)
            .into(),
        call_id: call.id.to_string(),
        tool_name: call.tool,
        input_json: call.input,
        started_at_micros: started_at.as_micros(),
        ended_at_micros: ended_at.map(Timestamp::as_micros).unwrap_or_default(),
        media: media(&call.media),
    }
}

pub(super) fn media(media: &[Media]) -> Vec<wire::MediaReference> {
    media
        .iter()
        .map(|media| wire::MediaReference {
            id: media.id.to_string(),
            kind: media.kind.as_str().to_owned(),
            media_type: media.media_type.clone(),
            bytes: media.bytes,
        })
        .collect()
}

pub(super) fn outcome(outcome: &Outcome) -> wire::Outcome {
    match outcome {
        Outcome::Ok(_) => wire::Outcome::Ok,
        Outcome::Error(_) => wire::Outcome::Error,
        Outcome::Denied(_) => wire::Outcome::Denied,
        Outcome::Interrupted(_) => wire::Outcome::Interrupted,
    }
}

pub(super) fn snapshot(snapshot: Snapshot) -> wire::TurnSnapshot {
    wire::TurnSnapshot {
        number: snapshot.turn.last_event,
        turn: Some(turn(snapshot.turn, snapshot.conversation_client_id)),
        message: Some(message(snapshot.message)),
    }
}

fn turn(turn: Turn, conversation_client_id: String) -> wire::Turn {
    wire::Turn {
        id: turn.id.to_string(),
        conversation_id: turn.conversation.to_string(),
        message_id: turn.message.to_string(),
        npc_id: turn.npc.to_string(),
        status: status(turn.status).into(),
        step: turn.step,
        sentence: turn.sentence.unwrap_or_default(),
        usage: Some(usage(&turn.usage)),
        started_at_micros: turn.started_at.as_micros(),
        ended_at_micros: turn.ended_at.map(Timestamp::as_micros).unwrap_or_default(),
        conversation_client_id,
        limits: limits(&turn.limits),
        finish_reason: turn
            .finish
            .map_or(wire::FinishReason::Unspecified, finish)
            .into(),
    }
}

pub(super) fn status(status: TurnStatus) -> wire::TurnStatus {
    match status {
        TurnStatus::Running => wire::TurnStatus::Running,
        TurnStatus::Finished => wire::TurnStatus::Finished,
        TurnStatus::Aborted => wire::TurnStatus::Aborted,
        TurnStatus::Failed => wire::TurnStatus::Failed,
        TurnStatus::Interrupted => wire::TurnStatus::Interrupted,
    }
}

pub(super) fn finish(reason: FinishReason) -> wire::FinishReason {
    match reason {
        FinishReason::Stop => wire::FinishReason::Stop,
        FinishReason::Length => wire::FinishReason::Length,
        FinishReason::ContentFilter => wire::FinishReason::ContentFilter,
        FinishReason::ToolCalls => wire::FinishReason::ToolCalls,
        FinishReason::Error => wire::FinishReason::Error,
        FinishReason::Other => wire::FinishReason::Other,
    }
}

pub(super) fn limits(limits: &[Limit]) -> Vec<i32> {
    limits
        .iter()
        .map(|limit| {
            match limit {
                Limit::Steps => wire::Limit::Steps,
                Limit::CallsPerStep => wire::Limit::CallsPerStep,
                Limit::Calls => wire::Limit::Calls,
                Limit::Time => wire::Limit::Time,
                Limit::Repeats => wire::Limit::Repeats,
            }
            .into()
        })
        .collect()
}

pub(super) fn usage(usage: &Usage) -> wire::Usage {
    wire::Usage {
        input_tokens: usage.input.unwrap_or(0),
        output_tokens: usage.output.unwrap_or(0),
        cached_input_tokens: usage.cached_input.unwrap_or(0),
        reasoning_tokens: usage.reasoning.unwrap_or(0),
    }
}

pub(super) fn tools(tools: &ToolSet) -> wire::DescribeToolsResponse {
    wire::DescribeToolsResponse {
        tools: tools
            .tools()
            .iter()
            .map(|tool| wire::ToolDescription {
                name: tool.definition.spec.name.to_string(),
                description: tool.definition.spec.description.clone(),
                input_schema_json: tool.definition.spec.schema.as_str().to_owned(),
                origin: tool.origin.clone(),
                note: tool.note.to_owned(),
            })
            .collect(),
        unavailable: tools
            .unavailable()
            .iter()
            .map(|tools| wire::UnavailableTools {
                what: tools.what.clone(),
                sentence: tools.sentence.clone(),
            })
            .collect(),
    }
}
