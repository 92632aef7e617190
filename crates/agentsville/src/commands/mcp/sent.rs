//! What `mcp add`, `mcp edit` and `mcp test` send.
//!
//! **Invariant:** a value of a header or of the environment is in no sentence, and in nothing that is printed.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use kernel::{ErrorCode, Secret};
use serde::{Serialize, Serializer, ser::SerializeMap as _};

use crate::{
    cli::{McpAddArgs, McpEditArgs, McpTestArgs, McpTransport, Pinning, Secrets},
    failure::Failure,
};

/// The largest file of headers or variables.
const FILE_BYTES: u64 = 1_024 * 1_024;

/// Names and values, in the order of their names.
#[derive(Debug, Default)]
pub(super) struct Pairs(BTreeMap<String, Secret>);

impl Serialize for Pairs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value.expose())?;
        }
        map.end()
    }
}

/// A server to be registered or tested.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewServer<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    transport: McpTransport,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Pairs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<Pairs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    working_directory: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    private: Option<bool>,
}

/// Changes of a server; what is not said is left out.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Changes<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Pairs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<Pairs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    private: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pinning: Option<Pinning>,
}

/// What `mcp add` says.
pub(super) fn new_server(arguments: &McpAddArgs) -> Result<NewServer<'_>, Failure> {
    let server = Server {
        transport: arguments.transport,
        url: arguments.url.as_deref(),
        secrets: &arguments.secrets,
        cwd: arguments.cwd.as_deref(),
        command: &arguments.command,
    };
    Ok(NewServer {
        name: Some(&arguments.name),
        private: arguments.private.then_some(true),
        ..server.read()?
    })
}

/// What `mcp test` says of a server that is not saved.
pub(super) fn unsaved(
    arguments: &McpTestArgs,
    transport: McpTransport,
) -> Result<NewServer<'_>, Failure> {
    let server = Server {
        transport,
        url: arguments.url.as_deref(),
        secrets: &arguments.secrets,
        cwd: arguments.cwd.as_deref(),
        command: &arguments.command,
    };
    server.read()
}

/// Where a server is and what it is sent, as it was written.
struct Server<'a> {
    transport: McpTransport,
    url: Option<&'a str>,
    secrets: &'a Secrets,
    cwd: Option<&'a str>,
    command: &'a [String],
}

impl<'a> Server<'a> {
    fn read(self) -> Result<NewServer<'a>, Failure> {
        let headers = headers(self.secrets)?;
        let environment = environment(self.secrets)?;
        let (command, arguments) = match self.command.split_first() {
            Some((command, arguments)) => (Some(command.as_str()), Some(arguments)),
            None => (None, None),
        };
        match self.transport {
            McpTransport::Http | McpTransport::Sse => {
                if self.url.is_none() {
                    return Err(Failure::usage(
                        "say where the server is, such as https://docs.example/mcp",
                    ));
                }
                if command.is_some() || environment.is_some() || self.cwd.is_some() {
                    return Err(Failure::usage(
                        "a command, --env and --cwd are for stdio; http and sse take a URL and --header",
                    ));
                }
            }
            McpTransport::Stdio => {
                if let Some(stray) = self.url {
                    return Err(Failure::usage(format!(
                        "stdio takes no URL; write the command after --, as in: stdio -- {stray}"
                    )));
                }
                if command.is_none() {
                    return Err(Failure::usage(
                        "say which command to run, after --, as in: stdio -- npx -y some-server",
                    ));
                }
                if headers.is_some() {
                    return Err(Failure::usage(
                        "--header is for http and sse; stdio takes --env",
                    ));
                }
            }
        }
        Ok(NewServer {
            name: None,
            transport: self.transport,
            url: self.url,
            headers,
            command,
            arguments,
            environment,
            working_directory: self.cwd,
            private: None,
        })
    }
}

