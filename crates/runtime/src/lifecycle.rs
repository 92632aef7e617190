//! How a process starts tasks, where it listens, and how it stops.
//!
//! Stopping has two steps. *Soft*: take no new work, finish what runs. *Hard*: end. The first SIGTERM or SIGINT asks for the first
//! step; a second one, or the grace period, for the second.

use std::{
    fmt,
    future::Future,
    net::SocketAddr,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::FutureExt as _;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;

use crate::readiness::Readiness;

/// How long tasks may take to notice the hard stop.
const HARD_STOP: Duration = Duration::from_secs(2);

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// All that ran was finished.
    Drained,
    /// Some of it was cut off, by a second signal or the grace period.
    CutOff,
    /// A task that must run has failed.
    Failed(String),
}

/// What a panicking task means for the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnPanic {
    StopProcess,
    LogOnly,
}

#[derive(Debug, Default)]
struct Inner {
    soft: CancellationToken,
    hard: CancellationToken,
    tracker: TaskTracker,
    background: TaskTracker,
    readiness: Readiness,
    failure: Mutex<Option<String>>,
    listeners: Mutex<Listeners>,
}

/// Where the process listens, and who wants to know.
#[derive(Default)]
struct Listeners {
    bound: Vec<SocketAddr>,
    told: Vec<Box<dyn Fn(SocketAddr) + Send>>,
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bound.fmt(f)
    }
}

/// The tasks of a process and the two steps of its end. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Lifecycle(Arc<Inner>);

impl Lifecycle {
    /// A running process.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancelled when no new work is to be taken.
    pub fn soft(&self) -> CancellationToken {
        self.0.soft.clone()
    }

    /// Cancelled when everything is to end.
    pub fn hard(&self) -> CancellationToken {
        self.0.hard.clone()
    }

    /// What the end waits for.
    pub fn tracker(&self) -> &TaskTracker {
        &self.0.tracker
    }

    /// Whether work is welcome.
    pub fn readiness(&self) -> &Readiness {
        &self.0.readiness
    }

    /// Says that the process listens there: the bound address, before the first connection is taken.
    pub fn listens_on(&self, address: SocketAddr) {
        let mut listeners = self.listeners();
        listeners.bound.push(address);
        for tell in &listeners.told {
            tell(address);
        }
    }

    /// Tells every address that the process listens on, those that it has now and those to come. `tell` must not wait.
    pub fn on_listener(&self, tell: impl Fn(SocketAddr) + Send + 'static) {
        let mut listeners = self.listeners();
        for &address in &listeners.bound {
            tell(address);
        }
        listeners.told.push(Box::new(tell));
    }

    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.0
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a task that the process cannot do without: its panic stops the process. The current span is kept. The task ends at the
    /// hard stop by itself; it should end its loops at the soft one.
    pub fn spawn<F>(&self, name: &'static str, task: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.spawn_on(&self.0.tracker, name, OnPanic::StopProcess, task)
    }

    /// Starts a task for one request or connection: its panic is logged, and the process goes on.
    pub fn spawn_request<F>(&self, name: &'static str, task: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.spawn_on(&self.0.tracker, name, OnPanic::LogOnly, task)
    }

    /// Starts a task that serves until the very end and is not waited for, such as the admin listener: it is ended once all else is.
    pub fn spawn_background<F>(&self, name: &'static str, task: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.spawn_on(&self.0.background, name, OnPanic::StopProcess, task)
    }

