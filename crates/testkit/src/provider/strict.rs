//! Judges requests as the real Providers do.

mod anthropic;
mod chat_completions;
#[cfg(test)]
mod tests;

pub(super) use anthropic::judge as anthropic;
pub(super) use chat_completions::judge as chat_completions;

use serde_json::Value;

/// What is wrong, in the wire's words.
type Judged = Result<(), String>;

/// Keys of an object that it may not have.
fn only(object: &Value, known: &[&str], place: &str) -> Judged {
    let Some(object) = object.as_object() else {
        return Err(format!("{place}: an object was expected"));
    };
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!(
            "{place}: unrecognized request argument supplied: {key}"
        )),
        None => Ok(()),
    }
}

/// `^[a-zA-Z0-9_-]{1,max}$`
fn word<'v>(value: &'v Value, max: usize, place: &str) -> Result<&'v str, String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    match value.as_str() {
        Some(text) if (1..=max).contains(&text.len()) && text.bytes().all(allowed) => Ok(text),
        Some(_) | None => Err(format!(
            "{place}: string does not match the pattern '^[a-zA-Z0-9_-]{{1,{max}}}$': {value}"
        )),
    }
}

fn array<'v>(value: &'v Value, place: &str) -> Result<&'v [Value], String> {
    match value.as_array() {
        Some(items) if !items.is_empty() => Ok(items),
        Some(_) | None => Err(format!("{place}: an array that is not empty was expected")),
    }
}

fn model_and_stream(body: &Value) -> Judged {
    if body["model"].as_str().is_none_or(str::is_empty) {
        return Err("you must provide a model parameter".to_owned());
    }
    if body["stream"] != true {
        return Err("stream: only streaming is scripted".to_owned());
    }
    Ok(())
}

/// Tool names are words, and each is there once.
fn unique_names<'v>(names: impl Iterator<Item = &'v Value>) -> Judged {
    let mut seen = Vec::new();
    for name in names {
        let name = word(name, 64, "tools.name")?;
        if seen.contains(&name) {
            return Err(format!("tools: Tool names must be unique: {name}"));
        }
        seen.push(name);
    }
    Ok(())
}
