//! A page's content as Markdown.
//!
//! GitHub Flavored, as far as text has it: headings, lists, tables, fenced code, quotes, links and pictures with absolute
//! addresses. Terms and their descriptions are `**term**` and `: description`. Only what would change how a line is read is
//! escaped, since it is read by a model and not rendered. Nothing here recurses.

mod code;
mod math;
mod names;
mod table;
mod words;
mod writer;

use std::collections::HashMap;

use html5ever::{LocalName, local_name};
use url::{Position, Url};

use self::{
    code::is_line_numbers,
    names::{is_block, is_span},
    table::Table,
    writer::{Repeats, Span, Writer},
};
use super::{
    content::Main,
    line,
    tree::{Key, NodeId, Step, Tree},
};

/// Characters of a picture's description.
const ALT_CHARACTERS: usize = 300;
/// Bytes of a picture's address; a longer one is of no use to a reader of text.
const PICTURE_BYTES: usize = 500;

/// Markdown, and whether it was cut.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) text: String,
    pub(super) is_cut: bool,
}

/// The content as Markdown of about that many bytes at most.
pub(super) fn write(tree: &Tree, main: &Main, base: &Url, limit: usize) -> Written {
    let mut pass = Pass {
        tree,
        main,
        base,
        writer: Writer::new(limit),
        data_tables: table::data_tables(tree, main),
        lists: Vec::new(),
        indents: Vec::new(),
        tables: Vec::new(),
    };
    let mut walk = tree.walk(main.top);
    while let Some(step) = walk.next() {
        if pass.writer.is_full() {
            break;
        }
        match step {
            Step::Enter(node) if main.is_skipped(node) => walk.pass_over(node),
            Step::Enter(node) => {
                if let Some(text) = tree.text(node) {
                    pass.writer.text(text);
                } else if let Some(name) = tree.name(node) {
                    if pass.enter(node, name) == Inside::Done {
                        walk.pass_over(node);
                    }
                } else if tree.math_name(node).is_some() {
                    pass.sign(math::before(tree, node));
                }
            }
            Step::Leave(node) if main.is_skipped(node) => {}
            Step::Leave(node) => {
                if let Some(name) = tree.name(node) {
                    pass.leave(node, name);
                } else if tree.math_name(node).is_some() {
                    pass.sign(math::after(tree, node));
                }
            }
        }
    }
    let is_cut = pass.writer.is_full();
    let mut text = pass.finish();
    // The last word may be a long one.
    text.truncate(kernel::floor_char_boundary(&text, limit));
    Written { text, is_cut }
}

/// Whether what is in an element is still to be walked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Walk,
    Done,
}

struct Pass<'a> {
    tree: &'a Tree,
    main: &'a Main,
    base: &'a Url,
    writer: Writer,
    data_tables: HashMap<NodeId, bool>,
    lists: Vec<List>,
    indents: Vec<usize>,
    /// None for tables that only put things side by side.
    tables: Vec<Option<Table>>,
}

