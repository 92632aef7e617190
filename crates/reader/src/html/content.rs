//! What of a page is its content.

use html5ever::{LocalName, local_name};
use url::Url;

use super::{
    TITLE_CHARACTERS,
    hidden::{self, Legible},
    line,
    tree::{Key, NodeId, Step, Tree},
};

/// Text without which a page has nothing to say: with less, what usually stands around the content is the content.
const LITTLE_TEXT: usize = 200;

/// The part of a page that is read.
#[derive(Debug)]
pub(crate) struct Main {
    pub(crate) top: NodeId,
    /// By node: it and all in it is left out.
    skipped: Vec<bool>,
}

impl Main {
    pub(crate) fn is_skipped(&self, node: NodeId) -> bool {
        self.skipped.get(node.index()).copied().unwrap_or(true)
    }
}

/// How much a part of a page says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight {
    /// Bytes of text that is not in links.
    text: usize,
    /// Tables, blocks of code and lists of terms.
    structures: usize,
    /// Headings.
    headings: usize,
}

impl Weight {
    /// Whether this part still has what the whole has: the most of its text, and everything that text alone does not show.
    pub(crate) fn keeps(self, whole: Self) -> bool {
        10 * self.text >= 6 * whole.text
            && self.structures >= whole.structures
            && 10 * (self.headings + 2) >= 6 * whole.headings
    }

    /// Bytes of text that is not in links.
    pub(crate) fn text(self) -> usize {
        self.text
    }
}

/// The page's title: what it is called, or else what it calls itself to others.
pub(crate) fn title(tree: &Tree) -> Option<String> {
    let named = tree
        .elements(NodeId::ROOT, local_name!("title"))
        .map(|node| text_of(tree, node))
        .chain(
            tree.elements(NodeId::ROOT, local_name!("meta"))
                .filter(|&node| tree.value(node, Key::Property) == Some("og:title"))
                .filter_map(|node| tree.value(node, Key::Content).map(str::to_owned)),
        );
    named
        .map(|text| line(&text, TITLE_CHARACTERS))
        .find(|title| !title.is_empty())
}

/// What relative addresses are relative to.
pub(crate) fn base(tree: &Tree, url: &Url) -> Url {
    tree.elements(NodeId::ROOT, local_name!("base"))
        .find_map(|node| tree.value(node, Key::Href))
        .and_then(|href| url.join(href).ok())
        .filter(|base| matches!(base.scheme(), "http" | "https"))
        .unwrap_or_else(|| url.clone())
}

/// The page without what is hidden, and without what stands around its content unless that is nearly all there is.
pub(crate) fn main(tree: &Tree) -> Main {
    let everything = whole(tree);
    let mut main = Main {
        top: NodeId::ROOT,
        skipped: everything.skipped.clone(),
    };
    skip_surroundings(tree, &mut main);
    let (all, kept) = (text_in(tree, &everything), text_in(tree, &main));
    if kept < LITTLE_TEXT && 5 * kept < all {
        return everything;
    }
    match only_main(tree, &main) {
        Some(top) => {
            let narrowed = Main {
                top,
                skipped: main.skipped,
            };
            if 2 * text_in(tree, &narrowed) >= kept {
                narrowed
            } else {
                Main {
                    top: NodeId::ROOT,
                    ..narrowed
                }
            }
        }
        None => main,
    }
}

/// All of a page that people see.
pub(crate) fn whole(tree: &Tree) -> Main {
    let mut skipped = vec![false; tree.len()];
    let mut sizes: Vec<(NodeId, Legible)> = Vec::new();
    let mut walk = tree.walk(NodeId::ROOT);
    while let Some(step) = walk.next() {
        match step {
            Step::Enter(node) if tree.text(node).is_some() => {
                let size = sizes.last().map(|&(_, legible)| legible);
                skipped[node.index()] = size == Some(Legible::No);
            }
            Step::Enter(node) if is_never_shown(tree, node) || hidden::is_hidden(tree, node) => {
                skipped[node.index()] = true;
                walk.pass_over(node);
            }
            Step::Enter(node) => {
                if let Some(legible) = hidden::legible(tree, node) {
                    sizes.push((node, legible));
                }
            }
            Step::Leave(node) => {
                sizes.pop_if(|(sized, _)| *sized == node);
            }
        }
    }
    Main {
        top: NodeId::ROOT,
        skipped,
    }
}

