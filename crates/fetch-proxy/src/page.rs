//! Pages of a text: pieces that a model can read one after another.

use kernel::limits::TOOL_RESULT_BYTES;

/// Bytes of one page: what a model is shown of a result, less room for what is said about the page.
const PAGE_BYTES: usize = TOOL_RESULT_BYTES - 3 * 1_024;
/// A page ends at the end of a paragraph if one is in its last part: one in this many.
const PARAGRAPH_PART: usize = 3;
/// A page ends at the end of a line, or before a link or a block of code, if that is in its last part: one in this many.
const LINE_PART: usize = 2;
/// Bytes of a link that is kept whole.
const LINK_BYTES: usize = 2_048;
/// Bytes of the line that opens a block of code, when it is said again; twice that must be less than the shortest page.
const FENCE_LINE_BYTES: usize = 24;

/// How a text is to be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cutting {
    /// Only lines count.
    Text,
    /// Links and blocks of code stay whole where they can, and a block of code that cannot is opened again on the next page.
    Markdown,
}

/// One page of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) text: String,
    /// Where it starts, in characters.
    pub(crate) start: u64,
    /// Where the next one starts; None at the end.
    pub(crate) next: Option<u64>,
    /// Characters of the whole text.
    pub(crate) total: u64,
}

/// The page that starts at a character and has at most so many.
pub(crate) fn cut(text: &str, start: u64, characters: usize, cutting: Cutting) -> Page {
    let total = count(text);
    if start >= total && start > 0 {
        return Page {
            text: format!(
                "[There is nothing at character {start}: the text has {total} characters.]"
            ),
            start,
            next: None,
            total,
        };
    }
    let skipped = usize::try_from(start).unwrap_or(usize::MAX);
    let from = text
        .char_indices()
        .nth(skipped)
        .map_or(text.len(), |(index, _)| index);
    let rest = &text[from..];
    let opened = match cutting {
        Cutting::Text => None,
        Cutting::Markdown => {
            Fence::at_end(None, &text[..from]).map(|fence| Fence { at: None, ..fence })
        }
    };
    let by_characters = rest
        .char_indices()
        .nth(characters)
        .map_or(rest.len(), |(index, _)| index);
    let full = by_characters.min(kernel::floor_char_boundary(rest, PAGE_BYTES));
    let (mut page, mut end) = lay_out(rest, full, cutting, opened.as_ref());
    // What is said again of a block of code is part of the page.
    let over = page.chars().count().saturating_sub(characters);
    if over > 0 {
        let fewer = rest[..end].char_indices().rev().nth(over - 1);
        let full = fewer.map_or(end, |(index, _)| index);
        (page, end) = lay_out(rest, full, cutting, opened.as_ref());
    }
    let next = start + count(&rest[..end]);
    Page {
        text: page,
        start,
        next: (next < total).then_some(next),
        total,
    }
}

/// A page of at most so many bytes of `rest`, with what opens and closes a block of code that it is cut out of; and where it ends.
fn lay_out(rest: &str, full: usize, cutting: Cutting, opened: Option<&Fence>) -> (String, usize) {
    let end = if full == rest.len() {
        full
    } else {
        match cutting {
            Cutting::Text => at_line_end(rest, full),
            Cutting::Markdown => in_markdown(rest, full, opened),
        }
    };
    let mut page = String::with_capacity(end + 2 * FENCE_LINE_BYTES + 2);
    if let Some(fence) = opened {
        page.push_str(&fence.line);
        page.push('\n');
    }
    page.push_str(&rest[..end]);
    if cutting == Cutting::Markdown
        && let Some(fence) = Fence::at_end(opened.cloned(), &rest[..end])
    {
        if !page.ends_with('\n') {
            page.push('\n');
        }
        page.push_str(&fence.mark);
    }
    (page, end)
}

/// A block of code that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fence {
    /// The line that opened it, without what is before its mark.
    line: String,
    /// The marks that close it.
    mark: String,
    /// Where its line starts; None if that is before the text that is looked at.
    at: Option<usize>,
}

