//! Ids and names of calls as an endpoint takes them.

use kernel::{Secret, ToolName, floor_char_boundary};
use sha2::{Digest as _, Sha256};

use crate::config::CallIds;

/// The longest id that every endpoint takes (OpenAI: 40).
const PLAIN_ID: usize = 40;

/// Our id as the endpoint takes it: itself where that is possible, else a hash. The same id gives the same text, so calls and
/// results still match, and so do prompt caches.
pub(crate) fn call_id(id: &str, form: CallIds) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    match form {
        CallIds::Plain if !id.is_empty() && id.len() <= PLAIN_ID && id.bytes().all(plain) => {
            id.to_owned()
        }
        CallIds::Plain => hash(id),
        CallIds::NineAlphanumeric => hash(id)[..9].to_owned(),
    }
}

/// A Tool's name that the model made up, as endpoints take it back (`^[a-zA-Z0-9_-]{1,64}$`): odd characters become `_`, a
/// name that is too long loses its middle and gains a hash, so that two of them stay two.
pub(crate) fn tool_name(name: &str) -> String {
    if name.is_empty() {
        return "unnamed".to_owned();
    }
    let kept: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect();
    if kept.len() <= ToolName::MAX {
        return kept;
    }
    // All ASCII from here on.
    let head = &kept[..floor_char_boundary(&kept, 36)];
    let tail = &kept[kept.len() - 18..];
    format!("{head}_{}_{tail}", &hash(name)[..8])
}

/// 24 letters and digits that depend on the text alone.
fn hash(text: &str) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    Sha256::digest(text)
        .iter()
        .take(24)
        .map(|&byte| char::from(DIGITS[usize::from(byte) % DIGITS.len()]))
        .collect()
}

/// A key as the value of a header, marked so that no log shows it.
pub(crate) fn key_header(
    prefix: &str,
    key: &Secret,
) -> Result<http::HeaderValue, http::header::InvalidHeaderValue> {
    let mut value = http::HeaderValue::from_str(&format!("{prefix}{}", key.expose()))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use uuid::Uuid;

    use super::*;

    #[test]
    fn plain_ids_pass_and_odd_ones_are_hashed() {
        let uuid = "0193a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b";
        assert_eq!(call_id(uuid, CallIds::Plain), uuid);
        for odd in ["", "bash:0", "é", &"x".repeat(41)] {
            assert_eq!(call_id(odd, CallIds::Plain).len(), 24, "{odd}");
        }
    }

    #[test]
    fn nine_characters_keep_many_ids_apart() {
        let ids: HashSet<String> = (0..1_000)
            .map(|n| {
                let id = Uuid::from_u128((0x0193 << 112) + n).to_string();
                call_id(&id, CallIds::NineAlphanumeric)
            })
            .collect();
        assert_eq!(ids.len(), 1_000);
        assert!(
            ids.iter()
                .all(|id| id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()))
        );
    }

    #[test]
    fn long_names_lose_their_middle_and_stay_apart() {
        let long = |end: &str| tool_name(&format!("{}{end}", "server__".repeat(12)));
        assert_eq!(long("search").len(), 64);
        assert!(long("search").ends_with("search"));
        let middle = |n: u8| tool_name(&format!("{}{n}{}", "a".repeat(50), "b".repeat(50)));
        assert_ne!(middle(1), middle(2));
        assert_eq!(tool_name("functions.bash"), "functions_bash");
        assert_eq!(tool_name(""), "unnamed");
    }
}
