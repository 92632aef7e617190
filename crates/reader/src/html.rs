//! HTML to Markdown, in a reader's child.

mod article;
mod content;
mod hidden;
mod markdown;
mod note;
mod parse;
mod tree;

use url::Url;

use crate::{
    effort::Effort,
    reading::{TITLE_CHARACTERS, Truncated},
    visible::line,
};

pub(crate) use parse::{Parser, Syntax};

/// What a page says, as far as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) markdown: String,
    pub(crate) title: Option<String>,
    pub(crate) truncated: Option<Truncated>,
}

/// What the reading of one page goes by.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Where the page is.
    pub(crate) url: Url,
    /// Bytes of Markdown.
    pub(crate) text_bytes: usize,
}

/// A parsed page as Markdown, given to `tell` each time that there is a better one: first the whole page without what stands
/// around its content, then, if the page is an article and nothing of it would be lost, the article alone.
///
/// The second takes a library whose time on a hostile page has no good bound, which is why the first is told before.
pub(crate) fn read<E>(
    parser: Parser,
    options: &Options,
    mut tell: impl FnMut(&Page) -> Result<(), E>,
) -> Result<(), E> {
    let (tree, stop) = parser.finish();
    // The parser keeps what it builds in bounds, and what is recursive further on relies on that: a look costs little.
    let is_too_deep = tree.depth() > 2 * usize::try_from(parse::DEPTH).unwrap_or(usize::MAX);
    let title = content::title(&tree);
    let base = content::base(&tree, &options.url);
    let main = content::main(&tree);
    let written = markdown::write(&tree, &main, &base, options.text_bytes);
    let left_out = match (stop, written.is_cut) {
        (Some(parse::Stop::Elements(read)), _) => Some(Truncated::Elements {
            read: u64::try_from(read).unwrap_or(u64::MAX),
        }),
        (Some(parse::Stop::Effort), _) => Some(Truncated::Effort),
        (Some(parse::Stop::Text), _) | (None, true) => Some(Truncated::Text {
            kept: u64::try_from(written.text.len()).unwrap_or(u64::MAX),
        }),
        (None, false) => None,
    };
    let heading = content::first_heading(&tree, &main);
    let mut markdown = match &heading {
        Some(_) => written.text.clone(),
        None => under(title.as_deref(), None, &written.text),
    };
    if let Some(note) = note::note(&tree, written.text.len(), &base) {
        if !markdown.is_empty() {
            markdown.push_str("\n\n");
        }
        markdown.push_str(&note);
    }
    let whole = Page {
        markdown,
        title,
        truncated: left_out,
    };
    tell(&whole)?;
    if is_too_deep || stop.is_some() || written.is_cut || !article::may_be(&tree, &main) {
        return Ok(());
    }
    let plain = article::to_html(&tree, &main);
    let weight = content::weight(&tree, &main);
    drop(tree);
    let Some(article) = article::find(&plain, &options.url) else {
        return Ok(());
    };
    drop(plain);
    let (tree, stop) = parse::parse(&article.html, Effort::begin());
    let main = content::whole(&tree);
    if stop.is_some() || !content::weight(&tree, &main).keeps(weight) {
        return Ok(());
    }
    let written = markdown::write(&tree, &main, &base, options.text_bytes);
    if written.is_cut {
        return Ok(());
    }
    let has_heading = content::first_heading(&tree, &main).is_some();
    let title = whole.title;
    // The search takes the heading and the line below it for what they are, and out of the article.
    let heading = heading.as_deref().or(title.as_deref());
    let heading = heading.filter(|_| !has_heading);
    let byline = article
        .byline
        .filter(|byline| !written.text.contains(byline.as_str()));
    let content = heading
        .and_then(|heading| after_heading(&written.text, heading))
        .unwrap_or(&written.text);
    tell(&Page {
        markdown: under(heading, byline.as_deref(), content),
        title,
        truncated: None,
    })
}

/// What comes after the heading of an article, where the search has left it in and made it one of the second rank.
fn after_heading<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let rest = text.strip_prefix("## ")?;
    let (line, after) = rest.split_once('\n')?;
    let is_same = line == heading
        || line
            .strip_prefix('[')
            .and_then(|line| line.strip_prefix(heading))
            .is_some_and(|address| address.starts_with("]("));
    is_same.then(|| after.trim_start())
}

/// The content under a heading, and under who wrote it.
fn under(heading: Option<&str>, byline: Option<&str>, content: &str) -> String {
    let mut text = String::with_capacity(content.len() + 64);
    if content.is_empty() {
        return text;
    }
    if let Some(heading) = heading {
        text.push_str("# ");
        text.push_str(heading);
        text.push_str("\n\n");
    }
    if let Some(byline) = byline {
        text.push_str(byline);
        text.push_str("\n\n");
    }
    text.push_str(content);
    text
}
