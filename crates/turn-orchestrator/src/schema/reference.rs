//! Where a reference leads, as long as it stays in its document. Nothing is looked up anywhere else.

use std::fmt::Write as _;

use serde_json::Value;

/// A document, for the references in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'d> {
    whole: &'d Value,
    /// What the document calls itself.
    own_uri: &'d str,
    /// Whether it has documents of other names inside, whose references mean something else.
    is_compound: bool,
}

impl<'d> Place<'d> {
    /// Reads what the document calls itself.
    pub(super) fn of(whole: &'d Value) -> Self {
        Self {
            whole,
            own_uri: ["$id", "id"]
                .iter()
                .find_map(|keyword| whole.get(keyword)?.as_str())
                .map_or("", |uri| uri.trim_end_matches('#')),
            is_compound: has_inner_document(whole, Depth::Top),
        }
    }

    /// The JSON Pointer (RFC 6901) of what a reference means, if that is in the document.
    pub(super) fn pointer(&self, reference: &str) -> Option<String> {
        if self.is_compound {
            return None;
        }
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        if !uri.is_empty() && uri != self.own_uri {
            return None;
        }
        let fragment = percent_decoded(fragment)?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.whole.pointer(&fragment).map(|_target| fragment);
        }
        anchor(self.whole, &fragment, &mut String::new())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Top,
    Inside,
}

/// Whether there is a document of another name inside.
fn has_inner_document(value: &Value, depth: Depth) -> bool {
    match value {
        Value::Object(members) => {
            let is_named = depth == Depth::Inside
                && members
                    .get("$id")
                    .and_then(Value::as_str)
                    .is_some_and(|uri| !uri.starts_with('#'));
            is_named
                || members
                    .values()
                    .any(|value| has_inner_document(value, Depth::Inside))
        }
        Value::Array(all) => all
            .iter()
            .any(|value| has_inner_document(value, Depth::Inside)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The place of the first schema with this anchor.
fn anchor(value: &Value, name: &str, at: &mut String) -> Option<String> {
    let here = at.len();
    match value {
        Value::Object(members) => {
            let text = |keyword| members.get(keyword).and_then(Value::as_str);
            if text("$anchor") == Some(name)
                || text("$id").and_then(|id| id.strip_prefix('#')) == Some(name)
            {
                return Some(at.clone());
            }
            for (member, value) in members {
                at.push('/');
                at.push_str(&member.replace('~', "~0").replace('/', "~1"));
                let found = anchor(value, name, at);
                if found.is_some() {
                    return found;
                }
                at.truncate(here);
            }
        }
        Value::Array(all) => {
            for (index, value) in all.iter().enumerate() {
                let _infallible = write!(at, "/{index}");
                let found = anchor(value, name, at);
                if found.is_some() {
                    return found;
                }
                at.truncate(here);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    None
}

/// A URI's fragment as it is meant (RFC 3986 §2.1).
fn percent_decoded(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let value = digit()? * 16 + digit()?;
        bytes.push(u8::try_from(value).ok()?);
    }
    String::from_utf8(bytes).ok()
}
