//! One layer of settings: reading, checking against the defaults, masking.

use std::{fs::File, io::Read as _, path::Path};

use figment::value::{Dict, Value};

use super::{FILE_BYTES, NAME_CHARS, SettingsError, schema, type_name};

/// Reads a text file of bounded size.
pub(super) fn read(what: &str, path: &Path) -> Result<String, SettingsError> {
    let unreadable = |source| SettingsError::Unreadable {
        what: what.to_owned(),
        path: path.to_owned(),
        source,
    };
    let mut text = String::new();
    let read = File::open(path)
        .and_then(|file| file.take(FILE_BYTES + 1).read_to_string(&mut text))
        .map_err(unreadable)?;
    if u64::try_from(read).unwrap_or(u64::MAX) > FILE_BYTES {
        return Err(SettingsError::TooLarge {
            path: path.to_owned(),
        });
    }
    Ok(text)
}

/// Parses TOML. The parser's message is kept to its first line that says what is wrong: the lines that quote the file may hold secrets.
pub(super) fn parse(path: &Path, text: &str) -> Result<Dict, SettingsError> {
    toml::from_str(text).map_err(|error| {
        let line = error
            .span()
            .and_then(|span| text.get(..span.start))
            .map(|before| before.matches('\n').count() + 1);
        SettingsError::Toml {
            path: path.to_owned(),
            message: match line {
                Some(line) => format!("line {line}: {}", error.message()),
                None => error.message().to_owned(),
            },
        }
    })
}

/// Checks that every key of a file exists and has its default's type.
pub(super) fn check(defaults: &Dict, file: &Dict, source_name: &str) -> Result<(), SettingsError> {
    check_table(defaults, defaults, file, "", source_name)
}

fn check_table(
    defaults: &Dict,
    expected: &Dict,
    table: &Dict,
    prefix: &str,
    source_name: &str,
) -> Result<(), SettingsError> {
    let open = schema::open_table(prefix);
    for (key, value) in table {
        let path = schema::join(prefix, key);
        if let Some(fields) = &open {
            check_name(prefix, key)?;
            let Value::Dict(_, entry) = value else {
                return Err(wrong_type(&path, "a section", value));
            };
            check_table(defaults, fields, entry, &path, source_name)?;
            continue;
        }
        match expected.get(key) {
            None => {
                let paths = schema::all_paths(defaults);
                return Err(SettingsError::UnknownKey {
                    source_name: source_name.to_owned(),
                    nearest: kernel::nearest(&path, paths.iter().map(String::as_str))
                        .map(str::to_owned),
                    key: path,
                });
            }
            Some(Value::Dict(_, inner)) => {
                let Value::Dict(_, entry) = value else {
                    return Err(wrong_type(&path, "a section", value));
                };
                check_table(defaults, inner, entry, &path, source_name)?;
            }
            Some(default) => {
                if !same_type(default, value) {
                    return Err(wrong_type(&path, type_name(default), value));
                }
            }
        }
    }
    Ok(())
}

/// Checks the name in the path of a setting that belongs to an entry of an open table.
pub(super) fn check_entry_name(path: &str) -> Result<(), SettingsError> {
    let parts = path
        .rsplit_once('.')
        .and_then(|(entry, _)| entry.rsplit_once('.'));
    match parts {
        Some((table, name)) if schema::open_table(table).is_some() => check_name(table, name),
        _ => Ok(()),
    }
}

/// A name stands in paths, variables and model names: a dot or a slash in it would make it another.
fn check_name(table: &str, key: &str) -> Result<(), SettingsError> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if !key.is_empty() && key.len() <= NAME_CHARS && key.chars().all(fits) {
        return Ok(());
    }
    Err(SettingsError::InvalidName {
        table: table.to_owned(),
        key: key.chars().take(NAME_CHARS).collect(),
    })
}

fn wrong_type(path: &str, expected: &'static str, found: &Value) -> SettingsError {
    SettingsError::WrongType {
        key: path.to_owned(),
        expected,
        found: type_name(found).to_owned(),
    }
}

fn same_type(default: &Value, value: &Value) -> bool {
    type_name(default) == type_name(value)
        // A whole number is a number.
        || (type_name(default) == "a number" && type_name(value) == "a whole number")
}

/// Masks secrets that are set, and of URLs what stands before the `@` and after the `?`.
pub(super) fn mask(table: &mut Dict, prefix: &str) {
    for (key, value) in table.iter_mut() {
        let path = schema::join(prefix, key);
        if let Value::Dict(_, inner) = value {
            mask(inner, &path);
        } else if let Value::String(_, text) = value {
            if !schema::is_secret(&path) {
                mask_url(text);
            } else if !text.is_empty() {
                "(set)".clone_into(text);
            }
        }
    }
}

fn mask_url(text: &mut String) {
    let Some(start) = text.find("://").map(|at| at + 3) else {
        return;
    };
    if let Some(query) = text[start..].find('?') {
        text.replace_range(start + query + 1.., "(set)");
    }
    let authority = text[start..]
        .find(['/', '?', '#'])
        .map_or(text.len(), |end| start + end);
    if let Some(at) = text[start..authority].rfind('@') {
        text.replace_range(start..start + at, "(set)");
    }
}
