//! The process's environment, read once.

use std::{ffi::OsString, fmt};

/// Environment variables. Values may be secret: `Debug` shows names only.
#[derive(Clone, Default)]
pub(crate) struct Environment(Vec<(String, String)>);

impl Environment {
    /// Takes the variables. What is not UTF-8 gets marks that no setting accepts, so that it is refused rather than overlooked.
    pub(crate) fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let text = |value: OsString| value.to_string_lossy().into_owned();
        Self(
            variables
                .into_iter()
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
        )
    }

    /// A variable's value.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// All of them.
    pub(crate) fn variables(&self) -> &[(String, String)] {
        &self.0
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}
