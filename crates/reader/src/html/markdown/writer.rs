//! Markdown under way: lines, gaps, prefixes, and marks around what was already written.

use super::{
    code,
    words::{is_mark, is_permalink},
};
use crate::visible::Cleaner;

/// Longest prefix of a line; quotes and lists that are nested deeper are not indented further.
const PREFIX_BYTES: usize = 48;

/// How what stands before the first word of a line may end: a heading, an item, a term's description.
const MARK_ENDS: [&str; 4] = ["# ", "- ", ". ", ": "];

/// What a mark is around.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Span {
    Strong,
    Emphasis,
    Struck,
    Code,
    Raised,
    Lowered,
    /// A link and its address; without one, a link to another place of this page.
    Link(Option<String>),
}

#[derive(Debug)]
struct Open {
    span: Span,
    /// Where its text begins; None while there is none.
    start: Option<usize>,
}

/// What is kept aside while a cell of a table is written.
#[derive(Debug)]
struct Aside {
    out: String,
    gap: usize,
    prefix: String,
    markers: String,
    heading: String,
    lines: Lines,
}

/// How blocks are parted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lines {
    /// By line ends.
    Many,
    /// By a space: a heading is one line.
    One,
    /// By `<br>`: a cell of a table is one line, too.
    Cell,
}

/// A text that grows by blocks.
#[derive(Debug)]
pub(super) struct Writer {
    out: String,
    /// Line ends that are due before the next text: 0 to 2.
    gap: usize,
    /// How much of the prefix a blank line before the next text has: what the blocks around it have in common.
    common: usize,
    /// A space is due before the next text.
    space: bool,
    is_line_start: bool,
    /// What each line begins with.
    prefix: String,
    /// What the next line has instead of the end of its prefix.
    markers: String,
    /// What comes before the next text.
    heading: String,
    opens: Vec<Open>,
    lines: Lines,
    asides: Vec<Aside>,
    /// Bytes written, and how many may be.
    spent: usize,
    limit: usize,
}

