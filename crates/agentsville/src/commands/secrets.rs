//! `secrets status`: what seals credentials. The secret itself is never shown.

use kernel::{ErrorCode, Secret};
use runtime::Settings;
use serde::{Deserialize, Serialize};
use vault::{SECRET_FILE, Vault};

use crate::{
    app::App, cli::SecretsCommand, client::read, compose, failure::Failure, output::Format,
};

#[derive(Debug, Default, Serialize)]
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

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Served {
    key_id: String,
    readable: u64,
    unreadable: u64,
}

pub(crate) async fn run(app: &App, command: &SecretsCommand) -> Result<(), Failure> {
    let SecretsCommand::Status = command;
    let status = status(app).await?;
    if app.output.format() == Format::Json {
        return Ok(app.output.json_of(&status)?);
    }
    let text = match (status.source, &status.key_id) {
        (Some(source), Some(key_id)) => {
            let rows = format!(
                "root secret  set ({source})\nkey id       {key_id}\nsealed rows  {} readable, {} not",
                status.readable, status.unreadable
            );
            match status.unreadable {
                0 => rows,
                _ => format!(
                    "{rows}\nThose that are not were sealed under another secret: enter their credentials again; `{} mcp list` names them",
                    app.invocation()
                ),
            }
        }
        _ => "root secret  not set; `agentsville` makes one at its first start and keeps it in the data directory".to_owned(),
    };
    Ok(app.output.line(&text)?)
}

/// What the served Village says; what is found here if none is.
async fn status(app: &App) -> Result<Status, Failure> {
    let settings = app.settings()?;
    let Some((source, vault)) = vault(&settings)? else {
        return Ok(Status::default());
    };
    let (readable, unreadable) = match served(app, &vault.key_id().to_string()).await? {
        Some(counted) => counted,
        None => compose::count_sealed(&settings, &vault).await?,
    };
    Ok(Status {
        set: true,
        source: Some(source),
        key_id: Some(vault.key_id().to_string()),
        readable,
        unreadable,
    })
}

/// The counts of a Village that is served with this very key.
async fn served(app: &App, key_id: &str) -> Result<Option<(u64, u64)>, Failure> {
    // Without a token that it takes, it is as if there were none.
    let Ok(village) = app.village() else {
        return Ok(None);
    };
    match village.get(&["secrets"]).await {
        Ok(answer) => {
            let counted: Served = read(&answer)?;
            Ok((counted.key_id == key_id).then_some((counted.readable, counted.unreadable)))
        }
        Err(Failure::Failed(problem))
            if matches!(
                problem.code,
                ErrorCode::Unavailable | ErrorCode::Unauthenticated
            ) =>
        {
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

/// The vault and where its secret is from; none if there is no secret yet. Asking must not make one.
fn vault(settings: &Settings) -> Result<Option<(&'static str, Vault)>, Failure> {
    let set: Secret = settings.value("secret").map_err(Failure::precondition)?;
    let (secret, source) = if set.is_empty() {
        let data_dir = settings.data_dir().map_err(Failure::precondition)?;
        if !data_dir.join(SECRET_FILE).exists() {
            return Ok(None);
        }
        let kept = vault::load_or_create_secret(&data_dir).map_err(Failure::precondition)?;
        (kept, "file")
    } else {
        (set, "settings")
    };
    let vault = Vault::new(&secret).map_err(Failure::precondition)?;
    Ok(Some((source, vault)))
}
