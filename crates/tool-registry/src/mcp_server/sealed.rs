//! What is sealed of a server.

use std::{collections::BTreeMap, fmt};

use kernel::{McpServerId, Secret};
use vault::{Identity, Sealed, UnsealError, Vault};

use crate::Error;

/// The kind of row that values are sealed for. mcp-gateway unseals under the same one.
const KIND: &str = "mcp_server";
/// The one name in the object that a URL is sealed as.
const URL: &str = "url";

/// Which of a server's values are sealed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Url,
    Headers,
    Environment,
}

impl Field {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Url => "url",
            Self::Headers => "headers",
            Self::Environment => "environment",
        }
    }
}

/// The text of a [`Sealed`], as it is stored. It may be damaged.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SealedText(String);

impl fmt::Debug for SealedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedText({} bytes)", self.0.len())
    }
}

impl From<String> for SealedText {
    fn from(stored: String) -> Self {
        Self(stored)
    }
}

impl SealedText {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Seals named values as one JSON object; nothing, if there are none.
    pub(crate) fn seal(
        vault: &Vault,
        id: McpServerId,
        field: Field,
        values: &BTreeMap<String, Secret>,
    ) -> Result<Option<Self>, Error> {
        if values.is_empty() {
            return Ok(None);
        }
        let exposed: BTreeMap<&str, &str> = values
            .iter()
            .map(|(name, value)| (name.as_str(), value.expose()))
            .collect();
        let failed = |error: &dyn fmt::Display| Error::invalid(field.as_str(), error);
        let json = serde_json::to_string(&exposed).map_err(|error| failed(&error))?;
        let row = id.to_string();
        let identity = identity(&row, field);
        let sealed = vault
            .seal(&identity, &Secret::new(json))
            .map_err(|error| failed(&error))?;
        Ok(Some(Self(sealed.to_string())))
    }

    /// Seals a whole URL.
    pub(crate) fn seal_url(
        vault: &Vault,
        id: McpServerId,
        url: &Secret,
    ) -> Result<Option<Self>, Error> {
        let values = BTreeMap::from([(URL.to_owned(), url.clone())]);
        Self::seal(vault, id, Field::Url, &values)
    }

    /// Whether it can be read there.
    pub(crate) fn check(
        &self,
        vault: &Vault,
        id: McpServerId,
        field: Field,
    ) -> Result<(), UnsealError> {
        let sealed: Sealed = self.0.parse().map_err(|_invalid| UnsealError::Corrupt)?;
        let row = id.to_string();
        vault.unseal(&identity(&row, field), &sealed).map(drop)
    }
}

const fn identity(row: &str, field: Field) -> Identity<'_> {
    Identity {
        kind: KIND,
        id: row,
        field: field.as_str(),
    }
}
