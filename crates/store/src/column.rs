//! Types of columns that behave alike on both databases.

use std::str::FromStr;

use kernel::{Clock, InvalidJson, JsonText, Timestamp, clean_text};
use sea_orm::DeriveValueType;

/// A time, as it is stored: microseconds since the epoch, in a BIGINT. SQLite would sort the text of a timestamp wrongly, and
/// PostgreSQL would cut its nanoseconds, so that a value read back is not the value written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, DeriveValueType)]
pub struct Micros(i64);

impl Micros {
    /// The time now.
    pub fn now(clock: &dyn Clock) -> Self {
        clock.now().into()
    }

    /// The time.
    pub const fn timestamp(self) -> Timestamp {
        Timestamp::from_micros(self.0)
    }
}

impl From<Timestamp> for Micros {
    fn from(at: Timestamp) -> Self {
        Self(at.as_micros())
    }
}

impl From<Micros> for Timestamp {
    fn from(at: Micros) -> Self {
        at.timestamp()
    }
}

/// Text from outside, as it is stored: NUL, which PostgreSQL cannot hold, has become U+FFFD on both databases.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, DeriveValueType)]
pub struct Text(String);

impl Text {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, owned.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(clean_text(text).into_owned())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        if text.contains('\0') {
            Self::from(text.as_str())
        } else {
            Self(text)
        }
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// JSON, as it is stored: the normal form of [`JsonText`], in a text column on both databases, because `jsonb` would change it
/// and refuse what SQLite takes.
#[derive(Debug, Clone, PartialEq, Eq, DeriveValueType)]
#[sea_orm(value_type = "String")]
pub struct Json(pub JsonText);

impl From<JsonText> for Json {
    fn from(json: JsonText) -> Self {
        Self(json)
    }
}

impl From<Json> for JsonText {
    fn from(json: Json) -> Self {
        json.0
    }
}

impl FromStr for Json {
    type Err = InvalidJson;

    fn from_str(text: &str) -> Result<Self, InvalidJson> {
        JsonText::parse(text).map(Self)
    }
}

impl std::fmt::Display for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.as_str())
    }
}
