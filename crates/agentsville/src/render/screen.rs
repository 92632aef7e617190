//! Lines on a terminal or in a file, with one line of progress where it can be taken back.

use std::io::{self, Write};

use kernel::strip_control;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::{Ink, Style};

/// How far text from outside is kept from the first column.
const INDENT: &str = "  ";
/// Line ends in a row that a text may ask for.
const MOST_NEWLINES: usize = 3;

/// A place to write a transcript to.
#[derive(Debug)]
pub struct Screen<W> {
    out: W,
    style: Style,
    /// Columns at which streamed text is wrapped; `None` where lines have no end.
    width: Option<usize>,
    cursor: Cursor,
    status_shown: bool,
    blank_above: bool,
    flow: Flow,
}

/// Where the next character would go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cursor {
    /// The first column of an empty line.
    LineStart,
    /// In a line of streamed text, this many columns in.
    Text(usize),
}

/// Streamed text that is not written yet: a word may go on, and blank lines at the end of a text are never shown.
#[derive(Debug, Default)]
struct Flow {
    started: bool,
    word: String,
    spaces: usize,
    newlines: usize,
    ink: Option<Ink>,
}

impl<W: Write> Screen<W> {
    /// A screen of this many columns, if it has an end.
    pub fn new(out: W, style: Style, width: Option<usize>) -> Self {
        Self {
            out,
            style,
            // Narrower than this, wrapping makes text harder to read rather than easier.
            width: width.filter(|&width| width >= 24),
            cursor: Cursor::LineStart,
            status_shown: false,
            blank_above: true,
            flow: Flow::default(),
        }
    }

    /// How text looks here.
    pub const fn style(&self) -> Style {
        self.style
    }

    /// Whether progress can be shown now: not amid a line of text.
    pub fn takes_status(&self) -> bool {
        self.style.is_terminal() && self.cursor == Cursor::LineStart
    }

    /// A line of ours, from the first column. It may be painted; what it shows of others' text is stripped by the caller.
    pub fn heading(&mut self, line: &str) -> io::Result<()> {
        self.settle()?;
        writeln!(self.out, "{line}")?;
        self.blank_above = false;
        self.out.flush()
    }

    /// An empty line, unless there is one already.
    pub fn gap(&mut self) -> io::Result<()> {
        self.settle()?;
        if !self.blank_above {
            writeln!(self.out)?;
            self.blank_above = true;
        }
        Ok(())
    }

    /// Lines of others' text, indented, and wrapped where lines have an end: a terminal would go on in the first column.
    pub fn indented(&mut self, text: &str, ink: Option<Ink>) -> io::Result<()> {
        self.settle()?;
        if text.is_empty() {
            return self.gap();
        }
        for line in strip_control(text).lines() {
            self.flow.ink = ink;
            self.flow(line)?;
            self.settle()?;
        }
        self.out.flush()
    }

    /// More of a text that streams in, indented and wrapped.
    pub fn flow(&mut self, delta: &str) -> io::Result<()> {
        self.clear_status()?;
        for character in strip_control(delta).chars() {
            match character {
                '\n' => {
                    self.put_word()?;
                    self.flow.newlines += 1;
                    self.flow.spaces = 0;
                }
                ' ' | '\t' => {
                    self.put_word()?;
                    self.flow.spaces += 1;
                }
                other => self.flow.word.push(other),
            }
            // A "word" without an end must still appear.
            if self
                .width
                .is_some_and(|width| self.flow.word.len() >= width)
            {
                self.put_word()?;
            }
        }
        if self.width.is_none() {
            self.put_word()?;
        }
        self.out.flush()
    }

    /// The streamed text is whole: the line ends.
    pub fn end_flow(&mut self) -> io::Result<()> {
        self.settle()?;
        self.out.flush()
    }

    /// Shows progress, in place of what it showed before.
    pub fn status(&mut self, text: &str) -> io::Result<()> {
        if !self.takes_status() {
            return Ok(());
        }
        let columns = self.width.unwrap_or(80).saturating_sub(1);
        let mut shown = String::new();
        let mut used = 0;
        for character in strip_control(text)
            .chars()
            .filter(|&c| c != '\n' && c != '\t')
        {
            used += character.width().unwrap_or(0);
            if used > columns {
                break;
            }
            shown.push(character);
        }
        write!(
            self.out,
            "\r\u{1b}[K{}",
            self.style.paint(Ink::Quiet, &shown)
        )?;
        self.status_shown = true;
        self.out.flush()
    }

    fn clear_status(&mut self) -> io::Result<()> {
        if self.status_shown {
            write!(self.out, "\r\u{1b}[K")?;
            self.status_shown = false;
        }
        Ok(())
    }

    /// Ends whatever line is open.
    fn settle(&mut self) -> io::Result<()> {
        self.clear_status()?;
        self.put_word()?;
        self.flow = Flow::default();
        if self.cursor != Cursor::LineStart {
            writeln!(self.out)?;
            self.cursor = Cursor::LineStart;
        }
        Ok(())
    }

