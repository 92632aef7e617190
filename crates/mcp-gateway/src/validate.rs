//! A server that is not saved, judged by the rules for one that is to be saved.
//!
//! A URL that no server can have is how the test went, since people test URLs; everything else that is wrong is refused with its field.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use http::{HeaderName, HeaderValue};
use kernel::{McpTransport, Slug};
use outbound::Schemes;
use url::Url;
use vault::{SealError, Vault};

use crate::{
    Endpoint, Error, Failure, FailureCode, RemoteEndpoint, SealedMap, StdioEndpoint, Target,
};

/// Headers of one server.
const MAX_HEADERS: usize = 32;
/// Bytes of one header's value.
const HEADER_BYTES: usize = 8 * 1_024;
/// Environment variables of one server.
const MAX_ENVIRONMENT: usize = 64;
/// Bytes of a command, or of the folder that it runs in.
const COMMAND_BYTES: usize = 4_096;
/// Arguments of a command.
const MAX_ARGUMENTS: usize = 128;
/// Bytes of one argument.
const ARGUMENT_BYTES: usize = 8 * 1_024;
/// Headers that the protocol or HTTP itself sets.
const RESERVED: [&str; 19] = [
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "origin",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Headers of the protocol that carry arguments.
const RESERVED_PREFIX: &str = "mcp-param-";
/// Variables with which a command would run something else.
const REFUSED_VARIABLES: [&str; 3] = ["LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT"];

/// A server as somebody wants to test it. It has no `Debug`: there are secrets in it.
pub(crate) struct Draft {
    pub(crate) name: String,
    pub(crate) transport: McpTransport,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) command: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) working_directory: String,
}

/// The server, with its secrets sealed in memory; or what is wrong with its URL.
///
/// # Errors
/// [`Error::Argument`], with the field.
pub(crate) fn target(vault: &Arc<Vault>, draft: Draft) -> Result<Result<Target, Failure>, Error> {
    let slug = match draft.name.as_str() {
        "" => "server".to_owned(),
        name => Slug::of(name)
            .map_err(|invalid| Error::argument("name", invalid.to_string()))?
            .to_string(),
    };
    let name = match draft.name.as_str() {
        "" => "The server",
        name => name,
    }
    .to_owned();
    let endpoint = match draft.transport {
        McpTransport::Stdio => Endpoint::Stdio(stdio(vault, draft)?),
        McpTransport::Http | McpTransport::Sse => {
            let transport = draft.transport;
            match remote(vault, draft)? {
                Err(failure) => return Ok(Err(failure)),
                Ok(remote) if transport == McpTransport::Sse => Endpoint::Sse(remote),
                Ok(remote) => Endpoint::Http(remote),
            }
        }
    };
    Ok(Ok(Target {
        server_id: "unsaved".to_owned(),
        slug,
        name,
        generation: 0,
        credentials_generation: 0,
        era: None,
        endpoint,
    }))
}

fn remote(vault: &Arc<Vault>, draft: Draft) -> Result<Result<RemoteEndpoint, Failure>, Error> {
    let foreign = |field| Error::argument(field, format!("{field} is for stdio; leave it out"));
    if !draft.command.is_empty() {
        return Err(foreign("command"));
    }
    if !draft.arguments.is_empty() {
        return Err(foreign("arguments"));
    }
    if !draft.environment.is_empty() {
        return Err(foreign("environment"));
    }
    if !draft.working_directory.is_empty() {
        return Err(foreign("working_directory"));
    }
    if draft.url.is_empty() {
        return Err(Error::argument("url", "give the URL of the MCP Server"));
    }
    let headers = headers(draft.headers)?;
    let headers = SealedMap::seal(vault, "headers", &headers).map_err(too_long("headers"))?;
    let url = match outbound::Target::parse(&draft.url, Schemes::HttpAndHttps) {
        Ok((url, _target)) => url,
        Err(refusal) => return Ok(Err(bad_url(&refusal.to_string()))),
    };
    if url.fragment().is_some() {
        return Ok(Err(bad_url("what stands after the # is never sent")));
    }
    let whole = match url.query() {
        Some(query) if !query.is_empty() => {
            BTreeMap::from([("url".to_owned(), url.as_str().to_owned())])
        }
        Some(_) | None => BTreeMap::new(),
    };
    let sealed_url = SealedMap::seal(vault, "url", &whole).map_err(too_long("url"))?;
    Ok(Ok(RemoteEndpoint {
        shown_url: masked(&url),
        sealed_url,
        headers,
    }))
}

