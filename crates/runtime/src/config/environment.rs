//! Settings from environment variables.

use std::{collections::BTreeMap, path::Path};

use figment::value::{Dict, Num, Value};

use super::{SettingsError, layer, schema, type_name};

/// What names of our own begin with.
const PREFIX: &str = "AGENTSVILLE__";
const SOURCE: &str = "the environment";

/// Names that other programs use too, and the settings that they stand for.
const WELL_KNOWN: [(&str, &str); 9] = [
    ("DATABASE_URL", "database.url"),
    ("REDIS_URL", "redis.url"),
    ("BETTER_AUTH_SECRET", "secret"),
    ("OPENAI_API_KEY", "providers.openai.key"),
    ("OPENAI_BASE_URL", "providers.openai.base_url"),
    ("ANTHROPIC_API_KEY", "providers.anthropic.key"),
    ("ANTHROPIC_BASE_URL", "providers.anthropic.base_url"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "telemetry.otlp_endpoint"),
    ("DOCKER_HOST", "sandbox.docker_host"),
];

/// Reads the layer. `file` is looked at for the names that it gave to entries of open tables.
pub(super) fn read(
    defaults: &Dict,
    file: &Dict,
    environment: &[(String, String)],
) -> Result<Dict, SettingsError> {
    let set: BTreeMap<&str, &str> = environment
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    refuse_misspelt(defaults, set.keys().copied())?;
    let mut layer = Dict::new();
    for (name, path) in WELL_KNOWN {
        let default = default_at(defaults, path);
        if let (Some(text), Some(default)) = (text_of(&set, name, path)?, default) {
            insert(&mut layer, path, parse(name, &text, &default)?);
        }
    }
    for name in set.keys().filter(|name| name.starts_with(PREFIX)) {
        let (variable, path, default) = locate(defaults, file, name)?;
        layer::check_entry_name(&path)?;
        if let Some(text) = text_of(&set, variable, &path)? {
            insert(&mut layer, &path, parse(variable, &text, &default)?);
        }
    }
    Ok(layer)
}

/// Refuses a variable that would be one of ours with other underscores or letters: it is meant, and nobody would read it.
fn refuse_misspelt<'n>(
    defaults: &Dict,
    names: impl Iterator<Item = &'n str>,
) -> Result<(), SettingsError> {
    let bare = |name: &str| name.replace('_', "").to_ascii_uppercase();
    let stem = bare(PREFIX);
    let mut suspects = names
        .filter(|name| !name.starts_with(PREFIX) && bare(name).starts_with(&stem))
        .peekable();
    if suspects.peek().is_none() {
        return Ok(());
    }
    let ours: Vec<String> = schema::all_paths(defaults)
        .iter()
        .filter(|path| default_at(defaults, path).is_some_and(|value| value.as_dict().is_none()))
        .map(|path| variable_of(path))
        .collect();
    for name in suspects {
        let meant = ours.iter().find(|variable| bare(variable) == bare(name));
        if let Some(meant) = meant {
            return Err(SettingsError::UnknownKey {
                source_name: SOURCE.to_owned(),
                key: name.chars().take(128).collect(),
                nearest: Some(meant.clone()),
            });
        }
    }
    Ok(())
}

/// Finds the setting that one of our variables names, and the variable without a `_FILE` at its end where that is not the setting's own.
fn locate<'n>(
    defaults: &Dict,
    file: &Dict,
    name: &'n str,
) -> Result<(&'n str, String, Value), SettingsError> {
    let candidates = [Some(name), name.strip_suffix("_FILE")];
    for variable in candidates.into_iter().flatten() {
        let Some(path) = path_of(defaults, file, variable) else {
            continue;
        };
        if variable != name && !schema::is_secret(&path) {
            continue;
        }
        if let Some(default) = default_at(defaults, &path) {
            return Ok((variable, path, default));
        }
    }
    let names: Vec<String> = schema::all_paths(defaults)
        .iter()
        .map(|path| variable_of(path))
        .collect();
    Err(SettingsError::UnknownKey {
        source_name: SOURCE.to_owned(),
        key: name.chars().take(128).collect(),
        nearest: kernel::nearest(name, names.iter().map(String::as_str)).map(str::to_owned),
    })
}

