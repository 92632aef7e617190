//! A turn as a person reads it, while it happens.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    time::Duration,
};

use kernel::{JsonText, Timestamp, strip_control};

use super::{Bounds, Ink, Screen, excerpt, json_excerpt};
use crate::client::{Chunk, Ending, Finished, Notice, Started};

#[cfg(test)]
mod tests;

/// Renders chunks.
#[derive(Debug)]
pub struct Transcript<W> {
    screen: Screen<W>,
    npc: String,
    began: Timestamp,
    now: Timestamp,
    voice: Option<Voice>,
    calls: BTreeMap<String, Call>,
    started: Started,
    steps: usize,
    ending: Option<Ending>,
    finished: Finished,
}

/// Who is in the middle of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Voice {
    Text,
    Reasoning,
}

#[derive(Debug)]
struct Call {
    /// 1, 2, … in the order of starting: two calls of one Tool can run at the same time.
    number: usize,
    tool: String,
    since: Timestamp,
    state: CallState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallState {
    /// The model is writing it.
    Written,
    /// It runs.
    InFlight,
    Succeeded,
    Failed,
}

impl<W: Write> Transcript<W> {
    /// A transcript of an answer of this NPC.
    pub fn new(screen: Screen<W>, npc: &str, now: Timestamp) -> Self {
        Self {
            screen,
            npc: one_line(npc),
            began: now,
            now,
            voice: None,
            calls: BTreeMap::new(),
            started: Started::default(),
            steps: 0,
            ending: None,
            finished: Finished::default(),
        }
    }

    /// What the stream said of itself at its start.
    pub const fn started(&self) -> &Started {
        &self.started
    }

    /// What the Player said.
    pub fn question(&mut self, text: &str) -> io::Result<()> {
        let heading = self.paint(Ink::Speaker, "you");
        self.screen.heading(&heading)?;
        self.screen.flow(text)?;
        self.screen.end_flow()?;
        self.screen.gap()
    }

    /// One chunk of the answer.
    pub fn chunk(&mut self, chunk: Chunk, now: Timestamp) -> io::Result<()> {
        self.now = now;
        match chunk {
            Chunk::Start(started) => self.started = started,
            Chunk::StepStart => self.steps += 1,
            Chunk::TextStart => self.speak(Voice::Text)?,
            Chunk::TextDelta(delta) => self.say(Voice::Text, &delta)?,
            Chunk::ReasoningStart => self.speak(Voice::Reasoning)?,
            Chunk::ReasoningDelta(delta) => self.say(Voice::Reasoning, &delta)?,
            Chunk::TextEnd | Chunk::ReasoningEnd => self.fall_silent()?,
            Chunk::ToolInputStart { call, tool } => {
                self.call(&call, &tool, CallState::Written);
            }
            Chunk::ToolInput { call, tool, input } => self.sent(&call, &tool, &input)?,
            Chunk::ToolRefused {
                call,
                tool,
                input,
                sentence,
            } => self.refused(&call, &tool, &input, &sentence)?,
            Chunk::ToolOutput { call, output } => self.came_back(&call, &output)?,
            Chunk::ToolFailed { call, sentence } => self.failed(&call, &sentence)?,
            // How the turn ended is told at its end.
            Chunk::Notice(notice) if ["failed", "stopped"].contains(&notice.code.as_str()) => {}
            Chunk::File { url, media_type } => self.file(&url, &media_type)?,
            Chunk::Notice(notice) => self.notice(&notice)?,
            Chunk::Error(sentence) => {
                self.ending = Some(Ending::Failed);
                self.aside(Ink::Bad, "failed", &sentence)?;
            }
            Chunk::Abort(reason) => {
                self.ending = Some(Ending::Stopped);
                self.aside(
                    Ink::Notice,
                    "stopped",
                    reason.as_deref().unwrap_or("the turn was stopped"),
                )?;
            }
            Chunk::Finish(finished) => {
                if self.ending.is_none() {
                    self.ending = Some(finished.ending());
                }
                self.finished = finished;
            }
            Chunk::Other => {}
        }
        Ok(())
    }

    /// Shows that something is being waited for. Does nothing where progress cannot be taken back.
    pub fn tick(&mut self, now: Timestamp) -> io::Result<()> {
        const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
        if !self.screen.takes_status() {
            return Ok(());
        }
        let frame = usize::try_from(now.since(self.began).as_millis() / 100).unwrap_or(0);
        let text = format!("{} {}", FRAMES[frame % FRAMES.len()], self.waiting_for(now));
        self.screen.status(&text)
    }

