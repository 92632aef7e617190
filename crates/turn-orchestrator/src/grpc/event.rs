//! Events as they travel: encoded once, by the turn's owner.

use bytes::Bytes;
use prost::Message as _;
use proto::turn::v1::{self as wire, turn_event::Event as Wire};

use super::render;
use crate::parts::{Event, Outcome};

/// Encodes an event.
pub(crate) fn encode(number: u64, event: &Event) -> Bytes {
    let event = wire::TurnEvent {
        number,
        event: Some(to_wire(event)),
    };
    event.encode_to_vec().into()
}

/// An event as a watcher gets it.
#[derive(Debug)]
pub(crate) struct Told(pub(super) wire::TurnEvent);

impl Told {
    /// Reads an event back. Owners of another release may have written it.
    pub(crate) fn decode(payload: Bytes) -> Option<Self> {
        wire::TurnEvent::decode(payload).ok().map(Self)
    }

    /// Whether nothing follows.
    pub(crate) const fn is_last(&self) -> bool {
        matches!(self.0.event, Some(Wire::TurnEnded(_)))
    }
}

fn to_wire(event: &Event) -> Wire {
    match event {
        Event::TurnStarted {
            turn,
            conversation,
            message,
        } => Wire::TurnStarted(wire::TurnStarted {
            turn_id: turn.to_string(),
            conversation_id: conversation.to_string(),
            message_id: message.to_string(),
        }),
        Event::StepStarted { step } => Wire::StepStarted(wire::StepStarted { step: *step }),
        Event::TextStarted { position } => Wire::TextStarted(wire::TextStarted {
            position: *position,
        }),
        Event::TextDelta { position, delta } => Wire::TextDelta(wire::TextDelta {
            position: *position,
            delta: delta.clone(),
        }),
        Event::TextEnded { position } => Wire::TextEnded(wire::TextEnded {
            position: *position,
        }),
        Event::ReasoningStarted { position } => Wire::ReasoningStarted(wire::ReasoningStarted {
            position: *position,
        }),
        Event::ReasoningDelta { position, delta } => Wire::ReasoningDelta(wire::ReasoningDelta {
            position: *position,
            delta: delta.clone(),
        }),
        Event::ReasoningEnded { position } => Wire::ReasoningEnded(wire::ReasoningEnded {
            position: *position,
        }),
        Event::ToolInputStarted {
            position,
            call,
            tool,
        } => Wire::ToolInputStarted(wire::ToolInputStarted {
            position: *position,
            call_id: call.to_string(),
            tool_name: tool.clone(),
        }),
        Event::ToolInputDelta { call, delta } => Wire::ToolInputDelta(wire::ToolInputDelta {
            call_id: call.to_string(),
            delta: delta.clone(),
        }),
        Event::ToolInputAvailable { call, tool, input } => {
            Wire::ToolInputAvailable(wire::ToolInputAvailable {
                call_id: call.to_string(),
                tool_name: tool.clone(),
                input_json: input.as_str().to_owned(),
            })
        }
        Event::ToolInputRefused {
            call,
            tool,
            input,
            sentence,
        } => Wire::ToolInputRefused(wire::ToolInputRefused {
            call_id: call.to_string(),
            tool_name: tool.clone(),
            input_json: input.as_str().to_owned(),
            sentence: sentence.clone(),
        }),
        Event::ToolEnded {
            call,
            outcome: Outcome::Ok(output),
            media,
        } => Wire::ToolOutput(wire::ToolOutput {
            call_id: call.to_string(),
            output_json: output.as_str().to_owned(),
            media: render::media(media),
        }),
        Event::ToolEnded {
            call,
            outcome,
            media,
        } => Wire::ToolFailed(wire::ToolFailed {
            call_id: call.to_string(),
            outcome: render::outcome(outcome).into(),
            sentence: outcome.sentence().unwrap_or_default().to_owned(),
            media: render::media(media),
        }),
        Event::Notice {
            position,
            code,
            sentence,
        } => Wire::Notice(wire::Notice {
            position: *position,
            code: code.as_str().to_owned(),
            sentence: sentence.clone(),
        }),
        Event::StepEnded { step, usage } => Wire::StepEnded(wire::StepEnded {
            step: *step,
            usage: Some(render::usage(usage)),
        }),
        Event::TurnEnded { end, usage, steps } => Wire::TurnEnded(wire::TurnEnded {
            status: render::status(end.status).into(),
            finish_reason: render::finish(end.finish).into(),
            sentence: end.sentence.clone().unwrap_or_default(),
            limits: render::limits(&end.limits),
            usage: Some(render::usage(usage)),
            steps: *steps,
        }),
    }
}
