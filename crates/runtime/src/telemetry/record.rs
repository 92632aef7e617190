//! A flat JSON object, written in order and without a tree.

use serde::Serialize;

/// Builds the text of one object.
#[derive(Debug)]
pub(crate) struct Record(String);

impl Record {
    /// An empty object, with room for so many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        let mut text = String::with_capacity(bytes);
        text.push('{');
        Self(text)
    }

    /// Adds a field. A number that JSON cannot say becomes null.
    pub(crate) fn add<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&json(name));
        self.0.push(':');
        self.0.push_str(&json(value));
    }

    /// Adds the fields of another record's text.
    pub(crate) fn add_all(&mut self, record: &str) {
        let fields = record.trim_start_matches('{').trim_end_matches('}');
        if !fields.is_empty() {
            if self.0.len() > 1 {
                self.0.push(',');
            }
            self.0.push_str(fields);
        }
    }

    /// The text.
    pub(crate) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|_error| "null".to_owned())
}
