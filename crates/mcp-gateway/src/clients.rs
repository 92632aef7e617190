//! Clients of MCP Servers, kept between calls.
//!
//! A client belongs to one configuration of one server and, where the server keeps a state, to one Player: what one Player's calls left
//! behind there, no other sees. One attempt to connect serves everybody who waits for it. A client that had a transport error is never used
//! again, one that was idle for long is asked first and closed in the end, and one whose server was changed is closed at once.
//!
//! **Invariants.** The pool is bounded for each server and in all. No lock is held across an await. Whoever waits may leave at any time:
//! what was begun goes on for the others, and a call that nobody waits for is cancelled at its server.

mod call;
mod client;
mod list;
mod pool;
mod request;
#[cfg(test)]
mod tests;

use std::{path::PathBuf, sync::Arc, time::Duration};

use kernel::{JsonText, PlayerId};
use outbound::Connector;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    CallEnd, Config, Endpoint, Failure, FailureCode, Handling, Listing, Reached,
    connect::Connecting,
};
use client::Client;
use pool::Pool;

/// How long turns wait for a server of which nothing is known yet: less than a turn's own deadline of three seconds.
const FIRST_WAIT: Duration = Duration::from_millis(2_500);
/// How long turns wait for a server that failed before, but not by silence.
const NEXT_WAIT: Duration = Duration::from_millis(200);

/// The era of the protocol that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// `initialize` first: versions up to 2025-11-25.
    Legacy,
    /// Without a handshake: 2026-07-28.
    Modern,
}

/// A server as it is configured now.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its id, or a word for one that is not saved.
    pub server_id: String,
    /// The first half of its Tools' names.
    pub slug: String,
    /// Its name, for sentences.
    pub name: String,
    /// Counts its changes.
    pub generation: u64,
    /// Counts the changes of its credentials.
    pub credentials_generation: u64,
    /// The era in which it was last spoken to, if that is known.
    pub era: Option<Era>,
    /// How it is reached.
    pub endpoint: Endpoint,
}

impl Target {
    /// Names the configuration: an edit of whatever a connection is made from makes another one.
    fn fingerprint(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let mut part = |text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        };
        part(&self.server_id);
        part(&self.generation.to_string());
        part(&self.credentials_generation.to_string());
        match &self.endpoint {
            Endpoint::Stdio(stdio) => {
                part("stdio");
                part(&stdio.command);
                part(&stdio.working_directory);
                part(&stdio.environment.sealed_text());
                stdio.arguments.iter().for_each(|argument| part(argument));
            }
            Endpoint::Http(remote) | Endpoint::Sse(remote) => {
                let sse = matches!(self.endpoint, Endpoint::Sse(_));
                part(if sse { "sse" } else { "http" });
                part(&remote.shown_url);
                part(&remote.sealed_url.sealed_text());
                part(&remote.headers.sealed_text());
            }
        }
        hash.finalize().into()
    }
}

/// What a server says of itself. The texts are untrusted, bounded, and without control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The era that is spoken.
    pub era: Era,
    /// The version that is spoken: `2026-07-28`.
    pub protocol_version: String,
    /// Its own name and version.
    pub server_info: String,
    /// What it tells models.
    pub instructions: String,
}

/// A server's Tools, and what it says of itself.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The Tools.
    pub listing: Arc<Listing>,
    /// What it says of itself.
    pub facts: Arc<Facts>,
    /// Whether the list was there already.
    pub cached: bool,
}

/// A call.
#[derive(Debug, Clone)]
pub struct Call {
    /// The Tool's name at the server.
    pub tool: String,
    /// Its arguments: a JSON object.
    pub arguments: JsonText,
    /// Names the call.
    pub id: String,
    /// When it ends at the latest.
    pub deadline: Instant,
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Done so far.
    pub done: f64,
    /// Of how much, if that is known.
    pub total: Option<f64>,
    /// In the server's words. Untrusted.
    pub message: String,
}

/// How a test went.
#[derive(Debug, Clone)]
pub struct Tested {
    /// How long connecting and listing took.
    pub latency: Duration,
    /// The Tools, or why there are none.
    pub outcome: Result<Listed, Failure>,
}

/// What clients work with.
#[derive(Debug, Clone)]
pub struct Deps {
    /// The way out, guarded.
    pub connector: Connector,
    /// The program that starts commands: one whose `main` begins with [`reaper::child_main`].
    pub program: PathBuf,
    /// Where tasks run.
    pub tracker: TaskTracker,
    /// When every client is closed.
    pub ended: CancellationToken,
    /// How what servers ask for is answered.
    pub handling: Handling,
}

/// The clients of this process. Cheap to clone; clones share them.
#[derive(Debug, Clone)]
pub struct Clients {
    config: Arc<Config>,
    pool: Arc<Pool>,
}

