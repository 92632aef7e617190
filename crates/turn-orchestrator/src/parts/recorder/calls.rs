//! Calls, from the first piece of their arguments to their one result.

use kernel::{CallId, JsonText, clean_text, floor_char_boundary, limits::TOOL_ARGUMENT_BYTES};

use super::{Recorder, number};
use crate::{
    limits::cut_end,
    parts::{Call, Content, Event, NewMedia, Outcome, Progress},
};

/// Bytes that are kept of a name or id that a model or Provider invented. What is longer names no Tool.
const NAME_BYTES: usize = 256;

impl Recorder {
    /// The id of the call at this place.
    pub(crate) fn call_id(&self, at: usize) -> Option<CallId> {
        match &self.parts.get(at)?.content {
            Content::Call(call) => Some(call.id),
            Content::Text(_) | Content::Reasoning(_) | Content::Notice { .. } => None,
        }
    }

    /// The name and the id of a call that has no result yet and does not run.
    pub(crate) fn streaming_call_of(&self, index: usize) -> Option<(&str, CallId)> {
        match &self.parts[*self.calls.get(index)?].content {
            Content::Call(call) if call.progress == Progress::InputStreaming => {
                Some((&call.tool, call.id))
            }
            Content::Call(_)
            | Content::Text(_)
            | Content::Reasoning(_)
            | Content::Notice { .. } => None,
        }
    }

    /// The model began to call a Tool. Indices are dense; one that is not next is ignored.
    pub(crate) fn call_started(&mut self, index: usize, tool: &str) {
        if index != self.calls.len() {
            return;
        }
        self.close_prose();
        let id = CallId::mint(&*self.clock);
        let tool = cut_end(&clean_text(tool), NAME_BYTES).into_owned();
        self.bytes += tool.len();
        let at = self.add(Content::Call(Box::new(Call {
            id,
            wire_id: None,
            tool: tool.clone(),
            input: String::new(),
            meta: None,
            progress: Progress::InputStreaming,
            media: Vec::new(),
        })));
        self.calls.push(at);
        self.tell_of(
            at,
            Event::ToolInputStarted {
                position: number(at),
                call: id,
                tool,
            },
        );
    }

    /// More of a call's arguments. What goes beyond the bound is not shown: such a call is refused when it is whole.
    pub(crate) fn call_arguments(&mut self, index: usize, delta: &str) {
        let Some((at, call)) = self.streaming_call(index) else {
            return;
        };
        let room = TOOL_ARGUMENT_BYTES.saturating_sub(call.input.len());
        let delta = clean_text(&delta[..floor_char_boundary(delta, room)]).into_owned();
        if delta.is_empty() {
            return;
        }
        call.input.push_str(&delta);
        let id = call.id;
        self.grow(delta.len());
        self.tell_of(at, Event::ToolInputDelta { call: id, delta });
    }

    /// What a call has besides its arguments.
    pub(crate) fn call_origin(
        &mut self,
        index: usize,
        wire_id: Option<String>,
        meta: Option<JsonText>,
    ) {
        let meta = self.provider_meta(meta);
        self.bytes += meta.as_ref().map_or(0, |meta| meta.meta.as_str().len());
        if let Some((_, call)) = self.streaming_call(index) {
            call.wire_id = wire_id.map(|id| cut_end(&clean_text(&id), NAME_BYTES).into_owned());
            call.meta = meta;
        }
    }

    /// A call's arguments are whole and valid: it is going to run. Returns its place, which its result names.
    pub(crate) fn call_ready(&mut self, index: usize, input: &JsonText) -> Option<usize> {
        let (at, call) = self.streaming_call(index)?;
        input.as_str().clone_into(&mut call.input);
        call.progress = Progress::Running;
        let event = Event::ToolInputAvailable {
            call: call.id,
            tool: call.tool.clone(),
            input: input.clone(),
        };
        self.tell_of(at, event);
        Some(at)
    }

    /// A call will not run, and this is its one result.
    pub(crate) fn call_refused(&mut self, index: usize, input: JsonText, outcome: Outcome) {
        if let Some((at, _)) = self.streaming_call(index) {
            self.refuse(at, input, outcome);
        }
    }

    /// A call that ran has its one result, and this is what it gave besides text.
    pub(crate) fn call_ended(&mut self, at: usize, outcome: Outcome, media: Vec<NewMedia>) {
        let now = self.clock.now();
        let Some(part) = self.parts.get_mut(at) else {
            return;
        };
        let Content::Call(call) = &mut part.content else {
            return;
        };
        if call.progress != Progress::Running {
            return;
        }
        part.ended_at = Some(now);
        call.progress = Progress::Ended(outcome.clone());
        call.media = media.iter().map(|new| new.media.clone()).collect();
        let event = Event::ToolEnded {
            call: call.id,
            outcome,
            media: call.media.clone(),
        };
        let size = match call.progress.outcome() {
            Some(Outcome::Ok(output)) => output.as_str().len(),
            Some(outcome) => outcome.sentence().map_or(0, str::len),
            None => 0,
        };
        self.media.extend(media);
        self.grow(size);
        self.tell_of(at, event);
    }

    pub(super) fn refuse(&mut self, at: usize, input: JsonText, outcome: Outcome) {
        let now = self.clock.now();
        self.parts[at].ended_at = Some(now);
        let Content::Call(call) = &mut self.parts[at].content else {
            return;
        };
        input.as_str().clone_into(&mut call.input);
        let event = Event::ToolInputRefused {
            call: call.id,
            tool: call.tool.clone(),
            input,
            sentence: outcome.sentence().unwrap_or_default().to_owned(),
        };
        call.progress = Progress::Refused(outcome);
        self.tell_of(at, event);
    }

    fn streaming_call(&mut self, index: usize) -> Option<(usize, &mut Call)> {
        let at = *self.calls.get(index)?;
        match &mut self.parts[at].content {
            Content::Call(call) if call.progress == Progress::InputStreaming => Some((at, call)),
            Content::Call(_)
            | Content::Text(_)
            | Content::Reasoning(_)
            | Content::Notice { .. } => None,
        }
    }
}
