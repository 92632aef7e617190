//! A Player who asks over HTTP and reads each answer to its end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use serde_json::json;

use crate::process::Village;

/// The Operator, with an NPC that may read the clock.
pub(crate) struct Player {
    client: reqwest::Client,
    url: Arc<str>,
    token: Arc<str>,
}

impl Player {
    /// Waits until the Village answers, and makes the NPC.
    pub(crate) async fn of(village: &Village, model: &str) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let token = loop {
            if let Some(token) = village.operator_token()
                && client.get(&village.url).send().await.is_ok()
            {
                break token;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let player = Self {
            client,
            url: village.url.as_str().into(),
            token: token.as_str().into(),
        };
        player
            .create(
                "/v1/npcs",
                &json!({"name": "bench", "model": format!("openai/{model}")}),
            )
            .await;
        player
            .create(
                "/v1/npcs/bench/grants",
                &json!({"what": "tool:current_time"}),
            )
            .await;
        player
    }

    async fn create(&self, path: &str, body: &serde_json::Value) {
        let url = format!("{}{path}", self.url);
        let response = self
            .client
            .post(url)
            .bearer_auth(&self.token)
            .json(body)
            .send()
            .await
            .unwrap();
        let status = response.status();
        assert!(
            status.is_success(),
            "{path}: {status}: {}",
            response.text().await.unwrap()
        );
    }

    /// Runs so many turns, so many at once, each in a Conversation of its own. Returns how long they took together.
    pub(crate) async fn turns(&self, turns: usize, at_once: usize) -> Duration {
        let start = Instant::now();
        stream::iter(0..turns)
            .for_each_concurrent(at_once, |_| self.turn())
            .await;
        start.elapsed()
    }

    async fn turn(&self) {
        let id = kernel::ConversationId::mint(&kernel::SystemClock);
        let message = json!({"id": format!("m-{id}"), "role": "user", "parts": [{"type": "text", "text": "What time is it?"}]});
        let body = json!({"id": id.to_string(), "messages": [message], "trigger": "submit-message", "npc": "bench"});
        let url = format!("{}/v1/chat", self.url);
        let response = self
            .client
            .post(url)
            .bearer_auth(&self.token)
            .json(&body)
            .send()
            .await
            .unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        let outputs = text.matches("\"tool-output-available\"").count();
        assert!(
            status.is_success() && outputs == 11 && text.ends_with("data: [DONE]\n\n"),
            "{status}: {text}"
        );
    }
}
