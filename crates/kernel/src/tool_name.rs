//! Names of Tools as the model sees them.

use std::{fmt, str::FromStr};

/// A text that no Provider would take as a Tool's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a Tool name: 1 to 64 of letters, digits, _ and -")]
pub struct InvalidToolName(pub String);

/// A Tool's name: `[a-zA-Z0-9_-]{1,64}`, what every Provider accepts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolName(String);

impl ToolName {
    /// The longest name, in bytes. OpenAI allows 64, Anthropic 128.
    pub const MAX: usize = 64;

    /// The name's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ToolName {
    type Err = InvalidToolName;

    fn from_str(text: &str) -> Result<Self, InvalidToolName> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if text.is_empty() || text.len() > Self::MAX || !text.bytes().all(allowed) {
            return Err(InvalidToolName(text.chars().take(Self::MAX).collect()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
