//! Where a command's words go.

use std::io::{self, IsTerminal as _, Write};

use kernel::{JsonText, strip_control};
use serde::Serialize;

use crate::{
    environment::Environment,
    failure::Problem,
    render::{Style, escape_control},
};

/// For whom a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// A person.
    Text,
    /// A program: one compact JSON value a line.
    Json,
}

/// Standard output and standard error, in one format.
#[derive(Debug)]
pub(crate) struct Output {
    format: Format,
    style: Style,
    out: io::Stdout,
    err: io::Stderr,
}

impl Output {
    /// Looks at what the output is connected to. Colours and progress are for terminals that want them (<https://no-color.org>).
    pub(crate) fn new(format: Format, environment: &Environment) -> Self {
        let (out, err) = (io::stdout(), io::stderr());
        let terminal = out.is_terminal();
        let plain = environment
            .get("NO_COLOR")
            .is_some_and(|value| !value.is_empty())
            || environment.get("TERM") == Some("dumb");
        Self {
            format,
            style: match (terminal, plain) {
                (false, _) => Style::Plain,
                (true, true) => Style::Terminal,
                (true, false) => Style::Colours,
            },
            out,
            err,
        }
    }

    /// For whom it prints.
    pub(crate) const fn format(&self) -> Format {
        self.format
    }

    /// How text looks.
    pub(crate) const fn style(&self) -> Style {
        self.style
    }

    /// One line of text, without control sequences.
    pub(crate) fn line(&self, text: &str) -> io::Result<()> {
        let mut out = self.out.lock();
        writeln!(out, "{}", strip_control(text))?;
        out.flush()
    }

    /// One compact JSON value a line. What could move a terminal's cursor is escaped, which JSON allows everywhere in a string.
    pub(crate) fn json(&self, value: &JsonText) -> io::Result<()> {
        self.json_line(value.as_str())
    }

    /// The same, of a value that serializes; texts in it keep every character.
    pub(crate) fn json_of(&self, value: &impl Serialize) -> io::Result<()> {
        self.json_line(&serde_json::to_string(value)?)
    }

    fn json_line(&self, compact: &str) -> io::Result<()> {
        let mut out = self.out.lock();
        writeln!(out, "{}", escape_control(compact))?;
        out.flush()
    }

    /// What went wrong, on standard error.
    pub(crate) fn problem(&self, problem: &Problem) -> io::Result<()> {
        let mut err = self.err.lock();
        match self.format {
            Format::Json => writeln!(err, "{}", escape_control(JsonText::of(problem).as_str())),
            Format::Text => writeln!(err, "agentsville: {}", strip_control(&problem.detail)),
        }
    }

    /// A remark beside the output, on standard error; a program is told as problem JSON with status 200.
    pub(crate) fn remark(&self, sentence: &str) -> io::Result<()> {
        match self.format {
            Format::Text => writeln!(self.err.lock(), "{}", strip_control(sentence)),
            Format::Json => writeln!(
                self.err.lock(),
                "{}",
                escape_control(
                    JsonText::of(&serde_json::json!({
                        "type": "about:blank", "title": "remark", "status": 200, "detail": sentence,
                    }))
                    .as_str()
                )
            ),
        }
    }
}
