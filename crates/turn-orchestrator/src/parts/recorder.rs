//! Turns what a model does into Parts and events.

mod calls;

use std::{collections::BTreeSet, mem, sync::Arc};

use kernel::{
    Clock, ConversationId, JsonText, MessageId, TurnId, clean_text, floor_char_boundary,
    limits::PART_BYTES,
};
use llm::{CallArguments, Usage};

use super::{
    Content, Event, NewMedia, NoticeCode, Outcome, Part, Progress, Prose, ProviderMeta, TurnEnd,
};

/// What a Part counts besides its text: it has a row, a place in every snapshot, and an event or two, however little it says.
const PART_OVERHEAD: usize = 256;

/// What of a Message must be written: the Parts that changed, and the number of the last event that they contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    /// The Parts that changed since they were last taken.
    pub(crate) parts: Vec<Part>,
    /// The last event.
    pub(crate) last_event: u64,
    /// Steps begun.
    pub(crate) step: u32,
    /// What calls gave that is no text, and is not known to be stored. It goes with the results that name it.
    pub(crate) media: Vec<NewMedia>,
}

/// Makes Parts and events of one turn. It does no input or output: events and changed Parts are taken out of it.
#[derive(Debug)]
pub(crate) struct Recorder {
    clock: Arc<dyn Clock>,
    /// The model, which is written beside what it wants back.
    model: String,
    parts: Vec<Part>,
    step: u32,
    /// The first Part of the step.
    step_start: usize,
    /// The Part that text or reasoning is added to.
    open: Option<usize>,
    /// The step's calls, by the index that the Provider's stream gives them.
    calls: Vec<usize>,
    in_step: bool,
    number: u64,
    events: Vec<(u64, Event)>,
    changed: BTreeSet<usize>,
    bytes: usize,
    /// Bytes of text since changes were last taken.
    fresh: usize,
    /// Media that are not known to be stored.
    media: Vec<NewMedia>,
    /// How many of them were in the changes that were last taken.
    media_taken: usize,
}

impl Recorder {
    /// Starts: the first event says which turn it is.
    pub(crate) fn start(
        clock: Arc<dyn Clock>,
        model: String,
        turn: TurnId,
        conversation: ConversationId,
        message: MessageId,
    ) -> Self {
        let mut recorder = Self {
            clock,
            model,
            parts: Vec::new(),
            step: 0,
            step_start: 0,
            open: None,
            calls: Vec::new(),
            in_step: false,
            number: 0,
            events: Vec::new(),
            changed: BTreeSet::new(),
            bytes: 0,
            fresh: 0,
            media: Vec::new(),
            media_taken: 0,
        };
        recorder.tell(Event::TurnStarted {
            turn,
            conversation,
            message,
        });
        recorder
    }

    /// The Parts of the step so far.
    pub(crate) fn step_parts(&self) -> &[Part] {
        &self.parts[self.step_start..]
    }

    /// Steps begun.
    pub(crate) const fn step(&self) -> u32 {
        self.step
    }

    /// Bytes of everything that was recorded; a Part counts some of its own.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of text that were recorded since changes were last taken.
    pub(crate) const fn fresh_bytes(&self) -> usize {
        self.fresh
    }

    /// The number of the last event.
    pub(crate) const fn last_event(&self) -> u64 {
        self.number
    }

    /// Calls of the step so far.
    pub(crate) fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Whether there are changes to take.
    pub(crate) fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The events since they were last taken.
    pub(crate) fn take_events(&mut self) -> Vec<(u64, Event)> {
        mem::take(&mut self.events)
    }

    /// The changed Parts since they were last taken.
    pub(crate) fn take_changes(&mut self) -> Written {
        self.fresh = 0;
        self.media_taken = self.media.len();
        Written {
            parts: mem::take(&mut self.changed)
                .into_iter()
                .map(|at| self.parts[at].clone())
                .collect(),
            last_event: self.number,
            step: self.step,
            media: self.media.clone(),
        }
    }

    /// What was taken last is stored: its bytes are not needed any more.
    pub(crate) fn changes_were_kept(&mut self) {
        self.media.drain(..mem::take(&mut self.media_taken));
    }

    /// Everything counts as changed again: what was taken could not be written.
    pub(crate) fn changes_were_lost(&mut self) {
        self.changed = (0..self.parts.len()).collect();
        self.media_taken = 0;
    }

    /// A step starts. The same number again is a retry of it.
    pub(crate) fn begin_step(&mut self, step: u32) {
        self.close_prose();
        self.step = step;
        self.in_step = true;
        self.step_start = self.parts.len();
        self.calls.clear();
        self.tell(Event::StepStarted { step });
    }

    /// A step ended, if one was under way.
    pub(crate) fn end_step(&mut self, usage: Usage) {
        self.close_prose();
        if !mem::take(&mut self.in_step) {
            return;
        }
        self.tell(Event::StepEnded {
            step: self.step,
            usage,
        });
    }

    /// More text.
    pub(crate) fn text(&mut self, delta: &str) {
        for piece in pieces(&clean_text(delta)) {
            let at = self.open_prose(Kind::Text, piece.len());
            self.extend(at, piece);
            let event = Event::TextDelta {
                position: number(at),
                delta: piece.to_owned(),
            };
            self.tell_of(at, event);
        }
    }

    /// More reasoning.
    pub(crate) fn reasoning(&mut self, delta: &str) {
        for piece in pieces(&clean_text(delta)) {
            let at = self.open_prose(Kind::Reasoning, piece.len());
            self.extend(at, piece);
            let event = Event::ReasoningDelta {
                position: number(at),
                delta: piece.to_owned(),
            };
            self.tell_of(at, event);
        }
    }

