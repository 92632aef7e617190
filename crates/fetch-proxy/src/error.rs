//! What is wrong with a call itself. What happens on the way to a page is a [`crate::refusal::Refusal`].

use kernel::ErrorCode;

use crate::InvalidHost;

/// Why a call is not answered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller may not fetch.
    #[error("{0} may not fetch pages; NPCs do, in turns")]
    NotAllowed(String),
    /// The list of hosts cannot be used.
    #[error("allowed_hosts cannot be used: {0}")]
    AllowedHosts(#[from] InvalidHost),
}

impl Error {
    /// The class.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::NotAllowed(_) => ErrorCode::PermissionDenied,
            Self::AllowedHosts(_) => ErrorCode::InvalidArgument,
        }
    }

    /// The field of the request that is wrong, if one is.
    pub const fn field(&self) -> Option<&'static str> {
        match self {
            Self::NotAllowed(_) => None,
            Self::AllowedHosts(_) => Some("allowed_hosts"),
        }
    }
}
