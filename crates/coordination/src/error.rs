//! Failures of the log and the signals.

use kernel::ErrorCode;

/// Why something was not appended, published or set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The address is none of a Redis server. It may hold a password, so it is not shown.
    #[error(
        "the Redis address cannot be used; set REDIS_URL to redis://USER:PASSWORD@HOST:PORT/DB, or leave it out for one process"
    )]
    Address,
    /// The payload is larger than it may be.
    #[error("{bytes} bytes are too many for one {what}; at most {max} are allowed")]
    TooLarge {
        /// `event` or `signal`.
        what: &'static str,
        /// How large it was.
        bytes: usize,
        /// How large it may be.
        max: usize,
    },
    /// The stream has an event with this number or a later one already: another owner, or the same append again.
    #[error("event {number} comes too late; the stream has gone on")]
    OutOfOrder {
        /// The number that was refused.
        number: u64,
    },
    /// Redis did not answer.
    #[error("Redis cannot be reached: {0}")]
    Unavailable(String),
}

impl Error {
    /// The class of the failure.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Address => ErrorCode::InvalidArgument,
            Self::TooLarge { .. } => ErrorCode::ResourceExhausted,
            Self::OutOfOrder { .. } => ErrorCode::Aborted,
            Self::Unavailable(_) => ErrorCode::Unavailable,
        }
    }
}
