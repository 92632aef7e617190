//! How the sealed rows stand: which of them the root secret reads.

use kernel::{Act, Caller, decide};
use store::{Store, check_schema};
use vault::Vault;

use crate::{Error, Registry, error::allowed, store::mcp_server};

/// Rows that are read together.
const ROWS: u64 = 500;

/// How many rows a root secret reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretsStatus {
    /// The id of the key that is derived from the root secret. It says nothing of either.
    pub key_id: String,
    /// MCP Servers with credentials, all of which it reads.
    pub readable: u64,
    /// MCP Servers with credentials that were sealed under another secret, or are damaged.
    pub unreadable: u64,
}

/// Counts the rows whose credentials this vault reads. It only reads, so that it may be asked whether or not the Village runs.
///
/// # Errors
/// The schema does not fit this release, or the database does not answer.
pub async fn count_sealed(store: &Store, vault: &Vault) -> Result<SecretsStatus, Error> {
    check_schema(store, migrations::SCHEMA).await?;
    let mut status = SecretsStatus {
        key_id: vault.key_id().to_string(),
        readable: 0,
        unreadable: 0,
    };
    let mut above = None;
    loop {
        let rows = mcp_server::sealed(store.reader(), above, ROWS).await?;
        for server in &rows {
            match server.credentials(vault) {
                Ok(()) => status.readable += 1,
                Err(_unreadable) => status.unreadable += 1,
            }
        }
        match rows.last() {
            Some(last) => above = Some(last.id),
            None => return Ok(status),
        }
    }
}

impl Registry {
    /// The Operator's.
    pub(crate) async fn secrets_status(&self, caller: &Caller) -> Result<SecretsStatus, Error> {
        let denied = "only the Operator may ask how the sealed rows stand";
        allowed(
            decide(caller, Act::Administer),
            || Error::Denied(denied),
            denied,
        )?;
        count_sealed(&self.store, &self.vault).await
    }
}
