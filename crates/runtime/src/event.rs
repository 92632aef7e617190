//! Wide events: one flat record of one piece of work, written when the work ends, on whichever path it ends.
//!
//! A record goes out as one `tracing` event (target [`TARGET`]), from which the JSON line, the metrics and, through the event's own
//! span, the OTLP attributes derive. Arguments, results, headers and values of tokens are never set; texts go through
//! [`WideEvent::content`], which keeps them only while the Operator has turned content on.

use std::{borrow::Cow, fmt::Display, time::Duration};

use kernel::ErrorCode;
use opentelemetry::trace::TraceContextExt as _;
use tokio::time::Instant;
use tracing::{Instrument, Span, instrument::Instrumented};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::{attributes, telemetry::Record};

/// The target of wide events.
pub const TARGET: &str = "agentsville.event";
/// Enabled exactly when the Operator turned content on.
pub(crate) const TARGET_CONTENT: &str = "agentsville.content";
/// Attributes of one event; further ones are dropped.
const ATTRIBUTES: usize = 64;
/// Bytes of one text; the rest is cut.
const TEXT_BYTES: usize = 16 * 1_024;

/// What ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A Turn.
    Turn,
    /// One Provider call and the Tool calls it asked for.
    Step,
    /// A Tool call.
    ToolCall,
    /// A command in a Sandbox.
    SandboxExecution,
    /// A search of Memory.
    MemoryRetrieval,
    /// A connection to an MCP Server.
    McpConnection,
    /// An MCP Server was asked for its Tools.
    McpList,
    /// A call of an MCP Server's Tool, on the gateway's side.
    McpCall,
    /// A renewal of a Connector's token.
    TokenRenewal,
    /// A fetch of a page.
    Fetch,
    /// A connection of a Sandbox through the egress listener.
    EgressTunnel,
}

impl EventKind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::Turn,
        Self::Step,
        Self::ToolCall,
        Self::SandboxExecution,
        Self::MemoryRetrieval,
        Self::McpConnection,
        Self::McpList,
        Self::McpCall,
        Self::TokenRenewal,
        Self::Fetch,
        Self::EgressTunnel,
    ];

    /// The word in records and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Step => "step",
            Self::ToolCall => "tool_call",
            Self::SandboxExecution => "sandbox_execution",
            Self::MemoryRetrieval => "memory_retrieval",
            Self::McpConnection => "mcp_connection",
            Self::McpList => "mcp_list",
            Self::McpCall => "mcp_call",
            Self::TokenRenewal => "token_renewal",
            Self::Fetch => "fetch",
            Self::EgressTunnel => "egress_tunnel",
        }
    }
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// As it should.
    Ok,
    /// It failed, in this class.
    Error(ErrorCode),
    /// It was not allowed.
    Denied,
    /// It was stopped, or dropped without a word.
    Interrupted,
}

