//! From the characters of a page to its tree, within bounds.
//!
//! The bounds are kept between the tokenizer and the tree builder of one parser, so that what is counted is what is built: a pass
//! that reads the page by itself, before the parser does, can be made to see another page than the parser will.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

use html5ever::{
    LocalName, TokenizerResult,
    buffer_queue::BufferQueue,
    local_name,
    tendril::StrTendril,
    tokenizer::{Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts},
    tree_builder::{TreeBuilder, TreeBuilderOpts, TreeSink},
};

use super::tree::{Builder, NodeId, Tree};
use crate::effort::Effort;

/// Elements of a page. A page of half a megabyte has some ten thousand, and this many take some twenty megabytes.
const ELEMENTS: usize = 100_000;
/// Nodes of a page, text between elements included.
const NODES: usize = 200_000;
/// Bytes of text of a page, white space included. No more than a part of it is told.
const TEXT_BYTES: usize = 6 * 1_024 * 1_024;
/// Elements one in another: the depth at which browsers stop, too. What is deeper is kept, its tags are not.
pub(crate) const DEPTH: u32 = 512;
/// Characters given to the tokenizer at once: the time is looked at in between.
const PIECE_BYTES: usize = 8 * 1_024;
/// Time of a core for parsing. A megabyte takes some 30 ms.
const PARSE_TIME: Duration = Duration::from_secs(2);

/// Why a page was not parsed to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It has more than [`ELEMENTS`], or more than [`NODES`]; that many elements were read.
    Elements(usize),
    /// It has more than [`TEXT_BYTES`].
    Text,
    /// It took too much time.
    Effort,
}

/// How a page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    Html,
    /// XHTML, where each element may close itself. Otherwise it is read as HTML, too: what is not well formed is still a page.
    Xml,
}

/// A parser of one page, fed piece by piece.
pub(crate) struct Parser {
    tokenizer: Tokenizer<Bounds>,
    queue: BufferQueue,
    effort: Effort,
    stop: Option<Stop>,
}

impl Parser {
    pub(crate) fn new(syntax: Syntax, effort: Effort) -> Self {
        let builder = TreeBuilder::new(
            Builder::new(),
            TreeBuilderOpts {
                drop_doctype: true,
                ..TreeBuilderOpts::default()
            },
        );
        let bounds = Bounds {
            builder,
            syntax,
            unopened: RefCell::default(),
            is_full: Cell::new(false),
        };
        Self {
            tokenizer: Tokenizer::new(bounds, TokenizerOpts::default()),
            queue: BufferQueue::default(),
            effort,
            stop: None,
        }
    }

    /// Takes more of the page; Some once nothing more is taken.
    pub(crate) fn feed(&mut self, text: &str) -> Option<Stop> {
        let mut rest = text;
        while self.stop.is_none() && !rest.is_empty() {
            let at = kernel::floor_char_boundary(rest, PIECE_BYTES).max(1);
            let (piece, after) = rest.split_at(at);
            rest = after;
            self.queue.push_back(StrTendril::from(piece));
            self.run();
            if self.tokenizer.sink.is_full.get() {
                self.stop = Some(Stop::Elements(self.tokenizer.sink.builder.sink.elements()));
            } else if self.tokenizer.sink.builder.sink.text_bytes() > TEXT_BYTES {
                self.stop = Some(Stop::Text);
            } else if self.effort.spent() > PARSE_TIME {
                self.stop = Some(Stop::Effort);
            }
        }
        self.stop
    }

    fn run(&self) {
        loop {
            match self.tokenizer.feed(&self.queue) {
                TokenizerResult::Done => return,
                // No script is run and the encoding is settled.
                TokenizerResult::Script(_) | TokenizerResult::EncodingIndicator(_) => {}
            }
        }
    }

    /// The page's tree, and why it is not the whole page.
    pub(crate) fn finish(self) -> (Tree, Option<Stop>) {
        self.tokenizer.end();
        (self.tokenizer.sink.builder.sink.finish(), self.stop)
    }
}