impl Fence {
    /// The block that is open at the end of a text that began in `open`.
    fn at_end(open: Option<Self>, text: &str) -> Option<Self> {
        let (mut open, mut at) = (open, 0);
        for line in text.split_inclusive('\n') {
            open = match open {
                Some(fence) if fence.is_closed_by(line) => None,
                Some(fence) => Some(fence),
                None => Self::opened_by(line, at),
            };
            at += line.len();
        }
        open
    }

    /// `CommonMark` section 4.5.
    fn opened_by(line: &str, at: usize) -> Option<Self> {
        let line = line.trim();
        let mark = marks(line);
        if mark.len() < 3 || (mark.starts_with('`') && line[mark.len()..].contains('`')) {
            return None;
        }
        // A mark that is longer than its page is no block of code that anybody wrote.
        if mark.len() > FENCE_LINE_BYTES {
            return None;
        }
        let shown = kernel::floor_char_boundary(line, FENCE_LINE_BYTES);
        Some(Self {
            line: line[..shown].to_owned(),
            mark: mark.to_owned(),
            at: Some(at),
        })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim();
        let mark = marks(line);
        mark.len() == line.len() && mark.len() >= self.mark.len() && mark[..1] == self.mark[..1]
    }
}

/// The backticks or tildes that a line starts with.
fn marks(line: &str) -> &str {
    let Some(mark) = line.chars().next().filter(|&c| c == '`' || c == '~') else {
        return "";
    };
    let end = line.find(|c| c != mark).unwrap_or(line.len());
    &line[..end]
}

/// Where to end a page of plain text: after the last paragraph or line that ends in its last part.
fn at_line_end(rest: &str, full: usize) -> usize {
    let page = &rest[..full];
    let after = |found: Option<usize>, length: usize, part: usize| {
        found
            .map(|index| index + length)
            .filter(|&end| end >= full - full / part)
    };
    after(page.rfind("\n\n"), 2, PARAGRAPH_PART)
        .or_else(|| after(page.rfind('\n'), 1, LINE_PART))
        .or_else(|| after(page.rfind(' '), 1, LINE_PART))
        .unwrap_or(full)
}

/// Where to end a page of Markdown.
fn in_markdown(rest: &str, full: usize, opened: Option<&Fence>) -> usize {
    let earliest = full - full / LINE_PART;
    let end = at_line_end(rest, full);
    if let Some(fence) = Fence::at_end(opened.cloned(), &rest[..end]) {
        // Before a block of code that began late on this page; else within it, at the end of a line.
        return fence
            .at
            .filter(|&at| at >= earliest)
            .or_else(|| {
                let line_end = rest[..full].rfind('\n')? + 1;
                Some(line_end).filter(|&end| end >= earliest)
            })
            .unwrap_or(end);
    }
    before_link(rest, end)
        .filter(|&start| start >= earliest)
        .unwrap_or(end)
}

/// The start of the link or image that a cut would go through, if it goes through one that is not too long.
fn before_link(rest: &str, end: usize) -> Option<usize> {
    let line = rest[..end].rfind('\n').map_or(0, |index| index + 1);
    let near = end.saturating_sub(LINK_BYTES).max(line);
    let near = kernel::floor_char_boundary(rest, near);
    let mut start = near + rest[near..end].rfind('[')?;
    // An image in a link starts earlier: "[![alt](image)](page)".
    if rest[near..start].ends_with("[!") {
        start -= 2;
    }
    let until = kernel::floor_char_boundary(rest, end + LINK_BYTES);
    let text = &rest[start..until];
    let text = &text[..text.find('\n').unwrap_or(text.len())];
    let length = text.find("](").and_then(|middle| {
        let target = &text[middle..];
        Some(middle + target.find(')')? + 1)
    })?;
    if start + length <= end {
        return None;
    }
    Some(if rest[..start].ends_with('!') {
        start - 1
    } else {
        start
    })
}

fn count(text: &str) -> u64 {
    u64::try_from(text.chars().count()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
