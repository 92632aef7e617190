//! What a server says, before `rmcp` reads it: what nobody listens to is left out, and a server that asks too often is not heard.

use std::{
    borrow::Cow,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, de::IgnoredAny};
use tokio::time::Instant;

use super::answers::Answers;

/// Requests of a server that are heard at once.
const ASKS_AT_ONCE: u32 = 32;
/// The time after which one more is.
const ASKS_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// The ear of one connection. Cheap to clone; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inbound {
    answers: Answers,
    changes: Arc<AtomicU64>,
    asks: Arc<Mutex<Asks>>,
}

/// What a server may still ask.
#[derive(Debug)]
struct Asks {
    left: u32,
    counted_at: Instant,
}

impl Default for Asks {
    fn default() -> Self {
        Self {
            left: ASKS_AT_ONCE,
            counted_at: Instant::now(),
        }
    }
}

impl Asks {
    fn one(&mut self) -> bool {
        let more = self.counted_at.elapsed().as_millis() / ASKS_AGAIN_AFTER.as_millis();
        if more > 0 {
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(more).min(ASKS_AT_ONCE);
            self.counted_at = Instant::now();
        }
        let is_heard = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_heard
    }
}

/// A message, as far as it must be looked into.
#[derive(Debug, Deserialize)]
struct Look<'m> {
    #[serde(borrow, default)]
    method: Option<Cow<'m, str>>,
    #[serde(default)]
    id: Option<IgnoredAny>,
}

impl Inbound {
    /// Answers that pass by `rmcp`'s types.
    pub(crate) fn answers(&self) -> &Answers {
        &self.answers
    }

    /// How often the server said that its list of Tools changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The list of Tools changed.
    pub(crate) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// A message as `rmcp` shall read it; None if it shall not.
    pub(crate) fn hear<'m>(&self, message: &'m str) -> Option<Cow<'m, str>> {
        // Answers are most of what is said, and the longest of it.
        if !message.contains("\"method\"") {
            return Some(self.answers.received(message));
        }
        let Ok(look) = serde_json::from_str::<Look<'_>>(message) else {
            return Some(Cow::Borrowed(message));
        };
        let is_heard = match (look.method.as_deref(), look.id) {
            (None, _) => return Some(self.answers.received(message)),
            (Some("notifications/tools/list_changed"), None) => {
                self.note_change();
                false
            }
            (
                Some(
                    "notifications/progress"
                    | "notifications/cancelled"
                    | "notifications/subscriptions/acknowledged",
                ),
                None,
            ) => true,
            (Some(_), None) => false,
            (Some(_), Some(_)) => self
                .asks
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .one(),
        };
        is_heard.then_some(Cow::Borrowed(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_listens_to_is_left_out() {
        let inbound = Inbound::default();
        for (message, heard) in [
            (r#"{"method":"notifications/message","params":{}}"#, false),
            (r#"{"method":"notifications/resources/updated"}"#, false),
            (r#"{"method":"notifications/progress","params":{}}"#, true),
            (r#"{"id":1,"method":"ping"}"#, true),
            (r#"{"id":1,"result":{"method":"x"}}"#, true),
            (r#"{"id":1,"result":{}}"#, true),
        ] {
            assert_eq!(inbound.hear(message).is_some(), heard, "{message}");
        }
    }

    #[test]
    fn changes_of_the_list_are_counted() {
        let inbound = Inbound::default();
        let message = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        for _ in 0..1_000 {
            assert_eq!(inbound.hear(message), None);
        }
        assert_eq!(inbound.changes(), 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_asks_without_end_is_not_heard_without_end() {
        let inbound = Inbound::default();
        let ask = r#"{"id":1,"method":"ping"}"#;
        let heard = |times: u32| (0..times).filter(|_| inbound.hear(ask).is_some()).count();
        assert_eq!(heard(1_000), 32);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(heard(1_000), 5);
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(heard(1_000), 32);
    }
}