/// What stands between the tokenizer and the tree builder.
struct Bounds {
    builder: TreeBuilder<NodeId, Builder>,
    syntax: Syntax,
    /// Start tags that were dropped for their depth, whose end tags are dropped too.
    unopened: RefCell<HashMap<LocalName, u32>>,
    is_full: Cell<bool>,
}

impl Bounds {
    /// Whether one more element would be too deep.
    fn is_too_deep(&self) -> bool {
        if self.builder.sink.last_depth() < DEPTH {
            return false;
        }
        // The builder asks its sink for the name of the element that is open now, so that this is where the parser stands,
        // however it got there. (Its stack is private.)
        let _ = self
            .builder
            .adjusted_current_node_present_but_not_in_html_namespace();
        self.builder.sink.asked_depth() >= DEPTH
    }

    /// Ends an element that has closed itself.
    fn end_at_once(&self, name: LocalName, line: u64) -> TokenSinkResult<NodeId> {
        let end = Tag {
            kind: TagKind::EndTag,
            name,
            self_closing: false,
            attrs: Vec::new(),
            had_duplicate_attributes: false,
        };
        match self.builder.process_token(Token::TagToken(end), line) {
            TokenSinkResult::Plaintext => TokenSinkResult::Plaintext,
            // It has no content that would be read in another way.
            TokenSinkResult::Continue
            | TokenSinkResult::Script(_)
            | TokenSinkResult::RawData(_)
            | TokenSinkResult::EncodingIndicator(_) => TokenSinkResult::Continue,
        }
    }

    /// The tag as it may be built; None if it is dropped.
    fn admit(&self, mut tag: Tag) -> Option<Tag> {
        match tag.kind {
            TagKind::StartTag => {
                if self.is_too_deep() {
                    *self.unopened.borrow_mut().entry(tag.name).or_default() += 1;
                    return None;
                }
                simplify(&mut tag);
            }
            TagKind::EndTag => {
                if let Some(count) = self.unopened.borrow_mut().get_mut(&tag.name)
                    && *count > 0
                {
                    *count -= 1;
                    return None;
                }
                tag.attrs.clear();
            }
        }
        Some(tag)
    }
}

/// The parser opens formatting elements again in every block that they are not closed before, and compares them by their
/// attributes (HTML section 13.2.4.3): without attributes there are never more than three of a name.
fn simplify(tag: &mut Tag) {
    let is_formatting = matches!(
        tag.name,
        local_name!("b")
            | local_name!("big")
            | local_name!("code")
            | local_name!("em")
            | local_name!("font")
            | local_name!("i")
            | local_name!("nobr")
            | local_name!("s")
            | local_name!("small")
            | local_name!("strike")
            | local_name!("strong")
            | local_name!("tt")
            | local_name!("u")
    );
    if is_formatting {
        let hidden = super::hidden::is_hidden_by(
            tag.attrs
                .iter()
                .map(|attribute| (&*attribute.name.local, &*attribute.value)),
        );
        let legible = tag
            .attrs
            .iter()
            .find(|attribute| &*attribute.name.local == "style")
            .and_then(|style| super::hidden::legible_by(&style.value));
        // The language of a block of code is worth an exception: what it can add is in the count of elements.
        let is_code = tag.name == local_name!("code");
        tag.attrs.retain(|attribute| {
            is_code && &*attribute.name.local == "class" && attribute.value.starts_with("lang")
        });
        match legible {
            _ if hidden => tag.attrs.push(super::hidden::attribute()),
            Some(legible) => tag.attrs.push(super::hidden::size_attribute(legible)),
            None => {}
        }
    }
}

