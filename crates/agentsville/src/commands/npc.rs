//! `npc create|edit|list|show|delete|tools`.

use kernel::JsonText;
use serde::{Deserialize, Serialize};

use super::{grant::Grant, print_list, short_time, yes};
use crate::{
    app::App,
    cli::{NpcArgs, NpcCommand, SandboxNetwork, SandboxScope},
    client::read,
    failure::Failure,
    output::Format,
    render::{Bounds, excerpt, json_excerpt, one_line, shell_word},
};

/// What is sent; what is not said is left out.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    persona: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    private: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fetch_hosts: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox_scope: Option<SandboxScope>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox_network: Option<SandboxNetwork>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox_hosts: Option<Vec<&'a str>>,
}

impl<'a> Body<'a> {
    fn of(arguments: &'a NpcArgs) -> Self {
        Self {
            name: None,
            persona: arguments.persona.as_deref(),
            model: arguments.model.as_deref(),
            private: match (arguments.private, arguments.public) {
                (true, _) => Some(true),
                (false, true) => Some(false),
                (false, false) => None,
            },
            fetch_hosts: hosts(arguments.fetch_hosts.as_deref()),
            sandbox_scope: arguments.sandbox_scope,
            sandbox_network: arguments.sandbox_network,
            sandbox_hosts: hosts(arguments.sandbox_hosts.as_deref()),
        }
    }

    fn says_nothing(&self) -> bool {
        JsonText::of(self).as_str() == "{}"
    }
}

