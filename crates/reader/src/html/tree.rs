//! A page as a tree that has bounds.
//!
//! Nodes are numbers into one vector and text and attributes are ranges of one string, so that a node costs some sixty bytes
//! whatever it is, nothing is freed one by one, and no walk needs to recurse.

mod builder;
mod key;

use std::{num::NonZeroU32, ops::Range};

use html5ever::{Attribute, LocalName, Namespace, ns};

pub(crate) use self::{builder::Builder, key::Key};

/// Bytes that the attributes of one page may take; those after that are dropped.
const ATTRIBUTE_BYTES: usize = 4 * 1_024 * 1_024;
/// Bytes of an address; longer ones are dropped, as the guard would refuse them.
const ADDRESS_BYTES: usize = 2_048;
/// Bytes of any other attribute; longer ones are cut.
const VALUE_BYTES: usize = 512;

/// A node's place in its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NodeId(NonZeroU32);

impl NodeId {
    /// The document itself.
    pub(crate) const ROOT: Self = Self(NonZeroU32::MIN);

    pub(crate) fn index(self) -> usize {
        usize::try_from(self.0.get() - 1).unwrap_or(usize::MAX)
    }
}

/// What an element is called.
#[derive(Debug)]
struct Name {
    ns: Namespace,
    local: LocalName,
}

#[derive(Debug, Clone, Copy)]
struct Value {
    key: Key,
    start: u32,
    end: u32,
}

#[derive(Debug)]
enum Kind {
    Document,
    Element {
        name: Name,
        /// A range of `Tree::values`.
        values: (u32, u32),
    },
    /// A range of `Tree::text`.
    Text(u32, u32),
}

#[derive(Debug)]
struct Node {
    parent: Option<NodeId>,
    previous: Option<NodeId>,
    next: Option<NodeId>,
    first: Option<NodeId>,
    last: Option<NodeId>,
    kind: Kind,
    /// Elements above this one when it was put where it is.
    depth: u32,
    /// Nobody reads what is in here.
    dropped: bool,
}

/// A page as a tree.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    values: Vec<Value>,
    text: String,
    attributes: String,
}

/// A step of a walk through a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Enter(NodeId),
    Leave(NodeId),
}

impl Tree {
    fn new() -> Self {
        Self {
            nodes: vec![Node {
                parent: None,
                previous: None,
                next: None,
                first: None,
                last: None,
                kind: Kind::Document,
                depth: 0,
                dropped: false,
            }],
            values: Vec::new(),
            text: String::new(),
            attributes: String::new(),
        }
    }

    /// Nodes that there are or were.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The local name of an HTML element; None for text, the document and what is not HTML.
    pub(crate) fn name(&self, node: NodeId) -> Option<&LocalName> {
        match &self.nodes[node.index()].kind {
            Kind::Element { name, .. } if name.ns == ns!(html) => Some(&name.local),
            Kind::Element { .. } | Kind::Document | Kind::Text(..) => None,
        }
    }

    /// The local name of an element of a formula (`MathML`).
    pub(crate) fn math_name(&self, node: NodeId) -> Option<&LocalName> {
        match &self.nodes[node.index()].kind {
            Kind::Element { name, .. } if name.ns == ns!(mathml) => Some(&name.local),
            Kind::Element { .. } | Kind::Document | Kind::Text(..) => None,
        }
    }

    /// Whether the node's text was not even kept, since nobody reads it.
    pub(crate) fn is_dropped(&self, node: NodeId) -> bool {
        self.nodes[node.index()].dropped
    }

    /// Whether the node is this HTML element.
    pub(crate) fn is(&self, node: NodeId, local: &LocalName) -> bool {
        self.name(node) == Some(local)
    }

    /// The text of a text node.
    pub(crate) fn text(&self, node: NodeId) -> Option<&str> {
        match self.nodes[node.index()].kind {
            Kind::Text(start, end) => self.text.get(range(start, end)),
            Kind::Document | Kind::Element { .. } => None,
        }
    }

    /// An attribute's value.
    pub(crate) fn value(&self, node: NodeId, key: Key) -> Option<&str> {
        self.values(node)
            .find(|(found, _)| *found == key)
            .map(|(_, value)| value)
    }

    /// The attributes of an element, in their order.
    pub(crate) fn values(&self, node: NodeId) -> impl Iterator<Item = (Key, &str)> {
        let values = match &self.nodes[node.index()].kind {
            Kind::Element { values, .. } => range(values.0, values.1),
            Kind::Document | Kind::Text(..) => 0..0,
        };
        self.values
            .get(values)
            .unwrap_or_default()
            .iter()
            .map(|value| {
                let text = self.attributes.get(range(value.start, value.end));
                (value.key, text.unwrap_or_default())
            })
    }

