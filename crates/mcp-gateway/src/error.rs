//! What is wrong with a request, or with the settings. What a server does wrong is a [`crate::Failure`], and an answer.

use kernel::ErrorCode;

/// Why the gateway refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A setting is out of range.
    #[error("{0}")]
    Setting(String),
    /// The caller may not do this.
    #[error("{caller} may not {what}")]
    NotAllowed {
        /// Who called.
        caller: String,
        /// What, and who may.
        what: &'static str,
    },
    /// A field of the request is wrong.
    #[error("{problem}")]
    Argument {
        /// The field.
        field: &'static str,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// There is no such server, or the caller may not see it: one sentence for both.
    #[error("there is no MCP Server {0:?}")]
    NoServer(String),
    /// Too many tests at the same time, or one after the other.
    #[error("{0}")]
    TooManyTests(&'static str),
    /// The tool-registry does not answer.
    #[error("the tool-registry cannot be reached; try again later")]
    RegistryAway,
    /// The tool-registry refuses to answer.
    #[error("the tool-registry refuses to say how the MCP Server is reached: {0}")]
    RegistryRefuses(String),
    /// The tool-registry answered what this release cannot read.
    #[error("the tool-registry's answer has no {0}")]
    BadRegistry(&'static str),
}

impl Error {
    /// A field that is wrong.
    pub(crate) fn argument(field: &'static str, problem: impl Into<String>) -> Self {
        Self::Argument {
            field,
            problem: problem.into(),
        }
    }

    /// The class of the failure.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Setting(_) => ErrorCode::FailedPrecondition,
            Self::NotAllowed { .. } => ErrorCode::PermissionDenied,
            Self::Argument { .. } => ErrorCode::InvalidArgument,
            Self::NoServer(_) => ErrorCode::NotFound,
            Self::TooManyTests(_) => ErrorCode::ResourceExhausted,
            Self::RegistryAway => ErrorCode::Unavailable,
            Self::RegistryRefuses(_) | Self::BadRegistry(_) => ErrorCode::Internal,
        }
    }

    /// The field of the request that is wrong, if one is.
    pub const fn field(&self) -> Option<&'static str> {
        match self {
            Self::Argument { field, .. } => Some(field),
            Self::NoServer(_) => Some("server"),
            Self::Setting(_)
            | Self::NotAllowed { .. }
            | Self::TooManyTests(_)
            | Self::RegistryAway
            | Self::RegistryRefuses(_)
            | Self::BadRegistry(_) => None,
        }
    }
}
