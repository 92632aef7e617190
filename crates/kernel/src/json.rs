//! JSON as validated text.
//!
//! Tool inputs and outputs are kept as text, because every tree that Rust offers loses something: `serde_json::Value` rounds
//! integers past 64 bits and refuses lone surrogates, `jsonb` refuses NUL. The odd values meet one fate here, and so the
//! same one in every database: integers keep every digit, NUL and lone surrogates become U+FFFD, the last of duplicate keys wins.

mod reader;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Why a text is not JSON that we take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at byte {at}")]
pub struct InvalidJson {
    /// What is wrong.
    pub problem: &'static str,
    /// Where, in bytes from the start.
    pub at: usize,
}

/// One JSON value (RFC 8259) as compact text, in the form described above. At most [`crate::limits::JSON_DEPTH`] deep.
#[derive(Clone)]
pub struct JsonText(Box<RawValue>);

impl JsonText {
    /// Reads and normalises JSON. The caller bounds the length.
    pub fn parse(text: &str) -> Result<Self, InvalidJson> {
        let normal = reader::normalise(text)?;
        RawValue::from_string(normal)
            .map(Self)
            .map_err(|_source| InvalidJson {
                problem: "not JSON",
                at: 0,
            })
    }

    /// JSON of a value that serializes. Our own types always do; what does not becomes `null`.
    pub fn of(value: &impl Serialize) -> Self {
        serde_json::to_string(value)
            .ok()
            .and_then(|text| Self::parse(&text).ok())
            .unwrap_or_else(Self::null)
    }

    /// `null`.
    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }

    /// The same value with the members of every object in the order of their names: equal values have equal texts.
    #[must_use]
    pub fn canonical(&self) -> Self {
        reader::canonical(self.as_str())
            .ok()
            .and_then(|text| RawValue::from_string(text).ok())
            .map_or_else(|| self.clone(), Self)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The value as it stands in larger JSON, digit for digit.
    pub fn as_raw(&self) -> &RawValue {
        &self.0
    }

    /// Whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.as_str().starts_with('{')
    }

    /// A tree to look into, not to keep: integers past 64 bits are rounded. A number that no `f64` holds is an error.
    pub fn to_value(&self) -> Result<serde_json::Value, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }
}

impl FromStr for JsonText {
    type Err = InvalidJson;

    fn from_str(text: &str) -> Result<Self, InvalidJson> {
        Self::parse(text)
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for JsonText {}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonText({})", self.as_str())
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(raw.get()).map_err(serde::de::Error::custom)
    }
}
