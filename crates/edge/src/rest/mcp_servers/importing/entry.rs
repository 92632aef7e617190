//! One entry, as other clients write it.

use proto::registry::v1::{CreateMcpServerRequest, McpTransport, NamedSecret};
use serde_json::{Map, Value};

use crate::body::quoted;

/// Fields without a meaning here that a sentence names.
const NAMED_FIELDS: usize = 8;
/// Fields that would change what the server does, and that nothing here corresponds to.
const NEEDED_ELSEWHERE: [(&str, &str); 2] = [
    (
        "envFile",
        "envFile is a file of that client's machine; write its variables into env",
    ),
    (
        "headersHelper",
        "headersHelper is a program of that client's machine; write what it gives into headers",
    ),
];

/// A server to be registered.
pub(super) struct Entry {
    pub(super) request: CreateMcpServerRequest,
    /// Whether it is to be disabled.
    pub(super) disabled: bool,
    /// Fields that mean nothing here.
    pub(super) ignored: Vec<String>,
}

impl Entry {
    /// Reads an entry.
    ///
    /// # Errors
    /// Why it cannot be a server of a Village, in a sentence without any of its values.
    pub(super) fn read(name: &str, entry: Value) -> Result<Self, String> {
        let Value::Object(mut fields) = entry else {
            return Err("it is no object; write {\"command\": …} or {\"url\": …}".to_owned());
        };
        for (field, sentence) in NEEDED_ELSEWHERE {
            if fields.contains_key(field) {
                return Err(sentence.to_owned());
            }
        }
        let disabled = flag(&mut fields, "disabled")?.unwrap_or(false)
            || flag(&mut fields, "enabled")? == Some(false);
        let said = match text(&mut fields, "type")? {
            Some(word) => {
                fields.remove("transport");
                Some(word)
            }
            None => text(&mut fields, "transport")?,
        };
        let request = CreateMcpServerRequest {
            name: name.to_owned(),
            url: text(&mut fields, "url")?.unwrap_or_default(),
            headers: secrets(&mut fields, "headers")?,
            command: text(&mut fields, "command")?.unwrap_or_default(),
            arguments: texts(&mut fields, "args")?,
            environment: secrets(&mut fields, "env")?,
            working_directory: text(&mut fields, "cwd")?.unwrap_or_default(),
            ..CreateMcpServerRequest::default()
        };
        let transport = transport(said.as_deref(), &request)?;
        Ok(Self {
            request: CreateMcpServerRequest {
                transport: transport.into(),
                ..request
            },
            disabled,
            ignored: fields
                .into_iter()
                .map(|(field, _)| quoted(&field))
                .take(NAMED_FIELDS)
                .collect(),
        })
    }
}

fn transport(said: Option<&str>, request: &CreateMcpServerRequest) -> Result<McpTransport, String> {
    let transport = match said.map(str::to_ascii_lowercase).as_deref() {
        Some("stdio") => McpTransport::Stdio,
        Some("http" | "streamable-http" | "streamablehttp" | "streamable_http") => {
            McpTransport::Http
        }
        Some("sse") => McpTransport::Sse,
        Some(other) => {
            return Err(format!(
                "its type is {}, and not one of http, streamable-http, sse, stdio",
                quoted(other)
            ));
        }
        None if !request.command.is_empty() => McpTransport::Stdio,
        None => McpTransport::Http,
    };
    let lacks = match transport {
        McpTransport::Stdio => request.command.is_empty().then_some("command"),
        McpTransport::Http | McpTransport::Sse | McpTransport::Unspecified => {
            request.url.is_empty().then_some("url")
        }
    };
    match lacks {
        None => Ok(transport),
        Some(_) if request.command.is_empty() && request.url.is_empty() => {
            Err("it has neither a command nor a url".to_owned())
        }
        Some(field) => Err(format!("a server of its type needs a {field}")),
    }
}

fn flag(fields: &mut Map<String, Value>, field: &str) -> Result<Option<bool>, String> {
    match fields.remove(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(flag)),
        Some(_) => Err(format!("{field} is neither true nor false")),
    }
}

fn text(fields: &mut Map<String, Value>, field: &str) -> Result<Option<String>, String> {
    match fields.remove(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => whole(field, text).map(Some),
        Some(_) => Err(format!("{field} is no text; write it in quotes")),
    }
}

fn texts(fields: &mut Map<String, Value>, field: &str) -> Result<Vec<String>, String> {
    let list = match fields.remove(field) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(format!("{field} is no list of texts")),
    };
    list.into_iter()
        .map(|item| match item {
            Value::String(text) => whole(field, text),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => Err(format!("{field} is no list of texts")),
        })
        .collect()
}

/// Names and values. Numbers and flags are taken as they are written: shells know texts alone.
fn secrets(fields: &mut Map<String, Value>, field: &str) -> Result<Vec<NamedSecret>, String> {
    let map = match fields.remove(field) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(map)) => map,
        Some(_) => return Err(format!("{field} is no object of names and values")),
    };
    map.into_iter()
        .map(|(name, value)| {
            let field = format!("{field}.{}", shown(&name));
            let value = match value {
                Value::String(text) => whole(&field, text)?,
                Value::Number(number) => number.to_string(),
                Value::Bool(flag) => flag.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    return Err(format!("{field} is no text; write it in quotes"));
                }
            };
            Ok(NamedSecret { name, value })
        })
        .collect()
}

/// A text that stands for itself: what other clients fill in, nobody here would.
fn whole(field: &str, text: String) -> Result<String, String> {
    let placeholder = text
        .find("${")
        .and_then(|start| Some(&text[start..=start + text[start..].find('}')?]));
    match placeholder {
        None => Ok(text),
        Some(placeholder) => Err(format!(
            "{field} holds the placeholder {}, which nothing here fills in; write the value itself",
            shown(placeholder)
        )),
    }
}

fn shown(text: &str) -> String {
    kernel::strip_control(text).chars().take(64).collect()
}

#[cfg(test)]
mod tests;
