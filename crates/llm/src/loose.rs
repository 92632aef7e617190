//! A JSON value that may be of another type than its documentation says.

use std::borrow::Cow;

use kernel::{JsonText, floor_char_boundary};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A value as it came, read as what it turns out to be. Used wherever endpoints are known to differ, so that one odd field
/// never costs the step.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(transparent)]
pub(crate) struct Loose<'j>(#[serde(borrow)] pub(crate) &'j RawValue);

impl<'j> Loose<'j> {
    /// The text of a string; `None` for anything else.
    pub(crate) fn text(self) -> Option<Cow<'j, str>> {
        let raw = self.0.get();
        let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
        if !inner.contains('\\') {
            return Some(Cow::Borrowed(inner));
        }
        let read = serde_json::from_str(raw).or_else(|_lone_surrogate| {
            // Escapes that stand for half a character: JsonText replaces them.
            JsonText::parse(raw).map_or_else(
                |_| Ok(String::new()),
                |text| serde_json::from_str(text.as_str()),
            )
        });
        Some(Cow::Owned(read.unwrap_or_default()))
    }

    /// The text of a string that is not empty, cut to what a name or an id may be.
    pub(crate) fn word(self) -> Option<Cow<'j, str>> {
        const MAX: usize = 256;
        let text = self.text().filter(|text| !text.is_empty())?;
        Some(match text {
            Cow::Borrowed(text) => Cow::Borrowed(&text[..floor_char_boundary(text, MAX)]),
            Cow::Owned(mut text) => {
                text.truncate(floor_char_boundary(&text, MAX));
                Cow::Owned(text)
            }
        })
    }

    /// A whole number, also one that somebody wrote as a string.
    pub(crate) fn number(self) -> Option<u64> {
        self.0.get().trim_matches('"').parse().ok()
    }

    /// The value as a type of ours, if it is one.
    pub(crate) fn read<T: Deserialize<'j>>(self) -> Option<T> {
        serde_json::from_str(self.0.get()).ok()
    }

    pub(crate) fn is_array(self) -> bool {
        self.0.get().starts_with('[')
    }

    pub(crate) fn is_object(self) -> bool {
        self.0.get().starts_with('{')
    }

    /// Whether it is there only because the endpoint always sends the field.
    pub(crate) fn says_nothing(self) -> bool {
        matches!(self.0.get(), "{}" | "[]" | "\"\"" | "false" | "0")
    }
}