/// `--fetch-hosts ''` clears the list.
fn hosts(given: Option<&[String]>) -> Option<Vec<&str>> {
    given.map(|hosts| {
        hosts
            .iter()
            .map(|host| host.trim())
            .filter(|host| !host.is_empty())
            .collect()
    })
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Npc {
    id: String,
    name: String,
    owner_id: String,
    #[serde(default)]
    persona: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    private: bool,
    #[serde(default)]
    fetch_hosts: Vec<String>,
    #[serde(default)]
    sandbox_scope: String,
    #[serde(default)]
    sandbox_network: String,
    #[serde(default)]
    sandbox_hosts: Vec<String>,
    created_at: String,
    updated_at: String,
    #[serde(default)]
    grants: Vec<Grant>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tools {
    tools: Vec<Tool>,
    #[serde(default)]
    unavailable: Vec<Unavailable>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    name: String,
    description: String,
    input_schema: JsonText,
    #[serde(default)]
    origin: String,
    /// That it is new, or changed since it was granted.
    #[serde(default)]
    note: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Unavailable {
    what: String,
    reason: String,
}

pub(crate) async fn run(app: &App, command: &NpcCommand) -> Result<(), Failure> {
    match command {
        NpcCommand::Create(arguments) => create(app, arguments).await,
        NpcCommand::Edit(arguments) => edit(app, arguments).await,
        NpcCommand::List => list(app).await,
        NpcCommand::Show(arguments) => show(app, &arguments.npc).await,
        NpcCommand::Delete(arguments) => delete(app, &arguments.npc).await,
        NpcCommand::Tools(arguments) => tools(app, &arguments.npc).await,
    }
}

async fn create(app: &App, arguments: &NpcArgs) -> Result<(), Failure> {
    let body = Body {
        name: Some(&arguments.name),
        ..Body::of(arguments)
    };
    let made = app.village()?.post(&["npcs"], &body).await?;
    if app.output.format() == Format::Json {
        return Ok(app.output.json(&made)?);
    }
    let npc: Npc = read(&made)?;
    app.output.line(&format!(
        "{} lives in the Village now ({}). It has no Tools yet; give it one with\n  {} grant add {} tool:current_time",
        npc.name,
        npc.id,
        app.invocation(),
        shell_word(&npc.name),
    ))?;
    Ok(())
}

async fn edit(app: &App, arguments: &NpcArgs) -> Result<(), Failure> {
    let body = Body::of(arguments);
    if body.says_nothing() {
        return Err(Failure::usage(
            "npc edit needs something to change, such as --model or --persona; see `agentsville npc edit --help`",
        ));
    }
    let changed = app
        .village()?
        .patch(&["npcs", &arguments.name], &body)
        .await?;
    match app.output.format() {
        Format::Json => app.output.json(&changed)?,
        Format::Text => {
            let npc: Npc = read(&changed)?;
            app.output
                .line(&format!("{} is changed, from its next turn on", npc.name))?;
        }
    }
    Ok(())
}

async fn list(app: &App) -> Result<(), Failure> {
    let list = app.village()?.list(&["npcs"]).await?;
    print_list(
        app,
        &list,
        &["NAME", "MODEL", "PRIVATE", "CREATED", "ID"],
        "There are no NPCs yet; make one with `agentsville npc create NAME --model PROVIDER/MODEL`.",
        |npc: Npc| {
            vec![
                npc.name,
                npc.model,
                yes(npc.private),
                short_time(&npc.created_at),
                npc.id,
            ]
        },
    )
}

async fn show(app: &App, name: &str) -> Result<(), Failure> {
    let shown = app.village()?.get(&["npcs", name]).await?;
    if app.output.format() == Format::Json {
        return Ok(app.output.json(&shown)?);
    }
    let npc: Npc = read(&shown)?;
    let listed = |hosts: &[String], none: &str| match hosts {
        [] => none.to_owned(),
        hosts => hosts.join(", "),
    };
    let model = match npc.model.as_str() {
        "" => "the Village's default",
        model => model,
    };
    let mut lines = vec![
        npc.name.clone(),
        format!("  id        {}", npc.id),
        format!("  owner     {}", npc.owner_id),
        format!("  model     {model}"),
        format!(
            "  seen by   {}",
            if npc.private {
                "its owner and the Operator"
            } else {
                "every Player"
            }
        ),
        format!(
            "  fetches   {}",
            listed(&npc.fetch_hosts, "every public host")
        ),
        format!(
            "  sandbox   one for each {}, network {}{}",
            match npc.sandbox_scope.as_str() {
                "npc" => "NPC",
                "player" => "Player",
                "conversation" => "Conversation",
                other => other,
            },
            npc.sandbox_network,
            match npc.sandbox_hosts.as_slice() {
                [] => String::new(),
                hosts => format!(" ({})", hosts.join(", ")),
            }
        ),
        format!(
            "  created   {}, changed {}",
            short_time(&npc.created_at),
            short_time(&npc.updated_at)
        ),
    ];
    if !npc.persona.is_empty() {
        lines.push("  persona".to_owned());
        let bounds = Bounds {
            lines: 40,
            columns: 400,
        };
        lines.extend(
            excerpt(&npc.persona, bounds)
                .iter()
                .map(|line| format!("    {line}")),
        );
    }
    if npc.grants.is_empty() {
        lines.push("  grants    none: it has no Tools".to_owned());
    } else {
        lines.push("  grants".to_owned());
        lines.extend(
            npc.grants
                .iter()
                .map(|grant| format!("    {}", grant.in_words())),
        );
    }
    app.output.line(&lines.join("\n"))?;
    Ok(())
}

async fn delete(app: &App, name: &str) -> Result<(), Failure> {
    let gone = app.village()?.delete(&["npcs", name], &[]).await?;
    match app.output.format() {
        Format::Json => app.output.json(&gone)?,
        Format::Text => app
            .output
            .line(&format!("{name} is gone, and so are its Grants"))?,
    }
    Ok(())
}

async fn tools(app: &App, name: &str) -> Result<(), Failure> {
    let answer = app.village()?.get(&["npcs", name, "tools"]).await?;
    if app.output.format() == Format::Json {
        return Ok(app.output.json(&answer)?);
    }
    // Word for word: what the model is told is not cut.
    let whole = Bounds {
        lines: usize::MAX,
        columns: usize::MAX,
    };
    let tools: Tools = read(&answer)?;
    let mut lines = Vec::new();
    if tools.tools.is_empty() {
        lines.push(format!("{name} has no Tools."));
    }
    for tool in &tools.tools {
        lines.push(format!("{}  ({})", tool.name, one_line(&tool.origin)));
        if let Some(note) = &tool.note {
            lines.push(format!("  note: {}", whole_line(note)));
        }
        lines.extend(
            excerpt(&tool.description, whole)
                .iter()
                .map(|line| format!("  {line}")),
        );
        let schema = json_excerpt(&tool.input_schema, whole);
        lines.extend(schema.iter().map(|line| format!("    {line}")));
    }
    if !tools.unavailable.is_empty() {
        lines.push("Unavailable:".to_owned());
        for missing in &tools.unavailable {
            lines.push(format!(
                "  {}: {}",
                one_line(&missing.what),
                whole_line(&missing.reason)
            ));
        }
    }
    app.output.line(&lines.join("\n"))?;
    Ok(())
}

/// A sentence with others' words in it, on its line.
fn whole_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn sent(words: &[&str]) -> String {
        let line = ["agentsville", "npc", "edit", "Keeper"].iter().chain(words);
        let Some(Command::Npc(NpcCommand::Edit(arguments))) =
            Cli::try_parse_from(line).unwrap().command
        else {
            panic!("not npc edit");
        };
        JsonText::of(&Body::of(&arguments)).as_str().to_owned()
    }

    #[test]
    fn only_what_is_said_is_sent() {
        assert_eq!(sent(&[]), "{}");
        assert_eq!(sent(&["--public"]), r#"{"private":false}"#);
        assert_eq!(
            sent(&[
                "--fetch-hosts",
                "a.example,*.b.example",
                "--sandbox-network",
                "off"
            ]),
            r#"{"fetchHosts":["a.example","*.b.example"],"sandboxNetwork":"off"}"#
        );
    }

    #[test]
    fn an_empty_list_clears() {
        assert_eq!(sent(&["--fetch-hosts", ""]), r#"{"fetchHosts":[]}"#);
    }
}
