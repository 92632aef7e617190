//! Where schemas stand inside schemas (JSON Schema 2020-12 core §10, §11; draft-07 §9, §10).

use serde_json::{Map, Value};

/// What a schema inside a schema is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// To the same value as the schema around it.
    Same,
    /// To every member or item of it.
    Any,
    /// To one member or item of it, while others of the same keyword are applied to others.
    One,
}

/// The schemas directly inside a schema, and what each is applied to. References are not followed.
pub(super) fn inner(schema: &Map<String, Value>) -> impl Iterator<Item = (Place, &Value)> {
    schema.iter().flat_map(|(keyword, value)| {
        let (place, values): (Place, Vec<&Value>) = match (keyword.as_str(), value) {
            ("not" | "if" | "then" | "else", one) => (Place::Same, vec![one]),
            ("allOf" | "anyOf" | "oneOf", Value::Array(many)) => {
                (Place::Same, many.iter().collect())
            }
            ("dependentSchemas" | "dependencies", Value::Object(many)) => (
                Place::Same,
                many.values().filter(|value| !value.is_array()).collect(),
            ),
            ("items" | "prefixItems", Value::Array(many)) => (Place::One, many.iter().collect()),
            ("properties", Value::Object(many)) => (Place::One, many.values().collect()),
            ("patternProperties", Value::Object(many)) => (Place::Any, many.values().collect()),
            (
                "items"
                | "additionalItems"
                | "unevaluatedItems"
                | "contains"
                | "additionalProperties"
                | "unevaluatedProperties"
                | "propertyNames",
                one,
            ) => (Place::Any, vec![one]),
            _ => (Place::Same, Vec::new()),
        };
        values.into_iter().map(move |value| (place, value))
    })
}

/// The definition that a reference names. [`super::relax`] leaves no other kind of reference.
pub(super) fn referred(schema: &Map<String, Value>) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix(DEFINITIONS)
}

/// What a reference begins with.
pub(super) const DEFINITIONS: &str = "#/$defs/";