/// The first heading of the first rank.
pub(crate) fn first_heading(tree: &Tree, main: &Main) -> Option<String> {
    let mut walk = tree.walk(main.top);
    while let Some(step) = walk.next() {
        if let Step::Enter(node) = step {
            if main.is_skipped(node) {
                walk.pass_over(node);
            } else if tree.is(node, &local_name!("h1")) {
                let heading = line(&shown_in(tree, main, node), TITLE_CHARACTERS);
                if !heading.is_empty() {
                    return Some(heading);
                }
            }
        }
    }
    None
}

/// How much the content says.
pub(crate) fn weight(tree: &Tree, main: &Main) -> Weight {
    let mut weight = Weight {
        text: 0,
        structures: 0,
        headings: 0,
    };
    let mut links = 0_usize;
    let mut walk = tree.walk(main.top);
    while let Some(step) = walk.next() {
        match step {
            Step::Enter(node) if main.is_skipped(node) => {
                walk.pass_over(node);
                links += usize::from(tree.is(node, &local_name!("a")));
            }
            Step::Enter(node) => {
                if let Some(text) = tree.text(node) {
                    if links == 0 {
                        weight.text += text.split_ascii_whitespace().map(str::len).sum::<usize>();
                    }
                } else if let Some(name) = tree.name(node) {
                    match *name {
                        local_name!("a") => links += 1,
                        local_name!("table") | local_name!("pre") | local_name!("dl") => {
                            weight.structures += 1;
                        }
                        local_name!("h1")
                        | local_name!("h2")
                        | local_name!("h3")
                        | local_name!("h4") => weight.headings += 1,
                        _ => {}
                    }
                }
            }
            Step::Leave(node) => {
                links -= usize::from(tree.is(node, &local_name!("a")));
            }
        }
    }
    weight
}

/// Bytes of text, links included.
fn text_in(tree: &Tree, main: &Main) -> usize {
    let mut bytes = 0;
    let mut walk = tree.walk(main.top);
    while let Some(step) = walk.next() {
        if let Step::Enter(node) = step {
            if main.is_skipped(node) {
                walk.pass_over(node);
            } else if let Some(text) = tree.text(node) {
                bytes += text.split_ascii_whitespace().map(str::len).sum::<usize>();
            }
        }
    }
    bytes
}

/// The text in a node that people see.
fn shown_in(tree: &Tree, main: &Main, top: NodeId) -> String {
    let mut text = String::new();
    let mut walk = tree.walk(top);
    while let Some(step) = walk.next() {
        if let Step::Enter(node) = step {
            if main.is_skipped(node) {
                walk.pass_over(node);
            } else {
                text.push_str(tree.text(node).unwrap_or_default());
            }
        }
    }
    text
}

/// All text in a node.
pub(crate) fn text_of(tree: &Tree, node: NodeId) -> String {
    tree.walk(node)
        .filter_map(|step| match step {
            Step::Enter(node) => tree.text(node),
            Step::Leave(_) => None,
        })
        .collect()
}

fn is_never_shown(tree: &Tree, node: NodeId) -> bool {
    if tree.is_dropped(node) {
        return true;
    }
    match tree.name(node) {
        None => false,
        Some(
            &local_name!("head")
            | &local_name!("input")
            | &local_name!("link")
            | &local_name!("meta")
            | &local_name!("title")
            | &local_name!("base"),
        ) => true,
        // Sections that fold open often have their heading in a button.
        Some(&local_name!("button")) => !is_heading(tree, node),
        Some(_) => tree.value(node, Key::Role).is_some_and(|role| {
            matches!(
                role,
                "dialog" | "alertdialog" | "tooltip" | "menu" | "menubar"
            )
        }),
    }
}

