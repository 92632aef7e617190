//! Formulas in one line: `x^2`, `a_(i+1)`, `1/(n-1)`, `√2`.

use super::super::tree::{NodeId, Tree};

/// Children of an element that are looked at for its parts: there are three, and white space between them.
const CHILDREN: usize = 16;

/// What stands before an element of a formula.
pub(super) fn before(tree: &Tree, node: NodeId) -> &'static str {
    match (sign(tree, node), is_grouped(tree, node)) {
        (Sign::None, false) => "",
        (Sign::None, true) => "(",
        (Sign::Raised, false) => "^",
        (Sign::Raised, true) => "^(",
        (Sign::Lowered, false) => "_",
        (Sign::Lowered, true) => "_(",
        (Sign::Divided, false) => "/",
        (Sign::Divided, true) => "/(",
        (Sign::Root, _) => "√(",
    }
}

/// What stands after it.
pub(super) fn after(tree: &Tree, node: NodeId) -> &'static str {
    let is_closed = sign(tree, node) == Sign::Root || is_grouped(tree, node);
    // What is summed up stands apart from the end of the sum.
    let is_apart = tree
        .math_name(node)
        .is_some_and(|name| matches!(&**name, "munder" | "munderover" | "mtd"));
    match (is_closed, is_apart) {
        (true, _) => ")",
        (false, true) => " ",
        (false, false) => "",
    }
}

/// What makes an element a part of the one around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    None,
    Raised,
    Lowered,
    Divided,
    Root,
}

fn sign(tree: &Tree, node: NodeId) -> Sign {
    let part = part(tree, node);
    match part {
        Some((_, 0)) | None => {}
        Some(("msub" | "munder" | "msubsup" | "munderover", 1)) => return Sign::Lowered,
        Some(("msup" | "mover", 1) | ("msubsup" | "munderover", 2)) => return Sign::Raised,
        Some(("mfrac", 1)) => return Sign::Divided,
        Some(_) => {}
    }
    match tree.math_name(node) {
        Some(name) if &**name == "msqrt" => Sign::Root,
        Some(_) | None => Sign::None,
    }
}

/// Whether the element is more than one word in a place where that would be read otherwise.
fn is_grouped(tree: &Tree, node: NodeId) -> bool {
    let is_part = matches!(part(tree, node), Some((name, at)) if name == "mfrac" || at > 0);
    let is_word = tree
        .math_name(node)
        .is_none_or(|name| matches!(&**name, "mi" | "mn" | "mo" | "mtext"));
    is_part && !is_word
}

/// The element around a part of it, and which part that is.
fn part(tree: &Tree, node: NodeId) -> Option<(&str, usize)> {
    let parent = tree.parent(node)?;
    let name = tree.math_name(parent)?;
    let is_parted = matches!(
        &**name,
        "msub" | "msup" | "msubsup" | "munder" | "mover" | "munderover" | "mfrac"
    );
    if !is_parted {
        return None;
    }
    let at = tree
        .children(parent)
        .take(CHILDREN)
        .filter(|&child| tree.math_name(child).is_some())
        .position(|child| child == node)?;
    Some((name, at))
}
