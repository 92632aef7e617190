//! One connected client, its list of Tools, and its end.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use kernel::PlayerId;
use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit, watch},
    time::Instant,
};
use tokio_util::task::TaskTracker;

use super::{Facts, Haste, Listed, list};
use crate::{Config, Failure, FailureCode, Listing, connect::Connection};

/// How long it is remembered that a list did not come.
const REMEMBERED: Duration = Duration::from_mins(1);

type ListWork = Shared<BoxFuture<'static, Result<Arc<Listing>, Failure>>>;

/// Why a client is closed while calls run on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retired {
    /// Its server is gone.
    Removed,
    /// Its server is configured otherwise now.
    Changed,
}

/// One connected client.
pub(crate) struct Client {
    config: Arc<Config>,
    connection: Connection,
    facts: Arc<Facts>,
    /// The Player whose state its server keeps.
    owner: Option<PlayerId>,
    tracker: TaskTracker,
    calls: Semaphore,
    broken: AtomicBool,
    in_use: AtomicUsize,
    let_go: Notify,
    uses: AtomicUsize,
    last_used: Mutex<Instant>,
    list: Mutex<ListCache>,
    retired: watch::Sender<Option<Retired>>,
}

/// What is known of the Tools.
#[derive(Default)]
struct ListCache {
    known: Option<Known>,
    /// The question that is being asked, and since when.
    asked: Option<(ListWork, Instant)>,
    /// How the last question failed, and when.
    failed: Option<(Failure, Instant)>,
}

struct Known {
    listing: Arc<Listing>,
    until: Instant,
    /// Changes that the server had told when it was asked.
    changes: u64,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("facts", &self.facts)
            .field("broken", &self.broken)
            .field("in_use", &self.in_use)
            .finish_non_exhaustive()
    }
}

impl Client {
    pub(super) fn new(
        config: Arc<Config>,
        connection: Connection,
        owner: Option<PlayerId>,
        tracker: TaskTracker,
    ) -> Self {
        Self {
            calls: Semaphore::new(config.calls_per_client),
            facts: connection.facts(),
            config,
            connection,
            owner,
            tracker,
            broken: AtomicBool::new(false),
            in_use: AtomicUsize::new(0),
            let_go: Notify::new(),
            uses: AtomicUsize::new(0),
            last_used: Mutex::new(Instant::now()),
            list: Mutex::default(),
            retired: watch::Sender::new(None),
        }
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn facts(&self) -> &Arc<Facts> {
        &self.facts
    }

    /// Runs something that outlives whoever began it.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(task);
    }

