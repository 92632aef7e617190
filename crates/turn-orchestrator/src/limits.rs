//! The ceilings of a turn, and what is done when one is met.

mod repeats;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, time::Duration};

use kernel::{floor_char_boundary, limits, strip_control};
use serde::{Deserialize, Serialize};

use crate::Config;

pub(crate) use repeats::{Repeats, Verdict};

/// Bytes of all Parts of one answer. Snapshots travel in one gRPC message of [`limits::RPC_MESSAGE_BYTES`], with room to spare.
pub(crate) const ANSWER_BYTES: usize = 4 * 1_024 * 1_024;
/// A ceiling that a turn can meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Limit {
    /// Steps.
    Steps,
    /// Tool calls of one step.
    CallsPerStep,
    /// Tool calls of the turn.
    Calls,
    /// Wall-clock time.
    Time,
    /// Equal calls with equal results.
    Repeats,
}

impl Limit {
    /// Whether it leads to the end of the turn, and not only to an error result.
    pub(crate) const fn ends_turn(self) -> bool {
        match self {
            Self::Steps | Self::Calls | Self::Time | Self::Repeats => true,
            Self::CallsPerStep => false,
        }
    }

    /// The word that wide events and stored turns use.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::CallsPerStep => "calls-per-step",
            Self::Calls => "calls",
            Self::Time => "time",
            Self::Repeats => "repeats",
        }
    }
}

/// The ceilings as the Operator set them, within the hard maxima.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Provider calls of a turn, the last one without Tools.
    pub(crate) steps: u32,
    /// Tool calls of one step that run; further ones get an error result.
    pub(crate) calls_per_step: usize,
    /// Wall-clock time of a turn.
    pub(crate) time: Duration,
}

impl Limits {
    /// Reads the settings. What is out of range is moved to the nearest end of it: [`Config::check`] has already refused that.
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            steps: config.steps.clamp(1, limits::MAX_STEPS),
            calls_per_step: usize::try_from(
                config.calls_per_step.clamp(1, limits::MAX_CALLS_PER_STEP),
            )
            .unwrap_or(usize::MAX),
            time: Duration::from_secs(config.time_seconds)
                .clamp(Duration::from_secs(1), limits::MAX_TURN_TIME),
        }
    }

    /// What a Player is told when this ceiling is met.
    pub(crate) fn sentence(&self, limit: Limit) -> String {
        match limit {
            Limit::Steps => format!(
                "The turn reached its limit of {} steps, so it had to end with what it knew.",
                self.steps
            ),
            Limit::CallsPerStep => format!(
                "The NPC asked for more than {} Tool calls in one step; the rest did not run.",
                self.calls_per_step
            ),
            Limit::Calls => format!(
                "The turn reached its limit of {} Tool calls, so it had to end with what it knew.",
                limits::CALLS_PER_TURN
            ),
            Limit::Time => format!(
                "The turn reached its limit of {} seconds and was ended.",
                self.time.as_secs()
            ),
            Limit::Repeats => format!(
                "The NPC made the same call with the same result {} times, so its Tools were turned off for this turn.",
                Repeats::STOP
            ),
        }
    }
}

/// Cuts a text to `most` bytes for the model: 40 % from its head and 60 % from its tail, because errors stand at the end. The
/// marker between them names the true total.
pub(crate) fn cut_middle(text: &str, most: usize) -> Cow<'_, str> {
    /// Room for the marker's words and two numbers of up to 20 digits.
    const MARKER: usize = 96;
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let room = most.saturating_sub(MARKER);
    let head = floor_char_boundary(text, room * 2 / 5);
    let mut tail = text.len() - (room - room * 2 / 5);
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    Cow::Owned(format!(
        "{}\n[… {} of {} bytes left out here …]\n{}",
        &text[..head],
        tail - head,
        text.len(),
        &text[tail..]
    ))
}

/// Cuts a text at its end, to `most` bytes and an ellipsis.
pub(crate) fn cut_end(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", &text[..floor_char_boundary(text, most)]))
}

/// A text from outside as one line of a list: without control characters and what else ends a line, cut at `most` bytes.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    // More than can be kept is not looked at.
    let text = &text[..floor_char_boundary(text, most.saturating_mul(4))];
    let spaced = text.replace(
        [
            '\n', '\r', '\t', '\u{000B}', '\u{000C}', '\u{0085}', '\u{2028}', '\u{2029}',
        ],
        " ",
    );
    cut_end(strip_control(&spaced).trim(), most).into_owned()
}

/// A number as a person reads it: 1,234,567.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut read = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            read.push(',');
        }
        read.push(digit);
    }
    read
}
