//! How a Provider fails.

use std::time::Duration;

use kernel::ErrorCode;

/// A failed step, as a sentence for a person. Holds no key, no HTML and at most a short excerpt of the Provider's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct ProviderError {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// The Provider's name in the settings.
    pub provider: String,
    /// The HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// What failed, with which value, and what to do.
    pub sentence: String,
}

/// Kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The key is missing or was rejected.
    Auth,
    /// The account is out of credit.
    OutOfCredit,
    /// Too many requests.
    RateLimited {
        /// How long the Provider asks to wait.
        retry_after: Option<Duration>,
    },
    /// The Provider has a fault or too much to do.
    Overloaded {
        /// How long the Provider asks to wait.
        retry_after: Option<Duration>,
    },
    /// The Provider did not understand the request.
    BadRequest,
    /// There is no such model, or no API at the base URL.
    NotFound,
    /// No connection.
    Unreachable,
    /// No answer, or no more of it, in time.
    Timeout,
    /// The stream ended before the answer did.
    CutStream,
    /// What came is not the wire format.
    Malformed,
    /// The history is longer than the model's context, or the answer than our bounds.
    ContentTooLarge,
    /// The caller cancelled.
    Cancelled,
}

impl ProviderError {
    /// Whether the same request may succeed a little later.
    ///
    /// [`Provider::stream`](crate::Provider::stream) has already retried what it returns itself; this is for errors out of a
    /// running stream.
    pub fn retryable(&self) -> bool {
        match self.kind {
            ErrorKind::RateLimited { .. }
            | ErrorKind::Overloaded { .. }
            | ErrorKind::Unreachable
            | ErrorKind::Timeout
            | ErrorKind::CutStream => true,
            ErrorKind::Auth
            | ErrorKind::OutOfCredit
            | ErrorKind::BadRequest
            | ErrorKind::NotFound
            | ErrorKind::Malformed
            | ErrorKind::ContentTooLarge
            | ErrorKind::Cancelled => false,
        }
    }

    /// How long the Provider asks to wait before the next request.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.kind {
            ErrorKind::RateLimited { retry_after } | ErrorKind::Overloaded { retry_after } => {
                retry_after
            }
            ErrorKind::Auth
            | ErrorKind::OutOfCredit
            | ErrorKind::BadRequest
            | ErrorKind::NotFound
            | ErrorKind::Unreachable
            | ErrorKind::Timeout
            | ErrorKind::CutStream
            | ErrorKind::Malformed
            | ErrorKind::ContentTooLarge
            | ErrorKind::Cancelled => None,
        }
    }

    /// The class of the failure for who asked for the turn: a rejected key is the Operator's to mend, not the caller's.
    pub fn code(&self) -> ErrorCode {
        match self.kind {
            ErrorKind::Auth
            | ErrorKind::OutOfCredit
            | ErrorKind::BadRequest
            | ErrorKind::NotFound => ErrorCode::FailedPrecondition,
            ErrorKind::RateLimited { .. } | ErrorKind::ContentTooLarge => {
                ErrorCode::ResourceExhausted
            }
            ErrorKind::Overloaded { .. }
            | ErrorKind::Unreachable
            | ErrorKind::CutStream
            | ErrorKind::Malformed => ErrorCode::Unavailable,
            ErrorKind::Timeout => ErrorCode::DeadlineExceeded,
            ErrorKind::Cancelled => ErrorCode::Aborted,
        }
    }
}

impl ErrorKind {
    /// The word that wide events use (`error.type`).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::OutOfCredit => "out_of_credit",
            Self::RateLimited { .. } => "rate_limited",
            Self::Overloaded { .. } => "overloaded",
            Self::BadRequest => "bad_request",
            Self::NotFound => "not_found",
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::CutStream => "cut_stream",
            Self::Malformed => "malformed",
            Self::ContentTooLarge => "content_too_large",
            Self::Cancelled => "cancelled",
        }
    }
}
