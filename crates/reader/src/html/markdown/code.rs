//! Blocks of code.

use html5ever::local_name;

use super::{
    super::{
        content::Main,
        tree::{Key, NodeId, Step, Tree},
    },
    names::is_block,
};
use crate::visible;

/// The code in a node, without the numbers of its lines.
pub(super) fn text(tree: &Tree, main: &Main, node: NodeId) -> String {
    let mut text = String::new();
    let mut walk = tree.walk(node);
    while let Some(step) = walk.next() {
        match step {
            Step::Enter(inner) => {
                if main.is_skipped(inner) || is_line_numbers(tree, inner) {
                    walk.pass_over(inner);
                } else if let Some(piece) = tree.text(inner) {
                    text.push_str(piece);
                } else if tree.is(inner, &local_name!("br")) {
                    text.push('\n');
                }
            }
            // Some highlighters have an element for each line.
            Step::Leave(inner) => {
                let is_line = inner != node && tree.name(inner).is_some_and(is_block);
                if is_line && !text.ends_with('\n') {
                    text.push('\n');
                }
            }
        }
    }
    let text = visible::clean(&text);
    text.trim_end().trim_start_matches('\n').to_owned()
}

/// The code between fences that are longer than any in it.
pub(super) fn fenced(code: &str, language: Option<String>) -> String {
    let mut fence = "```".to_owned();
    while code.contains(&fence) && fence.len() < LONGEST_FENCE {
        fence.push('`');
    }
    let code = code.replace(&fence, "");
    let mut lines = format!("{fence}{}\n", language.unwrap_or_default());
    for line in code.lines() {
        lines.push_str(line.trim_end());
        lines.push('\n');
    }
    lines.push_str(&fence);
    lines
}

/// What stands before and after code in a line (`CommonMark` section 6.1): more ticks than there are in it, and a space between theirs
/// and its own.
pub(super) fn marks(code: &str) -> (String, String) {
    let (mut run, mut longest) = (0_usize, 0);
    for c in code.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let ticks = "`".repeat((longest + 1).min(LONGEST_FENCE));
    let (before, after) = (
        if code.starts_with('`') { " " } else { "" },
        if code.ends_with('`') { " " } else { "" },
    );
    (format!("{ticks}{before}"), format!("{after}{ticks}"))
}

/// Ticks of a fence; as many in a row are a trap and no code, and left out.
const LONGEST_FENCE: usize = 10;

/// The language that a block of code says it is in.
pub(super) fn language(tree: &Tree, node: NodeId) -> Option<String> {
    let inner = tree
        .children(node)
        .find(|&child| tree.is(child, &local_name!("code")));
    let around = std::iter::successors(tree.parent(node), |&parent| tree.parent(parent)).take(2);
    let places = inner.into_iter().chain([node]).chain(around);
    for place in places {
        if let Some(language) = tree.value(place, Key::DataLang).and_then(language_word) {
            return Some(language);
        }
        let classes = tree.value(place, Key::Class).unwrap_or_default();
        let mut before = "";
        for class in classes.split_ascii_whitespace() {
            let word = [
                "language-",
                "lang-",
                "highlight-source-",
                "highlight-",
                "src-",
            ]
            .iter()
            .find_map(|start| class.strip_prefix(start))
            .or_else(|| matches!(before, "brush:" | "sourceCode").then_some(class));
            before = class;
            if let Some(language) = word.and_then(language_word) {
                return Some(language);
            }
        }
    }
    None
}

fn language_word(word: &str) -> Option<String> {
    let word = word.trim_end_matches(';').to_ascii_lowercase();
    let is_word = !word.is_empty()
        && word.len() <= 20
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+#-_.".contains(&byte));
    let is_none = matches!(
        word.as_str(),
        "none"
            | "plaintext"
            | "text"
            | "plain"
            | "default"
            | "notranslate"
            | "wrapper"
            | "container"
    );
    (is_word && !is_none).then_some(word)
}

/// Whether the element numbers lines of code beside it.
pub(super) fn is_line_numbers(tree: &Tree, node: NodeId) -> bool {
    tree.value(node, Key::Class).is_some_and(|classes| {
        classes.split_ascii_whitespace().any(|class| {
            matches!(
                class,
                "lineno"
                    | "linenos"
                    | "linenodiv"
                    | "line-number"
                    | "line-numbers-rows"
                    | "gutter"
                    | "blob-num"
                    | "rouge-gutter"
                    | "hljs-ln-numbers"
            )
        })
    })
}
