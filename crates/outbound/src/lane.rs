//! Connections that one user keeps for a moment, for the next request of its own.
//!
//! **Architecture invariant:** every request is judged anew, its name resolved again, before an idle connection is looked at; one
//! is used only for the same host, port and security, and only if its peer is among the addresses that were approved just now.
//! Nobody else ever gets it: a lane belongs to one chain of redirects, or to one client of one MCP Server.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use http::{Request, Response};
use tokio::time::{Instant, sleep_until};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{
    Approved, Body, Connection, Connector, Consumer, Error, RequestBody, Target, body::Sending,
    connection::Unanswered,
};

/// The longest that a connection is kept, whatever the bounds say: so long ago its address was judged last.
const MAX_IDLE_TIME: Duration = Duration::from_secs(30);
/// The most connections that are kept, whatever the bounds say.
const MAX_IDLE_CONNECTIONS: usize = 16;

/// What a [`Lane`] keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneBounds {
    /// How long a connection waits for the next request; at most 30 seconds.
    pub idle_time: Duration,
    /// How many wait at the same time; at most 16. The one that waited longest goes first.
    pub idle_connections: usize,
}

impl Default for LaneBounds {
    /// Four connections, five seconds: the next hop of a redirect, the next call of a Tool.
    fn default() -> Self {
        Self {
            idle_time: Duration::from_secs(5),
            idle_connections: 4,
        }
    }
}

/// Requests of one user, which may go over a connection that an earlier one of them left. What it keeps is closed when it is
/// dropped; bodies that are still being read stay whole.
#[derive(Debug)]
pub struct Lane {
    connector: Connector,
    consumer: Consumer,
    shelf: Arc<Shelf>,
}

impl Lane {
    pub(crate) fn new(connector: Connector, consumer: Consumer, bounds: LaneBounds) -> Self {
        let closed = CancellationToken::new();
        let shelf = Arc::new(Shelf {
            bounds: LaneBounds {
                idle_time: bounds.idle_time.min(MAX_IDLE_TIME),
                idle_connections: bounds.idle_connections.min(MAX_IDLE_CONNECTIONS),
            },
            content: Mutex::new(Content::default()),
            tasks: connector.tasks().clone(),
            closed: closed.clone(),
            _open: closed.drop_guard(),
        });
        Self {
            connector,
            consumer,
            shelf,
        }
    }

    /// One request; `deadline` covers all until the answer's head. A kept connection turns out to be dead only when it is used.
    /// The request then goes over a fresh one, after a judgement of its own, if nothing of it was sent, or if it changes nothing
    /// (RFC 9110 section 9.2.1) and the server said nothing to it.
    pub async fn request<B: Into<RequestBody>>(
        &self,
        target: &Target,
        request: Request<B>,
        deadline: Instant,
    ) -> Result<Response<Body>, Error> {
        self.request_within(target, request, deadline, deadline)
            .await
    }

    /// The same with an earlier deadline for what comes before the request is sent: a long upload must not give a host that cannot
    /// be reached as long.
    pub async fn request_within<B: Into<RequestBody>>(
        &self,
        target: &Target,
        request: Request<B>,
        connected_by: Instant,
        deadline: Instant,
    ) -> Result<Response<Body>, Error> {
        let time_to_connect = connected_by.saturating_duration_since(Instant::now());
        let approved = self
            .connector
            .approve_until(target, self.consumer, connected_by)
            .await?;
        let mut request = request.map(Into::into);
        let connection = match self.shelf.take(&approved).await {
            None => {
                self.connector
                    .connect_approved(&approved, connected_by)
                    .await?
            }
            Some(kept) => {
                let again = again(&request);
                let unanswered = match kept.exchange(request, self.keeper(), deadline).await {
                    Ok(response) => return Ok(response),
                    Err(unanswered) => unanswered,
                };
                request = match (unanswered, again) {
                    (
                        Unanswered {
                            unsent: Some(unsent),
                            ..
                        },
                        _,
                    ) => *unsent,
                    (
                        Unanswered {
                            heard_nothing: true,
                            ..
                        },
                        Some(again),
                    ) => again,
                    (Unanswered { error, .. }, _) => return Err(error),
                };
                let connected_by = deadline.min(Instant::now() + time_to_connect);
                self.connector
                    .connect(target, self.consumer, connected_by)
                    .await?
            }
        };
        connection
            .exchange(request, self.keeper(), deadline)
            .await
            .map_err(|unanswered| unanswered.error)
    }

