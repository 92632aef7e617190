//! Arguments that fit a schema, as a model would make them up.

use kernel::JsonText;
use serde_json::{Map, Value, json};

/// An object with every property that the schema names.
pub(super) fn that_fit(schema: &JsonText) -> Value {
    let schema = schema.to_value().unwrap_or_default();
    let properties = schema["properties"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let fitting: Map<String, Value> = properties
        .iter()
        .map(|(name, property)| (name.clone(), value(property)))
        .collect();
    Value::Object(fitting)
}

fn value(schema: &Value) -> Value {
    if let Some(default) = schema.get("default") {
        return default.clone();
    }
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("number" | "integer") => json!(5),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => that_fit(&JsonText::of(schema)),
        _ => json!("text"),
    }
}
