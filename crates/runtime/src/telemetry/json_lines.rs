//! Log lines: one JSON object each.

use std::{
    fmt,
    io::Write,
    sync::{Mutex, OnceLock, PoisonError},
};

use kernel::{Clock as _, SystemClock};
use opentelemetry::trace::TraceContextExt as _;
use tracing::{
    Dispatch, Event, Subscriber,
    dispatcher::WeakDispatch,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

use super::Record;
use crate::event::TARGET;

/// Bytes of one value of a log line; the rest is cut.
const VALUE_BYTES: usize = 16 * 1_024;

/// A layer that writes every event as a line: time, level, service, target, message, fields, and the trace that it belongs to. A wide
/// event's record stands in the line as it is.
#[derive(Debug)]
pub struct JsonLines<W> {
    service: String,
    output: Mutex<W>,
    dispatch: OnceLock<WeakDispatch>,
}

impl<W: Write> JsonLines<W> {
    /// Writes lines to `output`, in the name of a service.
    pub fn new(service: &str, output: W) -> Self {
        Self {
            service: service.to_owned(),
            output: Mutex::new(output),
            dispatch: OnceLock::new(),
        }
    }
}

impl<S, W> Layer<S> for JsonLines<W>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    W: Write + Send + 'static,
{
    fn on_register_dispatch(&self, subscriber: &Dispatch) {
        // A layer belongs to one subscriber; a second registration of it changes nothing.
        self.dispatch.get_or_init(|| subscriber.downgrade());
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        let mut line = Record::with_capacity(256);
        line.add("timestamp", &SystemClock.now().to_string());
        line.add("level", metadata.level().as_str());
        line.add("service", &self.service);
        line.add("target", metadata.target());
        if metadata.target() == TARGET {
            event.record(&mut WideRecord(&mut line));
        } else {
            event.record(&mut Fields(&mut line));
            if let Some(span) = context.event_span(event) {
                line.add("span", span.name());
                let dispatch = self.dispatch.get().and_then(WeakDispatch::upgrade);
                let trace = dispatch.and_then(|dispatch| {
                    tracing_opentelemetry::get_otel_context(&span.id(), &dispatch)
                });
                if let Some(trace) = trace {
                    let span = trace.span();
                    let context = span.span_context();
                    if context.is_valid() {
                        line.add("trace_id", &context.trace_id().to_string());
                        line.add("span_id", &context.span_id().to_string());
                    }
                }
            }
        }
        let mut line = line.finish();
        line.push('\n');
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        // A log that cannot be written has nowhere to say so.
        drop(output.write_all(line.as_bytes()));
    }
}

struct WideRecord<'l>(&'l mut Record);

impl Visit for WideRecord<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "record" {
            self.0.add_all(value);
        }
    }

    fn record_debug(&mut self, _field: &Field, _value: &dyn fmt::Debug) {}
}

struct Fields<'l>(&'l mut Record);

impl Fields<'_> {
    fn text(&mut self, field: &Field, text: &str) {
        let end = kernel::floor_char_boundary(text, VALUE_BYTES);
        self.0.add(field.name(), &text[..end]);
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.add(field.name(), &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.add(field.name(), &value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.add(field.name(), &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.add(field.name(), &value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, &format!("{value:?}"));
    }
}
