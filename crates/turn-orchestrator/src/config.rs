//! Settings of the turn: section `turn`.

use std::time::Duration;

use kernel::limits;
use serde::Deserialize;

use crate::Error;

/// Section `turn` of the settings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Steps of a turn; the last one is without Tools, so that the Player gets an answer. At most [`limits::MAX_STEPS`].
    pub steps: u32,
    /// Tool calls of one step; further ones get an error result. At most [`limits::MAX_CALLS_PER_STEP`].
    pub calls_per_step: u32,
    /// Wall-clock time of a turn, in seconds. At most [`limits::MAX_TURN_TIME`].
    pub time_seconds: u64,
    /// How deep colleagues may ask colleagues. At most [`limits::MAX_DELEGATION_DEPTH`].
    pub delegation_depth: u32,
    /// Turns of one Player that run in one process at the same time. At most 10,000.
    pub at_once_per_player: u32,
    /// `PROVIDER/MODEL` for NPCs that name none; empty for no default.
    pub default_model: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            steps: limits::DEFAULT_STEPS,
            calls_per_step: limits::DEFAULT_CALLS_PER_STEP,
            time_seconds: limits::DEFAULT_TURN_TIME.as_secs(),
            delegation_depth: limits::DEFAULT_DELEGATION_DEPTH,
            at_once_per_player: 64,
            default_model: String::new(),
        }
    }
}

/// The most turns of one Player in one process that can be set.
const MAX_AT_ONCE: u32 = 10_000;

impl Config {
    /// Refuses what is out of range, and a default model that is none, naming the setting.
    pub fn check(&self) -> Result<(), Error> {
        let ranges = [
            ("steps", u64::from(self.steps), u64::from(limits::MAX_STEPS)),
            (
                "calls_per_step",
                u64::from(self.calls_per_step),
                u64::from(limits::MAX_CALLS_PER_STEP),
            ),
            (
                "time_seconds",
                self.time_seconds,
                limits::MAX_TURN_TIME.as_secs(),
            ),
            (
                "at_once_per_player",
                u64::from(self.at_once_per_player),
                u64::from(MAX_AT_ONCE),
            ),
        ];
        for (key, value, most) in ranges {
            if value == 0 || value > most {
                return Err(Error::Setting(format!(
                    "turn.{key} is {value}; set it to 1 to {most}"
                )));
            }
        }
        if self.delegation_depth > limits::MAX_DELEGATION_DEPTH {
            return Err(Error::Setting(format!(
                "turn.delegation_depth is {}; set it to 0 to {}",
                self.delegation_depth,
                limits::MAX_DELEGATION_DEPTH
            )));
        }
        if !self.default_model.is_empty()
            && let Err(error) = self.default_model.parse::<llm::ModelName>()
        {
            return Err(Error::Setting(format!("turn.default_model: {error}")));
        }
        Ok(())
    }
}

/// How long an owner may be believed to run a turn that it has not renewed. Longer than any pause that a process survives.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// How often leases are renewed, and those of dead owners looked for.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_beyond_its_hard_maximum_is_refused_by_name() {
        let wrong = Config {
            steps: 51,
            ..Config::default()
        };
        assert_eq!(
            wrong.check().unwrap_err().to_string(),
            "turn.steps is 51; set it to 1 to 50"
        );
        let wrong = Config {
            default_model: "gpt-5".to_owned(),
            ..Config::default()
        };
        assert!(
            wrong
                .check()
                .unwrap_err()
                .to_string()
                .contains("turn.default_model")
        );
        assert!(Config::default().check().is_ok());
    }
}