impl TokenSink for Bounds {
    type Handle = NodeId;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<NodeId> {
        if self.is_full.get() {
            return TokenSinkResult::Continue;
        }
        let token = match token {
            Token::TagToken(tag) => match self.admit(tag) {
                Some(tag) => Token::TagToken(tag),
                None => return TokenSinkResult::Continue,
            },
            Token::CommentToken(_) | Token::ParseError(_) => return TokenSinkResult::Continue,
            Token::DoctypeToken(_)
            | Token::CharacterTokens(_)
            | Token::NullCharacterToken
            | Token::EOFToken => token,
        };
        let closed = if let Token::TagToken(tag) = &token
            && self.syntax == Syntax::Xml
            && tag.self_closing
            && tag.kind == TagKind::StartTag
            && !is_void(&tag.name)
        {
            Some(tag.name.clone())
        } else {
            None
        };
        let mut result = self.builder.process_token(token, line);
        if let Some(name) = closed {
            result = self.end_at_once(name, line);
        }
        if self.builder.sink.elements() >= ELEMENTS || self.builder.sink.nodes() >= NODES {
            self.is_full.set(true);
        }
        result
    }

    fn end(&self) {
        self.builder.end();
    }

    /// Whether `<![CDATA[` begins text here: in XML it does everywhere, in HTML only in what is not HTML (section 13.2.5.42).
    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.syntax == Syntax::Xml
            || self
                .builder
                .adjusted_current_node_present_but_not_in_html_namespace()
    }
}

/// Elements that have no end tag, and that the parser closes by itself.
pub(super) fn is_void(name: &str) -> bool {
    matches!(
        name,
        "area"
            | "base"
            | "basefont"
            | "bgsound"
            | "br"
            | "col"
            | "embed"
            | "frame"
            | "hr"
            | "img"
            | "input"
            | "keygen"
            | "link"
            | "meta"
            | "param"
            | "source"
            | "track"
            | "wbr"
    )
}

/// A whole page's tree.
pub(crate) fn parse(text: &str, effort: Effort) -> (Tree, Option<Stop>) {
    let mut parser = Parser::new(Syntax::Html, effort);
    parser.feed(text);
    parser.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_way_to_nest_is_deeper_than_the_bound() {
        for open in [
            "<div>",
            "<b>",
            "<b><p>",
            "<a href=x><div>",
            "<table><tr><td>",
            "<table><div>",
            "<ul><li>",
            "<svg><g>",
            "<svg><foreignObject><p>",
            "<math><mi>",
            "<template><div>",
            "<button><i>",
            "<div></x></y>",
            "<span><div></span>",
            "<i><div></i><b><div></b>",
            "<object><b>",
            "<h1><h2>",
            "<ruby><rt>",
            "<x-y>",
        ] {
            let (tree, _) = parse(&open.repeat(20_000), Effort::begin());
            // The document, and what is open around text at the deepest place.
            let most = usize::try_from(DEPTH).unwrap() + 32;
            assert!(tree.depth() <= most, "{open}: {}", tree.depth());
        }
    }

    #[test]
    fn tags_that_were_too_deep_to_open_are_not_closed_either() {
        let page = format!(
            "{}deep{}<p>last",
            "<div><span>".repeat(1_000),
            "</span></div>".repeat(1_000)
        );
        let (tree, stop) = parse(&page, Effort::begin());
        assert_eq!(stop, None);
        let last = tree
            .elements(NodeId::ROOT, local_name!("p"))
            .next()
            .unwrap();
        assert!(tree.is(tree.parent(last).unwrap(), &local_name!("body")));
    }

    #[test]
    fn marked_sections_of_xhtml_are_text() {
        let mut parser = Parser::new(Syntax::Xml, Effort::begin());
        parser.feed("<html><body><p>a <![CDATA[b < c && <d>]]> e</p></body></html>");
        let (tree, _) = parser.finish();
        assert_eq!(
            crate::html::content::text_of(&tree, NodeId::ROOT),
            "a b < c && <d> e"
        );
    }

    #[test]
    fn elements_of_xhtml_close_themselves() {
        let mut parser = Parser::new(Syntax::Xml, Effort::begin());
        parser.feed(
            "<html><head><title/><script src='x'/></head><body><div/><p>read</p></body></html>",
        );
        let (tree, _) = parser.finish();
        let paragraph = tree
            .elements(NodeId::ROOT, local_name!("p"))
            .next()
            .unwrap();
        assert!(tree.is(tree.parent(paragraph).unwrap(), &local_name!("body")));
    }
}
