//! Whether a process can take work, and why not.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::watch;

/// What `/readyz` and the gRPC health service tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadinessState {
    /// What is waited for: the names of [`Readiness::task`], each with how many hold it.
    pub pending: BTreeMap<String, usize>,
    /// Whether a stop was asked for.
    pub stopping: bool,
    /// What the Operator should know although the process is ready.
    pub warnings: Vec<String>,
}

impl ReadinessState {
    /// Whether work is welcome.
    pub fn is_ready(&self) -> bool {
        self.pending.is_empty() && !self.stopping
    }
}

/// Ready when every guard is dropped; not ready again once the process stops. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Readiness(Arc<watch::Sender<ReadinessState>>);

impl Default for Readiness {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(ReadinessState::default())))
    }
}

impl Readiness {
    /// Something that must be done before work is welcome. Dropping the guard says that it is done.
    pub fn task(&self, name: &str) -> ReadinessGuard {
        self.0.send_modify(|state| {
            *state.pending.entry(name.to_owned()).or_default() += 1;
        });
        ReadinessGuard {
            readiness: self.clone(),
            name: name.to_owned(),
        }
    }

    /// Tells the Operator something on `/readyz` for as long as the process runs. The same text counts once.
    pub fn warn(&self, warning: impl Into<String>) {
        let warning = warning.into();
        self.0.send_modify(|state| {
            if !state.warnings.contains(&warning) {
                state.warnings.push(warning);
            }
        });
    }

    /// Work is not welcome any more.
    pub(crate) fn stop(&self) {
        self.0.send_modify(|state| state.stopping = true);
    }

    /// How things stand.
    pub fn state(&self) -> ReadinessState {
        self.0.borrow().clone()
    }

    /// Changes as they happen.
    pub fn watch(&self) -> watch::Receiver<ReadinessState> {
        self.0.subscribe()
    }

    /// Waits until work is welcome.
    pub async fn ready(&self) {
        // The sender lives in `self`, so that waiting cannot fail.
        let mut changes = self.watch();
        let _state = changes.wait_for(ReadinessState::is_ready).await;
    }
}

/// Holds readiness back until it is dropped.
#[derive(Debug)]
#[must_use = "dropping the guard says that the task is done"]
pub struct ReadinessGuard {
    readiness: Readiness,
    name: String,
}

impl Drop for ReadinessGuard {
    fn drop(&mut self) {
        self.readiness.0.send_modify(|state| {
            if let Some(count) = state.pending.get_mut(&self.name) {
                *count -= 1;
                if *count == 0 {
                    state.pending.remove(&self.name);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_when_the_last_guard_drops_and_never_after_a_stop() {
        let readiness = Readiness::default();
        let (schema, peers) = (readiness.task("schema"), readiness.task("peers"));
        drop(schema);
        assert_eq!(
            readiness.state().pending.into_keys().collect::<Vec<_>>(),
            ["peers"]
        );
        drop(peers);
        assert!(readiness.state().is_ready());
        readiness.stop();
        assert!(!readiness.state().is_ready());
    }

    #[test]
    fn a_warning_does_not_make_it_unready_and_counts_once() {
        let readiness = Readiness::default();
        readiness.warn("outbound.mode is report");
        readiness.warn("outbound.mode is report");
        assert_eq!(readiness.state().warnings.len(), 1);
        assert!(readiness.state().is_ready());
    }
}