impl Clients {
    /// No clients yet. A task on the tracker closes those that are idle, and all of them at the end.
    pub fn new(config: Arc<Config>, deps: Deps) -> Self {
        let connecting = Arc::new(Connecting {
            connector: deps.connector,
            config: Arc::clone(&config),
            program: deps.program,
            tracker: deps.tracker.clone(),
            handling: deps.handling,
        });
        let pool = Arc::new(Pool::new(
            Arc::clone(&config),
            connecting,
            deps.tracker,
            deps.ended,
        ));
        pool.attend();
        Self { config, pool }
    }

    /// A server's Tools: from the cache while that is fresh, else asked for. The caller bounds the wait.
    ///
    /// # Errors
    /// The server cannot be reached, or has no list.
    pub async fn tools(
        &self,
        target: &Arc<Target>,
        principal: Option<PlayerId>,
    ) -> Result<Listed, Failure> {
        self.listed(target, principal, Haste::None).await
    }

    /// The same for a turn, which waits once for a server that does not answer, and not each time: while it still does not, that is said at
    /// once, and it is asked again beside.
    ///
    /// # Errors
    /// As [`Self::tools`].
    pub async fn tools_for_turn(
        &self,
        target: &Arc<Target>,
        principal: Option<PlayerId>,
    ) -> Result<Listed, Failure> {
        self.listed(target, principal, Haste::Turn).await
    }

    async fn listed(
        &self,
        target: &Arc<Target>,
        principal: Option<PlayerId>,
        haste: Haste,
    ) -> Result<Listed, Failure> {
        let client = self.pool.client(target, principal, haste).await?;
        match client.shared().listed(&target.slug, haste).await {
            Err(failure) if client.is_broken() => {
                // The client was there before, and its server is not any more: a new one may find it.
                if !client.was_used() {
                    return Err(failure);
                }
                drop(client);
                let client = self.pool.client(target, principal, haste).await?;
                client.shared().listed(&target.slug, haste).await
            }
            listed => listed,
        }
    }

    /// Calls a Tool. Dropping the future cancels the call at the server. A call that surely never reached it is made once more.
    pub async fn call(
        &self,
        target: &Arc<Target>,
        principal: Option<PlayerId>,
        call: Call,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> CallEnd {
        let mut again = true;
        loop {
            let client = self.pool.client(target, principal, Haste::None);
            let client = match tokio::time::timeout_at(call.deadline, client).await {
                Ok(Ok(client)) => client,
                Ok(Err(failure)) => return CallEnd::Failed(failure),
                Err(_elapsed) => return CallEnd::Failed(call::late(&target.name)),
            };
            let end = call::run(&client, &self.config, &target.name, &call, progress).await;
            let is_worth_another = matches!(
                &end,
                CallEnd::Failed(failure) if failure.reached == Reached::Never && client.is_broken()
            );
            if !(again && is_worth_another) {
                return end;
            }
            again = false;
        }
    }

    /// Connects and lists with a client of its own, whatever the pool has. One that works is kept for this Player's turns, so that the first
    /// of them need not wait for a command to start; without a Player it is closed.
    pub async fn test(&self, target: &Arc<Target>, player: Option<PlayerId>) -> Tested {
        let begun = Instant::now();
        let outcome = self.pool.try_out(target, player).await;
        Tested {
            latency: begun.elapsed(),
            outcome,
        }
    }

    /// Closes the clients of a server's other generations; of all of them when it is gone.
    pub fn changed(&self, server_id: &str, generation: Option<u64>) {
        self.pool.changed(server_id, generation);
    }

    /// How many clients there are.
    pub fn count(&self) -> usize {
        self.pool.count()
    }

    /// Closes every client, and waits until they are.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// How long somebody waits for what does not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Haste {
    /// As long as it takes.
    None,
    /// No longer than a turn can: what failed by silence before is believed at once, anything else for a moment.
    Turn,
}

impl Haste {
    /// How long to wait for an attempt that began then, when the one before it failed so; nothing for as long as it takes.
    fn patience(self, since: Instant, before: Option<&Failure>) -> Option<Duration> {
        match (self, before) {
            (Self::None, _) => None,
            (Self::Turn, None) => Some(FIRST_WAIT.saturating_sub(since.elapsed())),
            (Self::Turn, Some(before)) if before.code == FailureCode::TimedOut => {
                Some(Duration::ZERO)
            }
            (Self::Turn, Some(_)) => Some(NEXT_WAIT.saturating_sub(since.elapsed())),
        }
    }
}

/// A client in use. It is not closed for idleness while this lives.
#[derive(Debug)]
pub(crate) struct InUse(Arc<Client>);

impl InUse {
    fn new(client: Arc<Client>) -> Self {
        client.begin_use();
        Self(client)
    }

    fn shared(&self) -> &Arc<Client> {
        &self.0
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.end_use();
    }
}

impl std::ops::Deref for InUse {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.0
    }
}