    fn spawn_on<F>(
        &self,
        tracker: &TaskTracker,
        name: &'static str,
        on_panic: OnPanic,
        task: F,
    ) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let lifecycle = self.clone();
        let guarded = async move {
            let hard = lifecycle.hard();
            let outcome = tokio::select! {
                outcome = AssertUnwindSafe(task).catch_unwind() => outcome,
                () = hard.cancelled() => return,
            };
            if let Err(panic) = outcome {
                let message = panic_message(&*panic);
                tracing::error!(task = name, panic = message, "task panicked");
                if on_panic == OnPanic::StopProcess {
                    lifecycle.fail(format!("the task {name:?} panicked: {message}"));
                }
            }
        };
        tracker.spawn(guarded.in_current_span())
    }

    /// Says that the process cannot go on, and begins its end. The first reason counts.
    pub fn fail(&self, reason: String) {
        self.0
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(reason);
        self.stop();
    }

    /// Begins the end: not ready, soft step.
    pub fn stop(&self) {
        self.0.readiness.stop();
        self.0.soft.cancel();
    }

    /// Runs until a signal, [`Lifecycle::stop`] or [`Lifecycle::fail`], then waits for the tasks: at most `grace`, and less after a second signal.
    ///
    /// # Errors
    /// When signal handlers cannot be installed.
    pub async fn run_until_stopped(&self, grace: Duration) -> std::io::Result<Stopped> {
        Ok(self.run_until(Signals::listen()?, grace).await)
    }

    /// The same with signals that are listened to since earlier.
    pub async fn run_until(&self, mut signals: Signals, grace: Duration) -> Stopped {
        tokio::select! {
            () = signals.next() => {}
            () = self.0.soft.cancelled() => {}
        }
        self.drain(grace, signals.next()).await
    }

    /// Ends everything: the soft step, at most `grace` of waiting unless `hurry` comes first, the hard step.
    pub async fn drain(&self, grace: Duration, hurry: impl Future<Output = ()>) -> Stopped {
        self.stop();
        self.0.tracker.close();
        self.0.background.close();
        let drained = tokio::select! {
            () = self.0.tracker.wait() => true,
            () = tokio::time::sleep(grace) => false,
            () = hurry => false,
        };
        // A start that failed hurries although nothing runs yet.
        if !drained && !self.0.tracker.is_empty() {
            tracing::warn!(tasks = self.0.tracker.len(), "ending tasks that still run");
        }
        self.0.hard.cancel();
        let all = async {
            self.0.tracker.wait().await;
            self.0.background.wait().await;
        };
        if tokio::time::timeout(HARD_STOP, all).await.is_err() {
            tracing::warn!("some tasks did not end");
        }
        let failure = self
            .0
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match failure {
            Some(reason) => Stopped::Failed(reason),
            None if drained => Stopped::Drained,
            None => Stopped::CutOff,
        }
    }
}

/// SIGTERM and SIGINT. While this lives they do not end the process by themselves.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens from now on. A process does it before it says that it is there, so that no signal finds it without.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => tracing::info!("stopping on SIGTERM"),
            _ = self.interrupt.recv() => tracing::info!("stopping on SIGINT"),
        }
    }
}

/// The text of a panic, as far as it has one.
pub(crate) fn panic_message(panic: &dyn std::any::Any) -> String {
    panic
        .downcast_ref::<&'static str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn tasks_that_listen_to_the_soft_step_are_drained() {
        let lifecycle = Lifecycle::new();
        let soft = lifecycle.soft();
        lifecycle.spawn("listens", async move { soft.cancelled().await });
        assert_eq!(
            lifecycle.drain(Duration::from_mins(1), pending()).await,
            Stopped::Drained
        );
        assert!(!lifecycle.readiness().state().is_ready());
    }

    #[tokio::test]
    async fn a_task_that_does_not_listen_is_cut_off_after_the_grace_period() {
        let lifecycle = Lifecycle::new();
        lifecycle.spawn("stubborn", pending());
        assert_eq!(
            lifecycle.drain(Duration::ZERO, pending()).await,
            Stopped::CutOff
        );
        assert!(lifecycle.tracker().is_empty());
    }

    #[tokio::test]
    async fn a_second_signal_cuts_off_at_once() {
        let lifecycle = Lifecycle::new();
        lifecycle.spawn("stubborn", pending());
        assert_eq!(
            lifecycle.drain(Duration::from_hours(9), async {}).await,
            Stopped::CutOff
        );
    }

    #[tokio::test]
    async fn a_panicking_task_stops_the_process_and_is_its_reason() {
        let lifecycle = Lifecycle::new();
        lifecycle.spawn("sweeper", async { panic!("no broom") });
        lifecycle.soft().cancelled().await;
        assert_eq!(
            lifecycle.drain(Duration::from_mins(1), pending()).await,
            Stopped::Failed("the task \"sweeper\" panicked: no broom".to_owned())
        );
    }

    #[tokio::test]
    async fn a_panicking_request_does_not_stop_the_process() {
        let lifecycle = Lifecycle::new();
        lifecycle
            .spawn_request("request", async { panic!("bad luck") })
            .await
            .unwrap();
        assert!(!lifecycle.soft().is_cancelled());
    }

    #[tokio::test]
    async fn background_tasks_run_until_all_else_has_ended() {
        let lifecycle = Lifecycle::new();
        lifecycle.spawn_background("admin", pending());
        assert_eq!(
            lifecycle.drain(Duration::from_hours(9), pending()).await,
            Stopped::Drained
        );
    }
}
