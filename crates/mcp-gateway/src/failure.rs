//! What can go wrong with a server, in words that a person can act on.

mod redact;
mod remote;

use std::fmt;

pub(crate) use redact::Redactor;
pub(crate) use remote::Credentials;

/// The stable word for a failure. Clients and documentation refer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureCode {
    /// The URL is none that a server can have.
    BadUrl,
    /// The address is one that the guard refuses.
    PrivateAddress,
    /// The name does not resolve.
    Unresolvable,
    /// Nobody answers there.
    Unreachable,
    /// No secure connection comes about.
    Tls,
    /// The server wants an authorization that it was not given.
    NeedsSignIn,
    /// The server does not take the token or key that it was given.
    TokenRejected,
    /// The server knows who asks, and refuses.
    Forbidden,
    /// A web page answers instead of an MCP Server.
    Html,
    /// It speaks the older HTTP with server-sent events.
    IsSse,
    /// It speaks streamable HTTP.
    IsStreamableHttp,
    /// It redirects to where it is not followed.
    Redirects,
    /// There is no such command.
    CommandNotFound,
    /// The process ended.
    Exited,
    /// No answer came in time.
    TimedOut,
    /// What answers does not speak the protocol.
    ProtocolError,
    /// The server answers with an HTTP status that says no more.
    HttpError,
    /// The root secret was changed since the credentials were saved.
    CredentialsUnreadable,
    /// The server is disabled.
    Disabled,
    /// The server has as many clients or calls as it may have, or is being left alone after failures.
    Busy,
}

impl FailureCode {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadUrl => "bad-url",
            Self::PrivateAddress => "private-address",
            Self::Unresolvable => "unresolvable",
            Self::Unreachable => "unreachable",
            Self::Tls => "tls",
            Self::NeedsSignIn => "needs-sign-in",
            Self::TokenRejected => "token-rejected",
            Self::Forbidden => "forbidden",
            Self::Html => "html",
            Self::IsSse => "is-sse",
            Self::IsStreamableHttp => "is-streamable-http",
            Self::Redirects => "redirects",
            Self::CommandNotFound => "command-not-found",
            Self::Exited => "exited",
            Self::TimedOut => "timed-out",
            Self::ProtocolError => "protocol-error",
            Self::HttpError => "http-error",
            Self::CredentialsUnreadable => "credentials-unreadable",
            Self::Disabled => "disabled",
            Self::Busy => "busy",
        }
    }
}

/// Whether a request that failed may have been begun by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// Surely not: nothing of it was sent.
    Never,
    /// It may have been.
    Maybe,
}

/// What went wrong: never a secret in it, never a stack trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct Failure {
    /// Which kind.
    pub code: FailureCode,
    /// What failed and with which value, in a sentence.
    pub sentence: String,
    /// What to do about it, in a sentence.
    pub next_step: String,
    /// Whether the server may have begun what was asked.
    pub reached: Reached,
}

impl Failure {
    /// A failure before anything was sent.
    pub fn new(
        code: FailureCode,
        sentence: impl fmt::Display,
        next_step: impl fmt::Display,
    ) -> Self {
        Self {
            code,
            sentence: sentence.to_string(),
            next_step: next_step.to_string(),
            reached: Reached::Never,
        }
    }

    /// The same failure after something was sent.
    #[must_use]
    pub fn after_sending(self) -> Self {
        Self {
            reached: Reached::Maybe,
            ..self
        }
    }
}