    /// Closes what is kept.
    pub fn close_idle(&self) {
        self.shelf.content().idle.clear();
    }

    /// How many connections wait for a request.
    pub fn idle_connections(&self) -> usize {
        self.shelf.content().idle.len()
    }

    fn keeper(&self) -> Option<Keeper> {
        (self.shelf.bounds.idle_connections > 0).then(|| Keeper {
            shelf: Arc::downgrade(&self.shelf),
            sending: None,
        })
    }
}

/// The request once more, if it may be sent twice and can be.
fn again(request: &Request<RequestBody>) -> Option<Request<RequestBody>> {
    if !request.method().is_safe() {
        return None;
    }
    let mut again = Request::new(request.body().again()?);
    request.method().clone_into(again.method_mut());
    request.uri().clone_into(again.uri_mut());
    request.headers().clone_into(again.headers_mut());
    Some(again)
}

/// Takes a connection back when its answer has been read.
#[derive(Debug)]
pub(crate) struct Keeper {
    shelf: Weak<Shelf>,
    /// How the request that was answered is being sent.
    sending: Option<Arc<Sending>>,
}

impl Keeper {
    /// A keeper that takes the connection only if all of this was sent.
    pub(crate) fn after(mut self, sending: Arc<Sending>) -> Self {
        self.sending = Some(sending);
        self
    }

    pub(crate) fn keep(self, connection: Connection) {
        let is_sent = self.sending.is_some_and(|sending| sending.is_done());
        if is_sent && let Some(shelf) = self.shelf.upgrade() {
            shelf.put(connection);
        }
    }
}

#[derive(Debug)]
struct Shelf {
    bounds: LaneBounds,
    content: Mutex<Content>,
    tasks: TaskTracker,
    closed: CancellationToken,
    _open: DropGuard,
}

#[derive(Debug, Default)]
struct Content {
    /// The one that waited longest first.
    idle: Vec<Idle>,
    is_swept: bool,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    until: Instant,
}

impl Shelf {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An idle connection that this judgement approves, and that its server has not closed.
    async fn take(&self, approved: &Approved) -> Option<Connection> {
        loop {
            let mut connection = self.take_one(approved)?;
            if connection.is_ready().await {
                return Some(connection);
            }
        }
    }

    fn take_one(&self, approved: &Approved) -> Option<Connection> {
        let now = Instant::now();
        let mut content = self.content();
        content.idle.retain(|idle| now < idle.until);
        let place = content.idle.iter().rposition(|idle| {
            let peer = idle.connection.peer().ip().to_canonical();
            *idle.connection.target() == approved.target
                && approved
                    .addresses
                    .iter()
                    .map(IpAddr::to_canonical)
                    .any(|address| address == peer)
        })?;
        Some(content.idle.remove(place).connection)
    }

    fn put(self: &Arc<Self>, connection: Connection) {
        let until = Instant::now() + self.bounds.idle_time;
        let mut content = self.content();
        if content.idle.len() >= self.bounds.idle_connections {
            content.idle.remove(0);
        }
        content.idle.push(Idle { connection, until });
        if !content.is_swept {
            content.is_swept = true;
            self.tasks.spawn(
                self.closed
                    .clone()
                    .run_until_cancelled_owned(sweep(Arc::downgrade(self), until)),
            );
        }
    }

    /// Closes what waited too long. When to look again; None when nothing is left.
    fn sweep(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut content = self.content();
        content.idle.retain(|idle| now < idle.until);
        let next = content.idle.iter().map(|idle| idle.until).min();
        content.is_swept = next.is_some();
        next
    }
}

async fn sweep(shelf: Weak<Shelf>, first: Instant) {
    let mut next = Some(first);
    while let Some(time) = next {
        sleep_until(time).await;
        next = shelf.upgrade().and_then(|shelf| shelf.sweep());
    }
}
