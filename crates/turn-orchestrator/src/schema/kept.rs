//! What is kept of one keyword of a schema.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The names of types.
pub(super) const TYPES: [&str; 7] = [
    "array", "boolean", "integer", "null", "number", "object", "string",
];

/// Whether something was left out, so that a schema accepts more than was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relaxed {
    Yes,
    No,
}

impl Relaxed {
    pub(super) fn or(&mut self, other: Self) {
        if other == Self::Yes {
            *self = Self::Yes;
        }
    }
}

/// What is kept of a keyword.
pub(super) enum Kept {
    /// This.
    As(Value, Relaxed),
    /// Nothing, and nothing is lost.
    Nothing,
    /// Nothing, and so more is accepted.
    LeftOut,
}

pub(super) fn when(is_legal: bool, value: &Value) -> Kept {
    if is_legal {
        Kept::As(value.clone(), Relaxed::No)
    } else {
        Kept::LeftOut
    }
}

/// For a keyword that must not accept less when what is in it accepts more.
pub(super) fn exact(kept: Kept) -> Kept {
    match kept {
        Kept::As(_, Relaxed::Yes) | Kept::LeftOut => Kept::LeftOut,
        Kept::As(value, Relaxed::No) => Kept::As(value, Relaxed::No),
        Kept::Nothing => Kept::Nothing,
    }
}

pub(super) fn is_type(value: &Value) -> bool {
    let is_one = |value: &Value| value.as_str().is_some_and(|kind| TYPES.contains(&kind));
    let Some(kinds) = value.as_array() else {
        return is_one(value);
    };
    let distinct: BTreeSet<&str> = kinds.iter().filter_map(Value::as_str).collect();
    !kinds.is_empty() && kinds.iter().all(is_one) && distinct.len() == kinds.len()
}

/// A list of distinct names.
pub(super) fn names(value: &Value) -> Kept {
    let Some(all) = value.as_array() else {
        return Kept::LeftOut;
    };
    let distinct: BTreeSet<&str> = all.iter().filter_map(Value::as_str).collect();
    let relaxed = if all.iter().all(Value::is_string) {
        Relaxed::No
    } else {
        Relaxed::Yes
    };
    Kept::As(distinct.into_iter().collect(), relaxed)
}

/// An object whose members are each read by themselves. One that is left out stays as what asks nothing.
pub(super) fn each(value: &Value, mut read: impl FnMut(&Value) -> Kept) -> Kept {
    let Value::Object(all) = value else {
        return Kept::LeftOut;
    };
    let mut relaxed = Relaxed::No;
    let mut kept = Map::new();
    for (name, value) in all {
        match read(value) {
            Kept::As(value, more) => {
                relaxed.or(more);
                kept.insert(name.clone(), value);
            }
            Kept::Nothing | Kept::LeftOut => relaxed = Relaxed::Yes,
        }
    }
    Kept::As(Value::Object(kept), relaxed)
}
