//! `PROVIDER/MODEL`.

use std::{fmt, str::FromStr};

/// A text that is no model name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a model name: {problem}; write PROVIDER/MODEL, for example openai/gpt-5-mini"
)]
pub struct InvalidModelName {
    /// The text, cut to what a sentence bears.
    pub text: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// A model, and the Provider that serves it. Splits at the first `/`: models' own names have slashes too
/// (`openrouter/meta-llama/llama-4`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelName {
    text: String,
    split: usize,
}

impl ModelName {
    /// The longest name, in bytes.
    pub const MAX: usize = 200;

    /// The Provider's name in the settings.
    pub fn provider(&self) -> &str {
        &self.text[..self.split]
    }

    /// The model, as the Provider names it.
    pub fn model(&self) -> &str {
        &self.text[self.split + 1..]
    }

    /// Both, as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for ModelName {
    type Err = InvalidModelName;

    fn from_str(text: &str) -> Result<Self, InvalidModelName> {
        let wrong = |problem| InvalidModelName {
            text: text.chars().take(80).collect(),
            problem,
        };
        if text.len() > Self::MAX {
            return Err(wrong("it is longer than 200 bytes"));
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(wrong("it has spaces or control characters"));
        }
        match text.find('/') {
            None => Err(wrong("it names no Provider")),
            Some(0) => Err(wrong("nothing stands before the slash")),
            Some(split) if split + 1 == text.len() => Err(wrong("nothing follows the slash")),
            Some(split) => Ok(Self {
                text: text.to_owned(),
                split,
            }),
        }
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_name_splits_at_the_first_slash() {
        let name: ModelName = "openrouter/meta-llama/llama-4".parse().unwrap();
        assert_eq!(
            (name.provider(), name.model()),
            ("openrouter", "meta-llama/llama-4")
        );
        assert_eq!(name.to_string(), "openrouter/meta-llama/llama-4");
    }

    #[test]
    fn what_names_no_provider_or_no_model_is_refused_with_an_example() {
        for text in ["gpt-5", "/gpt-5", "openai/", "open ai/x", "a/\u{1b}[2J", ""] {
            let refused = text.parse::<ModelName>().unwrap_err().to_string();
            assert!(refused.contains("write PROVIDER/MODEL"), "{refused}");
        }
        assert!(
            format!("a/{}", "x".repeat(199))
                .parse::<ModelName>()
                .is_err()
        );
    }
}
