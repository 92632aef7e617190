//! Where decoders put what happened, and how they fail.

use std::collections::VecDeque;

use kernel::JsonText;

use crate::{CallArguments, ErrorKind, Finish, ProviderError, StepEvent, Usage, sse::FRAME_BYTES};

/// Bytes of text, reasoning and arguments that one step may bring: no answer is longer, and it is all kept in memory.
pub(crate) const STEP_BYTES: usize = FRAME_BYTES;

/// A failure that does not know yet whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: ErrorKind,
    pub(crate) status: Option<u16>,
    /// Reads on from "Provider NAME ".
    pub(crate) what: String,
}

impl Fault {
    pub(crate) fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self {
            kind,
            status: None,
            what: what.into(),
        }
    }

    pub(crate) fn malformed(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Malformed, what)
    }

    pub(crate) fn of(self, provider: &str) -> ProviderError {
        ProviderError {
            kind: self.kind,
            status: self.status,
            sentence: format!("Provider {provider} {}", self.what),
            provider: provider.to_owned(),
        }
    }
}

/// Events that wait for the reader of the stream.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    events: VecDeque<StepEvent>,
    assembled: usize,
}

impl Outbox {
    pub(crate) fn take(&mut self) -> Option<StepEvent> {
        self.events.pop_front()
    }

    /// Counts bytes that the step keeps.
    pub(crate) fn keep(&mut self, bytes: usize) -> Result<(), Fault> {
        self.assembled = self.assembled.saturating_add(bytes);
        if self.assembled > STEP_BYTES {
            return Err(Fault::new(
                ErrorKind::ContentTooLarge,
                format!(
                    "sent an answer of more than {STEP_BYTES} bytes, which is the bound for one step; ask for less at once"
                ),
            ));
        }
        Ok(())
    }

    pub(crate) fn text(&mut self, text: &str) -> Result<(), Fault> {
        if !text.is_empty() {
            self.keep(text.len())?;
            self.events.push_back(StepEvent::TextDelta(text.to_owned()));
        }
        Ok(())
    }

    pub(crate) fn reasoning(&mut self, text: &str) -> Result<(), Fault> {
        if !text.is_empty() {
            self.keep(text.len())?;
            self.events
                .push_back(StepEvent::ReasoningDelta(text.to_owned()));
        }
        Ok(())
    }

    pub(crate) fn reasoning_done(&mut self, meta: Option<JsonText>) {
        self.events.push_back(StepEvent::ReasoningDone { meta });
    }

    pub(crate) fn call_started(&mut self, index: usize, name: &str) {
        self.events.push_back(StepEvent::CallStarted {
            index,
            name: name.to_owned(),
        });
    }

    /// More of a call's arguments, already counted.
    pub(crate) fn call_arguments(&mut self, index: usize, delta: &str) {
        if !delta.is_empty() {
            self.events.push_back(StepEvent::CallArgumentsDelta {
                index,
                delta: delta.to_owned(),
            });
        }
    }

    pub(crate) fn call_finished(
        &mut self,
        index: usize,
        arguments: CallArguments,
        wire_id: Option<String>,
        meta: Option<JsonText>,
    ) {
        self.events.push_back(StepEvent::CallFinished {
            index,
            arguments,
            wire_id,
            meta,
        });
    }

    pub(crate) fn done(&mut self, finish: Finish, usage: Usage, model: Option<String>) {
        self.events.push_back(StepEvent::Done {
            finish,
            usage,
            model,
        });
    }
}
