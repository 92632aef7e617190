//! Settings: defaults, then a file, then the environment.
//!
//! `deploy/config.default.toml` is embedded. It is the documentation and the schema: a key that does not stand there is refused, and
//! a value must be of the type that its default has.

mod environment;
mod layer;
mod schema;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use figment::{
    Figment,
    error::Kind,
    providers::Serialized,
    value::{Dict, Num, Value},
};
use kernel::ServiceName;
use serde::de::DeserializeOwned;

/// The defaults file, as it is in the source tree.
pub const DEFAULTS: &str = include_str!("../../../deploy/config.default.toml");
/// Bytes of a settings file or secret file that are read.
const FILE_BYTES: u64 = 1_024 * 1_024;

/// Characters of a name in a table that the Operator may add to.
const NAME_CHARS: usize = 64;

/// Where settings come from, besides the defaults.
#[derive(Debug, Default, Clone)]
pub struct Sources {
    /// A TOML file, as `--config` names it.
    pub file: Option<PathBuf>,
    /// The environment, as `main` read it. Names that are not ours are ignored.
    pub environment: Vec<(String, String)>,
}

/// Why settings cannot be used. Every text names the key or variable and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file cannot be read.
    #[error("cannot read {what} {path}: {source}", path = .path.display())]
    Unreadable {
        /// What the file is for.
        what: String,
        /// Its path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is larger than any settings are.
    #[error("{path} is larger than {FILE_BYTES} bytes; is it the right file?", path = .path.display())]
    TooLarge {
        /// Its path.
        path: PathBuf,
    },
    /// The file is not TOML.
    #[error("{path} is not valid TOML: {message}", path = .path.display())]
    Toml {
        /// Its path.
        path: PathBuf,
        /// Where and why, from the parser.
        message: String,
    },
    /// No such setting.
    #[error("{source_name} has an unknown setting {key}{}; every setting stands in deploy/config.default.toml", .nearest.as_deref().map(|n| format!("; did you mean {n}?")).unwrap_or_default())]
    UnknownKey {
        /// The file or "the environment".
        source_name: String,
        /// The key as it was written.
        key: String,
        /// The nearest that exists.
        nearest: Option<String>,
    },
    /// A name of the Operator's choice that could not be used elsewhere.
    #[error(
        "{key:?} in {table} is no name; use lower-case letters, digits, hyphens and underscores, at most {NAME_CHARS}"
    )]
    InvalidName {
        /// The table.
        table: String,
        /// The name.
        key: String,
    },
    /// A value of the wrong type.
    #[error("{key} must be {expected}, and is {found}")]
    WrongType {
        /// The key or variable as it was written.
        key: String,
        /// What its default is.
        expected: &'static str,
        /// What was given: a type, never the value.
        found: String,
    },
    /// A variable and its `_FILE` variant.
    #[error("{name} and {name}_FILE are both set; keep one of them")]
    BothSet {
        /// The variable.
        name: String,
    },
    /// A section or value that does not fit its reader.
    #[error("the setting {key} cannot be used: {message}")]
    Section {
        /// Section and key.
        key: String,
        /// What does not fit.
        message: String,
    },
    /// A setting that this program needs.
    #[error("{key} is not set; {hint}")]
    Missing {
        /// The key.
        key: String,
        /// What to do.
        hint: String,
    },
}

/// All settings of a process. Values are read by section, into the types of those who use them.
#[derive(Clone)]
pub struct Settings {
    figment: Figment,
    home: HashMap<&'static str, String>,
}

impl std::fmt::Debug for Settings {
    /// Shows nothing: some values are secrets. See [`Settings::effective_toml`].
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").finish_non_exhaustive()
    }
}

impl Settings {
    /// Reads and checks every layer.
    pub fn load(sources: Sources) -> Result<Self, SettingsError> {
        let defaults = layer::parse(Path::new("deploy/config.default.toml"), DEFAULTS)?;
        let file = match &sources.file {
            None => Dict::new(),
            Some(path) => {
                let text = layer::read("the settings file", path)?;
                let file = layer::parse(path, &text)?;
                layer::check(&defaults, &file, &path.display().to_string())?;
                file
            }
        };
        let environment = environment::read(&defaults, &file, &sources.environment)?;
        let home = sources
            .environment
            .into_iter()
            .filter_map(|(name, value)| {
                let name = ["XDG_DATA_HOME", "HOME"].into_iter().find(|n| *n == name)?;
                Some((name, value)).filter(|(_, value)| !value.is_empty())
            })
            .collect();
        let figment = Figment::from(Serialized::defaults(defaults))
            .merge(Serialized::defaults(file))
            .merge(Serialized::defaults(environment));
        Ok(Self { figment, home })
    }

