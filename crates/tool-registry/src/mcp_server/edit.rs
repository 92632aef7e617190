//! How a server becomes another: pure, so that every rule can be read and tried alone.

use kernel::{McpTransport, PlayerId};
use vault::Vault;

use super::{McpServer, fields::Checked, sealed, sealed::SealedText, transport_as_str, url};
use crate::Error;

/// A server with its changes.
#[derive(Debug, Clone)]
pub(crate) struct Edited {
    pub(crate) server: McpServer,
    /// Where kept secrets go from now on, if that is another place than before.
    pub(crate) notice: Option<String>,
}

/// Who edits, and what seals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Editor<'e> {
    pub(crate) player: PlayerId,
    pub(crate) vault: &'e Vault,
}

impl Checked {
    /// The server with these changes. Counters are raised by what changed; the times are the caller's.
    pub(crate) fn put_on(self, before: &McpServer, editor: Editor<'_>) -> Result<Edited, Error> {
        let transport = self.transport.unwrap_or(before.transport);
        self.refuse_fields_of_others(transport)?;
        let mut after = McpServer {
            transport,
            ..before.clone()
        };
        let is_stdio = |transport| transport == McpTransport::Stdio;
        if is_stdio(transport) != is_stdio(before.transport) {
            drop_what_it_has_not(&mut after);
        }
        let keeps_headers = self.headers.is_none();
        let keeps_environment = self.environment.is_none();
        self.write(&mut after, editor.vault)?;
        refuse_what_is_missing(&after)?;
        let notice = if keeps_headers && !after.header_names.is_empty() {
            kept_headers(before, &after, editor.player)?
        } else if keeps_environment && !after.environment_names.is_empty() {
            kept_environment(before, &after, editor.player)?
        } else {
            None
        };
        count(before, &mut after);
        Ok(Edited {
            server: after,
            notice,
        })
    }

    fn refuse_fields_of_others(&self, transport: McpTransport) -> Result<(), Error> {
        let of_addresses = [
            ("url", self.url.is_some()),
            ("headers", self.headers.is_some()),
        ];
        let of_commands = [
            ("command", self.command.is_some()),
            ("arguments", self.arguments.is_some()),
            ("working_directory", self.working_directory.is_some()),
            ("environment", self.environment.is_some()),
        ];
        let (strange, has): (&[(&'static str, bool)], _) = match transport {
            McpTransport::Stdio => (
                &of_addresses,
                "a command, arguments, an environment and a folder",
            ),
            McpTransport::Http | McpTransport::Sse => (&of_commands, "a URL and headers"),
        };
        match strange.iter().find(|(_, given)| *given) {
            Some((field, _)) => Err(Error::invalid(
                field,
                format_args!(
                    "a server with the transport {} does not have it; it has {has}",
                    transport_as_str(transport)
                ),
            )),
            None => Ok(()),
        }
    }

    fn write(self, server: &mut McpServer, vault: &Vault) -> Result<(), Error> {
        fn put<T>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        let id = server.id;
        if let Some(name) = self.name {
            server.name = name.text;
            server.slug = name.slug.to_string();
        }
        if let Some(url) = self.url {
            server.sealed_url = if url.is_secret() {
                SealedText::seal_url(vault, id, &url.whole)?
            } else {
                None
            };
            server.url = url.shown;
            server.query_names = url.query_names;
        }
        if let Some(headers) = self.headers {
            server.sealed_headers = SealedText::seal(vault, id, sealed::Field::Headers, &headers)?;
            server.header_names = headers.into_keys().collect();
        }
        match (self.command, self.arguments) {
            (Some(command), arguments) => {
                server.command = command;
                server.arguments = arguments.unwrap_or_default();
            }
            (None, Some(_)) => {
                return Err(Error::invalid(
                    "arguments",
                    "they are replaced together with the command; give the command, too",
                ));
            }
            (None, None) => {}
        }
        put(&mut server.working_directory, self.working_directory);
        if let Some(environment) = self.environment {
            server.sealed_environment =
                SealedText::seal(vault, id, sealed::Field::Environment, &environment)?;
            server.environment_names = environment.into_keys().collect();
        }
        put(&mut server.private, self.private);
        put(&mut server.enabled, self.enabled);
        put(&mut server.pinning, self.pinning);
        Ok(())
    }
}

/// A server that changes between an address and a command keeps nothing of the one for the other.
fn drop_what_it_has_not(server: &mut McpServer) {
    server.url.clear();
    server.query_names.clear();
    server.sealed_url = None;
    server.header_names.clear();
    server.sealed_headers = None;
    server.command.clear();
    server.arguments.clear();
    server.working_directory.clear();
    server.environment_names.clear();
    server.sealed_environment = None;
}

fn refuse_what_is_missing(server: &McpServer) -> Result<(), Error> {
    let transport = transport_as_str(server.transport);
    match server.transport {
        McpTransport::Stdio if server.command.is_empty() => Err(Error::invalid(
            "command",
            format_args!("a server with the transport {transport} needs one"),
        )),
        McpTransport::Http | McpTransport::Sse if server.url.is_empty() => Err(Error::invalid(
            "url",
            format_args!("a server with the transport {transport} needs one"),
        )),
        McpTransport::Stdio | McpTransport::Http | McpTransport::Sse => Ok(()),
    }
}

/// Headers that are kept go where the URL leads. Who did not enter them does not know them, and may not send them elsewhere.
fn kept_headers(
    before: &McpServer,
    after: &McpServer,
    editor: PlayerId,
) -> Result<Option<String>, Error> {
    let (old, new) = (url::origin(&before.url), url::origin(&after.url));
    if old == new {
        return Ok(None);
    }
    let new = new.unwrap_or_default();
    if after.owner != editor {
        return Err(Error::invalid(
            "headers",
            format_args!(
                "the headers that are set are another Player's, and would be sent to {new}; replace them, or clear them"
            ),
        ));
    }
    Ok(Some(format!(
        "the headers that were kept go to {new} from now on"
    )))
}

/// The same for the environment and the command that reads it.
fn kept_environment(
    before: &McpServer,
    after: &McpServer,
    editor: PlayerId,
) -> Result<Option<String>, Error> {
    let same = before.command == after.command
        && before.arguments == after.arguments
        && before.working_directory == after.working_directory;
    if same {
        return Ok(None);
    }
    if after.owner != editor {
        return Err(Error::invalid(
            "environment",
            "the variables that are set are another Player's, and another command would read them; replace them, or clear them",
        ));
    }
    Ok(Some(
        "the variables that were kept are read by the changed command from now on".to_owned(),
    ))
}

/// Raises the counters, and forgets what was learnt of a server that is another one now.
fn count(before: &McpServer, after: &mut McpServer) {
    if after == before {
        return;
    }
    after.generation += 1;
    let credentials = |server: &McpServer| {
        (
            server.sealed_url.clone(),
            server.sealed_headers.clone(),
            server.sealed_environment.clone(),
        )
    };
    let place = |server: &McpServer| {
        (
            server.transport,
            server.url.clone(),
            server.command.clone(),
            server.arguments.clone(),
            server.working_directory.clone(),
        )
    };
    let new_credentials = credentials(before) != credentials(after);
    if new_credentials {
        after.credentials_generation += 1;
    }
    if new_credentials || place(before) != place(after) {
        after.era = None;
        after.last_test = None;
    }
}

#[cfg(test)]
mod tests;
