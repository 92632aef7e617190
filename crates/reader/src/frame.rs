//! What a reader and its child say to each other.
//!
//! To the child: the length of a request (four bytes, little end first), the request as JSON, then the body to its end. From the
//! child: answers, each the lengths of its head and its text, then both. The parent believes none of it: lengths are bounded, and
//! text is cleaned again.

use std::{
    fmt,
    io::{self, Write},
};

use serde::{Deserialize, Serialize};

use crate::reading::{Cost, Truncated};

/// Bytes of a request or of an answer's head.
pub(crate) const HEAD_BYTES: usize = 16 * 1_024;

/// What there is to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Task {
    Html,
    Xhtml,
    Pdf,
}

/// What the child is asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) task: Task,
    /// The WHATWG name of the body's encoding.
    pub(crate) charset: String,
    pub(crate) url: String,
    pub(crate) is_complete: bool,
    pub(crate) text_bytes: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) cpu_seconds: u64,
}

/// How an answer stands to those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// It is better than what came before.
    Instead,
    /// It goes on from what came before.
    After,
    /// It has no text: that was all.
    End,
}

/// Why a document has no text: one of a few reasons and no words of the child's, which would be taken for the parent's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unread {
    Damaged,
    Incomplete,
    Encrypted,
    NoPages,
    Pictures,
}

/// The end of a sentence.
impl fmt::Display for Unread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Damaged => "it is damaged",
            Self::Incomplete => {
                "only its beginning was received, and it cannot be read without its end"
            }
            Self::Encrypted => "it is encrypted and asks for a password",
            Self::NoPages => "no pages were found in it",
            Self::Pictures => {
                "its pages have no text that could be read; they are probably pictures of paper"
            }
        })
    }
}

/// An answer without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) order: Order,
    pub(crate) title: Option<String>,
    pub(crate) truncated: Option<Truncated>,
    /// Why there is no text.
    pub(crate) failure: Option<Unread>,
    /// Said at the end.
    pub(crate) cost: Option<Cost>,
}

/// The lengths before an answer.
pub(crate) const LENGTHS_BYTES: usize = 8;

/// Writes an answer.
pub(crate) fn write_answer(mut to: impl Write, head: &Head, text: &str) -> io::Result<()> {
    let head = serde_json::to_vec(head)?;
    to.write_all(&length(head.len())?)?;
    to.write_all(&length(text.len())?)?;
    to.write_all(&head)?;
    to.write_all(text.as_bytes())?;
    to.flush()
}

/// A request as it is sent before its body.
pub(crate) fn request_bytes(request: &Request) -> io::Result<Vec<u8>> {
    let request = serde_json::to_vec(request)?;
    let mut bytes = length(request.len())?.to_vec();
    bytes.extend_from_slice(&request);
    Ok(bytes)
}

fn length(bytes: usize) -> io::Result<[u8; 4]> {
    u32::try_from(bytes)
        .map(u32::to_le_bytes)
        .map_err(io::Error::other)
}
