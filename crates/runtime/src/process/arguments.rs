//! The few arguments of a service that runs alone.

use std::{ffi::OsString, path::PathBuf};

use kernel::ServiceName;

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arguments {
    /// Run, with the settings file if one is named.
    Run {
        /// The file.
        config: Option<PathBuf>,
    },
    /// Say what can be said.
    Help,
}

/// A command line that cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UsageError {
    #[error("--config needs the name of a TOML file")]
    NoFile,
    #[error("--config is given twice")]
    Twice,
    #[error(
        "there is no argument {0:?}; --config FILE and --help are all, and the rest are settings"
    )]
    Unknown(String),
}

impl Arguments {
    /// Reads the arguments without the program's name.
    pub(super) fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Self, UsageError> {
        let mut config = None;
        while let Some(argument) = arguments.next() {
            let file = match argument.to_str() {
                Some("--help" | "-h") => return Ok(Self::Help),
                Some("--config") => arguments.next().ok_or(UsageError::NoFile)?,
                Some(text) if text.starts_with("--config=") => {
                    OsString::from(&text["--config=".len()..])
                }
                _ => {
                    let text = argument.to_string_lossy().chars().take(64).collect();
                    return Err(UsageError::Unknown(text));
                }
            };
            if file.is_empty() {
                return Err(UsageError::NoFile);
            }
            if config.replace(PathBuf::from(file)).is_some() {
                return Err(UsageError::Twice);
            }
        }
        Ok(Self::Run { config })
    }
}

/// The text of `--help`.
pub(super) fn help(name: ServiceName) -> String {
    format!(
        "AgentsVille {name}\n\n\
         Usage: {name} [--config FILE]\n\n\
         Runs this service alone. Settings come from FILE (TOML) and, over it, from the environment:\n\
         AGENTSVILLE__SECTION__KEY, such as AGENTSVILLE__GRPC__LISTEN=127.0.0.1:7070.\n\
         Every setting stands in deploy/config.default.toml with its default.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Arguments, UsageError> {
        Arguments::parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn a_file_can_be_named_in_both_ways() {
        let named = Ok(Arguments::Run {
            config: Some(PathBuf::from("a.toml")),
        });
        assert_eq!(parse(&["--config", "a.toml"]), named);
        assert_eq!(parse(&["--config=a.toml"]), named);
        assert_eq!(parse(&[]), Ok(Arguments::Run { config: None }));
        assert_eq!(parse(&["--config", "a", "--help"]), Ok(Arguments::Help));
    }

    #[test]
    fn what_cannot_be_read_is_wrong_usage() {
        assert_eq!(parse(&["--config"]), Err(UsageError::NoFile));
        assert_eq!(parse(&["--config="]), Err(UsageError::NoFile));
        assert_eq!(parse(&["--config=a", "--config=b"]), Err(UsageError::Twice));
        assert_eq!(
            parse(&["serve"]),
            Err(UsageError::Unknown("serve".to_owned()))
        );
    }
}
