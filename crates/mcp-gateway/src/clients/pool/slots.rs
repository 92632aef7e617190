//! What the pool holds, and in which words it refuses.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::future::{BoxFuture, Shared};
use kernel::PlayerId;
use tokio::time::Instant;

use crate::{
    Endpoint, Failure, FailureCode,
    clients::{Era, InUse, Target, client::Client},
};

/// How often a client that turns out to be another's is looked for anew.
pub(super) const LOOKS: usize = 4;
/// Configurations of which it is remembered what they are like.
const MAX_LEARNED: usize = 65_536;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) fingerprint: [u8; 32],
    /// The Player whose state the server keeps; nobody where it keeps none.
    pub(super) principal: Option<PlayerId>,
}

pub(super) type Work = Shared<BoxFuture<'static, Result<Arc<Client>, Failure>>>;

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) server_id: String,
    pub(super) generation: u64,
    /// Tells this attempt from one that took its place.
    pub(super) attempt: u64,
    /// When it began.
    pub(super) since: Instant,
    /// How the attempt before it failed.
    pub(super) before: Option<Failure>,
    pub(super) state: State,
}

pub(super) enum State {
    /// Somebody connects, or asks a client whether it is still there.
    Working(Work),
    Ready(Arc<Client>),
    Failing {
        failure: Failure,
        until: Instant,
        times: u32,
    },
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Working(_) => "Working",
            Self::Ready(_) => "Ready",
            Self::Failing { .. } => "Failing",
        })
    }
}

/// What was learned of a configuration from connecting to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Learned {
    pub(super) stateful: bool,
    pub(super) era: Era,
}

#[derive(Debug, Default)]
pub(super) struct Slots {
    pub(super) by_key: HashMap<Key, Slot>,
    pub(super) learned: HashMap<[u8; 32], Learned>,
    pub(super) attempts: u64,
    pub(super) closed: bool,
}

/// What to do for somebody who wants a client.
pub(super) enum Step {
    Use(InUse),
    /// An attempt, when it began, and how the one before it failed.
    Wait(Work, Instant, Option<Failure>),
    Fail(Failure),
}

impl Slots {
    pub(super) fn learn(&mut self, fingerprint: [u8; 32], learned: Learned) {
        if self.learned.len() >= MAX_LEARNED {
            self.learned.clear();
        }
        self.learned.insert(fingerprint, learned);
    }

    pub(super) fn key(
        &self,
        target: &Target,
        fingerprint: [u8; 32],
        principal: Option<PlayerId>,
    ) -> Key {
        let stateful = match &target.endpoint {
            Endpoint::Stdio(_) | Endpoint::Sse(_) => true,
            // As long as it is not known, it is taken to keep a state.
            Endpoint::Http(_) => self.learned.get(&fingerprint).is_none_or(|l| l.stateful),
        };
        Key {
            fingerprint,
            principal: stateful.then_some(principal).flatten(),
        }
    }

    pub(super) fn count(&self, which: impl Fn(&Slot) -> bool) -> usize {
        self.by_key
            .values()
            .filter(|slot| !matches!(slot.state, State::Failing { .. }) && which(slot))
            .count()
    }

    /// Takes out the client that nobody has used for the longest time.
    pub(super) fn take_idlest(&mut self, which: impl Fn(&Slot) -> bool) -> Option<Arc<Client>> {
        let (key, _) = self
            .by_key
            .iter()
            .filter(|(_, slot)| which(slot))
            .filter_map(|(key, slot)| match &slot.state {
                State::Ready(client) if !client.is_in_use() => Some((*key, client.idle())),
                State::Ready(_) | State::Working(_) | State::Failing { .. } => None,
            })
            .max_by_key(|(_, idle)| *idle)?;
        match self.by_key.remove(&key)?.state {
            State::Ready(client) => Some(client),
            State::Working(_) | State::Failing { .. } => None,
        }
    }
}

pub(super) fn slow(target: &Target, limit: Duration) -> Failure {
    let next_step = match &target.endpoint {
        Endpoint::Stdio(_) => {
            "Run the command by hand: it may wait for something, or install itself."
        }
        Endpoint::Http(_) | Endpoint::Sse(_) => {
            "See whether the server runs and answers, and try again."
        }
    };
    Failure::new(
        FailureCode::TimedOut,
        format_args!(
            "{} did not finish connecting within {} seconds.",
            target.name,
            limit.as_secs()
        ),
        next_step,
    )
}

/// It takes longer than whoever asks can wait.
pub(super) fn still(target: &Target) -> Failure {
    Failure::new(
        FailureCode::TimedOut,
        format_args!(
            "{} did not answer so far, and is being connected still.",
            target.name
        ),
        "It is looked for again at the next turn; `agentsville mcp test` waits for longer.",
    )
}

pub(super) fn busy(target: &Target) -> Failure {
    Failure::new(
        FailureCode::Busy,
        format_args!("{} is being connected anew.", target.name),
        "Try again.",
    )
}

pub(super) fn full(target: &Target) -> Failure {
    Failure::new(
        FailureCode::Busy,
        format_args!(
            "{} cannot be connected: as many clients are in use as there may be.",
            target.name
        ),
        "Try again later, or raise mcp.max_clients or mcp.max_clients_per_server in the settings.",
    )
}
