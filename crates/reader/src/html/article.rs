//! The article of a page, found the way readers' views of browsers find it.

use dom_smoothie::{Config, ParsePolicy, Readability};
use html5ever::LocalName;
use url::Url;

use super::{
    content::{self, Main},
    line,
    parse::is_void,
    tree::{Key, NodeId, Step, Tree},
};

/// Text under which a page is no article.
const ARTICLE_BYTES: usize = 800;
/// Nodes of a page that an article is looked for in. The search looks at each part of a page many times.
const NODES: usize = 20_000;
/// Characters of a line that names an author.
const BYLINE_CHARACTERS: usize = 200;

/// Whether it is worth the search.
pub(super) fn may_be(tree: &Tree, main: &Main) -> bool {
    tree.len() <= NODES && content::weight(tree, main).text() >= ARTICLE_BYTES
}

/// The content as plain HTML: elements that are shown, and the attributes that are read.
pub(super) fn to_html(tree: &Tree, main: &Main) -> String {
    let mut html = String::from("<!doctype html><html><head>");
    if let Some(title) = content::title(tree) {
        html.push_str("<title>");
        escape(&title, &mut html);
        html.push_str("</title>");
    }
    html.push_str("</head><body>");
    let mut walk = tree.walk(main.top);
    while let Some(step) = walk.next() {
        match step {
            Step::Enter(node) if main.is_skipped(node) => walk.pass_over(node),
            Step::Leave(node) if main.is_skipped(node) => {}
            Step::Enter(node) => {
                if let Some(text) = tree.text(node) {
                    escape(text, &mut html);
                } else if let Some(name) = name(tree, node).filter(|name| is_written(name)) {
                    html.push('<');
                    html.push_str(name);
                    for (key, value) in tree.values(node) {
                        if key == Key::Style {
                            continue;
                        }
                        html.push(' ');
                        html.push_str(key.name());
                        html.push_str("=\"");
                        escape(value, &mut html);
                        html.push('"');
                    }
                    html.push('>');
                }
            }
            Step::Leave(node) => {
                if let Some(name) = name(tree, node).filter(|name| is_written(name))
                    && !is_void(name)
                {
                    html.push_str("</");
                    html.push_str(name);
                    html.push('>');
                }
            }
        }
    }
    html.push_str("</body></html>");
    html
}

/// An article.
#[derive(Debug)]
pub(super) struct Article {
    pub(super) html: String,
    /// Who wrote it, and sometimes when.
    pub(super) byline: Option<String>,
}

/// The article in a page; None if there is none.
pub(super) fn find(html: &str, url: &Url) -> Option<Article> {
    let config = Config {
        keep_classes: true,
        disable_json_ld: true,
        ..Config::default()
    };
    let mut readability = Readability::new(html, Some(url.as_str()), Some(config)).ok()?;
    let article = readability.parse_with_policy(ParsePolicy::Strict).ok()?;
    Some(Article {
        html: article.content.to_string(),
        byline: article
            .byline
            .map(|byline| line(&byline, BYLINE_CHARACTERS))
            .filter(|byline| !byline.is_empty()),
    })
}

/// The name of an element of HTML, or of a formula in it.
fn name(tree: &Tree, node: NodeId) -> Option<&LocalName> {
    tree.name(node).or_else(|| tree.math_name(node))
}

/// Elements that the parser opens by itself, and those whose name could not be read back.
fn is_written(name: &str) -> bool {
    !matches!(
        name,
        "html" | "body" | "head" | "frameset" | "plaintext" | "xmp" | "listing"
    ) && name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn escape(text: &str, to: &mut String) {
    for c in text.chars() {
        match c {
            '<' => to.push_str("&lt;"),
            '>' => to.push_str("&gt;"),
            '&' => to.push_str("&amp;"),
            '"' => to.push_str("&quot;"),
            _ => to.push(c),
        }
    }
}
