//! Reasoning that a model writes into its answer as `<think>…</think>` (`DeepSeek`, Qwen behind servers without a parser).

use crate::outbox::{Fault, Outbox};

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Bytes of space that may stand before the opening tag. What is held back is not counted yet, so it has its own bound.
const SPACE: usize = 64;

/// Splits content into reasoning and text. Only an answer that **begins** with the tag is split: further on it is something
/// that the model talks about.
#[derive(Debug, Default)]
pub(super) struct Think {
    state: State,
    /// What may still turn out to be (part of) a tag.
    held: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    Inside,
    /// Behind the closing tag: the space that templates put there is not the answer's.
    Behind,
    Answer,
}

impl Think {
    /// Takes more content.
    pub(super) fn content(&mut self, content: &str, out: &mut Outbox) -> Result<(), Fault> {
        if self.state == State::Answer {
            return out.text(content);
        }
        self.held.push_str(content);
        if self.state == State::Start {
            let begin = self.held.trim_start();
            if self.held.len() <= SPACE && begin.len() < OPEN.len() && OPEN.starts_with(begin) {
                return Ok(());
            }
            match begin.strip_prefix(OPEN) {
                Some(inside) => {
                    self.held = inside.to_owned();
                    self.state = State::Inside;
                }
                None => self.state = State::Answer,
            }
        }
        if self.state == State::Inside {
            if let Some(at) = self.held.find(CLOSE) {
                out.reasoning(&self.held[..at])?;
                out.reasoning_done(None);
                self.held.drain(..at + CLOSE.len());
                self.state = State::Behind;
            } else {
                let sure = self.held.len() - held_back(&self.held);
                out.reasoning(&self.held[..sure])?;
                self.held.drain(..sure);
                return Ok(());
            }
        }
        if self.state == State::Behind {
            let answer = self.held.trim_start();
            if answer.is_empty() {
                self.held.clear();
                return Ok(());
            }
            self.held = answer.to_owned();
            self.state = State::Answer;
        }
        self.flush(out)
    }

    /// The content is over, or something else follows it.
    pub(super) fn end(&mut self, out: &mut Outbox) -> Result<(), Fault> {
        match self.state {
            State::Inside => {
                out.reasoning(&std::mem::take(&mut self.held))?;
                out.reasoning_done(None);
                self.state = State::Behind;
                Ok(())
            }
            State::Start | State::Behind | State::Answer => self.flush(out),
        }
    }

    fn flush(&mut self, out: &mut Outbox) -> Result<(), Fault> {
        out.text(&std::mem::take(&mut self.held))
    }
}

/// How many bytes at the end may be the beginning of the closing tag.
fn held_back(text: &str) -> usize {
    (1..CLOSE.len())
        .rev()
        .find(|&length| text.ends_with(&CLOSE[..length]))
        .unwrap_or(0)
}

#[cfg(test)]
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "any other event fails the test"
)]
mod tests {
    use super::*;
    use crate::StepEvent;

    /// Reasoning and text, however the content is cut.
    fn split(content: &str, size: usize) -> (String, String) {
        let mut think = Think::default();
        let mut out = Outbox::default();
        let characters: Vec<char> = content.chars().collect();
        for piece in characters.chunks(size) {
            let piece: String = piece.iter().collect();
            think.content(&piece, &mut out).unwrap();
        }
        think.end(&mut out).unwrap();
        let (mut reasoning, mut text) = (String::new(), String::new());
        while let Some(event) = out.take() {
            match event {
                StepEvent::ReasoningDelta(delta) => reasoning.push_str(&delta),
                StepEvent::TextDelta(delta) => text.push_str(&delta),
                StepEvent::ReasoningDone { meta } => assert_eq!(meta, None),
                other => panic!("{other:?}"),
            }
        }
        (reasoning, text)
    }

    #[test]
    fn space_without_end_is_told_and_not_hoarded() {
        let mut think = Think::default();
        let mut out = Outbox::default();
        let refused = (0..9_000).find_map(|_| think.content(&" ".repeat(1_024), &mut out).err());
        assert!(refused.is_some());
        assert!(think.held.len() <= SPACE);
    }

    #[test]
    fn a_leading_think_tag_is_reasoning_and_any_other_is_text() {
        for size in 1..20 {
            for (content, reasoning, text) in [
                ("<think>a < b</think>\n\nyes", "a < b", "yes"),
                ("\n<think>é</think>🦀 <think>", "é", "🦀 <think>"),
                ("say <think>x</think>", "", "say <think>x</think>"),
                ("<thin", "", "<thin"),
                ("<think>cut </thi", "cut </thi", ""),
                (" plain", "", " plain"),
            ] {
                assert_eq!(
                    split(content, size),
                    (reasoning.to_owned(), text.to_owned()),
                    "{content:?} by {size}"
                );
            }
        }
    }
}
