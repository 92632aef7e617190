//! What can go wrong on the way to a connection.

use std::{borrow::Cow, fmt, net::IpAddr};

use ipnet::IpNet;

use crate::{BlockedAddress, Rule};

/// The most of a host that a message shows, in characters.
const SHOWN: usize = 80;
/// The most of what a peer said that a message shows, in characters.
const HEARD: usize = 300;

/// A destination that may not be connected to. Trying again will not help; an Operator's exemption may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The rule.
    pub rule: Rule,
    /// The host, unless the URL was refused before it had one.
    pub host: Option<String>,
    /// The address, if it was refused for one.
    pub address: Option<IpAddr>,
    /// The row of the tables that the address lies in, if one refused it.
    pub row: Option<RegistryRow>,
    detail: Cow<'static, str>,
}

/// Which row of the tables refused an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegistryRow {
    /// The network. For [`Rule::NotGlobalUnicast`], the one that the address lies outside of.
    pub network: IpNet,
    /// What the registry calls it, and the document that says so; for what is the Village's own, whose it is.
    pub name: &'static str,
}

impl Refusal {
    pub(crate) fn new(rule: Rule, host: String, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            rule,
            host: Some(host),
            address: None,
            row: None,
            detail: detail.into(),
        }
    }

    pub(crate) fn without_host(rule: Rule, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            rule,
            host: None,
            address: None,
            row: None,
            detail: detail.into(),
        }
    }

    pub(crate) fn malformed(problem: &str) -> Self {
        Self::without_host(Rule::Malformed, format!("that is not a URL: {problem}"))
    }

    pub(crate) fn of_address(host: String, blocked: &BlockedAddress) -> Self {
        Self {
            rule: blocked.rule,
            host: Some(host),
            address: Some(blocked.address),
            row: Some(RegistryRow {
                network: blocked.network,
                name: blocked.registry,
            }),
            detail: Cow::Owned(blocked.to_string()),
        }
    }

    pub(crate) fn with_address(mut self, address: IpAddr) -> Self {
        self.address = Some(address);
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) => write!(
                f,
                "{} is refused by rule {}: {}",
                shown(host),
                self.rule,
                self.detail
            ),
            None => write!(f, "refused by rule {}: {}", self.rule, self.detail),
        }
    }
}

impl std::error::Error for Refusal {}

/// Why there is no connection, or no answer over it. Each shows a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The guard said no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The name has no address that is known for certain. Treated as refused; trying again later may help.
    #[error("{} does not resolve: {why}", shown(.host))]
    Unresolvable {
        /// The name.
        host: String,
        /// What DNS said.
        why: String,
    },
    /// No approved address took the connection.
    #[error("{} cannot be reached: {why}", shown(.host))]
    Unreachable {
        /// The host and port.
        host: String,
        /// What the last attempt said.
        why: String,
    },
    /// The host could not prove that it is the host.
    #[error("{} failed the TLS handshake: {why}", shown(.host))]
    Tls {
        /// The host.
        host: String,
        /// What is wrong.
        why: String,
    },
    /// The host does not speak HTTP as it should.
    #[error("{} did not answer in proper HTTP: {why}", shown(.host))]
    Http {
        /// The host.
        host: String,
        /// What is wrong.
        why: String,
    },
    /// The request itself cannot be sent.
    #[error("the request to {} cannot be sent: {why}", shown(.host))]
    Unsendable {
        /// The host.
        host: String,
        /// What is wrong with it.
        why: String,
    },
    /// It took too long.
    #[error("{} took too long {phase}", shown(.host))]
    TimedOut {
        /// The host.
        host: String,
        /// While what.
        phase: Phase,
    },
}

/// What was going on when the time was up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Looking the name up.
    Resolving,
    /// Opening the connection, TLS included.
    Connecting,
    /// Waiting for the answer's head.
    Answering,
    /// Reading the answer's body.
    Reading,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resolving => "to resolve",
            Self::Connecting => "to connect",
            Self::Answering => "to answer",
            Self::Reading => "to send its answer",
        })
    }
}

/// Why the guard cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetUpError {
    /// `outbound.ca_file` cannot be used.
    #[error(
        "outbound.ca_file {path:?} cannot be used: {why}; give a PEM file with at least one certificate"
    )]
    CaFile {
        /// The path.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// The TLS library refused its own defaults.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    /// The machine's own addresses cannot be read.
    #[error(
        "this machine's network addresses cannot be read, so that they could not be refused: {0}"
    )]
    OwnAddresses(std::io::Error),
}

/// What a peer or a library said, as far as it may be told on: certificates and status lines hold what their makers like.
pub(crate) fn heard(said: impl fmt::Display) -> String {
    kernel::strip_control(&said.to_string())
        .chars()
        .map(|character| if character == '\n' { ' ' } else { character })
        .take(HEARD)
        .collect()
}

fn shown(host: &str) -> Cow<'_, str> {
    match host.char_indices().nth(SHOWN) {
        None => Cow::Borrowed(host),
        Some((end, _)) => Cow::Owned(format!("{}…", &host[..end])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_said_is_short_and_has_no_control_characters() {
        let said = format!("\u{1b}]0;x\u{7}one\ntwo{}", "!".repeat(1_000));
        let told = heard(said);
        assert!(told.starts_with("]0;xone two!!!"), "{told}");
        assert_eq!(told.chars().count(), HEARD);
    }

    #[test]
    fn a_refusal_shows_as_one_sentence_however_long_the_host() {
        let refusal = Refusal::new(Rule::NameTooLong, "a".repeat(300), "it is too long");
        assert_eq!(
            refusal.to_string(),
            format!(
                "{}… is refused by rule name-too-long: it is too long",
                "a".repeat(80)
            )
        );
    }
}
