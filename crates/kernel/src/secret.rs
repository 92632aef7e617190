//! Values that must not be seen.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

/// A secret text: it is wiped when dropped, and neither `Debug` nor `Display` shows it. It does not serialize.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Secret(SecretString);

impl Secret {
    /// Takes a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(SecretString::from(text.into()))
    }

    /// Shows the secret to the code that must send or derive from it. Never log what this returns.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Whether there is nothing in it: settings use the empty text for "not set".
    pub fn is_empty(&self) -> bool {
        self.expose().is_empty()
    }
}

impl Default for Secret {
    fn default() -> Self {
        Self::new("")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() {
            "Secret(not set)"
        } else {
            "Secret(set)"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show_in_debug() {
        assert_eq!(
            format!("{:?} {:?}", Secret::new("hunter2"), Secret::default()),
            "Secret(set) Secret(not set)"
        );
    }
}
