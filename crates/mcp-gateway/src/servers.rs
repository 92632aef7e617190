//! What is known of the servers, so that no call waits for the registry.
//!
//! One cache for all Players: it is filled in the name of whoever asked first, or of the owner once that is known, and whether somebody may
//! use a server is decided here for each of them. The registry's announcements make it ask anew at once; age and lost
//! announcements do in time.
//!
//! **Invariants.** Nothing older than an announcement is used. One question at a time for each server; bounded in servers. What is hidden from
//! one Player says nothing about it to the others.

mod entries;
#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use coordination::{Signal, SignalStream};
use futures::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, Shared},
    stream,
};
use kernel::{Act, Caller, McpServerId, PlayerId, ServiceName, decide};
use runtime::Lifecycle;
use serde::Deserialize;
use tokio::time::Instant;

use crate::{
    Error,
    clients::{Clients, Era, Target},
    peers::{Registry, Server},
};
use entries::{Entries, Entry, Known, Working};

/// The topic of the registry's announcements.
pub(crate) const TOPIC: &str = "mcp-servers";
/// From this age on, what is known is used and asked for anew at the same time: an announcement may have been lost.
const AGING: Duration = Duration::from_secs(15);
/// From this age on, the answer is waited for.
const OLD: Duration = Duration::from_mins(1);
/// For so long calls go on with what is known while the registry is away.
const REGISTRY_AWAY: Duration = Duration::from_mins(10);
/// How long it is remembered that there is no such server for somebody.
const HIDDEN: Duration = Duration::from_secs(1);
/// For how many Players that is remembered for one server.
const MAX_HIDDEN: usize = 64;
/// How often one request looks whether what it wants is there, when it changes all the time.
const LOOKS: usize = 4;
/// How long an announced change may take to be read before the old clients are closed without knowing what it was.
const CHANGE: Duration = Duration::from_secs(1);
/// Servers that are asked for at the same time after lost announcements.
const AT_ONCE: usize = 4;

type Answer = Result<Arc<Server>, Error>;
type Work = Shared<BoxFuture<'static, Answer>>;

/// What is known of the servers. Cheap to clone; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Servers(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    clients: Clients,
    lifecycle: Lifecycle,
    entries: Mutex<Entries>,
    /// Whether everything is being asked for anew.
    checking: AtomicBool,
}

enum Step {
    Known(Arc<Server>),
    Hidden,
    Wait(Option<PlayerId>, Work),
}

/// What the registry announces after a change.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Announcement {
    server_id: McpServerId,
    /// The new generation; nothing for a server that is gone.
    generation: Option<u64>,
}

impl Servers {
    pub(crate) fn new(registry: Registry, clients: Clients, lifecycle: Lifecycle) -> Self {
        Self(Arc::new(Inner {
            registry,
            clients,
            lifecycle,
            entries: Mutex::default(),
            checking: AtomicBool::new(false),
        }))
    }

    /// A server that this Player may use, of this generation or a newer one; asked for once when what is known is older.
    ///
    /// # Errors
    /// [`Error::NoServer`] when there is none, or the Player may not use it; [`Error::RegistryAway`].
    pub(crate) async fn get(
        &self,
        id: McpServerId,
        player: Option<PlayerId>,
        generation: u64,
    ) -> Answer {
        let since = Instant::now();
        for _look in 0..LOOKS {
            let (asker, work) = match self.step(id, player, generation, since) {
                Step::Known(server) => return admit(server, player),
                Step::Hidden => return Err(no_server(id)),
                Step::Wait(asker, work) => (asker, work),
            };
            match work.await {
                // Whether it is new enough is seen on the next look.
                Ok(_) => {}
                Err(Error::NoServer(_)) if asker != player => {}
                Err(error) => return Err(error),
            }
        }
        // Others were in the way each time: it changes all the time, or is hidden from them.
        let answer = self.0.registry.resolve(&id.to_string(), player).await;
        admit(Arc::new(answer?), player)
    }

    /// What was known last, for a call while the registry is away. Nothing that was announced to have changed.
    pub(crate) fn last_known(
        &self,
        id: McpServerId,
        player: Option<PlayerId>,
        generation: u64,
    ) -> Option<Arc<Server>> {
        let entries = self.lock();
        let entry = entries.by_id.get(&id)?;
        let known = entry.known.as_ref()?;
        let usable = entry.is_as_announced(known)
            && known.server.target.generation >= generation
            && known.at.elapsed() < REGISTRY_AWAY;
        let server = usable.then(|| Arc::clone(&known.server))?;
        drop(entries);
        admit(server, player).ok()
    }

