//! Failures of the service.

use kernel::{ErrorCode, TurnId};
use runtime::status::Problem;

/// Why a request was not served, or the service not built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting cannot be used.
    #[error("{0}")]
    Setting(String),
    /// A field of the request is wrong.
    #[error("{sentence}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What is wrong with it, and what is right.
        sentence: String,
    },
    /// There is no such thing, or the caller may not see it: one sentence for both.
    #[error("there is no {what} {name:?}")]
    NotFound {
        /// The kind of thing.
        what: &'static str,
        /// Its id or name, as it was asked for.
        name: String,
    },
    /// The caller may not do this.
    #[error("{0}")]
    Denied(&'static str),
    /// Nothing runs in the Conversation that was asked for.
    #[error("no turn runs in the Conversation {0:?}")]
    NothingRuns(String),
    /// The Conversation is with another NPC.
    #[error(
        "the Conversation {0:?} is with another NPC; a Conversation stays with its NPC, so start a new one"
    )]
    OtherNpc(String),
    /// One running turn per Conversation.
    #[error("turn {0} still runs in this Conversation; wait for its end, or abort it")]
    TurnRuns(TurnId),
    /// The Player has as many running turns as one may have.
    #[error(
        "{0} turns of yours run already, and no more may run at the same time; wait for one to end, or abort one"
    )]
    TooManyTurns(u32),
    /// The turn runs in a process that cannot be told to stop.
    #[error("turn {0} runs in another process that cannot be reached now; try again in a moment")]
    OutOfReach(TurnId),
    /// No model is set anywhere.
    #[error(
        "the NPC {0:?} has no model and the Village has no default; set one with `agentsville npc edit NAME --model PROVIDER/MODEL`, or AGENTSVILLE__TURN__DEFAULT_MODEL"
    )]
    NoModel(String),
    /// The model's name cannot be used.
    #[error("the NPC's model cannot be used: {0}")]
    Model(String),
    /// The Message's id is taken.
    #[error(
        "the Message {0:?} exists already in this Conversation; to change it, send it as an edit"
    )]
    MessageExists(String),
    /// There is no answer to give again.
    #[error("there is no answer to give again in this Conversation")]
    NothingToRegenerate,
    /// It lost a race too often.
    #[error("the Conversation changed at the same time; try again")]
    Race,
    /// The turn is no longer this process's.
    #[error("the turn's lease was lost; another process has ended it")]
    LeaseLost,
    /// A peer's answer, passed on.
    #[error("{}", .0.sentence)]
    Peer(Problem),
    /// A peer answered what it must not.
    #[error("{peer} answered without {what}")]
    BadPeer {
        /// The peer.
        peer: &'static str,
        /// What is missing or wrong.
        what: &'static str,
    },
    /// A stored row that this release cannot read.
    #[error("the stored {what} cannot be read")]
    Stored {
        /// Which row or column.
        what: &'static str,
    },
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The process ends.
    #[error("the service is shutting down; try again in a moment")]
    ShuttingDown,
}

impl Error {
    /// The class of the failure.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Setting(_)
            | Self::OtherNpc(_)
            | Self::TurnRuns(_)
            | Self::NoModel(_)
            | Self::Model(_)
            | Self::NothingToRegenerate => ErrorCode::FailedPrecondition,
            Self::TooManyTurns(_) => ErrorCode::ResourceExhausted,
            Self::Invalid { .. } => ErrorCode::InvalidArgument,
            Self::NotFound { .. } | Self::NothingRuns(_) => ErrorCode::NotFound,
            Self::Denied(_) => ErrorCode::PermissionDenied,
            Self::MessageExists(_) => ErrorCode::AlreadyExists,
            Self::Race | Self::LeaseLost => ErrorCode::Aborted,
            Self::Peer(problem) => problem.code,
            Self::BadPeer { .. } | Self::Stored { .. } => ErrorCode::Internal,
            Self::Store(error) => error.code(),
            Self::ShuttingDown | Self::OutOfReach(_) => ErrorCode::Unavailable,
        }
    }

    /// The field that is wrong, if one is.
    pub const fn field(&self) -> Option<&'static str> {
        if let Self::Invalid { field, .. } = self {
            Some(field)
        } else {
            None
        }
    }
}

impl From<sea_orm::DbErr> for Error {
    fn from(error: sea_orm::DbErr) -> Self {
        Self::Store(error.into())
    }
}