impl Pass<'_> {
    fn enter(&mut self, node: NodeId, name: &LocalName) -> Inside {
        if is_span(name) {
            let span = self.span(node, name);
            self.writer.open(span);
            return Inside::Walk;
        }
        match *name {
            local_name!("h1") => self.writer.begin_heading(1),
            local_name!("h2") => self.writer.begin_heading(2),
            local_name!("h3") => self.writer.begin_heading(3),
            local_name!("h4") => self.writer.begin_heading(4),
            local_name!("h5") => self.writer.begin_heading(5),
            local_name!("h6") => self.writer.begin_heading(6),
            local_name!("br") => self.writer.line_break(),
            local_name!("wbr") => {}
            local_name!("hr") => {
                if !self.writer.is_in_line() {
                    self.writer.block(2);
                    self.writer.mark("---");
                    self.writer.block(2);
                }
            }
            local_name!("img") => self.picture(node),
            local_name!("pre") | local_name!("listing") | local_name!("xmp") => {
                return self.code(node);
            }
            local_name!("q") => self.writer.mark("“"),
            local_name!("rt") => self.writer.mark("("),
            local_name!("rp") => return Inside::Done,
            local_name!("ul") | local_name!("menu") | local_name!("dir") => {
                self.begin_list(None);
            }
            local_name!("ol") => {
                let start = self.tree.value(node, Key::Start);
                let start = start.and_then(|start| start.trim().parse().ok());
                self.begin_list(Some(start.unwrap_or(1)));
            }
            local_name!("li") => self.begin_item(node),
            local_name!("dl") => self.writer.block(2),
            local_name!("dt") => {
                self.writer.block(2);
                self.writer.open(Span::Strong);
            }
            local_name!("dd") => {
                self.writer.block(1);
                let before = self.writer.indent(": ", Repeats::No);
                self.indents.push(before);
            }
            local_name!("blockquote") => {
                self.writer.block(2);
                let before = self.writer.indent("> ", Repeats::Yes);
                self.indents.push(before);
            }
            local_name!("summary") => {
                self.writer.block(2);
                self.writer.open(Span::Strong);
            }
            local_name!("table") => self.begin_table(node),
            local_name!("tr") => match self.data_table() {
                Some(table) => table.begin_row(),
                None => self.writer.block(1),
            },
            local_name!("td") | local_name!("th") => {
                if is_line_numbers(self.tree, node) {
                    return Inside::Done;
                }
                match self.data_table() {
                    Some(_) => self.writer.begin_cell(),
                    None => self.writer.text(" "),
                }
            }
            local_name!("option") | local_name!("label") => self.writer.text(" "),
            _ => {
                if &**name == "amp-img" {
                    self.picture(node);
                } else if is_block(name) {
                    self.writer.block(2);
                } else if is_line_numbers(self.tree, node) {
                    return Inside::Done;
                }
            }
        }
        Inside::Walk
    }

    fn leave(&mut self, node: NodeId, name: &LocalName) {
        match *name {
            local_name!("h1")
            | local_name!("h2")
            | local_name!("h3")
            | local_name!("h4")
            | local_name!("h5")
            | local_name!("h6") => self.writer.end_heading(),
            local_name!("q") => self.writer.mark("”"),
            local_name!("rt") => self.writer.mark(")"),
            local_name!("ul") | local_name!("menu") | local_name!("dir") | local_name!("ol") => {
                self.lists.pop();
                self.writer.block(if self.lists.is_empty() { 2 } else { 1 });
            }
            local_name!("li") | local_name!("dd") => {
                if let Some(before) = self.indents.pop() {
                    self.writer.dedent(before);
                }
                self.writer.block(1);
            }
            local_name!("blockquote") => {
                if let Some(before) = self.indents.pop() {
                    self.writer.dedent(before);
                }
                self.writer.block(2);
            }
            local_name!("dt") => {
                self.writer.close();
                self.writer.block(1);
            }
            local_name!("summary") => {
                self.writer.close();
                self.writer.block(2);
            }
            local_name!("table") => self.end_table(),
            local_name!("tr") if self.data_table().is_none() => self.writer.block(1),
            local_name!("td") | local_name!("th") => {
                if is_line_numbers(self.tree, node) {
                    return;
                }
                if self.data_table().is_some() {
                    let text = self.writer.end_cell();
                    let tree = self.tree;
                    if let Some(table) = self.data_table() {
                        table.cell(tree, node, text);
                        let repeated = table.take_repeated();
                        self.writer.spend(repeated);
                    }
                } else {
                    self.writer.text(" ");
                }
            }
            _ => {
                if is_span(name) {
                    self.writer.close();
                } else if is_block(name) {
                    self.writer.block(2);
                }
            }
        }
    }

    fn finish(mut self) -> String {
        // Only a text that was cut has a table that has not ended, and a cell that has not.
        while let Some(table) = self.tables.pop() {
            if let Some(mut table) = table {
                if self.writer.is_in_line() {
                    let text = self.writer.end_cell();
                    table.last_cell(text);
                }
                self.writer.paid(&table.finish());
            }
        }
        self.writer.finish()
    }

    /// A sign between parts of a formula: nothing, a mark, or a space.
    fn sign(&mut self, sign: &str) {
        match sign {
            "" => {}
            " " => self.writer.text(" "),
            _ => self.writer.mark(sign),
        }
    }

    /// The mark that an element for marks stands for.
    fn span(&self, node: NodeId, name: &LocalName) -> Span {
        match *name {
            local_name!("a") => Span::Link(self.link(node)),
            local_name!("b") | local_name!("strong") => Span::Strong,
            local_name!("s") | local_name!("del") | local_name!("strike") => Span::Struck,
            local_name!("sup") => Span::Raised,
            local_name!("sub") => Span::Lowered,
            local_name!("code")
            | local_name!("tt")
            | local_name!("kbd")
            | local_name!("samp")
            | local_name!("var") => Span::Code,
            _ => Span::Emphasis,
        }
    }

    /// Where a link leads; None if that is nowhere else, or nowhere that may be fetched or written to.
    fn link(&self, node: NodeId) -> Option<String> {
        let href = self.tree.value(node, Key::Href)?.trim();
        if href.is_empty() || href.starts_with('#') {
            return None;
        }
        let url = self.base.join(href).ok()?;
        if url.fragment().is_some()
            && url[..Position::AfterQuery] == self.base[..Position::AfterQuery]
        {
            return None;
        }
        matches!(url.scheme(), "http" | "https" | "mailto" | "ftp").then(|| address(&url))
    }

    fn begin_list(&mut self, first: Option<i64>) {
        self.writer.block(if self.lists.is_empty() { 2 } else { 1 });
        self.lists.push(List {
            next: first,
            is_new: true,
        });
    }

    fn begin_item(&mut self, node: NodeId) {
        let marker = if let Some(list) = self.lists.last_mut() {
            if !std::mem::replace(&mut list.is_new, false) {
                self.writer.tighten();
            }
            match &mut list.next {
                Some(next) => {
                    let value = self.tree.value(node, Key::Value);
                    let value = value.and_then(|value| value.trim().parse().ok());
                    let number = value.unwrap_or(*next);
                    *next = number.saturating_add(1);
                    format!("{number}. ")
                }
                None => "- ".to_owned(),
            }
        } else {
            self.writer.block(2);
            "- ".to_owned()
        };
        self.writer.block(1);
        let before = self.writer.indent(&marker, Repeats::No);
        self.indents.push(before);
    }

    /// The innermost table, if it is one of data.
    fn data_table(&mut self) -> Option<&mut Table> {
        self.tables.last_mut()?.as_mut()
    }

    fn begin_table(&mut self, node: NodeId) {
        self.writer.block(2);
        let is_data =
            self.data_tables.get(&node).copied().unwrap_or(false) && !self.writer.is_in_line();
        self.tables.push(is_data.then(Table::default));
    }

    fn end_table(&mut self) {
        match self.tables.pop().flatten() {
            Some(table) => self.writer.paid(&table.finish()),
            None => self.writer.block(2),
        }
    }

    fn picture(&mut self, node: NodeId) {
        let is_dot = [Key::Width, Key::Height].into_iter().any(|key| {
            let size = self.tree.value(node, key);
            matches!(size, Some("0" | "1" | "2" | "0px" | "1px"))
        });
        if is_dot {
            return;
        }
        let alt = self.tree.value(node, Key::Alt);
        let mut alt = line(alt.unwrap_or_default(), ALT_CHARACTERS);
        if alt.is_empty() {
            let is_figure = self
                .tree
                .parent(node)
                .is_some_and(|parent| self.tree.is(parent, &local_name!("figure")));
            if !is_figure || self.writer.is_in_link() {
                return;
            }
            alt.push_str("image");
        }
        if self.writer.is_in_line() {
            alt = alt.replace('|', "\\|");
        }
        if self.writer.is_in_link() || self.writer.is_in(&Span::Code) {
            self.writer.mark(&alt);
            return;
        }
        let address = [Key::Src, Key::DataSrc, Key::Srcset]
            .into_iter()
            .filter_map(|key| {
                let value = self.tree.value(node, key)?;
                // A set of sources is addresses with sizes, between commas.
                let first = value.split_whitespace().next().unwrap_or_default();
                let is_set = key == Key::Srcset;
                Some(if is_set {
                    first.trim_end_matches(',')
                } else {
                    value.trim()
                })
            })
            .filter_map(|source| self.base.join(source).ok())
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .map(|url| address(&url))
            .find(|address| address.len() <= PICTURE_BYTES);
        match address {
            Some(address) => self.writer.mark(&format!("![{alt}]({address})")),
            None => self.writer.mark(&format!("![{alt}]")),
        }
    }

    /// A block of code, whose text is kept as it is.
    fn code(&mut self, node: NodeId) -> Inside {
        let text = code::text(self.tree, self.main, node);
        if text.is_empty() {
            return Inside::Done;
        }
        if self.writer.is_in_line() {
            for line in text.lines() {
                self.writer.open(Span::Code);
                self.writer.text(line);
                self.writer.close();
                self.writer.line_break();
            }
        } else {
            let fenced = code::fenced(&text, code::language(self.tree, node));
            self.writer.verbatim(&fenced);
        }
        Inside::Done
    }
}

/// A list under way.
#[derive(Debug)]
struct List {
    /// The number of the next item; None where items are not numbered.
    next: Option<i64>,
    /// It has no item yet.
    is_new: bool,
}

/// An address as it stands in a link: parentheses that would end the link are written as bytes.
fn address(url: &Url) -> String {
    let text = url.as_str();
    let mut open = 0_usize;
    for byte in text.bytes() {
        match byte {
            b'(' => open += 1,
            b')' if open == 0 => return text.replace('(', "%28").replace(')', "%29"),
            b')' => open -= 1,
            _ => {}
        }
    }
    if open == 0 {
        text.to_owned()
    } else {
        text.replace('(', "%28").replace(')', "%29")
    }
}