/// The URL with every value of its query masked. A part of the query without a name may be a key as well.
fn masked(url: &Url) -> String {
    let mut shown = url.clone();
    let query = url.query().filter(|query| !query.is_empty()).map(|query| {
        let parts = query.split('&').map(|part| match part.split_once('=') {
            Some((name, _value)) => format!("{name}=***"),
            None => "***".to_owned(),
        });
        parts.collect::<Vec<_>>().join("&")
    });
    shown.set_query(query.as_deref());
    shown.into()
}

fn bad_url(problem: &str) -> Failure {
    Failure::new(
        FailureCode::BadUrl,
        format_args!("The URL cannot be that of an MCP Server: {problem}."),
        "Give an http or https URL, as the server's documentation has it; keys belong in headers.",
    )
}

fn headers(headers: Vec<(String, String)>) -> Result<BTreeMap<String, String>, Error> {
    let wrong = |problem: String| Error::argument("headers", problem);
    if headers.len() > MAX_HEADERS {
        return Err(wrong(format!("at most {MAX_HEADERS} headers are sent")));
    }
    let mut named = BTreeMap::new();
    for (name, value) in headers {
        let shown = crate::names::shown(&name);
        let Ok(parsed) = HeaderName::from_bytes(name.as_bytes()) else {
            return Err(wrong(format!("{shown:?} is no name of a header")));
        };
        let lower = parsed.as_str();
        if RESERVED.contains(&lower) || lower.starts_with(RESERVED_PREFIX) {
            return Err(wrong(format!(
                "the header {shown:?} is set by the protocol; leave it out"
            )));
        }
        if value.len() > HEADER_BYTES || HeaderValue::from_str(&value).is_err() {
            return Err(wrong(format!(
                "the value of the header {shown:?} cannot be sent: visible ASCII characters and spaces, at most {HEADER_BYTES} of them"
            )));
        }
        if named.insert(lower.to_owned(), value).is_some() {
            return Err(wrong(format!("the header {shown:?} stands there twice")));
        }
    }
    Ok(named)
}

fn stdio(vault: &Arc<Vault>, draft: Draft) -> Result<StdioEndpoint, Error> {
    let foreign =
        |field| Error::argument(field, format!("{field} is for http and sse; leave it out"));
    if !draft.url.is_empty() {
        return Err(foreign("url"));
    }
    if !draft.headers.is_empty() {
        return Err(foreign("headers"));
    }
    let fits = |text: &str, bytes: usize| text.len() <= bytes && !text.contains('\0');
    if draft.command.trim().is_empty() || !fits(&draft.command, COMMAND_BYTES) {
        return Err(Error::argument(
            "command",
            format!(
                "give a command of at most {COMMAND_BYTES} bytes without NUL; its arguments stand apart from it"
            ),
        ));
    }
    let arguments = &draft.arguments;
    if arguments.len() > MAX_ARGUMENTS || !arguments.iter().all(|a| fits(a, ARGUMENT_BYTES)) {
        return Err(Error::argument(
            "arguments",
            format!(
                "at most {MAX_ARGUMENTS} arguments are given, each of at most {ARGUMENT_BYTES} bytes without NUL"
            ),
        ));
    }
    let folder = &draft.working_directory;
    let is_folder = fits(folder, COMMAND_BYTES) && Path::new(folder).is_absolute();
    if !folder.is_empty() && !is_folder {
        return Err(Error::argument(
            "working_directory",
            "the folder is an absolute path, or left out",
        ));
    }
    let environment = environment(draft.environment)?;
    let environment =
        SealedMap::seal(vault, "environment", &environment).map_err(too_long("environment"))?;
    Ok(StdioEndpoint {
        command: draft.command,
        arguments: draft.arguments,
        working_directory: draft.working_directory,
        environment,
    })
}

fn environment(variables: Vec<(String, String)>) -> Result<BTreeMap<String, String>, Error> {
    let wrong = |problem: String| Error::argument("environment", problem);
    if variables.len() > MAX_ENVIRONMENT {
        return Err(wrong(format!(
            "at most {MAX_ENVIRONMENT} variables are set"
        )));
    }
    let mut named = BTreeMap::new();
    for (name, value) in variables {
        let shown = crate::names::shown(&name);
        let is_name = name.len() <= 128
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            return Err(wrong(format!(
                "{shown:?} is no name of a variable: letters, digits and _"
            )));
        }
        if REFUSED_VARIABLES.contains(&name.as_str()) {
            return Err(wrong(format!(
                "{shown} would have the command run something else; leave it out"
            )));
        }
        if value.contains('\0') {
            return Err(wrong(format!("the value of {shown} has a NUL in it")));
        }
        if named.insert(name, value).is_some() {
            return Err(wrong(format!("{shown} stands there twice")));
        }
    }
    Ok(named)
}

fn too_long(field: &'static str) -> impl Fn(SealError) -> Error {
    move |error| Error::argument(field, error.to_string())
}