/// `AGENTSVILLE__EDGE__LISTEN` → `edge.listen`. The name of an open table's entry is the existing one that reads the same, or has
/// hyphens for underscores.
fn path_of(defaults: &Dict, file: &Dict, variable: &str) -> Option<String> {
    let rest = variable.strip_prefix(PREFIX)?;
    let mut path = String::new();
    for part in rest.split("__") {
        let part = part.to_ascii_lowercase();
        if part.is_empty() {
            return None;
        }
        let part = if schema::open_table(&path).is_some() {
            let entries = [file, defaults].map(|layer| table_at(layer, &path));
            entries
                .into_iter()
                .flatten()
                .flat_map(Dict::keys)
                .find(|key| key.to_ascii_lowercase().replace('-', "_") == part)
                .cloned()
                .unwrap_or_else(|| part.replace('_', "-"))
        } else {
            part
        };
        path = schema::join(&path, &part);
    }
    Some(path)
}

/// `edge.listen` → `AGENTSVILLE__EDGE__LISTEN`.
pub(super) fn variable_of(path: &str) -> String {
    let name = path
        .replace('-', "_")
        .replace('.', "__")
        .to_ascii_uppercase();
    format!("{PREFIX}{name}")
}

fn table_at<'d>(layer: &'d Dict, path: &str) -> Option<&'d Dict> {
    path.split('.')
        .try_fold(layer, |table, part| table.get(part)?.as_dict())
}

/// The default of a path; of an open table's entry, a value of the right type.
fn default_at(defaults: &Dict, path: &str) -> Option<Value> {
    let (table, key) = path.rsplit_once('.').unwrap_or(("", path));
    if table.is_empty() {
        return defaults.get(key).cloned();
    }
    if let Some(value) = table_at(defaults, table).and_then(|table| table.get(key)) {
        return Some(value.clone());
    }
    let (open, _entry) = table.rsplit_once('.')?;
    schema::open_table(open)?.get(key).cloned()
}

/// The text of a variable, or what is in the file that its `_FILE` variant names.
fn text_of(
    set: &BTreeMap<&str, &str>,
    variable: &str,
    path: &str,
) -> Result<Option<String>, SettingsError> {
    let in_file = schema::is_secret(path)
        .then(|| set.get(format!("{variable}_FILE").as_str()))
        .flatten();
    match (set.get(variable), in_file) {
        (Some(_), Some(_)) => Err(SettingsError::BothSet {
            name: variable.to_owned(),
        }),
        (Some(text), None) => Ok(Some((*text).to_owned())),
        (None, Some(file)) => {
            let text = layer::read(
                &format!("the file that {variable}_FILE names,"),
                Path::new(file),
            )?;
            let text = text.trim_end_matches(['\r', '\n']).to_owned();
            Ok(Some(text).filter(|text| !text.is_empty()))
        }
        (None, None) => Ok(None),
    }
}

/// Reads a text by the type of the default.
fn parse(variable: &str, text: &str, default: &Value) -> Result<Value, SettingsError> {
    // Bytes that were no text are a mark by now: a secret that holds one is another than the Operator set, and easier to guess.
    if text.contains(char::REPLACEMENT_CHARACTER) {
        return Err(SettingsError::WrongType {
            key: variable.to_owned(),
            expected: "text in UTF-8",
            found: "something else".to_owned(),
        });
    }
    let parsed = match default {
        Value::String(..) | Value::Char(..) => Some(Value::from(text)),
        Value::Bool(..) => text.parse::<bool>().ok().map(Value::from),
        Value::Num(_, Num::F32(_) | Num::F64(_)) => text
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
            .map(Value::from),
        Value::Num(..) => text.parse::<i64>().ok().map(Value::from),
        Value::Array(..) => toml::from_str::<Dict>(&format!("list = {text}"))
            .ok()
            .filter(|table| table.len() == 1)
            .and_then(|mut table| table.remove("list"))
            .filter(|value| matches!(value, Value::Array(..))),
        Value::Empty(..) | Value::Dict(..) => None,
    };
    parsed.ok_or_else(|| SettingsError::WrongType {
        key: variable.to_owned(),
        expected: if default.as_array().is_some() {
            r#"a TOML array such as ["a", "b"]"#
        } else if default.as_dict().is_some() {
            "followed by two underscores and a key of that section"
        } else {
            type_name(default)
        },
        found: "something else".to_owned(),
    })
}

fn insert(layer: &mut Dict, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            layer.insert(path.to_owned(), value);
        }
        Some((table, rest)) => {
            let entry = layer
                .entry(table.to_owned())
                .or_insert_with(|| Value::from(Dict::new()));
            if let Value::Dict(_, inner) = entry {
                insert(inner, rest, value);
            }
        }
    }
}
