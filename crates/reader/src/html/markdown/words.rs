//! Words that are not what they look like.

/// Whether a link to a place of its own page is only the handle to copy its address by, or jumps over what is left out anyway.
pub(super) fn is_permalink(text: &str) -> bool {
    let text = text.trim();
    matches!(
        text,
        "" | "¶" | "#" | "§" | "🔗" | "↩" | "↑" | "^" | "\\#" | "Permalink" | "Anchor" | "Link"
    ) || (text.len() < 60
        && ["skip to ", "jump to "].iter().any(|words| {
            text.get(..words.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(words))
        }))
}

/// Whether a line that begins with this word would be read as something else than text.
pub(super) fn is_mark(word: &str) -> bool {
    let first = word.chars().next();
    match first {
        Some('#') => word.len() <= 6 && word.bytes().all(|byte| byte == b'#'),
        Some('>') => true,
        Some('+') => word == "+",
        Some('-' | '*' | '=') => {
            word.len() == 1 || (word.len() > 2 && word.chars().all(|c| Some(c) == first))
        }
        Some('`' | '~') => word.starts_with("```") || word.starts_with("~~~"),
        Some('|') => true,
        Some(_) | None => false,
    }
}