    /// Keeps the era in which a server was spoken to, here and in the registry.
    pub(crate) fn spoken(&self, server: &Server, era: Era) {
        if server.target.era == Some(era) {
            return;
        }
        {
            let mut entries = self.lock();
            let Some(known) = entries
                .by_id
                .get_mut(&server.id)
                .and_then(|entry| entry.known.as_mut())
                .filter(|known| known.server.target.generation == server.target.generation)
            else {
                return;
            };
            if known.server.target.era == Some(era) {
                return;
            }
            known.server = Arc::new(Server {
                target: Arc::new(Target {
                    era: Some(era),
                    ..(*known.server.target).clone()
                }),
                ..(*known.server).clone()
            });
        }
        let registry = self.0.registry.clone();
        let (id, generation, owner) = (server.id, server.target.generation, server.facts.owner);
        self.0.lifecycle.spawn_request("keep an era", async move {
            registry.save_era(id, generation, Some(owner), era).await;
        });
    }

    /// Closes the clients of all servers that are known; whoever calls again opens new ones.
    pub(crate) fn let_go(&self) {
        let ids: Vec<McpServerId> = self.lock().by_id.keys().copied().collect();
        for id in ids {
            self.0.clients.changed(&id.to_string(), Some(u64::MAX));
        }
    }

    /// Takes announcements as long as there are any.
    pub(crate) async fn listen(self, mut signals: SignalStream) {
        while let Some(signal) = signals.next().await {
            match signal {
                Signal::Message(payload) => match serde_json::from_slice(&payload) {
                    Ok(announcement) => self.announced(&announcement),
                    Err(error) => {
                        tracing::warn!(%error, "an announcement of the registry cannot be read");
                        self.doubt();
                    }
                },
                Signal::Missed => self.doubt(),
            }
        }
    }

    fn announced(&self, announcement: &Announcement) {
        let id = announcement.server_id;
        let generation = announcement.generation;
        let work = {
            let mut entries = self.lock();
            let entries = &mut *entries;
            entries.by_id.get_mut(&id).and_then(|entry| {
                entry.hidden.clear();
                let least = entry.announced.map_or(0, |(least, _)| least);
                let named = generation.unwrap_or(u64::MAX);
                entry.announced = Some((least.max(named), Instant::now()));
                if generation.is_none() {
                    entry.known = None;
                }
                let known = entry.known.as_ref()?;
                let is_news = known.server.target.generation < named;
                let owner = Some(known.server.facts.owner);
                is_news.then(|| self.begin(&mut entries.attempts, entry, id, owner))
            })
        };
        let clients = self.0.clients.clone();
        let Some(work) = work else {
            clients.changed(&id.to_string(), generation);
            return;
        };
        // What changed decides how the old clients end. They do so in any case, and soon.
        self.0
            .lifecycle
            .spawn_request("close clients of a changed server", async move {
                let known = tokio::time::timeout(CHANGE, work).await;
                if !matches!(known, Ok(Ok(_))) {
                    clients.changed(&id.to_string(), generation);
                }
            });
    }

    /// Announcements may have been lost: nothing that is known is used before it was asked for anew, which begins at once.
    fn doubt(&self) {
        let now = Instant::now();
        let ids: Vec<McpServerId> = {
            let mut entries = self.lock();
            for entry in entries.by_id.values_mut() {
                entry.doubted = Some(now);
                entry.hidden.clear();
            }
            let known = entries.by_id.iter();
            known
                .filter(|(_, entry)| entry.known.is_some())
                .map(|(id, _)| *id)
                .collect()
        };
        if self.0.checking.swap(true, Ordering::AcqRel) {
            return;
        }
        let servers = self.clone();
        self.0
            .lifecycle
            .spawn_request("ask for servers anew", async move {
                stream::iter(ids)
                    .for_each_concurrent(AT_ONCE, |id| {
                        let servers = servers.clone();
                        async move {
                            // What fails is asked for when it is wanted.
                            drop(servers.get(id, None, 0).await);
                        }
                    })
                    .await;
                servers.0.checking.store(false, Ordering::Release);
            });
    }

