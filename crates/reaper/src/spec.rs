//! What is to be run, and how it travels.

use std::{fmt, io, time::Duration};

/// The most bytes of a command with its arguments and its environment. Linux takes about 2 MiB (`ARG_MAX`).
pub const MAX_BYTES: usize = 1_024 * 1_024;

/// What is to be run. Nothing is added to its environment.
#[derive(Clone, PartialEq, Eq)]
pub struct Spec {
    /// The command: a path, or a name that is looked for in the PATH of `environment`.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its environment, whole.
    pub environment: Vec<(String, String)>,
    /// The folder that it runs in; None for a fresh one that only its user can enter, which is removed in the end.
    pub directory: Option<String>,
    /// How long its processes may take to end after SIGTERM, in whole milliseconds.
    pub grace: Duration,
}

/// Shows no values of the environment, and no arguments.
impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.environment.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("Spec")
            .field("command", &self.command)
            .field("environment", &names)
            .field("directory", &self.directory)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}

/// Why something cannot be run as it is described. Names no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpecError {
    /// A NUL character, where the system's interface has its end.
    Nul {
        /// Which part: `the command`, `an argument`.
        part: String,
    },
    /// An empty name, or one with `=`, for something in the environment.
    Name {
        /// The name.
        name: String,
    },
    /// More than [`MAX_BYTES`].
    TooLong {
        /// How long it is.
        bytes: usize,
    },
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nul { part } => write!(f, "{part} has a NUL character in it"),
            Self::Name { name } => {
                write!(f, "{name:?} cannot be a name of the environment")
            }
            Self::TooLong { bytes } => write!(
                f,
                "the command with its arguments and its environment is {bytes} bytes long; at most {MAX_BYTES} are possible"
            ),
        }
    }
}

impl std::error::Error for SpecError {}

impl Spec {
    /// The message for the supervisor: a length (four bytes, little-endian), then texts that each end with NUL.
    ///
    /// # Errors
    /// Something in it cannot be handed to a process.
    pub fn encode(&self) -> Result<Vec<u8>, SpecError> {
        let mut message = vec![0; size_of::<u32>()];
        let mut put = |part: &dyn Fn() -> String, text: &str| {
            if text.contains('\0') {
                return Err(SpecError::Nul { part: part() });
            }
            message.extend_from_slice(text.as_bytes());
            message.push(0);
            Ok(())
        };
        let plain = |part: &'static str| move || part.to_owned();
        put(&plain("the time"), &self.grace.as_millis().to_string())?;
        put(&plain("the command"), &self.command)?;
        put(
            &plain("the folder"),
            self.directory.as_deref().unwrap_or_default(),
        )?;
        put(&plain("the count"), &self.arguments.len().to_string())?;
        for argument in &self.arguments {
            put(&plain("an argument"), argument)?;
        }
        for (name, value) in &self.environment {
            if name.is_empty() || name.contains('=') {
                return Err(SpecError::Name { name: name.clone() });
            }
            put(&plain("a name of the environment"), name)?;
            put(&|| format!("{name} of the environment"), value)?;
        }
        let bytes = message.len() - size_of::<u32>();
        match u32::try_from(bytes) {
            Ok(length) if bytes <= MAX_BYTES => {
                message[..size_of::<u32>()].copy_from_slice(&length.to_le_bytes());
                Ok(message)
            }
            _ => Err(SpecError::TooLong { bytes }),
        }
    }

    /// Reads a message without its length.
    pub(crate) fn decode(message: &[u8]) -> io::Result<Self> {
        let bad = || io::Error::from(io::ErrorKind::InvalidData);
        let text = std::str::from_utf8(message).map_err(|_not_text| bad())?;
        let mut texts = text.strip_suffix('\0').ok_or_else(bad)?.split('\0');
        let mut next = || texts.next().map(str::to_owned).ok_or_else(bad);
        let number = |text: String| text.parse::<u64>().map_err(|_not_a_number| bad());
        let grace = Duration::from_millis(number(next()?)?);
        let command = next()?;
        let directory = Some(next()?).filter(|directory| !directory.is_empty());
        let count = number(next()?)?;
        let arguments = (0..count).map(|_| next()).collect::<io::Result<_>>()?;
        let mut environment = Vec::new();
        while let Some(name) = texts.next() {
            let value = texts.next().ok_or_else(bad)?;
            environment.push((name.to_owned(), value.to_owned()));
        }
        Ok(Self {
            command,
            arguments,
            environment,
            directory,
            grace,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spec() -> Spec {
        Spec {
            command: "npx".to_owned(),
            arguments: vec![String::new(), "a b".to_owned()],
            environment: vec![("KEY".to_owned(), "s3cret".to_owned())],
            directory: None,
            grace: Duration::from_secs(1),
        }
    }

    proptest! {
        #[test]
        fn what_is_sent_is_what_arrives(
            command in "[^\0]{1,9}",
            arguments in prop::collection::vec("[^\0]{0,9}", 0..5),
            environment in prop::collection::vec(("[^\0=]{1,9}", "[^\0]{0,9}"), 0..5),
            directory in prop::option::of("[^\0]{1,9}"),
            milliseconds in 0_u64..100_000,
        ) {
            let grace = Duration::from_millis(milliseconds);
            let spec = Spec { command, arguments, environment, directory, grace };
            let message = spec.encode().unwrap();
            prop_assert_eq!(Spec::decode(&message[4..]).unwrap(), spec);
        }
    }

    #[test]
    fn what_no_process_can_be_given_is_refused_by_its_name() {
        let mut bad = spec();
        bad.environment[0].1 = "s3\0cret".to_owned();
        let error = bad.encode().unwrap_err().to_string();
        assert_eq!(error, "KEY of the environment has a NUL character in it");
        let mut bad = spec();
        bad.environment[0].0 = "A=B".to_owned();
        let error = bad.encode().unwrap_err().to_string();
        assert_eq!(error, "\"A=B\" cannot be a name of the environment");
        let mut bad = spec();
        bad.arguments.push("x".repeat(MAX_BYTES));
        assert!(matches!(bad.encode(), Err(SpecError::TooLong { .. })));
    }

    #[test]
    fn a_count_that_is_no_truth_costs_nothing() {
        for message in [
            &b"1\0sh\0\x0018446744073709551615\0a\0"[..],
            b"1\0sh\0\x002\0a\0",
            b"1\0sh\0",
            b"",
            b"1\0sh\0\x000\0odd\0",
        ] {
            assert!(Spec::decode(message).is_err(), "{message:?}");
        }
    }

    #[test]
    fn no_secret_is_shown_for_debugging() {
        let shown = format!("{:?}", spec());
        assert!(
            shown.contains("KEY") && !shown.contains("s3cret"),
            "{shown}"
        );
    }
}
