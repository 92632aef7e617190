//! Text from outside.

use std::borrow::Cow;

/// Text as it may be stored: NUL, which PostgreSQL cannot hold, becomes U+FFFD.
pub fn clean_text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{FFFD}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// The largest index at most `at` that does not split a character.
pub fn floor_char_boundary(text: &str, at: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    (0..=at)
        .rev()
        .find(|&index| text.is_char_boundary(index))
        .unwrap_or(0)
}

/// Text as it may reach a terminal: control characters other than newline and tab are dropped, and so are the bidirectional
/// overrides that make text read as another ("Trojan Source", CVE-2021-42574).
pub fn strip_control(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
    };
    if text.contains(harmful) {
        Cow::Owned(text.chars().filter(|&c| !harmful(c)).collect())
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_sequences_lose_their_power() {
        assert_eq!(
            strip_control("\u{1b}[31mred\u{1b}]0;title\u{7}\u{9b}2J\r\nok\tno"),
            "[31mred]0;title2J\nok\tno"
        );
        assert_eq!(strip_control("a\u{202E}b\u{061C}c"), "abc");
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(floor_char_boundary("aé", 2), 1);
        assert_eq!(floor_char_boundary("aé", 3), 3);
        assert_eq!(floor_char_boundary("", 9), 0);
    }
}
