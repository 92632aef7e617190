//! Why there is no page, in words for the model.

use std::net::IpAddr;

use kernel::{ErrorCode, strip_control};
use outbound::Rule;
use runtime::Outcome;

/// The longest sentence, in characters: a server chooses parts of some.
const SENTENCE_CHARACTERS: usize = 500;

/// The class of reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    InvalidUrl,
    NotHttps,
    Blocked,
    Unresolvable,
    HostNotAllowed,
    Redirect,
    Timeout,
    Tls,
    Unreachable,
    BadResponse,
    Robots,
    Unreadable,
}

/// Why there is no page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    pub(crate) sentence: String,
    /// Which request of the chain it was, from 0.
    pub(crate) hop: u32,
    pub(crate) rule: Option<Rule>,
    pub(crate) address: Option<IpAddr>,
}

impl Reason {
    /// The word in wide events.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidUrl => "invalid_url",
            Self::NotHttps => "not_https",
            Self::Blocked => "blocked",
            Self::Unresolvable => "unresolvable",
            Self::HostNotAllowed => "host_not_allowed",
            Self::Redirect => "redirect",
            Self::Timeout => "timeout",
            Self::Tls => "tls",
            Self::Unreachable => "unreachable",
            Self::BadResponse => "bad_response",
            Self::Robots => "robots",
            Self::Unreadable => "unreadable",
        }
    }

    /// How a wide event says it.
    pub(crate) const fn outcome(self) -> Outcome {
        match self {
            Self::NotHttps | Self::Blocked | Self::HostNotAllowed | Self::Robots => Outcome::Denied,
            Self::InvalidUrl => Outcome::Error(ErrorCode::InvalidArgument),
            Self::Timeout => Outcome::Error(ErrorCode::DeadlineExceeded),
            Self::Redirect | Self::BadResponse => Outcome::Error(ErrorCode::FailedPrecondition),
            Self::Unreadable => Outcome::Error(ErrorCode::Internal),
            Self::Unresolvable | Self::Tls | Self::Unreachable => {
                Outcome::Error(ErrorCode::Unavailable)
            }
        }
    }

    /// What a model can do about it.
    const fn advice(self) -> &'static str {
        match self {
            Self::InvalidUrl => "give a complete https: URL",
            Self::NotHttps => "try the same address with https:",
            Self::Blocked => {
                "fetch_url reads public pages only, and another spelling of the address will not help"
            }
            Self::Unresolvable => "check the spelling of the host",
            Self::HostNotAllowed => "this NPC may only fetch from the hosts that it was given",
            Self::Redirect => "fetch the address that you want directly",
            Self::Timeout => "the page may be too slow to read; try once more, or another source",
            Self::Tls => "it cannot be read safely; try another source",
            Self::Unreachable => "try again later, or another source",
            Self::BadResponse | Self::Robots => "try another source",
            Self::Unreadable => "pages cannot be read at the moment",
        }
    }
}

impl Refusal {
    /// A refusal with what happened; advice is added.
    pub(crate) fn new(reason: Reason, hop: u32, what: &str) -> Self {
        let place = match hop {
            0 => String::new(),
            hop => format!("after {hop} redirect{}: ", if hop == 1 { "" } else { "s" }),
        };
        let whole = format!("{place}{what}; {}", reason.advice());
        Self {
            reason,
            sentence: strip_control(&whole)
                .chars()
                .take(SENTENCE_CHARACTERS)
                .collect(),
            hop,
            rule: None,
            address: None,
        }
    }

    /// What the way out said.
    pub(crate) fn of(error: &outbound::Error, hop: u32) -> Self {
        use outbound::Error;
        let (reason, refused) = match error {
            Error::Refused(refused) => (reason_of(refused.rule), Some(refused)),
            Error::Unresolvable { .. } => (Reason::Unresolvable, None),
            Error::Unreachable { .. } => (Reason::Unreachable, None),
            Error::Tls { .. } => (Reason::Tls, None),
            Error::Http { .. } | Error::Unsendable { .. } => (Reason::BadResponse, None),
            Error::TimedOut { .. } => (Reason::Timeout, None),
        };
        let mut refusal = Self::new(reason, hop, &error.to_string());
        refusal.rule = refused.map(|refused| refused.rule);
        refusal.address = refused.and_then(|refused| refused.address);
        refusal
    }
}

fn reason_of(rule: Rule) -> Reason {
    if rule == Rule::Scheme {
        Reason::NotHttps
    } else if matches!(rule, Rule::Malformed | Rule::UrlTooLong) {
        Reason::InvalidUrl
    } else {
        Reason::Blocked
    }
}
