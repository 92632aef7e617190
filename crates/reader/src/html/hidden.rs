//! Elements that a page keeps from the eyes of people.
//!
//! That is where words are put that only a model shall read. What is hidden by a style sheet or a script is not known here.

use html5ever::{Attribute, LocalName, QualName, local_name, ns, tendril::StrTendril};

use super::tree::{Key, NodeId, Tree};

/// Classes that wide-spread style sheets hide their elements by, wherever they are.
const HIDDEN_CLASSES: [&str; 8] = [
    "sr-only",
    "visually-hidden",
    "visuallyhidden",
    "screen-reader-text",
    "screen-reader-only",
    "show-for-sr",
    "u-visually-hidden",
    "element-invisible",
];

/// Whether nobody sees the element.
pub(crate) fn is_hidden(tree: &Tree, node: NodeId) -> bool {
    if tree.is(node, &local_name!("dialog")) && tree.value(node, Key::Open).is_none() {
        return true;
    }
    is_hidden_by(tree.values(node).map(|(key, value)| (key.name(), value)))
}

/// Whether an element with these attributes is hidden.
pub(crate) fn is_hidden_by<'a>(attributes: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
    attributes.into_iter().any(|(name, value)| match name {
        // `until-found` hides, too: people find it only if they search.
        "hidden" => true,
        "aria-hidden" => value.trim().eq_ignore_ascii_case("true"),
        "style" => is_hiding(value),
        "class" => value
            .split_ascii_whitespace()
            .any(|class| HIDDEN_CLASSES.contains(&class)),
        _ => false,
    })
}

/// The attribute that stands for all ways to hide.
pub(crate) fn attribute() -> Attribute {
    Attribute {
        name: QualName::new(None, ns!(), LocalName::from("hidden")),
        value: StrTendril::new(),
    }
}

/// Whether an inline style shows nothing of its element.
fn is_hiding(style: &str) -> bool {
    let style = without_comments(style);
    style.split(';').any(|declaration| {
        let Some((property, value)) = declaration.split_once(':') else {
            return false;
        };
        let property = property.trim().to_ascii_lowercase();
        let value = value.to_ascii_lowercase();
        let value = value.split('!').next().unwrap_or_default().trim();
        match property.as_str() {
            "display" => value == "none",
            "visibility" => matches!(value, "hidden" | "collapse"),
            "content-visibility" => value == "hidden",
            "opacity" => number(value).is_some_and(|n| n < 0.05),
            "font-size" => length(value).is_some_and(|n| n <= 2.0),
            // The number behind a slash is the height of a line.
            "font" => value
                .split_ascii_whitespace()
                .filter_map(|part| length(part.split('/').next().unwrap_or_default()))
                .any(|n| n <= 2.0),
            "color" | "-webkit-text-fill-color" => value == "transparent" || is_clear(value),
            "text-indent" | "left" | "right" | "top" | "bottom" | "margin-left" | "margin-top" => {
                length(value).is_some_and(|n| n <= -500.0)
            }
            "transform" => value.replace(' ', "").contains("scale(0)"),
            "clip" => value.starts_with("rect(0") || value.starts_with("rect(1px"),
            "clip-path" => matches!(value, "inset(50%)" | "inset(100%)" | "circle(0)"),
            "max-height" | "max-width" | "height" | "width" => {
                length(value).is_some_and(|n| n <= 1.0) && style.contains("overflow")
            }
            _ => false,
        }
    })
}

/// Whether a colour's fourth number is nought.
fn is_clear(colour: &str) -> bool {
    let numbers = colour.split_once('(').map_or("", |(_, numbers)| numbers);
    let mut numbers = numbers
        .split([',', '/', ' ', ')'])
        .filter(|part| !part.is_empty());
    numbers.nth(3).and_then(number).is_some_and(|n| n < 0.05)
}

fn without_comments(style: &str) -> String {
    let mut kept = String::with_capacity(style.len());
    let mut rest = style;
    while let Some((before, after)) = rest.split_once("/*") {
        kept.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    kept.push_str(rest);
    kept
}

fn number(value: &str) -> Option<f64> {
    match value.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok().map(|n| n / 100.0),
        None => value.parse().ok(),
    }
}

/// A length in about pixels; None for what is not one, and for a share of something unknown.
fn length(value: &str) -> Option<f64> {
    let unit = value.find(|c: char| c.is_ascii_alphabetic() || c == '%');
    let (digits, unit) = value.split_at(unit.unwrap_or(value.len()));
    let number: f64 = digits.trim().parse().ok()?;
    match unit {
        "em" | "rem" | "vw" | "vh" | "ch" | "ex" => Some(number * 16.0),
        "%" => Some(number * 5.0),
        "" | "px" | "pt" => Some(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_hide_are_seen_through() {
        for style in [
            "display:none",
            "DISPLAY : None !important",
            "color:red;display/**/:/* x */none",
            "visibility:hidden",
            "opacity:0",
            "opacity: 0.01",
            "font-size:0",
            "font-size: 1px",
            "font: 0/0 a",
            "color: transparent",
            "color: rgba(0, 0, 0, 0)",
            "position:absolute; left:-9999px",
            "text-indent: -100em",
            "position:absolute;clip:rect(0,0,0,0)",
            "height:0;overflow:hidden",
            "transform: scale(0)",
        ] {
            assert!(is_hiding(style), "{style}");
        }
    }

    #[test]
    fn ordinary_styles_hide_nothing() {
        for style in [
            "",
            "display:block",
            "opacity:1",
            "font-size:12px",
            "font-size:0.8em",
            "font: 12px/1.5 serif",
            "left:-10px",
            "height:0",
            "max-width:100%;overflow:hidden",
            "color:rgb(0,0,0)",
            "width:100%",
            "top:0",
        ] {
            assert!(!is_hiding(style), "{style}");
        }
    }
}
