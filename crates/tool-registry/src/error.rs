//! Why the registry does not do what it was asked.

use std::fmt;

use kernel::{Decision, ErrorCode};
use sea_orm::DbErr;

/// Characters of a value from outside that an error shows.
const SHOWN: usize = 128;

/// What the registry keeps, as its errors call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thing {
    /// An agent.
    Npc,
    /// A user.
    Player,
    /// What an NPC may use.
    Grant,
    /// A registered MCP Server.
    McpServer,
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Npc => "NPC",
            Self::Player => "Player",
            Self::Grant => "Grant",
            Self::McpServer => "MCP Server",
        })
    }
}

/// Why the registry does not do what it was asked. Every text is for the person who asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field of the request is wrong.
    #[error("{sentence}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What is wrong with it, with the field's name.
        sentence: String,
    },
    /// It does not exist, or the caller may not know that it does.
    #[error("there is no {what} {name:?}{}", .nearest.as_ref().map(|near| format!("; did you mean {near:?}?")).unwrap_or_default())]
    NotFound {
        /// The kind of thing.
        what: Thing,
        /// What the caller called it.
        name: String,
        /// The nearest name of such a thing that the caller may see.
        nearest: Option<String>,
    },
    /// The caller may see it, and may not do this.
    #[error("{0}")]
    Denied(&'static str),
    /// The name is taken.
    #[error("the name {0:?} is taken; choose another")]
    Taken(String),
    /// It would be one too many.
    #[error("{0}")]
    TooMany(String),
    /// The state of things does not allow it.
    #[error("{0}")]
    NotNow(String),
    /// Nobody holds this token, or nobody does any more.
    #[error("the token is not valid; ask the Operator for a new one")]
    UnknownToken,
    /// The Operator's token is too short.
    #[error("the Operator's token has {0} bytes, and at least {min} are needed; set a longer operator_token", min = vault::SECRET_BYTES)]
    ShortOperatorToken(usize),
    /// A stored row cannot be read.
    #[error("the row {id} of {table} is damaged")]
    Damaged {
        /// Its table.
        table: &'static str,
        /// Its id.
        id: String,
    },
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Error {
    /// The class.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Invalid { .. } => ErrorCode::InvalidArgument,
            Self::NotFound { .. } => ErrorCode::NotFound,
            Self::Denied(_) => ErrorCode::PermissionDenied,
            Self::Taken(_) => ErrorCode::AlreadyExists,
            Self::TooMany(_) => ErrorCode::ResourceExhausted,
            Self::NotNow(_) | Self::ShortOperatorToken(_) => ErrorCode::FailedPrecondition,
            Self::UnknownToken => ErrorCode::Unauthenticated,
            Self::Damaged { .. } => ErrorCode::Internal,
            Self::Store(error) => error.code(),
        }
    }

    /// The field of the request that is wrong, if one is.
    pub const fn field(&self) -> Option<&'static str> {
        match self {
            Self::Invalid { field, .. } => Some(field),
            Self::NotFound { .. }
            | Self::Denied(_)
            | Self::Taken(_)
            | Self::TooMany(_)
            | Self::NotNow(_)
            | Self::UnknownToken
            | Self::ShortOperatorToken(_)
            | Self::Damaged { .. }
            | Self::Store(_) => None,
        }
    }

    pub(crate) fn invalid(field: &'static str, what_is_wrong: impl fmt::Display) -> Self {
        Self::Invalid {
            field,
            sentence: format!("{field}: {what_is_wrong}"),
        }
    }

    /// A name that is taken, when that is why a row was refused.
    pub(crate) fn or_taken(self, key: &str, name: Option<&str>) -> Self {
        if let Self::Store(error) = &self
            && error.is_taken(key)
        {
            return Self::Taken(shown(name.unwrap_or_default()));
        }
        self
    }

    pub(crate) fn not_found(what: Thing, name: &str) -> Self {
        Self::NotFound {
            what,
            name: shown(name),
            nearest: None,
        }
    }
}

impl From<DbErr> for Error {
    fn from(error: DbErr) -> Self {
        Self::Store(error.into())
    }
}

/// A value from outside, as an error shows it.
pub(crate) fn shown(value: &str) -> String {
    value.chars().take(SHOWN).collect()
}

/// Turns a decision about a thing into an answer. `denied` says who may.
pub(crate) fn allowed(
    decision: Decision,
    hidden: impl FnOnce() -> Error,
    denied: &'static str,
) -> Result<(), Error> {
    match decision {
        Decision::Allow | Decision::AllowAudited | Decision::AllowWithoutContent => Ok(()),
        Decision::Deny => Err(Error::Denied(denied)),
        Decision::Hide => Err(hidden()),
    }
}