    /// Reads one section into its reader's type, which should deny unknown fields. The error names section and key.
    pub fn section<T: DeserializeOwned>(&self, name: &str) -> Result<T, SettingsError> {
        self.value(name)
    }

    /// Reads one value by its path: `edge.listen`.
    pub fn value<T: DeserializeOwned>(&self, path: &str) -> Result<T, SettingsError> {
        let read = self
            .figment
            .find_value(path)
            .and_then(|value| value.deserialize());
        read.map_err(|error| SettingsError::Section {
            key: std::iter::once(path)
                .chain(error.path.iter().map(String::as_str))
                .collect::<Vec<_>>()
                .join("."),
            message: reason(&error.kind),
        })
    }

    /// The data directory: `data_dir`, else `$XDG_DATA_HOME/agentsville`, else `~/.local/share/agentsville`.
    pub fn data_dir(&self) -> Result<PathBuf, SettingsError> {
        let set: String = self.value("data_dir")?;
        if !set.is_empty() {
            return Ok(PathBuf::from(set));
        }
        // The XDG specification has relative paths ignored.
        let xdg = self.home.get("XDG_DATA_HOME").map(PathBuf::from);
        if let Some(base) = xdg.filter(|path| path.is_absolute()) {
            return Ok(base.join("agentsville"));
        }
        match self.home.get("HOME") {
            Some(home) => Ok(Path::new(home).join(".local/share/agentsville")),
            None => Err(SettingsError::Missing {
                key: "data_dir".to_owned(),
                hint: "neither XDG_DATA_HOME nor HOME is there to derive it from: set AGENTSVILLE__DATA_DIR".to_owned(),
            }),
        }
    }

    /// Where a peer is, when that is set.
    pub fn peer(&self, service: ServiceName) -> Result<Option<String>, SettingsError> {
        let key = service.as_str().replace('-', "_");
        let url: String = self.value(&format!("peers.{key}"))?;
        Ok(Some(url).filter(|url| !url.is_empty()))
    }

    /// What holds in the end, as TOML, with secrets and passwords in URLs masked. For `check-config`.
    pub fn effective_toml(&self) -> Result<String, SettingsError> {
        let unprintable = |message: String| SettingsError::Section {
            key: "(all)".to_owned(),
            message,
        };
        let mut all: Dict = self
            .figment
            .extract()
            .map_err(|error| unprintable(error.to_string()))?;
        layer::mask(&mut all, "");
        let table = toml::Value::try_from(&all).map_err(|error| unprintable(error.to_string()))?;
        toml::to_string_pretty(&table).map_err(|error| unprintable(error.to_string()))
    }
}

/// Why a value does not fit its reader. What was given is not named: it may be a secret.
fn reason(kind: &Kind) -> String {
    if let Kind::UnknownField(field, expected) = kind {
        let near = kernel::nearest(field, expected.iter().copied());
        let near = near.map(|near| format!(", the nearest is {near}"));
        return format!("its reader knows no {field}{}", near.unwrap_or_default());
    }
    if let Kind::InvalidType(_, expected) | Kind::InvalidValue(_, expected) = kind {
        let expected = match expected.as_str() {
            "u8" | "u16" | "u32" | "u64" | "usize" => {
                "a whole number, neither negative nor too large"
            }
            other => other,
        };
        return format!("it must be {expected}");
    }
    if let Kind::UnknownVariant(_, expected) = kind {
        return format!("it must be one of {}", expected.join(", "));
    }
    kind.to_string()
}

/// Names the type of a value for people.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::String(..) | Value::Char(..) => "a text",
        Value::Bool(..) => "true or false",
        Value::Num(_, Num::F32(_) | Num::F64(_)) => "a number",
        Value::Num(..) => "a whole number",
        Value::Empty(..) => "nothing",
        Value::Dict(..) => "a section",
        Value::Array(..) => "a list",
    }
}
