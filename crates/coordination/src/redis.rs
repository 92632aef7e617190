//! A Village in several processes: streams and publish/subscribe of one Redis server (6.2 or later).
//!
//! Writes go through a pool. Reads have a connection of their own: one that blocks on all watched streams, one for signals.

mod breaker;
mod log;
mod reader;
mod signals;

use std::{fmt, sync::Arc, time::Duration};

use deadpool_redis::{Pool, Runtime, redis};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{Config, Coordination, Error};
use breaker::Breaker;

/// How long one command may take, connecting included.
const COMMAND_TIME: Duration = Duration::from_secs(2);
/// Connections that write.
const CONNECTIONS: usize = 8;
/// The first pause before connecting again; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause before connecting again.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

pub(crate) fn start(
    config: &Config,
    tracker: &TaskTracker,
    ended: &CancellationToken,
) -> Result<Coordination, Error> {
    let server = Server::new(config)?;
    let reader = reader::start(server.clone(), tracker, ended.clone());
    Ok(Coordination {
        log: Arc::new(log::Log::new(server.clone(), reader)),
        signals: Arc::new(signals::start(server, tracker, ended.clone())),
    })
}

/// The server, and what this Village's keys begin with. `Debug` shows no address, since it may hold a password.
#[derive(Clone)]
struct Server {
    client: redis::Client,
    pool: Pool,
    breaker: Arc<Breaker>,
    namespace: Arc<str>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl Server {
    fn new(config: &Config) -> Result<Self, Error> {
        let url = config.redis_url.expose();
        let client = redis::Client::open(url).map_err(|_may_show_it| Error::Address)?;
        let pool = deadpool_redis::Config::from_url(url)
            .builder()
            .map_err(|_may_show_it| Error::Address)?
            .max_size(CONNECTIONS)
            .wait_timeout(Some(COMMAND_TIME))
            .create_timeout(Some(COMMAND_TIME))
            .recycle_timeout(Some(COMMAND_TIME))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|_may_show_it| Error::Address)?;
        Ok(Self {
            client,
            pool,
            breaker: Arc::default(),
            namespace: Arc::from(config.namespace.as_str()),
        })
    }

    /// Runs one command, or several in a row. While the server is known not to answer it fails at once, so that it holds up nobody.
    async fn run(&self, commands: redis::Pipeline) -> Result<(), Failure> {
        self.ask(commands).await
    }

    /// The same, with the answers of those that are not ignored.
    async fn ask<T: redis::FromRedisValue>(&self, commands: redis::Pipeline) -> Result<T, Failure> {
        if !self.breaker.lets_pass() {
            return Err(Failure::Unavailable(
                "it did not answer a moment ago".to_owned(),
            ));
        }
        let work = async {
            let mut connection = self.pool.get().await.map_err(Failure::unavailable)?;
            commands
                .query_async(&mut connection)
                .await
                .map_err(|error| Failure::of(&error))
        };
        let outcome = tokio::time::timeout(COMMAND_TIME, work)
            .await
            .unwrap_or_else(|_elapsed| Err(Failure::unavailable("it did not answer in time")));
        match &outcome {
            Ok(_) | Err(Failure::OutOfOrder) => self.breaker.answered(),
            Err(Failure::Unavailable(_)) => self.breaker.failed(),
        }
        outcome
    }
}

/// Why a command was not done.
#[derive(Debug)]
enum Failure {
    /// The stream has this entry or a later one.
    OutOfOrder,
    /// Everything else, in words.
    Unavailable(String),
}

impl Failure {
    fn of(error: &redis::RedisError) -> Self {
        let text = error.to_string();
        if text.contains("equal or smaller") {
            Self::OutOfOrder
        } else {
            Self::Unavailable(text)
        }
    }

    fn unavailable(cause: impl fmt::Display) -> Self {
        Self::Unavailable(cause.to_string())
    }
}

/// The pause before the next attempt to connect.
#[derive(Debug)]
struct Pause(Duration);

impl Pause {
    const fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    const fn reset(&mut self) {
        self.0 = FIRST_PAUSE;
    }

    async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
    }
}