    fn put_word(&mut self) -> io::Result<()> {
        if self.flow.word.is_empty() {
            return Ok(());
        }
        let flow = std::mem::take(&mut self.flow);
        self.flow.started = true;
        self.flow.ink = flow.ink;
        if flow.started && flow.newlines > 0 {
            for _ in 0..flow.newlines.min(MOST_NEWLINES) {
                writeln!(self.out)?;
            }
            self.cursor = Cursor::LineStart;
        }
        let mut spaces = flow.spaces;
        for piece in pieces(&flow.word, self.width) {
            if let (Cursor::Text(column), Some(width)) = (self.cursor, self.width)
                && column + spaces + piece.width() > width
            {
                writeln!(self.out)?;
                self.cursor = Cursor::LineStart;
                spaces = 0;
            }
            let column = match self.cursor {
                Cursor::LineStart => {
                    write!(self.out, "{INDENT}")?;
                    INDENT.len()
                }
                Cursor::Text(column) => column,
            };
            match flow.ink {
                Some(ink) => {
                    let painted = self.style.paint(ink, piece);
                    write!(self.out, "{:spaces$}{painted}", "")?;
                }
                None => write!(self.out, "{:spaces$}{piece}", "")?,
            }
            self.cursor = Cursor::Text(column + spaces + piece.width());
            spaces = 0;
        }
        self.blank_above = false;
        Ok(())
    }
}

/// A word in pieces that fit into a line: a terminal would break a longer one at its own first column.
fn pieces(word: &str, width: Option<usize>) -> Vec<&str> {
    let Some(width) = width else {
        return vec![word];
    };
    let fits = width - INDENT.len();
    let mut pieces = Vec::new();
    let (mut start, mut used) = (0, 0);
    for (at, character) in word.char_indices() {
        let columns = character.width().unwrap_or(0);
        if used + columns > fits {
            pieces.push(&word[start..at]);
            (start, used) = (at, 0);
        }
        used += columns;
    }
    pieces.push(&word[start..]);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(
        width: Option<usize>,
        style: Style,
        write: impl FnOnce(&mut Screen<Vec<u8>>),
    ) -> String {
        let mut screen = Screen::new(Vec::new(), style, width);
        write(&mut screen);
        String::from_utf8(screen.out).unwrap()
    }

    #[test]
    fn streamed_text_is_wrapped_at_words_whatever_the_pieces() {
        let text =
            "The clock says noon, and a-word-that-is-longer-than-any-line follows.\n\n  - item\n";
        let whole = shown(Some(24), Style::Terminal, |screen| {
            screen.flow(text).unwrap();
            screen.end_flow().unwrap();
        });
        assert_eq!(
            whole,
            "  The clock says noon,\n  and\n  a-word-that-is-longer-\n  than-any-line follows.\n\n    - item\n"
        );
        assert!(whole.lines().all(|line| line.width() <= 24));
        let pieces = shown(Some(24), Style::Terminal, |screen| {
            for character in text.chars() {
                screen.flow(character.encode_utf8(&mut [0; 4])).unwrap();
            }
            screen.end_flow().unwrap();
        });
        assert_eq!(pieces, whole);
    }

    #[test]
    fn a_file_gets_lines_as_they_are() {
        let text = "A long line stays one line in a file.\nNext.\n\n";
        assert_eq!(
            shown(None, Style::Plain, |screen| {
                screen.flow(text).unwrap();
                screen.end_flow().unwrap();
                screen.status("never shown").unwrap();
            }),
            "  A long line stays one line in a file.\n  Next.\n"
        );
    }

    #[test]
    fn nothing_from_outside_reaches_the_first_column_or_moves_the_cursor() {
        let hostile = "fine\r\u{1b}[1A\u{1b}[2K\ndone  no tokens\u{8}\u{8}\u{9b}H";
        let text = shown(Some(80), Style::Plain, |screen| {
            screen.flow(hostile).unwrap();
            screen.indented(hostile, None).unwrap();
        });
        assert!(
            !text.contains(['\u{1b}', '\u{8}', '\u{9b}', '\r']),
            "{text:?}"
        );
        assert!(
            text.starts_with("  fine[1A[2K\n  done  no tokensH\n"),
            "{text:?}"
        );
        assert!(text.lines().all(|line| line.starts_with("  ")), "{text:?}");
    }

    #[test]
    fn progress_is_taken_back_before_anything_else_is_written() {
        let text = shown(Some(40), Style::Terminal, |screen| {
            screen.status("thinking, 1 s").unwrap();
            screen.heading("keeper").unwrap();
            screen.flow("mid").unwrap();
            screen.flow("dle ").unwrap();
            screen.status("not amid a line").unwrap();
            screen.end_flow().unwrap();
        });
        assert_eq!(text, "\r\u{1b}[Kthinking, 1 s\r\u{1b}[Kkeeper\n  middle\n");
    }

    #[test]
    fn a_flood_of_empty_lines_is_dammed() {
        let text = shown(None, Style::Plain, |screen| {
            screen.flow(&format!("a{}b", "\n".repeat(10_000))).unwrap();
            screen.end_flow().unwrap();
        });
        assert_eq!(text, "  a\n\n\n  b\n");
    }
}