const HEADINGS: [LocalName; 7] = [
    local_name!("h1"),
    local_name!("h2"),
    local_name!("h3"),
    local_name!("h4"),
    local_name!("h5"),
    local_name!("h6"),
    local_name!("summary"),
];
const CONTENT: [LocalName; 2] = [local_name!("main"), local_name!("article")];

/// Whether the node is all that a heading consists of.
fn is_heading(tree: &Tree, node: NodeId) -> bool {
    let Some(parent) = tree.parent(node) else {
        return false;
    };
    let is_blank = |sibling| {
        tree.text(sibling)
            .is_some_and(|text| text.trim().is_empty())
    };
    tree.name(parent)
        .is_some_and(|name| HEADINGS.contains(name))
        && tree
            .children(parent)
            .all(|sibling| sibling == node || is_blank(sibling))
}

/// Leaves out navigation, the page's own head and foot, and what stands beside the content.
fn skip_surroundings(tree: &Tree, main: &mut Main) {
    let (mut content, mut heads) = (0_usize, 0_usize);
    let mut walk = tree.walk(NodeId::ROOT);
    while let Some(step) = walk.next() {
        match step {
            Step::Enter(node) => {
                content += usize::from(is_content(tree, node));
                heads += usize::from(is_head(tree, node));
                if main.is_skipped(node) {
                    walk.pass_over(node);
                } else if is_surrounding(tree, node, content > 0)
                    || (heads > 0 && is_list(tree, node))
                {
                    main.skipped[node.index()] = true;
                    walk.pass_over(node);
                }
            }
            Step::Leave(node) => {
                content -= usize::from(is_content(tree, node));
                heads -= usize::from(is_head(tree, node));
            }
        }
    }
}

/// The head and foot of content have lists of what can be done with it: read it in other languages, share it, see its tags.
fn is_head(tree: &Tree, node: NodeId) -> bool {
    matches!(
        tree.name(node),
        Some(&local_name!("header") | &local_name!("footer"))
    )
}

fn is_list(tree: &Tree, node: NodeId) -> bool {
    matches!(
        tree.name(node),
        Some(&local_name!("ul") | &local_name!("ol") | &local_name!("menu") | &local_name!("dir"))
    )
}

fn is_content(tree: &Tree, node: NodeId) -> bool {
    tree.name(node).is_some_and(|name| CONTENT.contains(name))
        || tree.value(node, Key::Role) == Some("main")
}

fn is_surrounding(tree: &Tree, node: NodeId, is_in_content: bool) -> bool {
    if let Some(role) = tree.value(node, Key::Role) {
        match role {
            "navigation" | "search" => return true,
            "banner" | "contentinfo" | "complementary" => return !is_in_content,
            _ => {}
        }
    }
    // An encyclopedia has a link to its editor in each heading.
    let classes = tree.value(node, Key::Class).unwrap_or_default();
    if classes
        .split_ascii_whitespace()
        .any(|class| class == "mw-editsection")
    {
        return true;
    }
    match tree.name(node) {
        Some(&local_name!("nav")) => true,
        // In the content they introduce it, sum it up, or step aside for a note.
        Some(&local_name!("header") | &local_name!("footer") | &local_name!("aside")) => {
            !is_in_content
        }
        Some(_) | None => false,
    }
}

/// The one element that is marked as the page's content.
fn only_main(tree: &Tree, main: &Main) -> Option<NodeId> {
    let mut found = [None, None];
    let mut counts = [0_usize, 0];
    let mut walk = tree.walk(NodeId::ROOT);
    while let Some(step) = walk.next() {
        let Step::Enter(node) = step else { continue };
        if main.is_skipped(node) {
            walk.pass_over(node);
            continue;
        }
        let is_main =
            tree.is(node, &local_name!("main")) || tree.value(node, Key::Role) == Some("main");
        let rank = if is_main {
            0
        } else if tree.is(node, &local_name!("article")) {
            1
        } else {
            continue;
        };
        found[rank] = Some(node);
        counts[rank] += 1;
    }
    match counts {
        [1, _] => found[0],
        [_, 1] => found[1],
        _ => None,
    }
}
