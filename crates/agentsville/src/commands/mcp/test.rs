//! `mcp test`.

use clap::ValueEnum as _;
use kernel::JsonText;
use serde::Deserialize;

use super::sent;
use crate::{
    app::App,
    cli::{McpTestArgs, McpTransport},
    client::read,
    failure::Failure,
    output::Format,
    render::{Bounds, excerpt, one_line},
};

/// A description or an introduction, as a list shows it.
const SHORT: Bounds = Bounds {
    lines: 6,
    columns: 400,
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tested {
    ok: bool,
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    sentence: Option<String>,
    #[serde(default)]
    next_step: Option<String>,
    transport: String,
    #[serde(default)]
    era: Option<String>,
    #[serde(default)]
    protocol_version: Option<String>,
    latency_ms: u64,
    #[serde(default)]
    server_info: Option<String>,
    #[serde(default)]
    instructions: Option<String>,
    #[serde(default)]
    tools: Vec<Tool>,
    #[serde(default)]
    withheld: Vec<Withheld>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    full_name: String,
    name: String,
    description: String,
}

#[derive(Debug, Deserialize)]
struct Withheld {
    name: String,
    reason: String,
}

pub(super) async fn run(app: &App, arguments: &McpTestArgs) -> Result<(), Failure> {
    let answer = ask(app, arguments).await?;
    let tested: Tested = read(&answer)?;
    match app.output.format() {
        Format::Json => app.output.json(&answer)?,
        Format::Text => app.output.line(&in_words(&tested))?,
    }
    // What failed has been said.
    if tested.ok {
        Ok(())
    } else {
        Err(Failure::Said)
    }
}

async fn ask(app: &App, arguments: &McpTestArgs) -> Result<JsonText, Failure> {
    let McpTestArgs {
        subject,
        url,
        secrets,
        cwd,
        command,
    } = arguments;
    let says_where = url.is_some() || !command.is_empty();
    match McpTransport::from_str(subject, false) {
        // A server may be called `http`: then nothing follows.
        Ok(transport) if says_where => {
            let body = sent::unsaved(arguments, transport)?;
            let village = app.village()?;
            village
                .post_patiently(&["mcp-servers", "test"], &body)
                .await
        }
        Ok(_) | Err(_) => {
            if says_where || cwd.is_some() || !secrets.is_empty() {
                return Err(Failure::usage(format!(
                    "a saved server is tested by its name alone; for one that is not saved write http, sse or stdio in the place of {subject:?}, and where it is"
                )));
            }
            let path = ["mcp-servers", subject, "test"];
            let nothing = serde_json::json!({});
            app.village()?.post_patiently(&path, &nothing).await
        }
    }
}

fn in_words(tested: &Tested) -> String {
    let mut lines = Vec::new();
    if tested.ok {
        let version = tested
            .protocol_version
            .as_deref()
            .map(|version| format!(", protocol {}", one_line(version)))
            .unwrap_or_default();
        let era = tested
            .era
            .as_deref()
            .map(|era| format!(" ({era})"))
            .unwrap_or_default();
        lines.push(format!(
            "ok  {} Tools over {}{version}{era}, in {} ms",
            tested.tools.len(),
            tested.transport,
            tested.latency_ms
        ));
    } else {
        lines.push(format!(
            "FAILED  {}",
            tested.code.as_deref().unwrap_or("unknown")
        ));
        for sentence in [&tested.sentence, &tested.next_step].into_iter().flatten() {
            lines.extend(indented(sentence, 2));
        }
    }
    if let Some(info) = &tested.server_info {
        lines.push(format!("It calls itself  {}", one_line(info)));
    }
    if let Some(instructions) = &tested.instructions {
        lines.push("It says of itself".to_owned());
        lines.extend(indented(instructions, 4));
    }
    for tool in &tested.tools {
        let original = if tool.full_name.ends_with(&format!("__{}", tool.name)) {
            String::new()
        } else {
            format!("  (there: {})", one_line(&tool.name))
        };
        lines.push(format!("  {}{original}", one_line(&tool.full_name)));
        lines.extend(indented(&tool.description, 4));
    }
    if !tested.withheld.is_empty() {
        lines.push("Not offered".to_owned());
        for tool in &tested.withheld {
            lines.push(format!("  {}", one_line(&tool.name)));
            lines.extend(indented(&tool.reason, 4));
        }
    }
    lines.join("\n")
}

/// Others' text, which never starts a line.
fn indented(text: &str, by: usize) -> impl Iterator<Item = String> {
    excerpt(text, SHORT)
        .into_iter()
        .map(move |line| format!("{:by$}{line}", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(json: &str) -> String {
        in_words(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn what_a_server_says_is_indented_stripped_and_short() {
        let said = words(
            r#"{"ok":true,"transport":"http","era":"modern","protocolVersion":"2026-07-28","latencyMs":12,"serverInfo":"docs 1\n\u001b[2J.0",
                "instructions":"Be kind.\nok  99 Tools",
                "tools":[{"fullName":"docs__search","name":"search","description":"Searches.\n\u001b]0;x\u0007FAILED"},
                         {"fullName":"docs__a_b_12345678","name":"a.b","description":""}],
                "withheld":[{"name":"odd\u202e","reason":"it has no schema"}]}"#,
        );
        insta::assert_snapshot!(said);
    }

    #[test]
    fn a_failure_is_a_code_a_sentence_and_a_next_step() {
        let said = words(
            r#"{"ok":false,"code":"is-sse","sentence":"https://docs.example/sse is an SSE server.","nextStep":"Register it with the transport sse.",
                "transport":"http","latencyMs":3}"#,
        );
        insta::assert_snapshot!(said);
    }
}
