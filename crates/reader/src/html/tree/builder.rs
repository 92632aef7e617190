//! How the parser builds a tree.

use std::{
    borrow::Cow,
    cell::{Cell, Ref, RefCell},
};

use html5ever::{
    Attribute, LocalName, Namespace, QualName, local_name, ns,
    tendril::StrTendril,
    tree_builder::{ElemName, ElementFlags, NodeOrText, QuirksMode, TreeSink},
};

use super::{Kind, Name, NodeId, Tree};

/// A name as the parser looks at it.
#[derive(Debug)]
pub(crate) struct NameRef<'a>(Ref<'a, Name>);

impl ElemName for NameRef<'_> {
    fn ns(&self) -> &Namespace {
        &self.0.ns
    }

    fn local_name(&self) -> &LocalName {
        &self.0.local
    }
}

/// What the parser builds a tree with.
#[derive(Debug)]
pub(crate) struct Builder {
    tree: RefCell<Tree>,
    elements: Cell<usize>,
    /// The element that the parser asked the name of last.
    asked: Cell<NodeId>,
    /// The depth of the element that was put into the tree last.
    depth: Cell<u32>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            tree: RefCell::new(Tree::new()),
            elements: Cell::new(0),
            asked: Cell::new(NodeId::ROOT),
            depth: Cell::new(0),
        }
    }

    /// Elements made until now, also those that the parser made by itself.
    pub(crate) fn elements(&self) -> usize {
        self.elements.get()
    }

    /// Nodes made until now.
    pub(crate) fn nodes(&self) -> usize {
        self.tree.borrow().len()
    }

    /// Bytes of text kept until now.
    pub(crate) fn text_bytes(&self) -> usize {
        self.tree.borrow().text.len()
    }

    /// The depth of the element that was put into the tree last.
    pub(crate) fn last_depth(&self) -> u32 {
        self.depth.get()
    }

    /// The depth of the element that the parser asked the name of last.
    pub(crate) fn asked_depth(&self) -> u32 {
        self.tree.borrow().nodes[self.asked.get().index()].depth
    }

    fn attach(&self, parent: NodeId, next: Option<NodeId>, child: NodeOrText<NodeId>) {
        let mut tree = self.tree.borrow_mut();
        match child {
            NodeOrText::AppendNode(node) => {
                tree.attach(node, parent, next);
                self.depth.set(tree.nodes[node.index()].depth);
            }
            NodeOrText::AppendText(text) => tree.attach_text(&text, parent, next),
        }
    }
}

/// Elements whose text nobody reads.
fn is_dropped(name: &QualName) -> bool {
    name.ns == ns!(svg)
        || matches!(
            name.local,
            local_name!("script")
                | local_name!("style")
                | local_name!("noscript")
                | local_name!("template")
                | local_name!("iframe")
                | local_name!("object")
                | local_name!("embed")
                | local_name!("applet")
                | local_name!("noembed")
                | local_name!("noframes")
                | local_name!("select")
                | local_name!("datalist")
                | local_name!("textarea")
                | local_name!("canvas")
                | local_name!("audio")
                | local_name!("video")
                | local_name!("map")
                | local_name!("annotation")
                | local_name!("annotation-xml")
        )
}

impl TreeSink for Builder {
    type Handle = NodeId;
    type Output = Tree;
    type ElemName<'a> = NameRef<'a>;

    fn finish(self) -> Tree {
        self.tree.into_inner()
    }

    fn parse_error(&self, _message: Cow<'static, str>) {}

    fn get_document(&self) -> NodeId {
        NodeId::ROOT
    }

    fn elem_name<'a>(&'a self, target: &'a NodeId) -> NameRef<'a> {
        static NONE: Name = Name {
            ns: ns!(),
            local: local_name!(""),
        };
        self.asked.set(*target);
        NameRef(Ref::map(self.tree.borrow(), |tree| {
            match &tree.nodes[target.index()].kind {
                Kind::Element { name, .. } => name,
                Kind::Document | Kind::Text(..) => &NONE,
            }
        }))
    }

    fn create_element(
        &self,
        name: QualName,
        attributes: Vec<Attribute>,
        _flags: ElementFlags,
    ) -> NodeId {
        self.elements.set(self.elements.get() + 1);
        let mut tree = self.tree.borrow_mut();
        let dropped = is_dropped(&name);
        let values = if dropped {
            (0, 0)
        } else {
            tree.add_values(&attributes)
        };
        let name = Name {
            ns: name.ns,
            local: name.local,
        };
        let id = tree.push(Kind::Element { name, values });
        tree.nodes[id.index()].dropped = dropped;
        id
    }

    fn create_comment(&self, _text: StrTendril) -> NodeId {
        // Never reached: comments are dropped before. An empty text stands in, should one come.
        self.tree.borrow_mut().push(Kind::Text(0, 0))
    }

    fn create_pi(&self, _target: StrTendril, _data: StrTendril) -> NodeId {
        self.tree.borrow_mut().push(Kind::Text(0, 0))
    }

    fn append(&self, parent: &NodeId, child: NodeOrText<NodeId>) {
        self.attach(*parent, None, child);
    }

    fn append_before_sibling(&self, sibling: &NodeId, child: NodeOrText<NodeId>) {
        let parent = self.tree.borrow().parent(*sibling);
        if let Some(parent) = parent {
            self.attach(parent, Some(*sibling), child);
        }
    }

    fn append_based_on_parent_node(
        &self,
        element: &NodeId,
        previous: &NodeId,
        child: NodeOrText<NodeId>,
    ) {
        let parent = self.tree.borrow().parent(*element);
        match parent {
            Some(parent) => self.attach(parent, Some(*element), child),
            None => self.attach(*previous, None, child),
        }
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn get_template_contents(&self, target: &NodeId) -> NodeId {
        *target
    }

    fn same_node(&self, one: &NodeId, other: &NodeId) -> bool {
        one == other
    }

    fn set_quirks_mode(&self, _mode: QuirksMode) {}

    fn add_attrs_if_missing(&self, target: &NodeId, attributes: Vec<Attribute>) {
        // The page's `<html>` or `<body>` again. What is said first holds, unless nothing was.
        let mut tree = self.tree.borrow_mut();
        let has_none = tree.values(*target).next().is_none();
        if has_none {
            let added = tree.add_values(&attributes);
            if let Kind::Element { values, .. } = &mut tree.nodes[target.index()].kind {
                *values = added;
            }
        }
    }

    fn remove_from_parent(&self, target: &NodeId) {
        self.tree.borrow_mut().detach(*target);
    }

    fn reparent_children(&self, node: &NodeId, parent: &NodeId) {
        let mut tree = self.tree.borrow_mut();
        while let Some(child) = tree.first_child(*node) {
            tree.attach(child, *parent, None);
        }
    }

    fn allow_declarative_shadow_roots(&self, _parent: &NodeId) -> bool {
        false
    }
}
