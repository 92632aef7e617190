//! What of a server's list is offered to one Grant.

use std::{collections::HashSet, sync::Arc};

use crate::{
    Config, Error, Facts, Failure, FailureCode, Listed, Listing, Tool, Withheld, names::shown,
    peers::Server, service::Wanted,
};

/// Tools that are named as withheld.
const MAX_WITHHELD: usize = 64;

/// The Tools of a server that one Grant covers.
#[derive(Debug)]
pub(crate) struct Offer {
    listing: Arc<Listing>,
    /// Which of the list, in its order.
    pub(crate) tools: Vec<usize>,
    pub(crate) facts: Arc<Facts>,
    pub(crate) withheld: Vec<Withheld>,
    pub(crate) beyond_limit: usize,
    pub(crate) generation: u64,
    pub(crate) cached: bool,
}

/// Why a server offers nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unavailable {
    pub(crate) sentence: String,
    pub(crate) code: FailureCode,
}

impl Unavailable {
    /// It is not known how the server is reached.
    pub(crate) fn unresolved(error: &Error) -> Self {
        let (code, sentence) = match error {
            Error::NoServer(_) => (FailureCode::Disabled, super::REMOVED.to_owned()),
            Error::RegistryAway => (
                FailureCode::Unreachable,
                "The tool-registry cannot be reached.".to_owned(),
            ),
            Error::Setting(_)
            | Error::NotAllowed { .. }
            | Error::Argument { .. }
            | Error::TooManyTests(_)
            | Error::RegistryRefuses(_)
            | Error::BadRegistry(_) => {
                tracing::error!(%error, "a server was not resolved");
                let sentence = "The tool-registry's answer cannot be used; the log says why.";
                (FailureCode::ProtocolError, sentence.to_owned())
            }
        };
        Self { sentence, code }
    }
}

impl From<Failure> for Unavailable {
    fn from(failure: Failure) -> Self {
        Self {
            sentence: in_words(&failure),
            code: failure.code,
        }
    }
}

/// What failed and what to do, in one line.
pub(crate) fn in_words(failure: &Failure) -> String {
    let both = format!("{} {}", failure.sentence, failure.next_step);
    both.trim().to_owned()
}

impl Offer {
    /// Chooses from a list what a Grant covers: those that it names, and no more than the limit.
    pub(super) fn of(server: &Server, listed: &Listed, wanted: &Wanted, config: &Config) -> Self {
        let listing = &listed.listing;
        let chosen: HashSet<&str> = wanted.tools.iter().map(String::as_str).collect();
        let covers = |name: &str| chosen.is_empty() || chosen.contains(name);
        let mut tools: Vec<usize> = (0..listing.tools.len())
            .filter(|&at| covers(&listing.tools[at].definition.name))
            .collect();
        let limit = match wanted.limit {
            0 => config.tools_per_server,
            limit => limit,
        };
        let beyond_limit = tools.len().saturating_sub(limit);
        let offered: HashSet<&str> = tools
            .iter()
            .map(|&at| &*listing.tools[at].definition.name)
            .collect();
        let asked_for: HashSet<String> = wanted.tools.iter().map(|name| shown(name)).collect();
        let refused = listing
            .withheld
            .iter()
            .filter(|withheld| chosen.is_empty() || asked_for.contains(&withheld.name));
        let mut withheld: Vec<Withheld> = Vec::new();
        if !listing.cut.is_empty() {
            withheld.push(Withheld {
                name: "the rest of its list".to_owned(),
                sentence: listing.cut.clone(),
            });
        }
        withheld.extend(refused.cloned());
        let known: HashSet<String> = withheld.iter().map(|w| w.name.clone()).collect();
        let mut missing: Vec<&str> = chosen.difference(&offered).copied().collect();
        missing.sort_unstable();
        withheld.extend(
            missing
                .into_iter()
                .map(shown)
                .filter(|name| !known.contains(name))
                .map(|name| Withheld {
                    name,
                    sentence: format!("{} does not offer it now.", server.target.name),
                }),
        );
        withheld.truncate(MAX_WITHHELD);
        tools.truncate(limit);
        Self {
            listing: Arc::clone(listing),
            tools,
            facts: Arc::clone(&listed.facts),
            withheld,
            beyond_limit,
            generation: server.target.generation,
            cached: listed.cached,
        }
    }

    /// The Tools, by full name.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.tools.iter().map(|&at| &self.listing.tools[at])
    }
}
