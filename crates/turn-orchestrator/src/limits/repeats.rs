//! Finds a model that goes in circles.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use kernel::JsonText;
use serde_json::value::RawValue;

/// What a further equal call means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing: it differs, or is the second.
    Fine,
    /// The model is told that it repeats itself.
    Warn,
    /// Tools are turned off and an answer is forced.
    Stop,
}

/// Counts consecutive calls with equal name, canonical arguments **and** result. A call that is polled for a change gives
/// another result when there is one, and so is never stopped for it.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    last: Option<u64>,
    run: u32,
}

impl Repeats {
    /// The equal call in a row whose result carries a warning.
    pub(crate) const WARN: u32 = 3;
    /// The equal call in a row that turns Tools off.
    pub(crate) const STOP: u32 = 5;

    /// Counts a call that ended with this result.
    pub(crate) fn count(&mut self, tool: &str, arguments: &JsonText, result: &str) -> Verdict {
        let mut hasher = DefaultHasher::new();
        (tool, canonical(arguments.as_raw()), result).hash(&mut hasher);
        let call = hasher.finish();
        self.run = if self.last == Some(call) {
            self.run + 1
        } else {
            1
        };
        self.last = Some(call);
        match self.run {
            Self::STOP.. => Verdict::Stop,
            Self::WARN.. => Verdict::Warn,
            _ => Verdict::Fine,
        }
    }
}

/// The same text for the same value: members of objects are sorted by name. Numbers stay as they are written, because reading
/// them would round them.
fn canonical(value: &RawValue) -> String {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'{') => match serde_json::from_str::<BTreeMap<String, &RawValue>>(text) {
            Ok(members) => {
                let members: Vec<String> = members
                    .into_iter()
                    .map(|(name, value)| format!("{name:?}:{}", canonical(value)))
                    .collect();
                format!("{{{}}}", members.join(","))
            }
            Err(_not_read) => text.to_owned(),
        },
        Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(text) {
            Ok(values) => {
                let values: Vec<String> = values.into_iter().map(canonical).collect();
                format!("[{}]", values.join(","))
            }
            Err(_not_read) => text.to_owned(),
        },
        Some(_) | None => text.to_owned(),
    }
}
