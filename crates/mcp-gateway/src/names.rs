//! Names of a server's Tools as the model sees them: `slug__tool`, in the characters and the length that every Provider takes.
//!
//! The map is injective for every name that a server can choose, save for names that are chosen to meet another's hash: those
//! collide, and the Tool that would take a taken name is refused. Nothing is ever found by splitting a name.

use std::{borrow::Cow, collections::HashMap, fmt::Write as _};

use kernel::{ToolName, floor_char_boundary};
use sha2::{Digest as _, Sha256};

/// What stands between a server's slug and its Tool's name. No slug has an underscore, so that no two servers share a name.
const SEPARATOR: &str = "__";
/// Hexadecimal digits of the hash that makes a changed name unique again.
const HASH_DIGITS: usize = 8;
/// Characters of a slug that stay in a name that had to be cut, so that something of the Tool's name stays, too.
const SLUG_CHARS: usize = 30;
/// Characters of a name that are shown in a sentence.
const SHOWN_CHARS: usize = 80;

/// The name for the model. A name that fits stays as it is; any other loses what Providers do not take, and gets a hash of the whole.
pub(crate) fn full_name(slug: &str, tool: &str) -> String {
    let plain = format!("{slug}{SEPARATOR}{tool}");
    if !tool.is_empty() && plain.parse::<ToolName>().is_ok() {
        return plain;
    }
    let kept: String = tool
        .chars()
        .map(|c| if allowed(c) { c } else { '_' })
        .collect();
    let slug_part = &slug[..floor_char_boundary(slug, SLUG_CHARS)];
    let mut name = format!("{slug_part}{SEPARATOR}{kept}");
    name.truncate(ToolName::MAX - HASH_DIGITS - 1);
    name.push('_');
    name.push_str(&hash(slug, tool));
    name
}

const fn allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// The first digits of SHA-256 over both names, which NUL keeps apart.
fn hash(slug: &str, tool: &str) -> String {
    let digest = Sha256::new()
        .chain_update(slug)
        .chain_update([0])
        .chain_update(tool)
        .finalize();
    let mut digits = String::with_capacity(HASH_DIGITS);
    for byte in digest.iter().take(HASH_DIGITS / 2) {
        let _infallible = write!(digits, "{byte:02x}");
    }
    digits
}

/// A name as it may stand in a sentence: everything that is not plain text shows as an escape, and what is long is cut.
pub(crate) fn shown(name: &str) -> String {
    let mut shown: String = name
        .chars()
        .take(SHOWN_CHARS)
        .flat_map(|c| {
            if c.is_ascii_graphic() || c == ' ' {
                Cow::<str>::Owned(c.to_string())
            } else {
                Cow::Owned(c.escape_unicode().to_string())
            }
            .chars()
            .collect::<Vec<_>>()
        })
        .collect();
    if name.chars().nth(SHOWN_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// The names that are taken in one list, and by which Tool.
#[derive(Debug, Default)]
pub(crate) struct Taken(HashMap<String, String>);

impl Taken {
    /// Takes a name for a Tool.
    ///
    /// # Errors
    /// Another Tool has it: that one's own name.
    pub(crate) fn take(&mut self, full_name: &str, tool: &str) -> Result<(), String> {
        if let Some(owner) = self.0.get(full_name) {
            return Err(owner.clone());
        }
        self.0.insert(full_name.to_owned(), tool.to_owned());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_that_fits_stays_as_it_is() {
        assert_eq!(full_name("docs", "search"), "docs__search");
        assert_eq!(full_name("docs", "get-page_2"), "docs__get-page_2");
        assert_eq!(full_name("docs", "a__b"), "docs__a__b");
    }

    #[test]
    fn a_name_that_no_provider_takes_is_made_one_and_stays_unique() {
        let names = [
            "files.read",
            "files/read",
            "files read",
            "files_read",
            "sеarch",
            "search\u{202e}",
            "",
            "\0",
            "村",
            "x\u{1b}[31m",
        ];
        let mut seen = HashMap::new();
        for tool in names {
            let full = full_name("docs", tool);
            assert!(full.parse::<ToolName>().is_ok(), "{tool:?}: {full}");
            assert_eq!(seen.insert(full, tool), None, "{tool:?}");
        }
        assert!(full_name("docs", "files.read").starts_with("docs__files_read_"));
    }

    #[test]
    fn a_long_name_is_cut_and_keeps_its_hash() {
        let (a, b) = ("x".repeat(100), format!("{}y", "x".repeat(99)));
        let (a, b) = (full_name("docs", &a), full_name("docs", &b));
        assert_eq!((a.len(), b.len()), (64, 64));
        assert_ne!(a, b);
        let slug = "s".repeat(64);
        let full = full_name(&slug, "search");
        assert!(full.len() <= 64 && full.contains("__search_"), "{full}");
    }

    #[test]
    fn a_name_that_is_taken_says_by_whom() {
        let crafted = full_name("docs", "a.b");
        let crafted = crafted.strip_prefix("docs__").unwrap();
        let mut taken = Taken::default();
        taken.take(&full_name("docs", crafted), crafted).unwrap();
        assert_eq!(
            taken.take(&full_name("docs", "a.b"), "a.b"),
            Err(crafted.to_owned())
        );
    }

    #[test]
    fn what_is_shown_of_a_name_is_plain_text() {
        assert_eq!(
            shown("se\u{430}rch\u{1b}[2J\n"),
            "se\\u{430}rch\\u{1b}[2J\\u{a}"
        );
        assert!(shown(&"a".repeat(1_000)).chars().count() <= 81);
    }

    proptest! {
        #[test]
        fn every_name_is_one_that_providers_take(slug in "[a-z0-9][a-z0-9-]{0,63}", tool in any::<String>()) {
            prop_assert!(full_name(&slug, &tool).parse::<ToolName>().is_ok());
        }

        #[test]
        fn two_tools_never_share_a_name(slug in "[a-z0-9-]{1,64}", a in ".{0,90}", b in ".{0,90}") {
            prop_assume!(a != b);
            prop_assert_ne!(full_name(&slug, &a), full_name(&slug, &b));
        }

        #[test]
        fn two_servers_never_share_a_name(one in "[a-z0-9-]{1,64}", other in "[a-z0-9-]{1,64}", a in ".{0,20}", b in ".{0,20}") {
            prop_assume!(one != other);
            prop_assert_ne!(full_name(&one, &a), full_name(&other, &b));
        }
    }
}
