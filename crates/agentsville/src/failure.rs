//! How a command ends when it does not end well.

use std::io;

use http::StatusCode;
use kernel::ErrorCode;
use runtime::BoxError;
use serde::{Deserialize, Serialize};

/// What went wrong, as problem details (RFC 9457): the Village's own answer, or the same shape for what failed here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Always `about:blank`.
    #[serde(rename = "type", default = "about_blank")]
    pub kind: String,
    /// What HTTP calls the status (RFC 9110).
    #[serde(default)]
    pub title: String,
    /// The HTTP status that says the same.
    #[serde(default)]
    pub status: u16,
    /// The sentence for a person.
    #[serde(default)]
    pub detail: String,
    /// The class.
    #[serde(default = "internal")]
    pub code: ErrorCode,
    /// The field that is wrong, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

fn about_blank() -> String {
    "about:blank".to_owned()
}

const fn internal() -> ErrorCode {
    ErrorCode::Internal
}

impl Problem {
    /// A problem of this class.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        let reason = StatusCode::from_u16(code.http_status())
            .ok()
            .and_then(|status| status.canonical_reason());
        Self {
            kind: about_blank(),
            title: reason.unwrap_or_default().to_owned(),
            status: code.http_status(),
            detail: detail.into(),
            code,
            field: None,
        }
    }

    /// The same, naming the field that is wrong.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It was written wrongly: exit 2.
    Usage(Problem),
    /// The Village refused, or something failed: exit 1.
    Failed(Problem),
    /// All has been said on the output already: exit 1.
    Said,
    /// A person stopped it at once: exit 130, as shells expect of an interrupt.
    Interrupted,
    /// Whoever read the output is gone (`… | head`): nothing is left to say, and nothing failed.
    ReaderGone,
}

impl Failure {
    /// Wrong usage.
    pub fn usage(detail: impl Into<String>) -> Self {
        Self::Usage(Problem::new(ErrorCode::InvalidArgument, detail))
    }

    /// A failure of this class.
    pub fn of(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self::Failed(Problem::new(code, detail))
    }

    /// A failure that the state of this machine or its settings causes.
    pub fn precondition(cause: impl Into<BoxError>) -> Self {
        let sentence = runtime::status::chain(&*cause.into());
        Self::of(ErrorCode::FailedPrecondition, sentence)
    }

    /// What the process exits with.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::ReaderGone => 0,
            Self::Failed(_) | Self::Said => 1,
            Self::Usage(_) => 2,
            Self::Interrupted => 130,
        }
    }

    /// What there is to say.
    pub const fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Usage(problem) | Self::Failed(problem) => Some(problem),
            Self::Said | Self::Interrupted | Self::ReaderGone => None,
        }
    }
}

impl From<io::Error> for Failure {
    /// Only writing to the output fails with a bare I/O error; everything else is given a sentence where it happens.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::ReaderGone;
        }
        Self::of(
            ErrorCode::Internal,
            format!("cannot write the output: {error}"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_problem_reads_like_the_villages_own() {
        let problem = Problem::new(ErrorCode::NotFound, "there is no NPC \"x\"").with_field("npc");
        assert_eq!(
            serde_json::to_string(&problem).unwrap(),
            r#"{"type":"about:blank","title":"Not Found","status":404,"detail":"there is no NPC \"x\"","code":"not_found","field":"npc"}"#
        );
    }

    #[test]
    fn a_reader_that_left_is_no_failure() {
        let gone = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((gone.exit_code(), gone.problem()), (0, None));
        let full = Failure::from(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(full.exit_code(), 1);
    }
}
