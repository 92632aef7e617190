//! Where a server is, and what it is given. Secrets stay sealed here, and are opened for one request or one start.

use std::{collections::BTreeMap, sync::Arc};

use kernel::Secret;
use vault::{Identity, SealError, Sealed, UnsealError, Vault};

/// The kind of row that credentials are sealed for.
const KIND: &str = "mcp_server";

/// How a server is reached.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// A command on this host.
    Stdio(StdioEndpoint),
    /// Streamable HTTP.
    Http(RemoteEndpoint),
    /// The older HTTP with server-sent events.
    Sse(RemoteEndpoint),
}

/// A command on this host.
#[derive(Debug, Clone)]
pub struct StdioEndpoint {
    /// The command: a path, or a name that is looked for in PATH.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The folder that it runs in; empty for a fresh one.
    pub working_directory: String,
    /// What it finds in its environment besides PATH, HOME, LANG and TMPDIR.
    pub environment: SealedMap,
}

/// An address on the network.
#[derive(Debug, Clone)]
pub struct RemoteEndpoint {
    /// Its URL, as it may be shown: the values of its query are masked.
    pub shown_url: String,
    /// The whole URL, under the one name `url`, when a value of its query is secret.
    pub sealed_url: SealedMap,
    /// Headers of every request.
    pub headers: SealedMap,
}

impl RemoteEndpoint {
    /// The whole URL.
    ///
    /// # Errors
    /// The root secret was changed since, or what is stored is damaged.
    pub fn url(&self) -> Result<Secret, UnsealError> {
        let url = self.sealed_url.open()?.into_iter().next();
        Ok(url.map_or_else(|| Secret::new(self.shown_url.clone()), |(_, url)| url))
    }
}

/// Named secrets, sealed together. `Debug` shows no value.
#[derive(Debug, Clone)]
pub struct SealedMap {
    vault: Arc<Vault>,
    /// The row that they belong to.
    server_id: String,
    /// The field of it.
    field: &'static str,
    sealed: Option<Sealed>,
}

impl SealedMap {
    /// Secrets that are stored.
    pub fn stored(
        vault: &Arc<Vault>,
        server_id: &str,
        field: &'static str,
        sealed: Option<Sealed>,
    ) -> Self {
        Self {
            vault: Arc::clone(vault),
            server_id: server_id.to_owned(),
            field,
            sealed,
        }
    }

    /// Secrets that are not stored: sealed in memory all the same, so that no longer than a request they lie open.
    ///
    /// # Errors
    /// They are longer than what is sealed together.
    pub fn seal(
        vault: &Arc<Vault>,
        field: &'static str,
        secrets: &BTreeMap<String, String>,
    ) -> Result<Self, SealError> {
        let mut map = Self::stored(vault, "unsaved", field, None);
        if !secrets.is_empty() {
            let text = Secret::new(serde_json::to_string(secrets).unwrap_or_default());
            map.sealed = Some(vault.seal(&map.identity(), &text)?);
        }
        Ok(map)
    }

    /// The secrets, by name.
    ///
    /// # Errors
    /// The root secret was changed since, or what is stored is damaged.
    pub fn open(&self) -> Result<Vec<(String, Secret)>, UnsealError> {
        let Some(sealed) = &self.sealed else {
            return Ok(Vec::new());
        };
        let text = self.vault.unseal(&self.identity(), sealed)?;
        let secrets: BTreeMap<String, String> =
            serde_json::from_str(text.expose()).map_err(|_damaged| UnsealError::Corrupt)?;
        Ok(secrets
            .into_iter()
            .map(|(name, value)| (name, Secret::new(value)))
            .collect())
    }

    /// What it is sealed as: the same text as long as nothing was changed.
    pub fn sealed_text(&self) -> String {
        self.sealed
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    fn identity(&self) -> Identity<'_> {
        Identity {
            kind: KIND,
            id: &self.server_id,
            field: self.field,
        }
    }
}