    fn waiting_for(&self, now: Timestamp) -> String {
        let mut running = self
            .calls
            .values()
            .filter(|call| call.state == CallState::InFlight);
        if let Some(first) = running.next() {
            let seconds = now.since(first.since).as_secs();
            return match running.count() {
                0 => format!("{} is running, {seconds} s", first.tool),
                more => format!("{} and {more} more are running, {seconds} s", first.tool),
            };
        }
        let seconds = now.since(self.now).as_secs();
        self.calls
            .values()
            .find(|call| call.state == CallState::Written)
            .map_or_else(
                || format!("{} is thinking, {seconds} s", self.npc),
                |call| format!("{} writes a call of {}, {seconds} s", self.npc, call.tool),
            )
    }

    /// Ends the transcript: calls that never came back are named, and the turn is summed up.
    pub fn end(&mut self, now: Timestamp) -> io::Result<Ending> {
        self.fall_silent()?;
        let ending = self.ending.unwrap_or(Ending::BrokenOff);
        let open: Vec<String> = self
            .calls
            .values()
            .filter(|call| matches!(call.state, CallState::Written | CallState::InFlight))
            .map(|call| format!("{} {}", call.number, call.tool))
            .collect();
        for call in open {
            self.screen.gap()?;
            let heading = format!(
                "{}  {}",
                self.paint(Ink::Tool, &format!("tool {call}")),
                self.paint(Ink::Notice, "still in flight")
            );
            self.screen.heading(&heading)?;
        }
        if ending == Ending::BrokenOff {
            self.aside(
                Ink::Bad,
                "broken off",
                "the stream ended before the turn did; the turn may go on in the Village",
            )?;
        }
        self.screen.gap()?;
        let (ink, word) = match ending {
            Ending::Finished => (Ink::Good, "done"),
            Ending::Stopped => (Ink::Notice, "stopped"),
            Ending::Failed => (Ink::Bad, "failed"),
            Ending::BrokenOff => (Ink::Bad, "broken off"),
        };
        let line = format!("{}  {}", self.paint(ink, word), self.summary(now));
        self.screen.heading(&line)?;
        Ok(ending)
    }

