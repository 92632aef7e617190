//! What is wrong with a request, or with the settings. What a server does wrong is a [`crate::Failure`], and an answer.

use kernel::ErrorCode;

/// Why the gateway refuses.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is out of range.
    #[error("{0}")]
    Setting(String),
}

impl Error {
    /// The class of the failure.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Setting(_) => ErrorCode::FailedPrecondition,
        }
    }
}
