//! `mcp show`.

use serde::Deserialize;

use super::command_line;
use crate::{
    app::App,
    client::read,
    commands::short_time,
    failure::Failure,
    output::Format,
    render::{Bounds, excerpt, one_line},
};

/// A sentence of a test.
const SENTENCE: Bounds = Bounds {
    lines: 8,
    columns: 400,
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Server {
    id: String,
    name: String,
    slug: String,
    owner_id: String,
    transport: String,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    header_names: Vec<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    working_directory: Option<String>,
    #[serde(default)]
    environment_names: Vec<String>,
    #[serde(default)]
    credentials_sentence: Option<String>,
    private: bool,
    enabled: bool,
    pinning: String,
    #[serde(default)]
    era: Option<String>,
    #[serde(default)]
    last_test: Option<LastTest>,
    created_at: String,
    #[serde(default)]
    npcs: Vec<Holder>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LastTest {
    ok: bool,
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    sentence: Option<String>,
    #[serde(default)]
    next_step: Option<String>,
    tool_count: u32,
    latency_ms: u64,
    at: String,
}

#[derive(Debug, Deserialize)]
struct Holder {
    name: String,
    #[serde(default)]
    tools: Vec<String>,
}

pub(super) async fn run(app: &App, name: &str) -> Result<(), Failure> {
    let shown = app.village()?.get(&["mcp-servers", name]).await?;
    match app.output.format() {
        Format::Json => app.output.json(&shown)?,
        Format::Text => app.output.line(&in_words(&read(&shown)?))?,
    }
    Ok(())
}

fn in_words(server: &Server) -> String {
    let mut lines = vec![one_line(&server.name)];
    // What others wrote stays on its line.
    let mut fact = |what: &str, said: &str| {
        let said: Vec<_> = said.split_whitespace().collect();
        lines.push(format!("  {what:<12}{}", said.join(" ")));
    };
    fact("id", &server.id);
    fact("owner", &server.owner_id);
    fact("Tools", &format!("{}__…", server.slug));
    fact("transport", &server.transport);
    if let Some(url) = &server.url {
        fact("url", url);
        fact("headers", &set(&server.header_names));
    }
    if let Some(command) = &server.command {
        fact("command", &command_line(command, &server.arguments));
        if let Some(folder) = &server.working_directory {
            fact("folder", folder);
        }
        fact("environment", &set(&server.environment_names));
    }
    if let Some(sentence) = &server.credentials_sentence {
        fact("secrets", sentence);
    }
    fact(
        "seen by",
        if server.private {
            "its owner, whose turns alone it serves"
        } else {
            "every Player"
        },
    );
    fact("enabled", if server.enabled { "yes" } else { "no" });
    fact("pinning", &server.pinning);
    if let Some(era) = &server.era {
        fact("era", era);
    }
    fact("registered", &short_time(&server.created_at));
    match &server.last_test {
        None => fact(
            "last test",
            "none since it was registered or changed; see `agentsville mcp test`",
        ),
        Some(test) => {
            let outcome = if test.ok {
                format!("ok, {} Tools in {} ms", test.tool_count, test.latency_ms)
            } else {
                format!("FAILED, {}", test.code.as_deref().unwrap_or("unknown"))
            };
            fact("last test", &format!("{outcome}, {}", short_time(&test.at)));
            for sentence in [&test.sentence, &test.next_step].into_iter().flatten() {
                for line in excerpt(sentence, SENTENCE) {
                    fact("", &line);
                }
            }
        }
    }
    if server.npcs.is_empty() {
        fact("NPCs", "none has it");
    }
    for (index, npc) in server.npcs.iter().enumerate() {
        let tools = match npc.tools.as_slice() {
            [] => String::new(),
            tools => format!(" ({})", one_line(&tools.join(", "))),
        };
        let what = if index == 0 { "NPCs" } else { "" };
        fact(what, &format!("{}{tools}", one_line(&npc.name)));
    }
    lines.join("\n")
}

fn set(names: &[String]) -> String {
    match names {
        [] => "none set".to_owned(),
        names => format!("{} (set, not shown)", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(json: &str) -> String {
        in_words(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn a_remote_server_with_secrets_and_a_failed_test() {
        let said = words(
            r#"{"id":"0195","name":"Docs","slug":"docs","ownerId":"0190","transport":"http","url":"https://docs.example/mcp?key=***",
                "queryNames":["key"],"headerNames":["authorization","x-key"],"environmentNames":[],"credentialsReadable":false,
                "credentialsSentence":"credentials unreadable, enter them again","private":true,"enabled":false,"pinning":"strict",
                "lastTest":{"ok":false,"code":"token-rejected","sentence":"The server does not take the token.","nextStep":"Set another.",
                            "toolCount":0,"transport":"http","latencyMs":7,"at":"2026-12-01T10:00:00.123456Z"},
                "generation":3,"createdAt":"2026-12-01T09:00:00.000001Z","npcs":[]}"#,
        );
        insta::assert_snapshot!(said);
    }

    #[test]
    fn a_command_and_the_npcs_that_have_it() {
        let said = words(
            r#"{"id":"0195","name":"Files","slug":"files","ownerId":"0190","transport":"stdio","command":"npx",
                "arguments":["-y","a b"],"workingDirectory":"/srv","headerNames":[],"environmentNames":["TOKEN"],
                "credentialsReadable":true,"private":false,"enabled":true,"pinning":"warn","era":"legacy",
                "lastTest":{"ok":true,"toolCount":13,"transport":"stdio","latencyMs":350,"at":"2026-12-01T10:00:00.1Z"},
                "generation":1,"createdAt":"2026-12-01T09:00:00.1Z",
                "npcs":[{"id":"1","name":"Keeper","tools":[]},{"id":"2","name":"Scribe","tools":["read","list"]}]}"#,
        );
        insta::assert_snapshot!(said);
    }
}