    fn summary(&self, now: Timestamp) -> String {
        let mut facts = vec![
            seconds(now.since(self.began)),
            counted(self.steps, "step", "steps"),
        ];
        if !self.calls.is_empty() {
            let failed = self
                .calls
                .values()
                .filter(|call| call.state == CallState::Failed)
                .count();
            let calls = counted(self.calls.len(), "Tool call", "Tool calls");
            facts.push(match failed {
                0 => calls,
                failed => format!("{calls} ({failed} failed)"),
            });
        }
        if let Some(usage) = &self.finished.usage {
            let tokens = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), thousands);
            facts.push(format!(
                "tokens {} in, {} out",
                tokens(usage.input_tokens),
                tokens(usage.output_tokens)
            ));
        }
        if !self.finished.limits.is_empty() {
            facts.push(format!(
                "limits met: {}",
                one_line(&self.finished.limits.join(", "))
            ));
        }
        facts.join(" · ")
    }

    fn paint(&self, ink: Ink, text: &str) -> String {
        self.screen.style().paint(ink, text)
    }

    fn speak(&mut self, voice: Voice) -> io::Result<()> {
        self.fall_silent()?;
        self.screen.gap()?;
        let heading = match voice {
            Voice::Text => self.paint(Ink::Speaker, &self.npc),
            Voice::Reasoning => self.paint(Ink::Quiet, &format!("{} thinks", self.npc)),
        };
        self.screen.heading(&heading)?;
        self.voice = Some(voice);
        Ok(())
    }

    fn say(&mut self, voice: Voice, delta: &str) -> io::Result<()> {
        if self.voice != Some(voice) {
            self.speak(voice)?;
        }
        self.screen.flow(delta)
    }

    fn fall_silent(&mut self) -> io::Result<()> {
        self.voice = None;
        self.screen.end_flow()
    }

    /// Notes how far a call is. A call that was not announced is new.
    fn call(&mut self, id: &str, tool: &str, state: CallState) -> (usize, String, Duration) {
        let number = self.calls.len() + 1;
        let now = self.now;
        let call = self.calls.entry(id.to_owned()).or_insert_with(|| Call {
            number,
            tool: one_line(tool),
            since: now,
            state,
        });
        let elapsed = now.since(call.since);
        if state == CallState::InFlight {
            call.since = now;
        }
        call.state = state;
        (call.number, call.tool.clone(), elapsed)
    }

    fn sent(&mut self, id: &str, tool: &str, input: &JsonText) -> io::Result<()> {
        let (number, tool, _) = self.call(id, tool, CallState::InFlight);
        self.tool_heading(number, &tool, "")?;
        self.input(input)
    }

    fn refused(&mut self, id: &str, tool: &str, input: &JsonText, why: &str) -> io::Result<()> {
        let (number, tool, _) = self.call(id, tool, CallState::Failed);
        let verdict = format!("  {}", self.paint(Ink::Bad, "refused, not run"));
        self.tool_heading(number, &tool, &verdict)?;
        self.input(input)?;
        self.lines(&excerpt(why, Bounds::TOOL), Some(Ink::Bad))
    }

    fn came_back(&mut self, id: &str, output: &JsonText) -> io::Result<()> {
        let (number, tool, elapsed) = self.call(id, "?", CallState::Succeeded);
        let verdict = format!(
            "  {} {}",
            self.paint(Ink::Good, "came back"),
            self.paint(Ink::Quiet, &format!("after {}", seconds(elapsed)))
        );
        self.tool_heading(number, &tool, &verdict)?;
        let lines = json_excerpt(output, Bounds::TOOL);
        if lines.is_empty() {
            return self.screen.indented("(nothing)", Some(Ink::Quiet));
        }
        self.lines(&lines, None)
    }

    fn failed(&mut self, id: &str, why: &str) -> io::Result<()> {
        let (number, tool, elapsed) = self.call(id, "?", CallState::Failed);
        let verdict = format!(
            "  {} {}",
            self.paint(Ink::Bad, "FAILED"),
            self.paint(Ink::Quiet, &format!("after {}", seconds(elapsed)))
        );
        self.tool_heading(number, &tool, &verdict)?;
        self.lines(&excerpt(why, Bounds::TOOL), Some(Ink::Bad))
    }

    fn tool_heading(&mut self, number: usize, tool: &str, verdict: &str) -> io::Result<()> {
        self.fall_silent()?;
        self.screen.gap()?;
        let heading = format!(
            "{}{verdict}",
            self.paint(Ink::Tool, &format!("tool {number} {tool}"))
        );
        self.screen.heading(&heading)
    }

    fn input(&mut self, input: &JsonText) -> io::Result<()> {
        if matches!(input.as_str(), "{}" | "null") {
            return self.screen.indented("sent nothing", Some(Ink::Quiet));
        }
        let mut lines = json_excerpt(input, Bounds::TOOL);
        if let Some(first) = lines.first_mut() {
            first.insert_str(0, "sent ");
        }
        self.lines(&lines, Some(Ink::Quiet))
    }

    fn lines(&mut self, lines: &[String], ink: Option<Ink>) -> io::Result<()> {
        for line in lines {
            self.screen.indented(line, ink)?;
        }
        Ok(())
    }

    fn file(&mut self, url: &str, media_type: &str) -> io::Result<()> {
        let text = format!("{} at {}", one_line(media_type), one_line(url));
        self.aside(Ink::Quiet, "file", &text)
    }

    fn notice(&mut self, notice: &Notice) -> io::Result<()> {
        self.aside(Ink::Notice, "notice", &notice.text)
    }

    fn aside(&mut self, ink: Ink, word: &str, text: &str) -> io::Result<()> {
        self.fall_silent()?;
        self.screen.gap()?;
        let heading = self.paint(ink, word);
        self.screen.heading(&heading)?;
        self.lines(&excerpt(text, Bounds::TOOL), None)
    }
}

/// Others' text in a line of ours: stripped, and at most 80 characters of it.
pub fn one_line(text: &str) -> String {
    strip_control(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(80)
        .collect()
}

fn seconds(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        return format!("{} ms", duration.as_millis());
    }
    format!("{:.1} s", duration.as_secs_f64())
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// 1234567 as `1,234,567`.
fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}
