//! Why the edge cannot start.

use std::net::SocketAddr;

use kernel::ErrorCode;

/// Why the edge cannot start. Each names the setting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The listener cannot be opened.
    #[error(
        "edge.listen: cannot listen on {address}: {reason}; is another program on that port? choose another with AGENTSVILLE__EDGE__LISTEN"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why. Not a `source`: the sentence has it, and whoever prints the chain would say it twice.
        reason: std::io::Error,
    },
    /// An entry of `edge.allowed_hosts` is no host.
    #[error(
        "edge.allowed_hosts: {0:?} is not a host; write a name such as village.example, or name:port"
    )]
    AllowedHost(String),
    /// An entry of `edge.cors_origins` is no origin.
    #[error(
        "edge.cors_origins: {0:?} is not an origin; write scheme://host[:port] without a path, such as https://village.example"
    )]
    CorsOrigin(String),
    /// A limit that would let nobody in.
    #[error("edge.{0} is 0, which lets nobody in; set at least 1")]
    ZeroLimit(&'static str),
}

impl Error {
    /// The class of the failure.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Listen { .. } => ErrorCode::Unavailable,
            Self::AllowedHost(_) | Self::CorsOrigin(_) | Self::ZeroLimit(_) => {
                ErrorCode::InvalidArgument
            }
        }
    }
}
