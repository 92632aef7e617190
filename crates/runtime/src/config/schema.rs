//! What the defaults file cannot say of itself: which values are secret, and which tables take names of the Operator's choice.

use figment::value::{Dict, Value};

/// Paths of secrets; `*` stands for one name.
const SECRETS: [&str; 6] = [
    "secret",
    "operator_token",
    "database.url",
    "redis.url",
    "providers.*.key",
    "keys.private",
];

/// Tables that take names of the Operator's choice, and the fields of their entries with a value of the right type.
const OPEN_TABLES: [(&str, &[(&str, Shape)]); 2] = [
    (
        "providers",
        &[
            ("wire", Shape::Text),
            ("base_url", Shape::Text),
            ("key", Shape::Text),
            ("max_output_tokens", Shape::WholeNumber),
            ("thinking_tokens", Shape::WholeNumber),
            ("call_ids", Shape::Text),
            ("connect_timeout_ms", Shape::WholeNumber),
            ("first_byte_timeout_ms", Shape::WholeNumber),
            ("idle_timeout_ms", Shape::WholeNumber),
            ("retries", Shape::WholeNumber),
        ],
    ),
    (
        "keys.trust",
        &[("public_key", Shape::Text), ("mints", Shape::List)],
    ),
];

#[derive(Clone, Copy)]
enum Shape {
    Text,
    WholeNumber,
    List,
}

/// Whether the value at a path is a secret.
pub(super) fn is_secret(path: &str) -> bool {
    SECRETS.iter().any(|pattern| {
        let (mut pattern, mut path) = (pattern.split('.'), path.split('.'));
        loop {
            match (pattern.next(), path.next()) {
                (None, None) => return true,
                (Some(expected), Some(part)) if expected == "*" || expected == part => {}
                _ => return false,
            }
        }
    })
}

/// The fields of every entry of an open table, or `None` for any other path.
pub(super) fn open_table(path: &str) -> Option<Dict> {
    let (_, fields) = OPEN_TABLES.iter().find(|(table, _)| *table == path)?;
    Some(
        fields
            .iter()
            .map(|(name, shape)| {
                let value = match shape {
                    Shape::Text => Value::from(""),
                    Shape::WholeNumber => Value::from(0_i64),
                    Shape::List => Value::from(Vec::<String>::new()),
                };
                ((*name).to_owned(), value)
            })
            .collect(),
    )
}

/// Every path of a value in the defaults, and of one entry `NAME` of each open table.
pub(super) fn all_paths(defaults: &Dict) -> Vec<String> {
    let mut paths = Vec::new();
    collect(defaults, "", &mut paths);
    for (table, fields) in OPEN_TABLES {
        paths.extend(
            fields
                .iter()
                .map(|(field, _)| format!("{table}.NAME.{field}")),
        );
    }
    paths
}

fn collect(dict: &Dict, prefix: &str, paths: &mut Vec<String>) {
    for (key, value) in dict {
        let path = join(prefix, key);
        if let Some(inner) = value.as_dict() {
            collect(inner, &path, paths);
        }
        paths.push(path);
    }
}

/// A path and one more part.
pub(super) fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() {
        key.to_owned()
    } else {
        format!("{prefix}.{key}")
    }
}
