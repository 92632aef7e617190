//! `conversation list|show`.

use kernel::JsonText;
use serde::Deserialize;

use super::{print_list, short_time};
use crate::{
    app::App, cli::ConversationCommand, client::read, failure::Failure, output::Format,
    render::messages,
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: String,
    npc_id: String,
    status: String,
    updated_at: String,
}

#[derive(Debug, Deserialize)]
struct Shown {
    id: String,
    status: String,
    messages: Vec<messages::Message>,
}

pub(crate) async fn run(app: &App, command: &ConversationCommand) -> Result<(), Failure> {
    match command {
        ConversationCommand::List => list(app).await,
        ConversationCommand::Show { id } => show(app, id).await,
    }
}

async fn list(app: &App) -> Result<(), Failure> {
    let list = app.village()?.list(&["conversations"]).await?;
    print_list(
        app,
        &list,
        &["ID", "STATUS", "NPC", "LAST"],
        "You have no Conversations yet; start one with `agentsville chat NPC TEXT`.",
        |row: Row| vec![row.id, row.status, row.npc_id, short_time(&row.updated_at)],
    )
}

async fn show(app: &App, id: &str) -> Result<(), Failure> {
    let answer: JsonText = app.village()?.get(&["conversations", id]).await?;
    if app.output.format() == Format::Json {
        return Ok(app.output.json(&answer)?);
    }
    let shown: Shown = read(&answer)?;
    let mut out = std::io::stdout().lock();
    messages::write(&mut out, app.output.style(), &shown.messages)?;
    drop(out);
    app.output
        .line(&format!("conversation {}: {}", shown.id, shown.status))?;
    Ok(())
}
