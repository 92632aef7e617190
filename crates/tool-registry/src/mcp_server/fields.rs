//! What a request says of a server, and the same, checked.

use std::collections::BTreeMap;

use kernel::{McpTransport, Secret};

use super::{Pinning, secrets, url::McpUrl};
use crate::{Error, name::Name};

/// Bytes of a command, and of the folder that it runs in.
const COMMAND_BYTES: usize = 4_096;
/// Arguments of a command.
const MAX_ARGUMENTS: usize = 128;
/// Bytes of all its arguments.
const ARGUMENTS_BYTES: usize = 32 * 1_024;

/// A header or variable, as it was given.
#[derive(Debug, Clone)]
pub(crate) struct NamedSecret {
    pub(crate) name: String,
    pub(crate) value: Secret,
}

/// What a request says of a server. Absent is kept, or the default of a new one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields {
    pub(crate) name: Option<String>,
    pub(crate) transport: Option<McpTransport>,
    /// Its query may hold a key.
    pub(crate) url: Option<Secret>,
    pub(crate) headers: Option<Vec<NamedSecret>>,
    pub(crate) command: Option<String>,
    pub(crate) arguments: Option<Vec<String>>,
    pub(crate) working_directory: Option<String>,
    pub(crate) environment: Option<Vec<NamedSecret>>,
    pub(crate) private: Option<bool>,
    pub(crate) enabled: Option<bool>,
    pub(crate) pinning: Option<Pinning>,
}

/// The same, each field right by itself. Whether they fit together and to the server, [`Self::put_on`] says.
#[derive(Debug, Clone)]
pub(crate) struct Checked {
    pub(super) name: Option<Name>,
    pub(super) transport: Option<McpTransport>,
    pub(super) url: Option<McpUrl>,
    pub(super) headers: Option<BTreeMap<String, Secret>>,
    pub(super) command: Option<String>,
    pub(super) arguments: Option<Vec<String>>,
    pub(super) working_directory: Option<String>,
    pub(super) environment: Option<BTreeMap<String, Secret>>,
    pub(super) private: Option<bool>,
    pub(super) enabled: Option<bool>,
    pub(super) pinning: Option<Pinning>,
}

impl Fields {
    pub(crate) fn check(self) -> Result<Checked, Error> {
        let url = self.url.as_ref().map(|url| McpUrl::parse(url.expose()));
        if let Some(command) = &self.command {
            check_command(command)?;
        }
        if let Some(arguments) = &self.arguments {
            check_arguments(arguments)?;
        }
        if let Some(folder) = &self.working_directory {
            check_folder(folder)?;
        }
        Ok(Checked {
            name: self.name.as_deref().map(plain_name).transpose()?,
            transport: self.transport,
            url: url.transpose()?,
            headers: self.headers.map(secrets::headers).transpose()?,
            command: self.command,
            arguments: self.arguments,
            working_directory: self.working_directory,
            environment: self.environment.map(secrets::environment).transpose()?,
            private: self.private,
            enabled: self.enabled,
            pinning: self.pinning,
        })
    }
}

/// A server's name begins the names of its Tools and is what people grant by. Letters of other alphabets are left out of those, and
/// many look like others, so that a server could pass for another one.
fn plain_name(text: &str) -> Result<Name, Error> {
    let name = Name::parse(text)?;
    if let Some(strange) = name.text.chars().find(|c| !c.is_ascii()) {
        let shown = strange.escape_unicode();
        return Err(Error::invalid(
            "name",
            format_args!(
                "the character {shown} is not one of ASCII; an MCP Server's name begins its Tools' names, so write it in a-z, digits, spaces and hyphens"
            ),
        ));
    }
    Ok(name)
}

fn check_command(command: &str) -> Result<(), Error> {
    if command.trim().is_empty() {
        return Err(Error::invalid(
            "command",
            "it is empty; a stdio server has a command, such as npx or /usr/bin/python3",
        ));
    }
    bounded("command", command, COMMAND_BYTES)
}

fn check_arguments(arguments: &[String]) -> Result<(), Error> {
    if arguments.len() > MAX_ARGUMENTS {
        let count = arguments.len();
        return Err(Error::invalid(
            "arguments",
            format_args!("{count} are too many; at most {MAX_ARGUMENTS} are allowed"),
        ));
    }
    let bytes: usize = arguments.iter().map(String::len).sum();
    if bytes > ARGUMENTS_BYTES {
        return Err(Error::invalid(
            "arguments",
            format_args!("together they have {bytes} bytes; at most {ARGUMENTS_BYTES} are allowed"),
        ));
    }
    arguments
        .iter()
        .try_for_each(|argument| bounded("arguments", argument, ARGUMENTS_BYTES))
}

fn check_folder(folder: &str) -> Result<(), Error> {
    if !folder.is_empty() && !folder.starts_with('/') {
        return Err(Error::invalid(
            "working_directory",
            "it is not an absolute path; begin it with /, or leave it out for a fresh folder",
        ));
    }
    bounded("working_directory", folder, COMMAND_BYTES)
}

fn bounded(field: &'static str, text: &str, most: usize) -> Result<(), Error> {
    let bytes = text.len();
    if bytes > most {
        return Err(Error::invalid(
            field,
            format_args!("{bytes} bytes are too many; at most {most} are allowed"),
        ));
    }
    if text.contains('\0') {
        return Err(Error::invalid(
            field,
            "it has a NUL in it, which no command line can have",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_letters_that_look_like_others_is_refused() {
        for bad in [
            "D\u{43e}cs",
            "Ｄｏｃｓ",
            "Do\u{200b}cs",
            "Docs\u{202e}",
            "Docs 村",
        ] {
            let fields = Fields {
                name: Some(bad.to_owned()),
                ..Fields::default()
            };
            assert_eq!(
                fields.check().expect_err(bad).field(),
                Some("name"),
                "{bad}"
            );
        }
        assert_eq!(
            plain_name(" My_Docs 2! ").expect("a name").slug.as_str(),
            "my-docs-2"
        );
    }

    #[test]
    fn a_command_line_is_bounded_and_has_no_nul() {
        let text = |text: &str| Some(text.to_owned());
        let many = |count, text: &str| Some(vec![text.to_owned(); count]);
        let cases = [
            (
                "command",
                Fields {
                    command: text(" "),
                    ..Fields::default()
                },
            ),
            (
                "command",
                Fields {
                    command: text("a\0b"),
                    ..Fields::default()
                },
            ),
            (
                "command",
                Fields {
                    command: text(&"x".repeat(4_097)),
                    ..Fields::default()
                },
            ),
            (
                "arguments",
                Fields {
                    arguments: many(129, "x"),
                    ..Fields::default()
                },
            ),
            (
                "arguments",
                Fields {
                    arguments: many(2, &"x".repeat(20_000)),
                    ..Fields::default()
                },
            ),
            (
                "arguments",
                Fields {
                    arguments: many(1, "a\0b"),
                    ..Fields::default()
                },
            ),
            (
                "working_directory",
                Fields {
                    working_directory: text("srv"),
                    ..Fields::default()
                },
            ),
            (
                "working_directory",
                Fields {
                    working_directory: text("/a\0b"),
                    ..Fields::default()
                },
            ),
        ];
        for (field, fields) in cases {
            assert_eq!(fields.check().expect_err(field).field(), Some(field));
        }
    }
}
