//! Wide events and log lines, captured in tests.

use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use serde_json::{Map, Value};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, filter::FilterFn, layer::Context, layer::SubscriberExt as _};

/// The target of wide events, as `runtime::event::TARGET` has it.
const TARGET: &str = "agentsville.event";
/// The target that is enabled while content is on.
const CONTENT_TARGET: &str = "agentsville.content";

/// Whether captured events may hold content, as the setting `telemetry.content` decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// As the default is.
    Off,
    /// As an Operator may set it.
    On,
}

#[derive(Debug, Default)]
struct Captured {
    records: Mutex<Vec<Map<String, Value>>>,
    lines: Mutex<Vec<String>>,
}

/// What was captured since [`capture`].
#[derive(Debug, Clone)]
pub struct Events {
    captured: Arc<Captured>,
    first_record: usize,
    first_line: usize,
}

/// Captures every wide event and log line of this process from now on, on all threads. nextest runs each test in a process of its own; tests
/// that share a process see each other's. The first call of a process decides about content.
///
/// # Panics
/// When another subscriber is installed in this process.
#[expect(clippy::expect_used, reason = "it fails the test")]
pub fn capture_with(content: Content) -> Events {
    static CAPTURED: OnceLock<Arc<Captured>> = OnceLock::new();
    let captured = CAPTURED.get_or_init(|| {
        let captured = Arc::new(Captured::default());
        let layer = Capture(Arc::clone(&captured)).with_filter(FilterFn::new(move |metadata| {
            *metadata.level() <= Level::INFO
                && (metadata.target() != CONTENT_TARGET || content == Content::On)
        }));
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))
            .expect("no other subscriber is installed in a process that captures events");
        captured
    });
    Events {
        first_record: lock(&captured.records).len(),
        first_line: lock(&captured.lines).len(),
        captured: Arc::clone(captured),
    }
}

/// [`capture_with`], without content.
///
/// # Panics
/// When another subscriber is installed in this process.
pub fn capture() -> Events {
    capture_with(Content::Off)
}

impl Events {
    /// The wide events in the order in which they ended, each as the flat JSON object that is logged.
    pub fn all(&self) -> Vec<Map<String, Value>> {
        lock(&self.captured.records)[self.first_record..].to_vec()
    }

    /// The wide events of one kind: `turn`, `tool_call`, `fetch`, …
    pub fn of(&self, kind: &str) -> Vec<Map<String, Value>> {
        let mut events = self.all();
        events.retain(|event| event.get("event").and_then(Value::as_str) == Some(kind));
        events
    }

    /// The only wide event of one kind.
    ///
    /// # Panics
    /// When there is none, or more than one.
    pub fn one(&self, kind: &str) -> Map<String, Value> {
        let mut events = self.of(kind);
        assert_eq!(events.len(), 1, "events of the kind {kind}: {events:#?}");
        events.remove(0)
    }

    /// Waits until so many wide events of a kind have ended, for those that end after their answer was sent.
    ///
    /// # Panics
    /// When they have not within 30 seconds.
    #[expect(clippy::panic, reason = "it fails the test")]
    pub async fn wait_for(&self, kind: &str, count: usize) -> Vec<Map<String, Value>> {
        for _attempt in 0..3_000 {
            let events = self.of(kind);
            if events.len() >= count {
                return events;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!(
            "{count} events of the kind {kind} were expected, and there are {:#?}",
            self.all()
        );
    }

    /// The other log events, each as `LEVEL target: field=value …`.
    pub fn lines(&self) -> Vec<String> {
        lock(&self.captured.lines)[self.first_line..].to_vec()
    }

    /// Everything that was captured, as one text: to prove that a secret is not in it.
    pub fn text(&self) -> String {
        let records = self
            .all()
            .into_iter()
            .map(|event| Value::Object(event).to_string());
        records.chain(self.lines()).collect::<Vec<_>>().join("\n")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Capture(Arc<Captured>);

impl<S: Subscriber> Layer<S> for Capture {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if event.metadata().target() == TARGET {
            let record = fields.record.unwrap_or_default();
            match serde_json::from_str(&record) {
                Ok(record) => lock(&self.0.records).push(record),
                Err(error) => lock(&self.0.lines).push(format!(
                    "a wide event that is no JSON object ({error}): {record}"
                )),
            }
        } else {
            lock(&self.0.lines).push(format!(
                "{} {}:{}",
                event.metadata().level(),
                event.metadata().target(),
                fields.line
            ));
        }
    }
}

#[derive(Default)]
struct Fields {
    line: String,
    record: Option<String>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "record" {
            self.record = Some(value.to_owned());
        }
        self.line.extend([" ", field.name(), "=", value]);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = format!("{value:?}");
        self.line.extend([" ", field.name(), "=", &value]);
    }
}