    pub(crate) fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.nodes[node.index()].parent
    }

    pub(crate) fn first_child(&self, node: NodeId) -> Option<NodeId> {
        self.nodes[node.index()].first
    }

    pub(crate) fn next_sibling(&self, node: NodeId) -> Option<NodeId> {
        self.nodes[node.index()].next
    }

    /// The node's children, in order.
    pub(crate) fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(self.first_child(node), |&child| self.next_sibling(child))
    }

    /// Every node from `top` down, where each is entered and left.
    pub(crate) fn walk(&self, top: NodeId) -> Walk<'_> {
        Walk {
            tree: self,
            top,
            next: Some(Step::Enter(top)),
        }
    }

    /// Every element of that name under `top`, in order.
    pub(crate) fn elements(&self, top: NodeId, local: LocalName) -> impl Iterator<Item = NodeId> {
        self.walk(top).filter_map(move |step| match step {
            Step::Enter(node) if self.is(node, &local) => Some(node),
            Step::Enter(_) | Step::Leave(_) => None,
        })
    }

    /// The most elements that are one in another.
    pub(crate) fn depth(&self) -> usize {
        let (mut depth, mut deepest) = (0_usize, 0);
        for step in self.walk(NodeId::ROOT) {
            match step {
                Step::Enter(_) => {
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                Step::Leave(_) => depth -= 1,
            }
        }
        deepest
    }

    fn push(&mut self, kind: Kind) -> NodeId {
        let number = offset(self.nodes.len() + 1);
        let id = NodeId(NonZeroU32::new(number).unwrap_or(NonZeroU32::MAX));
        self.nodes.push(Node {
            parent: None,
            previous: None,
            next: None,
            first: None,
            last: None,
            kind,
            depth: 0,
            dropped: false,
        });
        id
    }

    fn detach(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        let (parent, previous, next) = (node.parent.take(), node.previous.take(), node.next.take());
        if let Some(previous) = previous {
            self.nodes[previous.index()].next = next;
        } else if let Some(parent) = parent {
            self.nodes[parent.index()].first = next;
        }
        if let Some(next) = next {
            self.nodes[next.index()].previous = previous;
        } else if let Some(parent) = parent {
            self.nodes[parent.index()].last = previous;
        }
    }

    /// Puts a node under `parent`, before `next` or as the last.
    fn attach(&mut self, id: NodeId, parent: NodeId, next: Option<NodeId>) {
        self.detach(id);
        let previous = match next {
            Some(next) => self.nodes[next.index()].previous,
            None => self.nodes[parent.index()].last,
        };
        let (depth, dropped) = {
            let parent = &self.nodes[parent.index()];
            (parent.depth + 1, parent.dropped)
        };
        let node = &mut self.nodes[id.index()];
        node.parent = Some(parent);
        node.previous = previous;
        node.next = next;
        node.depth = depth;
        node.dropped |= dropped;
        match previous {
            Some(previous) => self.nodes[previous.index()].next = Some(id),
            None => self.nodes[parent.index()].first = Some(id),
        }
        match next {
            Some(next) => self.nodes[next.index()].previous = Some(id),
            None => self.nodes[parent.index()].last = Some(id),
        }
    }

    fn attach_text(&mut self, text: &str, parent: NodeId, next: Option<NodeId>) {
        if self.nodes[parent.index()].dropped {
            return;
        }
        let previous = match next {
            Some(next) => self.nodes[next.index()].previous,
            None => self.nodes[parent.index()].last,
        };
        let start = offset(self.text.len());
        self.text.push_str(text);
        let end = offset(self.text.len());
        if let Some(previous) = previous
            && let Kind::Text(_, last) = &mut self.nodes[previous.index()].kind
            && *last == start
        {
            *last = end;
            return;
        }
        let id = self.push(Kind::Text(start, end));
        self.attach(id, parent, next);
    }

    fn add_values(&mut self, attributes: &[Attribute]) -> (u32, u32) {
        let start = offset(self.values.len());
        for attribute in attributes {
            let Some(key) = Key::parse(&attribute.name.local) else {
                continue;
            };
            let value: &str = &attribute.value;
            let is_address = matches!(key, Key::Href | Key::Src | Key::DataSrc | Key::Srcset);
            let value = match (is_address, value.len()) {
                // A picture in the page itself is never shown.
                (true, _) if is_data(value) => "data:",
                (true, length) if length > ADDRESS_BYTES && key != Key::Srcset => continue,
                (true, _) => &value[..kernel::floor_char_boundary(value, ADDRESS_BYTES)],
                (false, _) => &value[..kernel::floor_char_boundary(value, VALUE_BYTES)],
            };
            if self.attributes.len() + value.len() > ATTRIBUTE_BYTES {
                break;
            }
            let from = offset(self.attributes.len());
            self.attributes.push_str(value);
            self.values.push(Value {
                key,
                start: from,
                end: offset(self.attributes.len()),
            });
        }
        (start, offset(self.values.len()))
    }
}

fn is_data(value: &str) -> bool {
    value
        .trim_start()
        .get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

/// A length as the tree keeps it. Bodies are far below four gigabytes.
fn offset(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn range(start: u32, end: u32) -> Range<usize> {
    usize::try_from(start).unwrap_or(usize::MAX)..usize::try_from(end).unwrap_or(usize::MAX)
}

/// See [`Tree::walk`].
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    tree: &'a Tree,
    top: NodeId,
    next: Option<Step>,
}

impl Walk<'_> {
    /// Skips what is in the node that was just entered: its leaving comes next.
    pub(crate) fn pass_over(&mut self, node: NodeId) {
        self.next = Some(Step::Leave(node));
    }
}

impl Iterator for Walk<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let step = self.next?;
        self.next = match step {
            Step::Enter(node) => Some(match self.tree.first_child(node) {
                Some(child) => Step::Enter(child),
                None => Step::Leave(node),
            }),
            Step::Leave(node) if node == self.top => None,
            Step::Leave(node) => match self.tree.next_sibling(node) {
                Some(sibling) => Some(Step::Enter(sibling)),
                None => self.tree.parent(node).map(Step::Leave),
            },
        };
        Some(step)
    }
}
