//! `secrets status`: what seals credentials. The secret itself is never shown.

use kernel::Secret;
use runtime::Settings;
use serde::Serialize;
use vault::{KeyId, SECRET_FILE, Vault};

use crate::{app::App, cli::SecretsCommand, failure::Failure, output::Format};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    /// Whether there is a root secret.
    set: bool,
    /// Where it is: `settings`, `file`, or nowhere yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    /// The id of the key that is derived from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_id: Option<String>,
    /// Sealed rows that this key reads.
    readable: u64,
    /// Sealed rows that were sealed under another.
    unreadable: u64,
}

pub(crate) fn run(app: &App, command: &SecretsCommand) -> Result<(), Failure> {
    let SecretsCommand::Status = command;
    let status = status(&app.settings()?)?;
    if app.output.format() == Format::Json {
        return Ok(app.output.json_of(&status)?);
    }
    let text = match (status.source, &status.key_id) {
        (Some(source), Some(key_id)) => format!(
            "root secret  set ({source})\nkey id       {key_id}\nsealed rows  {} readable, {} not",
            status.readable, status.unreadable
        ),
        _ => "root secret  not set; `agentsville` makes one at its first start and keeps it in the data directory".to_owned(),
    };
    Ok(app.output.line(&text)?)
}

fn status(settings: &Settings) -> Result<Status, Failure> {
    let set: Secret = settings.value("secret").map_err(Failure::precondition)?;
    let (secret, source) = if set.is_empty() {
        let data_dir = settings.data_dir().map_err(Failure::precondition)?;
        // Asking must not make one.
        if !data_dir.join(SECRET_FILE).exists() {
            return Ok(Status::of(None));
        }
        let kept = vault::load_or_create_secret(&data_dir).map_err(Failure::precondition)?;
        (kept, "file")
    } else {
        (set, "settings")
    };
    let vault = Vault::new(&secret).map_err(Failure::precondition)?;
    Ok(Status::of(Some((source, vault.key_id()))))
}

impl Status {
    /// Nothing that is sealed is stored yet: credentials come with MCP Servers.
    fn of(key: Option<(&'static str, KeyId)>) -> Self {
        Self {
            set: key.is_some(),
            source: key.map(|(source, _)| source),
            key_id: key.map(|(_, id)| id.to_string()),
            readable: 0,
            unreadable: 0,
        }
    }
}