    fn step(
        &self,
        id: McpServerId,
        player: Option<PlayerId>,
        generation: u64,
        since: Instant,
    ) -> Step {
        let now = Instant::now();
        let mut entries = self.lock();
        let entries = &mut *entries;
        entries.make_room(id);
        let entry = entries.by_id.entry(id).or_insert_with(|| Entry::new(now));
        entry.used = now;
        entry.hidden.retain(|(_, until)| now < *until);
        if entry.hidden.iter().any(|(hidden, _)| *hidden == player) {
            return Step::Hidden;
        }
        if let Some(known) = &entry.known
            && entry.is_current(known)
            && now < known.at + OLD
            && (known.server.target.generation >= generation || known.at >= since)
        {
            let server = Arc::clone(&known.server);
            if now >= known.at + AGING && entry.running().is_none() {
                let owner = Some(server.facts.owner);
                drop(self.begin(&mut entries.attempts, entry, id, owner));
            }
            return Step::Known(server);
        }
        if let Some(working) = entry.running() {
            return Step::Wait(working.asker, working.work.clone());
        }
        // The owner's answer tells what is gone from what is hidden from somebody.
        let owner = entry.known.as_ref().map(|known| known.server.facts.owner);
        let asker = owner.or(player);
        let work = self.begin(&mut entries.attempts, entry, id, asker);
        Step::Wait(asker, work)
    }

    fn begin(
        &self,
        attempts: &mut u64,
        entry: &mut Entry,
        id: McpServerId,
        asker: Option<PlayerId>,
    ) -> Work {
        *attempts += 1;
        let attempt = *attempts;
        let servers = self.clone();
        let work = async move {
            let at = Instant::now();
            let answer = servers.0.registry.resolve(&id.to_string(), asker).await;
            let answer = answer.map(Arc::new);
            servers.settle(id, attempt, asker, at, &answer);
            answer
        }
        .boxed()
        .shared();
        entry.work = Some(Working {
            asker,
            attempt,
            work: work.clone(),
        });
        // It goes on when whoever asked has left.
        self.0
            .lifecycle
            .spawn_request("resolve an MCP Server", work.clone().map(drop));
        work
    }

    fn settle(
        &self,
        id: McpServerId,
        attempt: u64,
        asker: Option<PlayerId>,
        at: Instant,
        answer: &Answer,
    ) {
        let mut entries = self.lock();
        let Some(entry) = entries.by_id.get_mut(&id) else {
            return;
        };
        if entry.work.as_ref().is_some_and(|w| w.attempt == attempt) {
            entry.work = None;
        }
        let before = entry.known.as_ref();
        let closes = match answer {
            Ok(server) => {
                if before.is_some_and(|before| before.at > at) {
                    return;
                }
                let generation = server.target.generation;
                let is_news =
                    before.is_none_or(|before| before.server.target.generation != generation);
                entry.known = Some(Known {
                    server: Arc::clone(server),
                    at,
                });
                // A call that runs at a server which was disabled ends like one at a server which is gone.
                is_news.then_some(server.enabled.then_some(generation))
            }
            Err(Error::NoServer(_)) => {
                let is_gone =
                    before.is_some_and(|b| asker == Some(b.server.facts.owner) && b.at <= at);
                if is_gone {
                    entry.known = None;
                }
                if entry.hidden.len() < MAX_HIDDEN {
                    entry.hidden.push((asker, Instant::now() + HIDDEN));
                }
                is_gone.then_some(None)
            }
            Err(
                Error::Setting(_)
                | Error::NotAllowed { .. }
                | Error::Argument { .. }
                | Error::TooManyTests(_)
                | Error::RegistryAway
                | Error::RegistryRefuses(_)
                | Error::BadRegistry(_),
            ) => None,
        };
        drop(entries);
        if let Some(generation) = closes {
            self.0.clients.changed(&id.to_string(), generation);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0
            .entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn admit(server: Arc<Server>, player: Option<PlayerId>) -> Answer {
    let caller = Caller::Service {
        name: ServiceName::McpGateway,
        player,
    };
    if decide(&caller, Act::UseMcpServer(server.facts)).allows() {
        Ok(server)
    } else {
        Err(no_server(server.id))
    }
}

fn no_server(id: McpServerId) -> Error {
    Error::NoServer(id.to_string())
}
