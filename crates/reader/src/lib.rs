//! Bodies of pages to text that a model can read.
//!
//! What a server sends is judged by its bytes, its type and its address: HTML becomes Markdown of its main content, text passes
//! through in the right characters, a PDF becomes the text of its pages, and everything else is described, never dumped.
//!
//! **Architecture invariants:** nothing that parses hostile structure runs in the calling process: HTML and PDF are read by a child
//! that holds nothing (no environment, no descriptors, no files) and whose memory, time and answer are bounded, so that an abort, an
//! endless loop or a bomb costs one page. This crate opens no connection and knows nothing of who asked.

mod charset;
mod child;
mod config;
mod describe;
mod effort;
mod error;
mod fallback;
mod frame;
mod html;
mod pdf;
mod process;
mod reader;
mod reading;
mod sniff;
mod source;
mod text;
mod visible;

use std::process::ExitCode;

pub use config::Config;
pub use error::Error;
pub use reader::Reader;
pub use reading::{Cost, Form, Reading, Truncated};
pub use source::Source;

/// The whole life of a reader's child, if this process was started as one; None in every other process.
///
/// The first line of each `main` whose program is given to [`Reader::new`], before anything reads arguments, opens a file or starts
/// a thread.
pub fn child_main() -> Option<ExitCode> {
    child::main()
}
