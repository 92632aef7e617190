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
    // A picture that is kept from being read aloud is still to be seen, as formulas are.
    let is_picture = tree.is(node, &local_name!("img"));
    let values = tree
        .values(node)
        .filter(|(key, _)| !(is_picture && *key == Key::AriaHidden));
    is_hidden_by(values.map(|(key, value)| (key.name(), value)))
}

/// Whether an element with these attributes is hidden.
pub(crate) fn is_hidden_by<'a>(attributes: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
    attributes.into_iter().any(|(name, value)| match name {
        // `until-found` hides, too: people find it only if they search.
        "hidden" | "popover" => true,
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

/// The attribute that stands for all ways to give text a size.
pub(crate) fn size_attribute(legible: Legible) -> Attribute {
    let value = match legible {
        Legible::Yes => "font-size:medium",
        Legible::No => "font-size:0",
    };
    Attribute {
        name: QualName::new(None, ns!(), local_name!("style")),
        value: StrTendril::from(value),
    }
}

/// Whether text of an element is large enough to be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Legible {
    Yes,
    No,
}

/// What an element's inline style says of the size of its text; None if that is in what is around it. Unlike other ways to hide it
/// holds for text only until an element further in has a size of its own, as in newsletters, whose frames have none.
pub(crate) fn legible(tree: &Tree, node: NodeId) -> Option<Legible> {
    tree.value(node, Key::Style).and_then(legible_by)
}

/// See [`legible`].
pub(crate) fn legible_by(style: &str) -> Option<Legible> {
    declarations(style)
        .filter_map(|(property, value)| match property.as_str() {
            "font-size" => size(&value),
            // The number behind a slash is the height of a line.
            "font" => value
                .split_ascii_whitespace()
                .filter_map(|part| size(part.split('/').next().unwrap_or_default()))
                .min_by_key(|legible| *legible == Legible::Yes),
            _ => None,
        })
        .last()
}

fn size(value: &str) -> Option<Legible> {
    let is_share = ["%", "em", "ex", "ch"]
        .iter()
        .any(|unit| value.ends_with(unit) && !value.ends_with("rem"));
    match length(value) {
        Some(n) if n <= 2.0 => Some(Legible::No),
        Some(_) if is_share => None,
        Some(_) => Some(Legible::Yes),
        None => {
            let is_word = matches!(value, "medium" | "initial") || value.ends_with("small");
            (is_word || value.ends_with("-large") || value == "large").then_some(Legible::Yes)
        }
    }
}

/// The properties of an inline style and their values, in small letters and without what a style sheet may spell them with.
fn declarations(style: &str) -> impl Iterator<Item = (String, String)> {
    let style = without_escapes(&without_comments(style)).to_ascii_lowercase();
    let declarations: Vec<_> = style
        .split(';')
        .filter_map(|declaration| {
            let (property, value) = declaration.split_once(':')?;
            let value = value.split('!').next().unwrap_or_default();
            let value = value.replace("calc(", "(");
            let value = value.trim().trim_start_matches('(').trim_start();
            Some((property.trim().to_owned(), value.to_owned()))
        })
        .collect();
    declarations.into_iter()
}

/// Whether an inline style shows nothing of its element.
fn is_hiding(style: &str) -> bool {
    declarations(style).any(|(property, value)| {
        let value = value.as_str();
        let closed = value.replace(' ', "");
        let number = || number(value.trim_end_matches(')'));
        match property.as_str() {
            "display" => value == "none",
            "visibility" => matches!(value, "hidden" | "collapse"),
            "content-visibility" => value == "hidden",
            "opacity" | "scale" | "zoom" => number().is_some_and(|n| n < 0.05),
            "filter" => closed.contains("opacity(0)") || closed.contains("opacity(0%)"),
            "color" | "-webkit-text-fill-color" => value == "transparent" || is_clear(value),
            "text-indent" | "left" | "right" | "top" | "bottom" | "inset" => is_far(value),
            // A column is put beside another by a share of the page.
            "translate" | "margin" | "margin-left" | "margin-top" => {
                !value.contains('%') && is_far(value)
            }
            "transform" => {
                [
                    "scale(0)",
                    "scale(0,",
                    "scalex(0)",
                    "scaley(0)",
                    "scale3d(0,",
                ]
                .iter()
                .any(|shrunk| closed.contains(shrunk))
                    || (closed.contains("translate") && !closed.contains('%') && is_far(value))
            }
            "clip" => closed.starts_with("rect(0") || closed.starts_with("rect(1px"),
            "clip-path" => [
                "inset(50%",
                "inset(100%",
                "circle(0)",
                "circle(0px",
                "circle(0%",
                "polygon(00,00,00",
            ]
            .iter()
            .any(|nothing| closed.starts_with(nothing)),
            "max-height" | "max-width" | "height" | "width" => {
                length(value).is_some_and(|n| n <= 1.0)
                    && style.to_ascii_lowercase().contains("overflow")
            }
            _ => false,
        }
    })
}

/// Whether one of the lengths leads out of the page: to the left or the top, where nobody can scroll, or further than anybody does.
fn is_far(value: &str) -> bool {
    value
        .split([' ', ',', '(', ')', '/'])
        .filter_map(length)
        .any(|n| n <= -500.0 || n >= 5_000.0)
}

/// Whether a colour's fourth number is nought.
fn is_clear(colour: &str) -> bool {
    if let Some(digits) = colour.strip_prefix('#') {
        return match digits.len() {
            4 => digits.ends_with('0'),
            8 => digits.ends_with("00"),
            _ => false,
        };
    }
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

/// The characters that escapes stand for (CSS Syntax section 4.3.7).
fn without_escapes(style: &str) -> String {
    let mut kept = String::with_capacity(style.len());
    let mut rest = style;
    while let Some((before, after)) = rest.split_once('\\') {
        kept.push_str(before);
        let digits = after
            .bytes()
            .take(6)
            .take_while(u8::is_ascii_hexdigit)
            .count();
        let (escape, after) = after.split_at(digits);
        match u32::from_str_radix(escape, 16) {
            Ok(number) => {
                kept.push(char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER));
                rest = after
                    .strip_prefix(|c: char| c.is_ascii_whitespace())
                    .unwrap_or(after);
            }
            Err(_) => rest = after,
        }
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
            "d\\69splay:none",
            "display:n\\6f ne",
            "opacity:calc(0)",
            "zoom:0",
            "scale:0",
            "filter:opacity(0)",
            "color:#0000",
            "color:#ffffff00",
            "margin:-9999px 0 0 0",
            "inset:-9999px auto auto auto",
            "left:calc(-9999px)",
            "left:9999px",
            "translate:-9999px",
            "transform:translateX(-9999px)",
            "transform:scale(0,0)",
            "clip-path:circle(0px)",
            "clip-path:polygon(0 0,0 0,0 0)",
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
            "color:#fff",
            "color:#336699",
            "margin:0 auto 0 -100%",
            "transform:translate(-50%,-50%) scale(0.9)",
            "filter:opacity(0.9)",
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

    #[test]
    fn sizes_of_text_are_told_from_shares_of_them() {
        let cases = [
            ("font-size:0", Some(Legible::No)),
            ("font-size:0.01em", Some(Legible::No)),
            ("font: 400 0/0 a", Some(Legible::No)),
            ("font-size:0;font-size:16px", Some(Legible::Yes)),
            ("font: bold 1rem/2 serif", Some(Legible::Yes)),
            ("font-size:x-large", Some(Legible::Yes)),
            ("font-size:120%", None),
            ("font-size:2em", None),
            ("color:red", None),
        ];
        for (style, legible) in cases {
            assert_eq!(legible_by(style), legible, "{style}");
        }
    }
}
