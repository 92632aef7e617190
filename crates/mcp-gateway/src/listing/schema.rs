//! Whether a Tool's input schema is one that can be worked with at all.

use kernel::JsonText;
use serde_json::{Value, value::RawValue};

/// Reads a schema: a JSON object, not too deep, whose `type` does not contradict that arguments are an object.
pub(super) fn read(raw: Option<&RawValue>, max_depth: usize) -> Result<JsonText, String> {
    let raw = raw.ok_or("It has no inputSchema.")?;
    let depth = depth(raw.get());
    if depth > max_depth {
        return Err(format!(
            "Its inputSchema nests {depth} deep; at most {max_depth} are offered."
        ));
    }
    let schema = JsonText::parse(raw.get())
        .map_err(|error| format!("Its inputSchema cannot be read: {error}."))?;
    if !schema.is_object() {
        return Err("Its inputSchema is no JSON object.".to_owned());
    }
    let value = schema
        .to_value()
        .map_err(|_number| "Its inputSchema holds a number that nobody can read.".to_owned())?;
    check(&value)?;
    Ok(schema)
}

fn check(schema: &Value) -> Result<(), String> {
    let takes_objects = match schema.get("type") {
        None => true,
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(_) => false,
    };
    if !takes_objects {
        return Err("Its inputSchema takes no object, and arguments are one.".to_owned());
    }
    match schema.get("properties") {
        None => {}
        Some(Value::Object(properties)) => {
            // `required` among the properties, where it means a property of that name, is a common slip.
            if let Some((name, _)) = properties
                .iter()
                .find(|(_, property)| !property.is_object() && !property.is_boolean())
            {
                return Err(format!(
                    "Its inputSchema has a property \"{}\" that is no schema.",
                    crate::names::shown(name)
                ));
            }
        }
        Some(_) => return Err("Its inputSchema has properties that are no JSON object.".to_owned()),
    }
    match schema.get("required") {
        None => Ok(()),
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => Ok(()),
        Some(_) => Err("Its inputSchema has a required that is no list of names.".to_owned()),
    }
}

/// How deep JSON nests, counted without reading it: brackets outside of strings.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