    /// A place among the calls that may run at the same time.
    pub(super) async fn slot(&self) -> Option<SemaphorePermit<'_>> {
        self.calls.acquire().await.ok()
    }

    /// Never hands it out again.
    pub(super) fn mark_broken(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Whether it must not be handed out again.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed) || self.connection.is_broken()
    }

    /// Whether it served anybody before whoever asks.
    pub(super) fn was_used(&self) -> bool {
        self.uses.load(Ordering::Relaxed) > 1
    }

    pub(super) fn begin_use(&self) {
        self.in_use.fetch_add(1, Ordering::AcqRel);
        self.uses.fetch_add(1, Ordering::Relaxed);
        self.touch();
    }

    pub(super) fn end_use(&self) {
        self.touch();
        if self.in_use.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.let_go.notify_waiters();
        }
    }

    /// Waits until nobody uses it.
    pub(super) async fn unused(&self) {
        loop {
            let let_go = self.let_go.notified();
            if !self.is_in_use() {
                return;
            }
            let_go.await;
        }
    }

    /// The Player whose state its server keeps; nobody if it keeps none.
    pub(super) const fn owner(&self) -> Option<PlayerId> {
        self.owner
    }

    /// Whether it may serve this Player.
    pub(super) fn serves(&self, principal: Option<PlayerId>) -> bool {
        self.owner.is_none_or(|owner| Some(owner) == principal)
    }

    pub(super) fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::Acquire) > 0
    }

    /// How long nobody has used it.
    pub(super) fn idle(&self) -> Duration {
        if self.is_in_use() {
            return Duration::ZERO;
        }
        self.last_used
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .elapsed()
    }

    fn touch(&self) {
        *self
            .last_used
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Ends what runs on it.
    pub(super) fn retire(&self, why: Retired) {
        self.mark_broken();
        self.retired.send_replace(Some(why));
    }

    /// Waits until it is retired.
    pub(super) async fn retired(&self) -> Retired {
        let mut retired = self.retired.subscribe();
        let why = retired.wait_for(Option::is_some).await;
        why.ok().and_then(|why| *why).unwrap_or(Retired::Removed)
    }

    /// Asks whether the server is still there.
    pub(super) async fn probe(&self) -> bool {
        let patience = self.config.connect();
        let alive = tokio::time::timeout(patience, self.connection.ping()).await;
        let alive = matches!(alive, Ok(true));
        if alive {
            self.touch();
        } else {
            self.mark_broken();
        }
        alive
    }

    /// The Tools: those that are known while they are fresh and the server told of no change, else asked for, once for everybody who waits.
    pub(super) async fn listed(
        self: &Arc<Self>,
        slug: &str,
        haste: Haste,
    ) -> Result<Listed, Failure> {
        let changes = self.connection.list_changes();
        let (asked, since, before) = {
            let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = &list.known
                && known.changes == changes
                && Instant::now() < known.until
            {
                return Ok(self.with(Arc::clone(&known.listing), true));
            }
            let before = list.failed.as_ref();
            let before = before.filter(|(_, at)| at.elapsed() < REMEMBERED);
            let before = before.map(|(failure, _)| failure.clone());
            let running = list.asked.as_ref();
            if let Some((asked, since)) = running.filter(|(asked, _)| asked.peek().is_none()) {
                (asked.clone(), *since, before)
            } else {
                let asked = self.ask(slug.to_owned(), changes);
                let since = Instant::now();
                list.asked = Some((asked.clone(), since));
                self.tracker.spawn(asked.clone().map(drop));
                (asked, since, before)
            }
        };
        let listing = match haste.patience(since, before.as_ref()) {
            None => asked.await,
            Some(patience) => tokio::time::timeout(patience, asked)
                .await
                .unwrap_or_else(|_elapsed| Err(before.unwrap_or_else(unlisted))),
        };
        Ok(self.with(listing?, false))
    }

    fn ask(self: &Arc<Self>, slug: String, changes: u64) -> ListWork {
        let client = Arc::clone(self);
        async move {
            let fetched = tokio::select! {
                fetched = list::fetch(&client, &client.config, &slug) => fetched,
                _ = client.retired() => return Err(gone()),
            };
            let mut list = client.list.lock().unwrap_or_else(PoisonError::into_inner);
            let fetched = match fetched {
                Ok(fetched) => fetched,
                Err(failure) => {
                    list.failed = Some((failure.clone(), Instant::now()));
                    return Err(failure);
                }
            };
            list.failed = None;
            let listing = Arc::new(fetched.listing);
            list.known = Some(Known {
                listing: Arc::clone(&listing),
                until: Instant::now() + fetched.fresh,
                changes,
            });
            // It holds this client, and would keep it for ever.
            list.asked = None;
            drop(list);
            Ok(listing)
        }
        .boxed()
        .shared()
    }

    fn with(&self, listing: Arc<Listing>, cached: bool) -> Listed {
        Listed {
            listing,
            facts: Arc::clone(&self.facts),
            cached,
        }
    }

    /// Closes the connection, within the transport's own bounds.
    pub(super) async fn close(&self) {
        self.mark_broken();
        self.connection.close().await;
    }
}

/// It takes longer than whoever asks can wait.
fn unlisted() -> Failure {
    Failure::new(
        FailureCode::TimedOut,
        "The server did not answer tools/list so far, and is being asked still.",
        "It is looked for again at the next turn.",
    )
    .after_sending()
}

fn gone() -> Failure {
    Failure::new(
        FailureCode::Disabled,
        "The server was changed or removed while it was asked for its Tools.",
        "Try again.",
    )
}
