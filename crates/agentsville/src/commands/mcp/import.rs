//! `mcp import`.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use kernel::{ErrorCode, limits::HTTP_BODY_BYTES};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    app::App,
    client::read,
    failure::Failure,
    output::Format,
    render::{Table, one_line},
};

#[derive(Debug, Deserialize)]
struct Imported {
    items: Vec<kernel::JsonText>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    name: String,
    outcome: String,
    sentence: String,
}

pub(super) async fn run(app: &App, file: &Path) -> Result<(), Failure> {
    let servers = servers(&whole(file)?, file)?;
    let body = json!({ "mcpServers": servers });
    let answer = app
        .village()?
        .post_patiently(&["mcp-servers", "import"], &body)
        .await?;
    let imported: Imported = read(&answer)?;
    let entries = imported
        .items
        .iter()
        .map(read)
        .collect::<Result<Vec<Entry>, _>>()?;
    match app.output.format() {
        Format::Json => app.output.json_of(&imported.items)?,
        Format::Text => {
            let mut text = Table::new(&["NAME", "OUTCOME"]);
            for entry in &entries {
                text.row([entry.name.as_str(), &entry.outcome]);
            }
            let mut lines = vec![text.to_string()];
            for entry in &entries {
                lines.push(format!("{}: {}", one_line(&entry.name), entry.sentence));
            }
            app.output.line(&lines.join("\n"))?;
        }
    }
    // Which were refused has been said.
    if entries.iter().any(|entry| entry.outcome == "refused") {
        return Err(Failure::Said);
    }
    Ok(())
}

/// The servers of a file, wherever clients keep them in it. Nothing else of the file is sent.
fn servers(text: &str, file: &Path) -> Result<Map<String, Value>, Failure> {
    let refused = |what: &str| {
        Failure::of(
            ErrorCode::InvalidArgument,
            format!("{} {what}", file.display()),
        )
    };
    // serde_json's errors give a place and never the text.
    let whole: Value = serde_json::from_str(text).map_err(|error| {
        refused(&format!(
            "is not JSON: {error}; comments and commas at the end of lists are none"
        ))
    })?;
    ["/mcpServers", "/servers", "/mcp/servers"]
        .into_iter()
        .find_map(|place| whole.pointer(place))
        .and_then(Value::as_object)
        .cloned()
        .ok_or_else(|| {
            refused("has no object mcpServers in it; write {\"mcpServers\": {\"name\": {…}}}")
        })
}

fn whole(file: &Path) -> Result<String, Failure> {
    let read = if file.as_os_str() == "-" {
        bounded(io::stdin().lock())
    } else {
        File::open(file).and_then(bounded)
    };
    read.map_err(|error| {
        Failure::of(
            ErrorCode::InvalidArgument,
            format!("cannot read {}: {error}", file.display()),
        )
    })
}

fn bounded(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(HTTP_BODY_BYTES as u64 + 1)
        .read_to_string(&mut text)?;
    if text.len() > HTTP_BODY_BYTES {
        return Err(io::Error::other(format!(
            "it is larger than {HTTP_BODY_BYTES} bytes"
        )));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<String>, String> {
        servers(text, Path::new("f.json"))
            .map(|servers| servers.keys().cloned().collect())
            .map_err(|failure| failure.problem().unwrap().detail.clone())
    }

    #[test]
    fn servers_are_found_where_clients_keep_them() {
        for text in [
            r#"{"mcpServers":{"a":{}},"theme":"dark"}"#,
            r#"{"inputs":[],"servers":{"a":{}}}"#,
            r#"{"editor.fontSize":12,"mcp":{"servers":{"a":{}}}}"#,
        ] {
            assert_eq!(names(text).unwrap(), ["a"]);
        }
    }

    #[test]
    fn a_refusal_repeats_nothing_of_the_file() {
        for text in [
            r#"{"mcpServers":["sk-secret"]}"#,
            r#"{"mcpServers":{"a":{"env":{"K":"sk-secret" // comment"#,
            r#""sk-secret""#,
        ] {
            let refusal = names(text).unwrap_err();
            assert!(!refusal.contains("sk-secret"), "{refusal}");
        }
    }
}