impl Outcome {
    /// The word in records and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error(_) => "error",
            Self::Denied => "denied",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A text.
    Text(Cow<'static, str>),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Yes or no.
    Bool(bool),
}

macro_rules! value_from {
    ($($from:ty => |$value:ident| $to:expr;)+) => {$(
        impl From<$from> for Value {
            fn from($value: $from) -> Self {
                $to
            }
        }
    )+};
}

value_from! {
    &'static str => |value| Self::Text(Cow::Borrowed(value));
    String => |value| Self::Text(Cow::Owned(value));
    bool => |value| Self::Bool(value);
    i64 => |value| Self::Int(value);
    i32 => |value| Self::Int(i64::from(value));
    u16 => |value| Self::Int(i64::from(value));
    u32 => |value| Self::Int(i64::from(value));
    u64 => |value| Self::Int(i64::try_from(value).unwrap_or(i64::MAX));
    usize => |value| Self::Int(i64::try_from(value).unwrap_or(i64::MAX));
    f64 => |value| Self::Float(value);
    Duration => |value| Self::Float(milliseconds(value));
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// One piece of work. Its record is written when this is dropped.
#[derive(Debug)]
pub struct WideEvent {
    kind: EventKind,
    started: Instant,
    outcome: Outcome,
    attributes: Vec<(&'static str, Value)>,
    span: Span,
}

impl WideEvent {
    /// Begins now, as a child of the current span.
    pub fn begin(kind: EventKind) -> Self {
        let span = tracing::info_span!(
            target: TARGET,
            "work",
            otel.name = kind.as_str(),
            otel.status_code = tracing::field::Empty
        );
        Self {
            kind,
            started: Instant::now(),
            outcome: Outcome::Interrupted,
            attributes: Vec::with_capacity(16),
            span,
        }
    }

    /// Sets an attribute; a name of [`attributes`] where there is one. Setting a name again replaces the value.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) -> &mut Self {
        let mut value = value.into();
        if let Value::Text(text) = &mut value
            && text.len() > TEXT_BYTES
        {
            let end = kernel::floor_char_boundary(text, TEXT_BYTES);
            text.to_mut().truncate(end);
        }
        let known = self.attributes.iter().position(|(known, _)| *known == name);
        match known {
            Some(at) => self.attributes[at].1 = value,
            None if self.attributes.len() < ATTRIBUTES => self.attributes.push((name, value)),
            None => {}
        }
        self
    }

    /// Sets an attribute to what a value displays as, such as an id.
    pub fn set_display(&mut self, name: &'static str, value: impl Display) -> &mut Self {
        self.set(name, value.to_string())
    }

    /// Sets an attribute if there is a value.
    pub fn set_some(&mut self, name: &'static str, value: Option<impl Into<Value>>) -> &mut Self {
        match value {
            Some(value) => self.set(name, value),
            None => self,
        }
    }

    /// Sets an attribute that holds what Players, models or pages say; made and kept only while content is on.
    pub fn content(&mut self, name: &'static str, text: impl FnOnce() -> String) -> &mut Self {
        if tracing::enabled!(target: TARGET_CONTENT, tracing::Level::INFO) {
            self.set(name, text());
        }
        self
    }

    /// Says how it ended. Without it: interrupted.
    pub fn outcome(&mut self, outcome: Outcome) -> &mut Self {
        self.outcome = outcome;
        self
    }

    /// How long it has been going on.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The span of this work, for what happens in it.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Runs a future inside this work's span. (Named so that `tracing::Instrument`, which every type has, does not come first.)
    pub fn within<F: Future>(&self, future: F) -> Instrumented<F> {
        future.instrument(self.span.clone())
    }
}

impl Drop for WideEvent {
    fn drop(&mut self) {
        let elapsed = self.started.elapsed();
        if let Outcome::Error(code) = self.outcome {
            self.set(attributes::ERROR_TYPE, code.as_str());
            self.span.record("otel.status_code", "ERROR");
        }
        let mut record = Record::with_capacity(96 + 48 * self.attributes.len());
        record.add("event", self.kind.as_str());
        record.add("outcome", self.outcome.as_str());
        record.add("duration_ms", &milliseconds(elapsed));
        let context = self.span.context();
        let trace = context.span().span_context().clone();
        if trace.is_valid() {
            record.add("trace_id", &trace.trace_id().to_string());
            record.add("span_id", &trace.span_id().to_string());
        }
        for (name, value) in std::mem::take(&mut self.attributes) {
            record.add(name, &value);
            match value {
                Value::Text(text) => self.span.set_attribute(name, text),
                Value::Int(number) => self.span.set_attribute(name, number),
                Value::Float(number) => self.span.set_attribute(name, number),
                Value::Bool(flag) => self.span.set_attribute(name, flag),
            }
        }
        self.span
            .set_attribute("agentsville.outcome", self.outcome.as_str());
        let record = record.finish();
        let _inside = self.span.enter();
        tracing::info!(
            target: TARGET,
            event = self.kind.as_str(),
            outcome = self.outcome.as_str(),
            duration_seconds = elapsed.as_secs_f64(),
            record = record.as_str(),
        );
    }
}
