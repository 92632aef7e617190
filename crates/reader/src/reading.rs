//! What a model gets to read.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Characters of a title.
pub(crate) const TITLE_CHARACTERS: usize = 300;

/// A body as text, and what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The text. Without NUL and control characters other than newline and tab, and without characters that nobody sees.
    pub text: String,
    /// What the text is of the body.
    pub form: Form,
    /// What the body is after a look at it, as a media type without parameters, lower case.
    pub media_type: String,
    /// How the body's characters were written: a name of the WHATWG Encoding Standard, lower case. None for what is not text.
    pub charset: Option<String>,
    /// The page's title: one line, at most 300 characters.
    pub title: Option<String>,
    /// What was left out of the text, if anything.
    pub truncated: Option<Truncated>,
    /// What the child that read it took; None where there was none, or where it ended before it could say.
    pub cost: Option<Cost>,
}

/// What a child took for a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The most memory that it had at a time, in bytes, the program's own pages included (`VmHWM`).
    pub memory_bytes: u64,
    /// Time of a core, in microseconds, from its start.
    pub core_micros: u64,
}

/// What a text is of the body that it was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Markdown of an HTML page's content.
    Markdown,
    /// The body itself.
    Text,
    /// The text of a PDF's pages.
    Pdf,
    /// A sentence about a body that is not text.
    Description,
    /// The text of a page without its structure, since the page could not be read properly. Its first line says so.
    Fallback,
}

impl Form {
    /// The form in one lower-case word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Text => "text",
            Self::Pdf => "pdf",
            Self::Description => "description",
            Self::Fallback => "fallback",
        }
    }
}

/// What was left out of a reading, and why. Shown as the end of a sentence about the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truncated {
    /// The page has more elements than are read of one.
    Elements {
        /// Elements that were read.
        read: u64,
    },
    /// The document has more pages than are read of one.
    Pages {
        /// Pages that were read.
        read: u64,
        /// Pages that there are.
        of: u64,
    },
    /// The text is longer than a reading may be.
    Text {
        /// Bytes of text that were kept.
        kept: u64,
    },
    /// The document took more time or memory than one may take.
    Effort,
}

impl fmt::Display for Truncated {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elements { read } => {
                write!(formatter, "only the first {read} elements were read")
            }
            Self::Pages { read, of } => {
                write!(formatter, "only the first {read} of {of} pages were read")
            }
            Self::Text { kept } => {
                write!(formatter, "only the first {kept} bytes of text are kept")
            }
            Self::Effort => {
                formatter.write_str("the rest took too much time or memory and was left out")
            }
        }
    }
}
