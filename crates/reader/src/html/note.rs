//! What is said of a page that has hardly any text.

use html5ever::local_name;
use url::Url;

use super::{
    line,
    tree::{Key, NodeId, Tree},
};

/// Text of a page that is suspected to show more in a browser.
const LITTLE_TEXT: usize = 120;
/// Characters of a page's description of itself.
const DESCRIPTION_CHARACTERS: usize = 500;

/// Why there is so little text, and what the page says of itself to programs; None if there is enough.
pub(super) fn note(tree: &Tree, text_bytes: usize, base: &Url) -> Option<String> {
    if text_bytes >= LITTLE_TEXT {
        return None;
    }
    let is_empty = text_bytes == 0;
    let mut sentences = Vec::new();
    if let Some(target) = sends_on(tree, base) {
        sentences.push(format!("The page sends browsers on to {target}"));
    } else if has_script(tree) {
        sentences.push(if is_empty {
            "The page has no text of its own: it is made by scripts, in a browser, and nothing more can be read of it here"
                .to_owned()
        } else {
            "There is little text here: the rest of the page is probably made by scripts, in a browser"
                .to_owned()
        });
    } else if is_empty {
        sentences.push("The page has no text".to_owned());
    }
    if !sentences.is_empty()
        && let Some(description) = description(tree)
    {
        sentences.push(format!("It describes itself as “{description}”"));
    }
    (!sentences.is_empty()).then(|| format!("[{}.]", sentences.join(". ")))
}

fn has_script(tree: &Tree) -> bool {
    tree.elements(NodeId::ROOT, local_name!("script"))
        .next()
        .is_some()
}

/// Where the page sends those on who do not stay (WHATWG HTML section 4.2.5.3, "refresh"). It is told and not followed.
fn sends_on(tree: &Tree, base: &Url) -> Option<Url> {
    tree.elements(NodeId::ROOT, local_name!("meta"))
        .filter(|&meta| {
            tree.value(meta, Key::HttpEquiv)
                .is_some_and(|name| name.trim().eq_ignore_ascii_case("refresh"))
        })
        .filter_map(|meta| tree.value(meta, Key::Content))
        .filter_map(|content| content.split_once([';', ',']))
        .filter_map(|(_, target)| {
            let target = target.trim();
            let target = match target.get(..3) {
                Some(name) if name.eq_ignore_ascii_case("url") => {
                    target[3..].trim_start().strip_prefix('=')?
                }
                Some(_) | None => target,
            };
            base.join(target.trim_matches([' ', '\'', '"'])).ok()
        })
        .find(|url| matches!(url.scheme(), "http" | "https"))
}

/// What the page tells search engines and other sites that it is.
fn description(tree: &Tree) -> Option<String> {
    tree.elements(NodeId::ROOT, local_name!("meta"))
        .filter(|&meta| {
            tree.value(meta, Key::Name) == Some("description")
                || tree.value(meta, Key::Property) == Some("og:description")
        })
        .filter_map(|meta| tree.value(meta, Key::Content))
        // It stands between marks of ours, which it must not end.
        .map(|content| content.replace(['“', '”', '[', ']'], ""))
        .map(|content| line(content.trim_end_matches('.'), DESCRIPTION_CHARACTERS))
        .find(|description| !description.is_empty())
}
