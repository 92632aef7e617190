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
    /// Too many fetches wait.
    #[error(
        "many pages are being fetched at the moment; try again in a few seconds, with fewer at the same time"
    )]
    Busy,
    /// Too many fetches wait for one host.
    #[error(
        "many pages of {0} are being fetched at the moment; try again in a few seconds, with fewer at the same time"
    )]
    HostBusy(String),
}

impl Error {
    /// The class.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::NotAllowed(_) => ErrorCode::PermissionDenied,
            Self::AllowedHosts(_) => ErrorCode::InvalidArgument,
            Self::Busy | Self::HostBusy(_) => ErrorCode::ResourceExhausted,
        }
    }

    /// The field of the request that is wrong, if one is.
    pub const fn field(&self) -> Option<&'static str> {
        match self {
            Self::NotAllowed(_) | Self::Busy | Self::HostBusy(_) => None,
            Self::AllowedHosts(_) => Some("allowed_hosts"),
        }
    }
}
