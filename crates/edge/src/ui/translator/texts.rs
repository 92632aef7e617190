//! Text and reasoning: how much of each Part the client was told.

use std::collections::BTreeMap;

use crate::ui::chunk::Chunk;

/// The Parts by their place in the Message.
#[derive(Debug, Default)]
pub(super) struct Texts(BTreeMap<u32, Text>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextKind {
    Text,
    Reasoning,
}

#[derive(Debug)]
struct Text {
    kind: TextKind,
    sent_bytes: usize,
    ended: bool,
}

impl Texts {
    pub(super) fn whole(
        &mut self,
        position: u32,
        kind: TextKind,
        text: &str,
        streaming: bool,
        out: &mut Vec<Chunk>,
    ) {
        self.open(position, kind, out);
        let sent = self.0.get(&position).map_or(0, |known| known.sent_bytes);
        if let Some(rest) = text.get(sent..).filter(|rest| !rest.is_empty()) {
            self.add(position, kind, rest.to_owned(), out);
        }
        if !streaming {
            self.end(position, out);
        }
    }

    pub(super) fn open(&mut self, position: u32, kind: TextKind, out: &mut Vec<Chunk>) {
        if self.0.contains_key(&position) {
            return;
        }
        let text = Text {
            kind,
            sent_bytes: 0,
            ended: false,
        };
        let id = text.id(position);
        out.push(match kind {
            TextKind::Text => Chunk::TextStart { id },
            TextKind::Reasoning => Chunk::ReasoningStart { id },
        });
        self.0.insert(position, text);
    }

    pub(super) fn add(
        &mut self,
        position: u32,
        kind: TextKind,
        delta: String,
        out: &mut Vec<Chunk>,
    ) {
        self.open(position, kind, out);
        let Some(text) = self.0.get_mut(&position).filter(|text| !text.ended) else {
            return;
        };
        text.sent_bytes += delta.len();
        let id = text.id(position);
        out.push(match text.kind {
            TextKind::Text => Chunk::TextDelta { id, delta },
            TextKind::Reasoning => Chunk::ReasoningDelta { id, delta },
        });
    }

    pub(super) fn end(&mut self, position: u32, out: &mut Vec<Chunk>) {
        if let Some(text) = self.0.get_mut(&position) {
            text.end(position, out);
        }
    }

    pub(super) fn end_all(&mut self, out: &mut Vec<Chunk>) {
        for (position, text) in &mut self.0 {
            text.end(*position, out);
        }
    }
}

impl Text {
    fn id(&self, position: u32) -> String {
        match self.kind {
            TextKind::Text => format!("text-{position}"),
            TextKind::Reasoning => format!("reasoning-{position}"),
        }
    }

    fn end(&mut self, position: u32, out: &mut Vec<Chunk>) {
        if self.ended {
            return;
        }
        self.ended = true;
        let id = self.id(position);
        out.push(match self.kind {
            TextKind::Text => Chunk::TextEnd { id },
            TextKind::Reasoning => Chunk::ReasoningEnd { id },
        });
    }
}
