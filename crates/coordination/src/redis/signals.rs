//! Signals through publish/subscribe: one connection a process takes all of the Village's, and fans them out.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use deadpool_redis::redis::{self, RedisError};
use futures::StreamExt as _;
use tokio::{sync::watch, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{COMMAND_TIME, Failure, Pause, Server};
use crate::{
    Error, SignalStream, Signals,
    signals::{Topics, check_size},
};

/// How often a process sends itself a signal, to learn of a connection that died without a word.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long nothing may arrive before the connection is made anew.
const SILENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub(super) struct Remote {
    server: Server,
    topics: Arc<Topics>,
    live: watch::Sender<bool>,
}

pub(super) fn start(server: Server, tracker: &TaskTracker, ended: CancellationToken) -> Remote {
    let remote = Remote {
        server,
        topics: Arc::new(Topics::default()),
        live: watch::Sender::new(false),
    };
    let task = remote.clone();
    tracker.spawn(async move {
        ended.run_until_cancelled_owned(task.run()).await;
    });
    remote
}

impl Remote {
    fn channel(&self, topic: &str) -> String {
        format!("{}:signal:{topic}", self.server.namespace)
    }

    async fn run(&self) {
        let mut pause = Pause::new();
        let mut away = false;
        loop {
            let ended = self.serve(&mut pause, &mut away).await;
            self.live.send_replace(false);
            if !away {
                let cause = ended.err().map_or_else(
                    || "the connection ended".to_owned(),
                    |error| error.to_string(),
                );
                tracing::warn!(cause, "signals cannot be read from Redis");
                away = true;
            }
            pause.wait().await;
        }
    }

    /// Connects, and passes signals on until the connection ends.
    async fn serve(&self, pause: &mut Pause, away: &mut bool) -> Result<(), RedisError> {
        let own = format!("heartbeat:{}", uuid::Uuid::new_v4());
        let connecting = async {
            let mut connection = self.server.client.get_async_pubsub().await?;
            connection.psubscribe(self.channel("*")).await?;
            Ok::<_, RedisError>(connection.into_on_message())
        };
        let mut messages = match tokio::time::timeout(COMMAND_TIME, connecting).await {
            Ok(connected) => connected?,
            Err(_elapsed) => {
                return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
            }
        };
        self.server.breaker.answered();
        // What was published while there was no connection is lost.
        self.topics.all_missed();
        self.live.send_replace(true);
        pause.reset();
        if std::mem::take(away) {
            tracing::info!("signals are read from Redis again");
        }
        let prefix = self.channel("");
        let mut heard = Instant::now();
        let mut beat = tokio::time::interval(HEARTBEAT);
        loop {
            tokio::select! {
                message = messages.next() => {
                    let Some(message) = message else {
                        return Ok(());
                    };
                    heard = Instant::now();
                    if let Some(topic) = message.get_channel_name().strip_prefix(&prefix) {
                        self.topics.dispatch(topic, Bytes::copy_from_slice(message.get_payload_bytes()));
                    }
                }
                _ = beat.tick() => {
                    if heard.elapsed() > SILENCE {
                        return Ok(());
                    }
                    if let Err(error) = self.publish(&own, Bytes::new()).await {
                        tracing::debug!(cause = %error, "a heartbeat was not sent");
                    }
                }
            }
        }
    }
}

#[async_trait]
impl Signals for Remote {
    async fn publish(&self, topic: &str, payload: Bytes) -> Result<(), Error> {
        check_size(&payload)?;
        let mut commands = redis::Pipeline::new();
        commands
            .cmd("PUBLISH")
            .arg(self.channel(topic))
            .arg(&payload[..])
            .ignore();
        match self.server.run(commands).await {
            Ok(()) | Err(Failure::OutOfOrder) => Ok(()),
            Err(Failure::Unavailable(cause)) => Err(Error::Unavailable(cause)),
        }
    }

    async fn subscribe(&self, topic: &str) -> SignalStream {
        let mut live = self.live.subscribe();
        // Without a connection the subscriber learns by `Missed` when there is one again.
        drop(tokio::time::timeout(COMMAND_TIME, live.wait_for(|live| *live)).await);
        self.topics.subscribe(topic)
    }
}
