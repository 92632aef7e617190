//! How a failure is classed. The set is closed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The class of a failure, the same on gRPC, HTTP and in wide events. A subset of the gRPC codes, on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The request is wrong in itself; a field is named.
    InvalidArgument,
    /// No caller token, or one that does not verify.
    Unauthenticated,
    /// The caller may see the thing, and may not do this with it.
    PermissionDenied,
    /// There is no such thing, or the caller may not see it.
    NotFound,
    /// The name or id is taken.
    AlreadyExists,
    /// The request is right, and the state of things does not allow it now.
    FailedPrecondition,
    /// A bound was reached: bytes, count, rate.
    ResourceExhausted,
    /// It lost a race; trying again may work.
    Aborted,
    /// A peer cannot be reached; trying again later may work.
    Unavailable,
    /// It took longer than it may.
    DeadlineExceeded,
    /// A fault of ours. The cause is in the log, never in the answer.
    Internal,
}

impl ErrorCode {
    /// Every code, for tables and tests.
    pub const ALL: [Self; 11] = [
        Self::InvalidArgument,
        Self::Unauthenticated,
        Self::PermissionDenied,
        Self::NotFound,
        Self::AlreadyExists,
        Self::FailedPrecondition,
        Self::ResourceExhausted,
        Self::Aborted,
        Self::Unavailable,
        Self::DeadlineExceeded,
        Self::Internal,
    ];

    /// The word that logs, events and problem details use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::Unauthenticated => "unauthenticated",
            Self::PermissionDenied => "permission_denied",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::FailedPrecondition => "failed_precondition",
            Self::ResourceExhausted => "resource_exhausted",
            Self::Aborted => "aborted",
            Self::Unavailable => "unavailable",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::Internal => "internal",
        }
    }

    /// The HTTP status that says the same (RFC 9110).
    pub const fn http_status(self) -> u16 {
        match self {
            Self::InvalidArgument => 400,
            Self::Unauthenticated => 401,
            Self::PermissionDenied => 403,
            Self::NotFound => 404,
            Self::AlreadyExists | Self::FailedPrecondition | Self::Aborted => 409,
            Self::ResourceExhausted => 429,
            Self::Unavailable => 503,
            Self::DeadlineExceeded => 504,
            Self::Internal => 500,
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