/// What `mcp edit` says.
pub(super) fn changes(arguments: &McpEditArgs) -> Result<Changes<'_>, Failure> {
    let one_of = |yes: bool, no: bool| match (yes, no) {
        (true, _) => Some(true),
        (false, true) => Some(false),
        (false, false) => None,
    };
    let or_clear = |pairs: Option<Pairs>, clear: bool| pairs.or(clear.then(Pairs::default));
    let changes = Changes {
        url: arguments.url.as_deref(),
        headers: or_clear(headers(&arguments.secrets)?, arguments.clear_headers),
        environment: or_clear(environment(&arguments.secrets)?, arguments.clear_env),
        enabled: one_of(arguments.enable, arguments.disable),
        private: one_of(arguments.private, arguments.public),
        pinning: arguments.pinning,
    };
    match &changes {
        Changes {
            url: None,
            headers: None,
            environment: None,
            enabled: None,
            private: None,
            pinning: None,
        } => Err(Failure::usage(
            "mcp edit needs something to change, such as --url or --disable; see `agentsville mcp edit --help`",
        )),
        _ => Ok(changes),
    }
}

fn headers(secrets: &Secrets) -> Result<Option<Pairs>, Failure> {
    let kind = Kind {
        flag: "--header",
        shape: "'K: V'",
        separator: ':',
    };
    kind.pairs(&secrets.headers, secrets.header_file.as_ref())
}

fn environment(secrets: &Secrets) -> Result<Option<Pairs>, Failure> {
    let kind = Kind {
        flag: "--env",
        shape: "K=V",
        separator: '=',
    };
    kind.pairs(&secrets.environment, secrets.env_file.as_ref())
}

/// One kind of secrets, as it is written.
struct Kind {
    flag: &'static str,
    shape: &'static str,
    separator: char,
}

impl Kind {
    /// None when nothing was said of them.
    fn pairs(&self, said: &[String], file: Option<&PathBuf>) -> Result<Option<Pairs>, Failure> {
        if said.is_empty() && file.is_none() {
            return Ok(None);
        }
        let mut pairs = Pairs::default();
        for (index, text) in said.iter().enumerate() {
            self.add(
                text,
                &mut pairs,
                &format!("{} number {}", self.flag, index + 1),
            )?;
        }
        if let Some(path) = file {
            let text = whole(path)?;
            for (index, line) in text.expose().lines().enumerate() {
                let content = line.trim();
                if content.is_empty() || content.starts_with('#') {
                    continue;
                }
                let place = format!("line {} of {}", index + 1, path.display());
                self.add(line, &mut pairs, &place)?;
            }
        }
        Ok(Some(pairs))
    }

    fn add(&self, text: &str, pairs: &mut Pairs, place: &str) -> Result<(), Failure> {
        // The text may be the secret alone: it is not repeated.
        let (name, value) = text
            .split_once(self.separator)
            .ok_or_else(|| Failure::usage(format!("{place} is not written as {}", self.shape)))?;
        let name = name.trim().to_owned();
        let value = match self.separator {
            // RFC 9110 §5.5: white space around a field's value is none of it.
            ':' => value.trim(),
            _ => value,
        };
        if name.is_empty() {
            return Err(Failure::usage(format!("{place} has no name")));
        }
        let twice = Failure::usage(format!("{place}: {name:?} is set twice"));
        match pairs.0.insert(name, Secret::new(value)) {
            None => Ok(()),
            Some(_) => Err(twice),
        }
    }
}

fn whole(path: &Path) -> Result<Secret, Failure> {
    let unreadable = |reason: &str| {
        Failure::of(
            ErrorCode::InvalidArgument,
            format!("cannot read {}: {reason}", path.display()),
        )
    };
    let file = File::open(path).map_err(|error| unreadable(&error.to_string()))?;
    let mut text = String::new();
    file.take(FILE_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|error| unreadable(&error.to_string()))?;
    if text.len() as u64 > FILE_BYTES {
        return Err(unreadable(&format!("it is larger than {FILE_BYTES} bytes")));
    }
    Ok(Secret::new(text))
}

#[cfg(test)]
mod tests;