impl Writer {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            out: String::new(),
            gap: 0,
            common: 0,
            space: false,
            is_line_start: true,
            prefix: String::new(),
            markers: String::new(),
            heading: String::new(),
            opens: Vec::new(),
            lines: Lines::Many,
            asides: Vec::new(),
            spent: 0,
            limit,
        }
    }

    /// Whether no more may be written.
    pub(super) fn is_full(&self) -> bool {
        self.spent >= self.limit
    }

    /// Whether blocks are in one line at this place.
    pub(super) fn is_in_line(&self) -> bool {
        self.lines != Lines::Many
    }

    pub(super) fn is_in(&self, span: &Span) -> bool {
        self.opens.iter().any(|open| open.span == *span)
    }

    pub(super) fn is_in_link(&self) -> bool {
        self.opens
            .iter()
            .any(|open| matches!(open.span, Span::Link(_)))
    }

    /// The next text is at least that many line ends away.
    pub(super) fn block(&mut self, gap: usize) {
        match self.lines {
            Lines::Many if self.markers.is_empty() => {
                self.part();
                self.gap = self.gap.max(gap);
            }
            Lines::Many => {}
            Lines::One => self.space = true,
            Lines::Cell => self.gap = 1,
        }
    }

    /// The next block follows the last one without a blank line.
    pub(super) fn tighten(&mut self) {
        self.gap = self.gap.min(1);
    }

    /// Counts bytes that are written elsewhere.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.spent += bytes;
    }

    /// A line break; two make a paragraph.
    pub(super) fn line_break(&mut self) {
        match self.lines {
            Lines::Many if self.markers.is_empty() => {
                self.part();
                self.gap = (self.gap + 1).min(2);
            }
            Lines::Many => {}
            Lines::One => self.space = true,
            Lines::Cell => self.gap = 1,
        }
    }

    /// Remembers which lines the gap is between.
    fn part(&mut self) {
        self.common = if self.gap == 0 {
            self.prefix.len()
        } else {
            self.common.min(self.prefix.len())
        };
    }

    /// Text whose white space is one space, with what would be read as a mark at the start of a line escaped.
    pub(super) fn text(&mut self, text: &str) {
        let text = crate::visible::clean(text);
        let mut rest: &str = &text;
        while !rest.is_empty() && !self.is_full() {
            let word = rest.find(char::is_whitespace).unwrap_or(rest.len());
            if word == 0 {
                self.space = true;
                rest = rest.trim_start();
                continue;
            }
            let (word, after) = rest.split_at(word);
            self.flush();
            let left = self.limit.saturating_sub(self.spent);
            let kept = kernel::floor_char_boundary(word, left);
            if kept < word.len() {
                self.spent = self.limit;
            }
            let word = &word[..kept];
            if self.is_line_start && self.lines == Lines::Many && is_mark(word) {
                self.push("\\");
            }
            if self.lines == Lines::Cell && word.contains('|') {
                self.push(&word.replace('|', "\\|"));
            } else {
                self.push(word);
            }
            self.is_line_start = false;
            rest = after;
        }
    }

    /// A mark of ours, as it is.
    pub(super) fn mark(&mut self, mark: &str) {
        if !self.is_full() {
            self.flush();
            self.push(mark);
            self.is_line_start = false;
        }
    }

    /// A block whose lines are kept as they are.
    pub(super) fn verbatim(&mut self, lines: &str) {
        self.block(2);
        for line in lines.lines() {
            if self.is_full() {
                break;
            }
            if line.is_empty() {
                self.flush_gap();
                self.trim();
            } else {
                self.flush();
                self.push(line);
            }
            self.is_line_start = false;
            self.gap = 1;
        }
        self.block(2);
    }

    fn push(&mut self, text: &str) {
        self.spent += text.len();
        self.out.push_str(text);
    }

    fn trim(&mut self) {
        self.out.truncate(self.out.trim_end_matches(' ').len());
    }

    fn flush_gap(&mut self) {
        if self.lines == Lines::Cell {
            let gap = std::mem::take(&mut self.gap);
            if gap > 0 && !self.out.is_empty() {
                self.trim();
                self.push("<br>");
                self.space = false;
            }
            return;
        }
        if self.gap == 0 && !self.out.is_empty() {
            return;
        }
        let outer = self.prefix.len().saturating_sub(self.markers.len());
        if !self.out.is_empty() {
            self.trim();
            self.out.push('\n');
            if self.gap > 1 {
                let blank = self.prefix[..outer.min(self.common)].trim_end().len();
                self.out.push_str(&self.prefix[..blank]);
                self.out.push('\n');
            }
        }
        self.out.push_str(&self.prefix[..outer]);
        self.out.push_str(&self.markers);
        self.spent += self.prefix.len() + self.gap;
        self.markers.clear();
        self.gap = 0;
        self.space = false;
        self.is_line_start = true;
    }

    /// Writes what is due before a text.
    fn flush(&mut self) {
        self.flush_gap();
        if std::mem::take(&mut self.space) && !self.is_line_start && !self.out.is_empty() {
            self.push(" ");
        }
        if !self.heading.is_empty() {
            let heading = std::mem::take(&mut self.heading);
            self.push(&heading);
            self.is_line_start = false;
        }
        let at = self.out.len();
        for open in self.opens.iter_mut().rev() {
            if open.start.is_some() {
                break;
            }
            open.start = Some(at);
        }
    }

    /// Lines from here on begin with a marker once, and with white space of its width after; or each with it, if it repeats.
    /// Returns what [`Self::dedent`] takes.
    pub(super) fn indent(&mut self, marker: &str, repeats: Repeats) -> usize {
        let before = self.prefix.len();
        if self.lines != Lines::Many {
            return before;
        }
        if before + marker.len() > PREFIX_BYTES {
            return before;
        }
        match repeats {
            Repeats::Yes => {
                self.prefix.push_str(marker);
                if !self.markers.is_empty() || self.out.is_empty() {
                    self.markers.push_str(marker);
                }
            }
            Repeats::No => {
                self.prefix.extend(marker.chars().map(|_| ' '));
                self.markers.push_str(marker);
            }
        }
        before
    }

    /// Ends an indentation. A marker that nothing came after is gone.
    pub(super) fn dedent(&mut self, before: usize) {
        if self.lines != Lines::Many {
            return;
        }
        let width = self.prefix.len().saturating_sub(before);
        self.prefix.truncate(before);
        if !self.markers.is_empty() {
            let kept = self.markers.len().saturating_sub(width);
            self.markers.truncate(kept);
        }
    }

    /// Begins a heading of that rank; what is in it is one line.
    pub(super) fn begin_heading(&mut self, rank: usize) {
        if self.lines == Lines::Many {
            self.block(2);
            self.heading = format!("{} ", "#".repeat(rank));
            self.lines = Lines::One;
        }
    }

    pub(super) fn end_heading(&mut self) {
        if self.lines == Lines::One {
            self.lines = Lines::Many;
            self.heading.clear();
            self.block(2);
        }
    }

    /// Begins a cell, which is written aside.
    pub(super) fn begin_cell(&mut self) {
        self.asides.push(Aside {
            out: std::mem::take(&mut self.out),
            gap: std::mem::take(&mut self.gap),
            prefix: std::mem::take(&mut self.prefix),
            markers: std::mem::take(&mut self.markers),
            heading: std::mem::take(&mut self.heading),
            lines: std::mem::replace(&mut self.lines, Lines::Cell),
        });
        self.space = false;
    }

    /// The cell's text, in one line.
    pub(super) fn end_cell(&mut self) -> String {
        self.trim();
        let cell = std::mem::take(&mut self.out);
        if let Some(aside) = self.asides.pop() {
            self.out = aside.out;
            self.gap = aside.gap;
            self.prefix = aside.prefix;
            self.markers = aside.markers;
            self.heading = aside.heading;
            self.lines = aside.lines;
        }
        self.space = false;
        cell
    }

    /// Lines of ours that are paid for already.
    pub(super) fn paid(&mut self, lines: &str) {
        let limit = std::mem::replace(&mut self.limit, usize::MAX);
        let spent = self.spent;
        self.verbatim(lines);
        self.limit = limit;
        self.spent = spent;
    }

    /// Begins what a mark is put around once its text is known.
    pub(super) fn open(&mut self, span: Span) {
        self.opens.push(Open { span, start: None });
    }

    /// Ends what was opened last.
    pub(super) fn close(&mut self) {
        let Some(Open { span, start }) = self.opens.pop() else {
            return;
        };
        let is_in_code = self.is_in(&Span::Code);
        if is_in_code || self.is_in(&span) || (span == Span::Strong && self.lines == Lines::One) {
            return;
        }
        // A span around a whole table begins in another text.
        let Some(start) = start.filter(|&start| start < self.out.len()) else {
            return;
        };
        let Some(text) = self.out.get(start..) else {
            return;
        };
        let first_line = text.lines().next().unwrap_or_default();
        let is_one_line = first_line.len() == text.len();
        let end = start + first_line.trim_end().len();
        match span {
            Span::Link(None) => {
                if is_permalink(text) {
                    self.take_back(start);
                }
            }
            Span::Link(Some(address)) => {
                if text.trim() == address {
                    return;
                }
                self.insert(end, &format!("]({address})"));
                self.insert(start, "[");
            }
            Span::Strong if is_one_line => self.surround(start, end, "**"),
            Span::Emphasis if is_one_line => self.surround(start, end, "*"),
            Span::Struck if is_one_line => self.surround(start, end, "~~"),
            Span::Code if is_one_line => {
                let code = &text[..end - start];
                let (open, close) = code::marks(code);
                self.insert(end, &close);
                self.insert(start, &open);
            }
            Span::Raised if is_one_line && !text.starts_with(['[', '(']) => {
                self.insert(start, "^");
            }
            Span::Lowered if is_one_line => self.insert(start, "_"),
            Span::Strong
            | Span::Emphasis
            | Span::Struck
            | Span::Code
            | Span::Raised
            | Span::Lowered => {}
        }
    }

    /// Takes back what was written from there on, and the line that it alone had begun.
    fn take_back(&mut self, start: usize) {
        self.out.truncate(start);
        let is_bare = |line: &str| line.chars().all(|c| c == ' ' || c == '>');
        let mut is_line_gone = false;
        while let Some((before, line)) = self.out.rsplit_once('\n')
            && is_bare(line)
        {
            let kept = before.len();
            self.out.truncate(kept);
            is_line_gone = true;
        }
        if is_line_gone {
            self.gap = 0;
            self.block(2);
        } else if is_bare(&self.out) {
            self.out.clear();
        } else if MARK_ENDS.iter().any(|end| self.out.ends_with(end)) {
            self.is_line_start = true;
        } else if self.out.ends_with(' ') {
            self.trim();
            self.space = true;
        }
    }

    fn surround(&mut self, start: usize, end: usize, mark: &str) {
        self.insert(end, mark);
        self.insert(start, mark);
    }

    fn insert(&mut self, at: usize, mark: &str) {
        self.spent += mark.len();
        self.out.insert_str(at, mark);
    }

    /// The text. It ends without white space.
    pub(super) fn finish(mut self) -> String {
        while !self.asides.is_empty() {
            let cell = self.end_cell();
            self.paid(&cell);
        }
        self.out.truncate(self.out.trim_end().len());
        // Links and marks were cleaned with the text that they are of.
        let mut cleaned = String::with_capacity(self.out.len());
        Cleaner::default().push(&self.out, &mut cleaned);
        cleaned
    }
}

/// Whether a marker stands on each line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeats {
    Yes,
    No,
}
