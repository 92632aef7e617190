//! What a person reads.
//!
//! **Architecture invariant:** text from models, Tools, pages and servers passes [`kernel::strip_control`] before it is written,
//! and never starts at a line's first column in a transcript: what stands there is the Village's own word.

use std::fmt::Write as _;

mod excerpt;
pub mod messages;
mod screen;
mod style;
mod table;
mod transcript;

pub use excerpt::{Bounds, excerpt, json_excerpt};
pub use screen::Screen;
pub use style::{Ink, Style};
pub use table::Table;
pub use transcript::{Transcript, one_line};

/// JSON as it may reach a terminal: characters that [`kernel::strip_control`] would drop are escaped instead. In compact JSON they
/// stand nowhere but in strings, where an escape means the same (RFC 8259 §7).
pub fn escape_control(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    let mut text = [0_u8; 4];
    for character in json.chars() {
        let shown = character.encode_utf8(&mut text);
        if kernel::strip_control(shown).is_empty() {
            let mut units = [0_u16; 2];
            for unit in character.encode_utf16(&mut units) {
                // Writing into a String does not fail.
                write!(escaped, "\\u{unit:04x}").unwrap_or_default();
            }
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// A text as one word of a shell, so that a suggested command can be copied.
pub fn shell_word(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/');
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(safe) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggested_command_can_be_copied_whatever_the_name() {
        assert_eq!(shell_word("Keeper"), "Keeper");
        assert_eq!(shell_word("Old Keeper"), "'Old Keeper'");
        assert_eq!(shell_word("x'; rm -rf /"), r"'x'\''; rm -rf /'");
    }

    #[test]
    fn json_keeps_its_meaning_and_loses_its_power_over_a_terminal() {
        let json = "{\"a\":\"\u{9b}2J\u{202e}ok\u{7f}\"}";
        let escaped = escape_control(json);
        assert_eq!(escaped, r#"{"a":"\u009b2J\u202eok\u007f"}"#);
        let (before, after): (serde_json::Value, serde_json::Value) = (
            serde_json::from_str(json).unwrap(),
            serde_json::from_str(&escaped).unwrap(),
        );
        assert_eq!(before, after);
    }
}
