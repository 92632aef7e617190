//! The schema of a Tool's arguments, in its two forms: the one that Providers are sent, and the one that arguments are judged by.
//!
//! A server's schema may be anything. It is read once into a document that has one kind of reference (`relax`), from which both
//! forms are made: whatever a form cannot say, it allows. A server judges its arguments itself; ours is the help that comes sooner.
//!
//! **Invariants.** For objects, what the server's schema accepts, both forms accept. Nothing is ever fetched for a schema. Neither
//! reading a schema nor judging by one takes longer than its bounds say, whatever is written in it (`cost`, patterns without
//! backtracking).

mod cache;
mod cost;
mod kept;
mod keywords;
mod provider;
mod reference;
mod relax;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use jsonschema::{Draft, PatternOptions, Validator};
use kernel::JsonText;
use serde_json::Value;

use crate::limits::cut_end;
use cost::Cost;
use relax::{Age, Document, Patterns};

pub(crate) use cache::Schemas;

/// Bytes of a schema that is read at all.
const SCHEMA_BYTES: usize = 256 * 1_024;
/// Bytes of one compiled pattern.
const PATTERN_BYTES: usize = 64 * 1_024;
/// Faults of arguments that the model is told at once.
const TOLD_FAULTS: usize = 5;
/// Bytes of one fault.
const FAULT_BYTES: usize = 300;

/// A schema that was read.
#[derive(Debug)]
pub(crate) struct Schema {
    /// What Providers are sent: an object at the top, without what some of them refuse.
    pub(crate) sent: JsonText,
    validator: Validator,
    /// What judging costs. None for a schema of ours.
    cost: Option<Cost>,
}

impl Schema {
    /// A schema of ours, which is sent as it stands. It is a constant, and a test compiles it.
    pub(crate) fn ours(schema: &Value) -> Result<Self, String> {
        Ok(Self {
            sent: JsonText::of(schema),
            validator: jsonschema::validator_for(schema).map_err(|error| error.to_string())?,
            cost: None,
        })
    }

    /// Reads a server's schema.
    ///
    /// # Errors
    /// A sentence that says why no Tool can be offered with it. What is only odd is left out of it.
    pub(crate) fn of(text: &str) -> Result<Self, String> {
        if text.len() > SCHEMA_BYTES {
            return Err(format!(
                "its schema has {} bytes; at most {SCHEMA_BYTES} are read",
                text.len()
            ));
        }
        let value = JsonText::parse(text)
            .map_err(|error| format!("its schema cannot be read: {error}"))?
            .to_value()
            .map_err(|_number| "its schema holds a number that cannot be read".to_owned())?;
        let document = Document::read(&value, Patterns::Kept)?;
        let cost = Cost::of(&document)?;
        let validator = match compile(&document) {
            Ok(validator) => validator,
            // Look-around and back-references need an engine that can be made to run for ever, and so are not judged.
            Err(_refused) => {
                compile(&Document::read(&value, Patterns::Dropped)?).map_err(|error| {
                    let said = cut_end(&error, FAULT_BYTES).into_owned();
                    format!("its schema cannot be used: {said}")
                })?
            }
        };
        Ok(Self {
            sent: provider::sent(&document),
            validator,
            cost: Some(cost),
        })
    }

    /// Says what is wrong with arguments, for the model to mend: at most [`TOLD_FAULTS`] faults, without the values. What would cost too
    /// much to judge is let through: its server judges it.
    pub(crate) fn judge(&self, arguments: &JsonText) -> Result<(), String> {
        let value = arguments
            .to_value()
            .map_err(|error| format!(": they cannot be read: {error}"))?;
        if let Some(cost) = &self.cost
            && !cost.allows(&value, arguments.as_str().len())
        {
            return Ok(());
        }
        if self.validator.is_valid(&value) {
            return Ok(());
        }
        let mut faults = self.validator.iter_errors(&value);
        let mut sentence = String::new();
        for fault in faults.by_ref().take(TOLD_FAULTS) {
            let at = fault.instance_path().to_string();
            let at = if at.is_empty() { "the arguments" } else { &at };
            let said = format!("{at}: {}", fault.masked());
            let mark = if sentence.is_empty() { ":" } else { ";" };
            let _infallible = write!(sentence, "{mark} {}", cut_end(&said, FAULT_BYTES));
        }
        if faults.next().is_some() {
            sentence.push_str("; and more");
        }
        Err(sentence)
    }
}

/// Compiles without a look outside, and with patterns that take linear time.
fn compile(document: &Document) -> Result<Validator, String> {
    jsonschema::options()
        .offline()
        .with_draft(match document.age {
            Age::Old => Draft::Draft7,
            Age::New => Draft::Draft202012,
        })
        .should_validate_formats(false)
        .with_pattern_options(
            PatternOptions::regex()
                .size_limit(PATTERN_BYTES)
                .dfa_size_limit(PATTERN_BYTES),
        )
        .build(&document.joined())
        .map_err(|error| error.to_string())
}