    /// The reasoning so far is whole, and this is to be sent back with it. A Provider may hide what it thought and still want
    /// it back.
    pub(crate) fn reasoning_done(&mut self, meta: Option<JsonText>) {
        let open = self
            .open
            .filter(|&at| matches!(self.parts[at].content, Content::Reasoning(_)));
        let at = match (open, &meta) {
            (Some(at), _) => at,
            (None, Some(_)) => self.open_prose(Kind::Reasoning, 0),
            (None, None) => return,
        };
        let meta = self.provider_meta(meta);
        self.bytes += meta.as_ref().map_or(0, |meta| meta.meta.as_str().len());
        if let Content::Reasoning(prose) = &mut self.parts[at].content {
            prose.meta = meta;
        }
        self.close_prose();
    }

    /// Something that the Player should know.
    pub(crate) fn notice(&mut self, code: NoticeCode, sentence: &str) {
        self.close_prose();
        let sentence = clean_text(sentence).into_owned();
        let at = self.add(Content::Notice {
            code,
            sentence: sentence.clone(),
        });
        self.parts[at].ended_at = Some(self.parts[at].started_at);
        self.grow(sentence.len());
        self.tell_of(
            at,
            Event::Notice {
                position: number(at),
                code,
                sentence,
            },
        );
    }

    /// Settles everything that is open: prose ends, calls that the model was writing are refused, calls that run are interrupted.
    pub(crate) fn settle(&mut self, why: &str) {
        self.close_prose();
        for at in 0..self.parts.len() {
            let Content::Call(call) = &self.parts[at].content else {
                continue;
            };
            match call.progress {
                Progress::InputStreaming => {
                    // As of every call whose arguments were cut: in JSON, six bytes can stand for one.
                    let kept = floor_char_boundary(&call.input, CallArguments::RAW_BYTES);
                    let input = JsonText::of(&&call.input[..kept]);
                    self.refuse(at, input, Outcome::Interrupted(why.to_owned()));
                }
                Progress::Running => {
                    self.call_ended(at, Outcome::Interrupted(why.to_owned()), Vec::new());
                }
                Progress::Ended(_) | Progress::Refused(_) => {}
            }
        }
    }

    /// The turn ended. Everything must have been settled.
    pub(crate) fn end_turn(&mut self, end: TurnEnd, usage: Usage) {
        self.close_prose();
        self.tell(Event::TurnEnded {
            end,
            usage,
            steps: self.step,
        });
    }

    /// The Part that prose of this kind goes to, with room for `more` bytes.
    fn open_prose(&mut self, kind: Kind, more: usize) -> usize {
        if let Some(at) = self.open {
            match (&self.parts[at].content, kind) {
                (Content::Text(prose), Kind::Text)
                | (Content::Reasoning(prose), Kind::Reasoning)
                    if prose.text.len() + more <= PART_BYTES =>
                {
                    return at;
                }
                _ => self.close_prose(),
            }
        }
        let prose = Prose {
            streaming: true,
            ..Prose::default()
        };
        let at = self.add(match kind {
            Kind::Text => Content::Text(prose),
            Kind::Reasoning => Content::Reasoning(prose),
        });
        self.open = Some(at);
        let position = number(at);
        self.tell_of(
            at,
            match kind {
                Kind::Text => Event::TextStarted { position },
                Kind::Reasoning => Event::ReasoningStarted { position },
            },
        );
        at
    }

    fn extend(&mut self, at: usize, piece: &str) {
        if let Content::Text(prose) | Content::Reasoning(prose) = &mut self.parts[at].content {
            prose.text.push_str(piece);
        }
        self.grow(piece.len());
    }

    fn close_prose(&mut self) {
        let Some(at) = self.open.take() else {
            return;
        };
        self.parts[at].ended_at = Some(self.clock.now());
        let position = number(at);
        let event = match &mut self.parts[at].content {
            Content::Text(prose) => {
                prose.streaming = false;
                Event::TextEnded { position }
            }
            Content::Reasoning(prose) => {
                prose.streaming = false;
                Event::ReasoningEnded { position }
            }
            Content::Call(_) | Content::Notice { .. } => return,
        };
        self.tell_of(at, event);
    }

    fn add(&mut self, content: Content) -> usize {
        let at = self.parts.len();
        self.bytes += PART_OVERHEAD;
        self.parts.push(Part {
            position: number(at),
            step: self.step,
            content,
            started_at: self.clock.now(),
            ended_at: None,
            last_event: self.number,
        });
        at
    }

    fn provider_meta(&self, meta: Option<JsonText>) -> Option<ProviderMeta> {
        meta.map(|meta| ProviderMeta {
            from: self.model.clone(),
            meta,
        })
    }

    fn grow(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.fresh += bytes;
    }

    fn tell(&mut self, event: Event) {
        self.number += 1;
        self.events.push((self.number, event));
    }

    fn tell_of(&mut self, at: usize, event: Event) {
        self.tell(event);
        self.parts[at].last_event = self.number;
        self.changed.insert(at);
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Reasoning,
}

/// Positions count Parts of one Message, of which there are far fewer than `u32::MAX`.
fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// A delta in pieces of at most [`PART_BYTES`].
fn pieces(delta: &str) -> impl Iterator<Item = &str> {
    let mut rest = delta;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, after) = rest.split_at(floor_char_boundary(rest, PART_BYTES));
        rest = after;
        Some(piece)
    })
}
