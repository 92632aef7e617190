//! `turn abort`.

use serde::Deserialize;

use crate::{app::App, cli::TurnCommand, client::read, failure::Failure, output::Format};

#[derive(Debug, Deserialize)]
struct Aborted {
    id: String,
    #[serde(default)]
    status: String,
}

pub(crate) async fn run(app: &App, command: &TurnCommand) -> Result<(), Failure> {
    let TurnCommand::Abort { id } = command;
    let body = serde_json::json!({});
    let answer = app.village()?.post(&["turns", id, "abort"], &body).await?;
    match app.output.format() {
        Format::Json => app.output.json(&answer)?,
        Format::Text => {
            let turn: Aborted = read(&answer)?;
            app.output
                .line(&format!("turn {}: {}", turn.id, turn.status))?;
        }
    }
    Ok(())
}
