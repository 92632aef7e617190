//! Tells every gateway that a server is not what it was.

use bytes::Bytes;
use kernel::McpServerId;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::{Error, Registry};

/// The topic of the Village's signals that changes are announced on. mcp-gateway listens to it.
pub(crate) const TOPIC: &str = "mcp-servers";

/// What is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Announcement {
    pub(crate) server_id: McpServerId,
    /// None when it was deleted.
    pub(crate) generation: Option<i64>,
}

impl Registry {
    /// Runs a change to its end, whether or not who asked still waits, and announces what it committed before it answers: whoever
    /// has the answer finds no gateway with the old server, unless signals are lost, of which gateways learn by themselves.
    pub(super) async fn change<T, F>(&self, change: F) -> Result<T, Error>
    where
        F: Future<Output = Result<(T, Option<Announcement>), Error>> + Send + 'static,
        T: Send + 'static,
    {
        let registry = self.clone();
        let (done, outcome) = oneshot::channel();
        self.lifecycle
            .spawn_request("change of an MCP Server", async move {
                let result = match change.await {
                    Ok((value, announcement)) => {
                        if let Some(announcement) = announcement {
                            registry.announce(announcement).await;
                        }
                        Ok(value)
                    }
                    Err(error) => Err(error),
                };
                // Who asked may have gone.
                drop(done.send(result));
            });
        // Without an outcome the process is ending.
        outcome
            .await
            .unwrap_or(Err(Error::Store(store::Error::Closed)))
    }

    async fn announce(&self, announcement: Announcement) {
        let payload = serde_json::to_vec(&announcement).unwrap_or_default();
        if let Err(error) = self.signals.publish(TOPIC, Bytes::from(payload)).await {
            tracing::warn!(
                server_id = %announcement.server_id,
                %error,
                "a change of an MCP Server could not be announced; gateways notice within seconds"
            );
        }
    }
}
