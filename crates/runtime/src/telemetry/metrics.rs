//! Metrics that derive from wide events and calls.

use std::fmt;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

use crate::{event, server::RPC_TARGET};

/// Upper bounds in seconds: from a cached answer to the longest turn.
const BUCKETS: [f64; 15] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1_200.0,
];

/// A layer that counts wide events and calls.
#[derive(Debug)]
pub struct MetricsLayer {
    events: IntCounterVec,
    event_seconds: HistogramVec,
    call_seconds: HistogramVec,
}

impl MetricsLayer {
    /// Registers the metrics.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let seconds =
            |name: &str, help: &str| HistogramOpts::new(name, help).buckets(BUCKETS.to_vec());
        let layer = Self {
            events: IntCounterVec::new(
                Opts::new(
                    "agentsville_events_total",
                    "Turns, Tool calls, fetches and the like that ended, by outcome",
                ),
                &["event", "outcome"],
            )?,
            event_seconds: HistogramVec::new(
                seconds(
                    "agentsville_event_duration_seconds",
                    "How long turns, Tool calls, fetches and the like took",
                ),
                &["event", "outcome"],
            )?,
            call_seconds: HistogramVec::new(
                seconds(
                    "rpc_server_duration_seconds",
                    "How long gRPC calls took, until the end of a stream",
                ),
                &["rpc_service", "rpc_method", "rpc_grpc_status"],
            )?,
        };
        registry.register(Box::new(layer.events.clone()))?;
        registry.register(Box::new(layer.event_seconds.clone()))?;
        registry.register(Box::new(layer.call_seconds.clone()))?;
        Ok(layer)
    }
}

impl<S: Subscriber> Layer<S> for MetricsLayer {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        match event.metadata().target() {
            event::TARGET => {
                let seen = Seen::of(event, ["event", "outcome", ""]);
                let labels = [seen.texts[0].as_str(), &seen.texts[1]];
                self.events.with_label_values(&labels).inc();
                self.event_seconds
                    .with_label_values(&labels)
                    .observe(seen.seconds);
            }
            RPC_TARGET => {
                let seen = Seen::of(event, ["service", "method", "code"]);
                let labels = [seen.texts[0].as_str(), &seen.texts[1], &seen.texts[2]];
                self.call_seconds
                    .with_label_values(&labels)
                    .observe(seen.seconds);
            }
            _ => {}
        }
    }
}

/// The labels and the duration of one event.
struct Seen {
    names: [&'static str; 3],
    texts: [String; 3],
    seconds: f64,
}

impl Seen {
    fn of(event: &Event<'_>, names: [&'static str; 3]) -> Self {
        let mut seen = Self {
            names,
            texts: Default::default(),
            seconds: 0.0,
        };
        event.record(&mut seen);
        seen
    }
}

impl Visit for Seen {
    fn record_str(&mut self, field: &Field, value: &str) {
        if let Some(at) = self.names.iter().position(|name| *name == field.name()) {
            value.clone_into(&mut self.texts[at]);
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        if field.name() == "duration_seconds" {
            self.seconds = value;
        }
    }

    fn record_debug(&mut self, _field: &Field, _value: &dyn fmt::Debug) {}
}
