//! `player create|list|revoke`.

use serde::Deserialize;

use super::{print_list, short_time, yes};
use crate::{app::App, cli::PlayerCommand, client::read, failure::Failure, output::Format};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Player {
    id: String,
    name: String,
    #[serde(default)]
    operator: bool,
    created_at: String,
    #[serde(default)]
    revoked_at: Option<String>,
    #[serde(default)]
    token: Option<String>,
}

pub(crate) async fn run(app: &App, command: &PlayerCommand) -> Result<(), Failure> {
    match command {
        PlayerCommand::Create { name } => create(app, name).await,
        PlayerCommand::List => list(app).await,
        PlayerCommand::Revoke { player } => revoke(app, player).await,
    }
}

async fn create(app: &App, name: &str) -> Result<(), Failure> {
    let body = serde_json::json!({ "name": name });
    let made = app.village()?.post(&["players"], &body).await?;
    if app.output.format() == Format::Json {
        return Ok(app.output.json(&made)?);
    }
    let player: Player = read(&made)?;
    app.output.line(&format!(
        "{} may enter ({}). The token, which is shown this once:\n  {}\nThe Player uses it as\n  AGENTSVILLE_TOKEN=… agentsville --server {} npc list",
        player.name,
        player.id,
        player.token.unwrap_or_default(),
        app.global.server,
    ))?;
    Ok(())
}

async fn list(app: &App) -> Result<(), Failure> {
    let list = app.village()?.list(&["players"]).await?;
    print_list(
        app,
        &list,
        &["NAME", "OPERATOR", "CREATED", "REVOKED", "ID"],
        "There are no Players.",
        |player: Player| {
            vec![
                player.name,
                yes(player.operator),
                short_time(&player.created_at),
                player
                    .revoked_at
                    .as_deref()
                    .map(short_time)
                    .unwrap_or_default(),
                player.id,
            ]
        },
    )
}

async fn revoke(app: &App, player: &str) -> Result<(), Failure> {
    let body = serde_json::json!({});
    let revoked = app
        .village()?
        .post(&["players", player, "revoke"], &body)
        .await?;
    match app.output.format() {
        Format::Json => app.output.json(&revoked)?,
        Format::Text => {
            let player: Player = read(&revoked)?;
            app.output
                .line(&format!("{}'s token is worth nothing now", player.name))?;
        }
    }
    Ok(())
}
