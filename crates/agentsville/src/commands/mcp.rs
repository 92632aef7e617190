//! `mcp add|test|list|show|edit|delete|diff|accept|import`.

mod import;
mod pins;
mod sent;
mod show;
mod test;

use serde::Deserialize;

use super::print_list;
use crate::{
    app::App,
    cli::{McpAddArgs, McpCommand, McpEditArgs},
    client::read,
    failure::Failure,
    output::Format,
    render::shell_word,
};

/// A server in a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: String,
    name: String,
    transport: String,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    arguments: Vec<String>,
    private: bool,
    enabled: bool,
    credentials_readable: bool,
    #[serde(default)]
    last_test: Option<LastTest>,
}

/// How a test went, as a list says it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LastTest {
    ok: bool,
    #[serde(default)]
    code: Option<String>,
    tool_count: u32,
}

impl Row {
    fn address(&self) -> String {
        match (&self.url, &self.command) {
            (Some(url), _) => url.clone(),
            (None, Some(command)) => command_line(command, &self.arguments),
            (None, None) => String::new(),
        }
    }

    fn state(&self) -> String {
        if !self.enabled {
            return "disabled".to_owned();
        }
        if !self.credentials_readable {
            return "credentials unreadable".to_owned();
        }
        match &self.last_test {
            None => "not tested".to_owned(),
            Some(test) if test.ok => format!("ok, {} Tools", test.tool_count),
            Some(test) => test.code.clone().unwrap_or_else(|| "failed".to_owned()),
        }
    }
}

fn command_line(command: &str, arguments: &[String]) -> String {
    std::iter::once(command)
        .chain(arguments.iter().map(String::as_str))
        .map(|word| match word.strip_prefix('-') {
            // Here it is nobody's flag.
            Some(flag) if shell_word(flag) == flag => word.to_owned(),
            Some(_) | None => shell_word(word),
        })
        .collect::<Vec<_>>()
        .join(" ")
}

pub(crate) async fn run(app: &App, command: &McpCommand) -> Result<(), Failure> {
    match command {
        McpCommand::Add(arguments) => add(app, arguments).await,
        McpCommand::Test(arguments) => test::run(app, arguments).await,
        McpCommand::List => list(app).await,
        McpCommand::Show(arguments) => show::run(app, &arguments.name).await,
        McpCommand::Edit(arguments) => edit(app, arguments).await,
        McpCommand::Delete(arguments) => delete(app, &arguments.name).await,
        McpCommand::Diff(arguments) => pins::diff(app, arguments).await,
        McpCommand::Accept(arguments) => pins::accept(app, arguments).await,
        McpCommand::Import { file } => import::run(app, file).await,
    }
}

async fn add(app: &App, arguments: &McpAddArgs) -> Result<(), Failure> {
    let body = sent::new_server(arguments)?;
    let made = app.village()?.post(&["mcp-servers"], &body).await?;
    if app.output.format() == Format::Json {
        return Ok(app.output.json(&made)?);
    }
    let server: Row = read(&made)?;
    let (program, name) = (app.invocation(), shell_word(&server.name));
    app.output.line(&format!(
        "{} is registered ({}), and nobody has it yet. See what it offers, and then grant it:\n  {program} mcp test {name}\n  {program} grant add NPC mcp:{name}",
        server.name, server.id,
    ))?;
    Ok(())
}

async fn list(app: &App) -> Result<(), Failure> {
    let list = app.village()?.list(&["mcp-servers"]).await?;
    print_list(
        app,
        &list,
        &["NAME", "TRANSPORT", "ADDRESS", "STATE", "PRIVATE", "ID"],
        "There are no MCP Servers; register one with `agentsville mcp add NAME http URL`.",
        |server: Row| {
            let (address, state) = (server.address(), server.state());
            vec![
                server.name,
                server.transport,
                address,
                state,
                super::yes(server.private),
                server.id,
            ]
        },
    )
}

async fn edit(app: &App, arguments: &McpEditArgs) -> Result<(), Failure> {
    let body = sent::changes(arguments)?;
    let changed = app
        .village()?
        .patch(&["mcp-servers", &arguments.name], &body)
        .await?;
    match app.output.format() {
        Format::Json => app.output.json(&changed)?,
        Format::Text => {
            let server: Row = read(&changed)?;
            app.output.line(&format!(
                "{} is changed; turns that run use it as it is now",
                server.name
            ))?;
        }
    }
    Ok(())
}

async fn delete(app: &App, name: &str) -> Result<(), Failure> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Gone {
        grants_removed: u32,
    }

    let gone = app.village()?.delete(&["mcp-servers", name], &[]).await?;
    match app.output.format() {
        Format::Json => app.output.json(&gone)?,
        Format::Text => {
            let Gone { grants_removed } = read(&gone)?;
            let grants = match grants_removed {
                0 => String::new(),
                1 => ", and so is the Grant to it".to_owned(),
                count => format!(", and so are the {count} Grants to it"),
            };
            app.output.line(&format!("{name} is gone{grants}"))?;
        }
    }
    Ok(())
}
