//! Long texts, cut to what a person reads.

use kernel::{JsonText, strip_control};

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Lines.
    pub lines: usize,
    /// Characters of a line.
    pub columns: usize,
}

impl Bounds {
    /// What of a Tool call is shown in a transcript: enough to follow it, not enough to bury it.
    pub const TOOL: Self = Self {
        lines: 12,
        columns: 400,
    };
    /// Compact JSON up to this many characters stays on one line.
    const ONE_LINE: usize = 100;
}

/// The first lines of a text, without control sequences; a last line says how much is left out.
pub fn excerpt(text: &str, bounds: Bounds) -> Vec<String> {
    let text = strip_control(text);
    let text = text.trim_end();
    let mut lines: Vec<String> = text
        .lines()
        .take(bounds.lines)
        .map(|line| cut(line, bounds.columns))
        .collect();
    let left_out = text.lines().count().saturating_sub(bounds.lines);
    match left_out {
        0 => {}
        1 => lines.push("… 1 more line".to_owned()),
        more => lines.push(format!("… {more} more lines")),
    }
    lines
}

fn cut(line: &str, columns: usize) -> String {
    let Some((at, _)) = line.char_indices().nth(columns) else {
        return line.to_owned();
    };
    format!(
        "{} … {} more characters",
        &line[..at],
        line[at..].chars().count()
    )
}

/// The same of a JSON value: a string is shown as its text, everything else as JSON, digit for digit.
pub fn json_excerpt(value: &JsonText, bounds: Bounds) -> Vec<String> {
    if let Ok(text) = serde_json::from_str::<String>(value.as_str()) {
        return excerpt(&text, bounds);
    }
    if value.as_str().chars().nth(Bounds::ONE_LINE).is_none() {
        return excerpt(value.as_str(), bounds);
    }
    excerpt(&indented(value.as_str()), bounds)
}

/// Compact JSON over several lines. Works on the text, since a tree would round large integers.
fn indented(compact: &str) -> String {
    let mut out = String::with_capacity(compact.len() * 2);
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    let mut characters = compact.chars().peekable();
    let new_line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth * 2));
    };
    while let Some(character) = characters.next() {
        if in_string {
            out.push(character);
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
            continue;
        }
        match character {
            '{' | '[' => {
                out.push(character);
                if let Some(closing) = characters.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(closing);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(character);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            other => {
                in_string = other == '"';
                out.push(other);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_says_how_much_is_left_out() {
        let bounds = Bounds {
            lines: 2,
            columns: 5,
        };
        assert_eq!(
            excerpt("one\ntwotwotwo\nthree\nfour\n\n", bounds),
            ["one", "twotw … 4 more characters", "… 2 more lines"]
        );
        assert_eq!(excerpt("a\nb\nc", bounds).last().unwrap(), "… 1 more line");
        assert_eq!(excerpt("", bounds), Vec::<String>::new());
    }

    #[test]
    fn json_keeps_every_digit_and_a_string_reads_as_text() {
        let value = JsonText::parse(r#"{"n":123456789012345678901234567890}"#).unwrap();
        assert_eq!(
            json_excerpt(&value, Bounds::TOOL),
            [r#"{"n":123456789012345678901234567890}"#]
        );
        let text = JsonText::parse(r#""two\nlines \u001b[2J""#).unwrap();
        assert_eq!(json_excerpt(&text, Bounds::TOOL), ["two", "lines [2J"]);
    }

    #[test]
    fn long_json_is_laid_out_over_lines() {
        let long = format!(r#"{{"a":[1,2],"b":{{}},"c":"{}\"{{"}}"#, "x".repeat(100));
        let lines = json_excerpt(&JsonText::parse(&long).unwrap(), Bounds::TOOL);
        assert_eq!(
            lines[..6],
            ["{", "  \"a\": [", "    1,", "    2", "  ],", "  \"b\": {},"]
        );
        assert!(lines[6].ends_with("x\\\"{\""), "{lines:?}");
    }
}
