//! Logs as JSON lines on stderr, traces over OTLP, metrics for Prometheus: all from `tracing`.

mod json_lines;
mod metrics;
mod record;

use std::{io::Write, sync::Arc, time::Duration};

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use prometheus::Registry;
use serde::Deserialize;
use tracing::{Level, Metadata};
use tracing_subscriber::{EnvFilter, Layer as _, filter::FilterFn, layer::SubscriberExt as _};

use crate::{event, server::RPC_TARGET};

pub use json_lines::JsonLines;
pub use metrics::MetricsLayer;
pub(crate) use record::Record;

/// The longest wait for the last traces to leave.
const FLUSH: Duration = Duration::from_secs(5);
/// The first says of each migration that it begins and ends; `store` says in one line what came of them. The second tells what MCP Servers
/// say, and the names of sessions with them; the gateway tells of connections and calls in events.
const CHATTER: &str = "sea_orm_migration=warn,rmcp=error";
/// What works under the exporter: its own spans would make more spans.
const UNDER_THE_EXPORTER: [&str; 5] = ["h2", "hyper", "tonic", "tower", "opentelemetry"];

/// The section `telemetry`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TelemetrySettings {
    /// Where traces go, by OTLP over gRPC; empty: nowhere.
    pub otlp_endpoint: String,
    /// Whether wide events carry arguments, results and texts.
    pub content: bool,
    /// A level, or directives.
    pub log: String,
}

impl Default for TelemetrySettings {
    fn default() -> Self {
        Self {
            otlp_endpoint: String::new(),
            content: false,
            log: "info".to_owned(),
        }
    }
}

impl TelemetrySettings {
    /// Judges the values without opening anything.
    pub fn check(&self) -> Result<(), TelemetryError> {
        if !self.otlp_endpoint.is_empty() && !self.otlp_endpoint.starts_with("http://") {
            return Err(TelemetryError::Otlp(
                "it must begin with http://; let a collector beside this process speak TLS to the rest".to_owned(),
            ));
        }
        log_filter(self).map(drop)
    }
}

/// Telemetry that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The directives of `telemetry.log` do not parse.
    #[error("telemetry.log is {value:?}, which is no level and no list of directives: {reason}")]
    Log {
        /// The setting.
        value: String,
        /// Why.
        reason: String,
    },
    /// The exporter cannot be built.
    #[error("telemetry.otlp_endpoint cannot be used: {0}")]
    Otlp(String),
    /// The metrics cannot be registered.
    #[error("metrics cannot be registered: {0}")]
    Metrics(#[from] prometheus::Error),
    /// There is a subscriber already.
    #[error("telemetry is set up already in this process")]
    Twice,
}

/// What must be flushed at the end, and the metrics.
#[derive(Debug)]
pub struct Telemetry {
    tracer: SdkTracerProvider,
    metrics: Arc<Registry>,
}

/// Sets up the process's subscriber, writing to stderr. Call it once, inside a Tokio runtime.
pub fn init(settings: &TelemetrySettings, service: &str) -> Result<Telemetry, TelemetryError> {
    let (telemetry, subscriber) = build(settings, service, std::io::stderr())?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_set| TelemetryError::Twice)?;
    Ok(telemetry)
}

/// Makes a subscriber that writes its lines to `output`, without installing it.
pub fn build<W: Write + Send + 'static>(
    settings: &TelemetrySettings,
    service: &str,
    output: W,
) -> Result<(Telemetry, impl tracing::Subscriber + Send + Sync + use<W>), TelemetryError> {
    settings.check()?;
    let mut provider = SdkTracerProvider::builder().with_resource(
        Resource::builder()
            .with_service_name(service.to_owned())
            .build(),
    );
    if !settings.otlp_endpoint.is_empty() {
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(&settings.otlp_endpoint)
            .build()
            .map_err(|error| TelemetryError::Otlp(error.to_string()))?;
        provider = provider.with_batch_exporter(exporter);
    }
    let tracer = provider.build();
    let metrics = Arc::new(Registry::new());
    let spans = tracing_opentelemetry::layer()
        .with_tracer(tracer.tracer("agentsville"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        // Nothing asks for OpenTelemetry's current context: traceparent is taken from the span.
        .with_context_activation(false)
        .with_filter(FilterFn::new(is_traced).with_max_level_hint(Level::INFO));
    let subscriber = tracing_subscriber::registry()
        .with(spans)
        .with(
            MetricsLayer::new(&metrics)?
                .with_filter(FilterFn::new(is_measured).with_max_level_hint(Level::DEBUG)),
        )
        .with(JsonLines::new(service, output).with_filter(log_filter(settings)?));
    Ok((Telemetry { tracer, metrics }, subscriber))
}

fn is_traced(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    let noise = UNDER_THE_EXPORTER.iter().any(|under| {
        target
            .strip_prefix(under)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', ':', '-']))
    });
    // A span carries what its wide event says; of other events only the bad ones are worth a place in a trace.
    let wanted = if metadata.is_span() {
        *metadata.level() <= Level::INFO
    } else {
        *metadata.level() <= Level::WARN && metadata.is_event()
    };
    wanted && !noise && target != event::TARGET_CONTENT
}

fn is_measured(metadata: &Metadata<'_>) -> bool {
    metadata.is_event() && [event::TARGET, RPC_TARGET].contains(&metadata.target())
}

fn log_filter(settings: &TelemetrySettings) -> Result<EnvFilter, TelemetryError> {
    let invalid = |reason: String| TelemetryError::Log {
        value: settings.log.clone(),
        reason,
    };
    // Wide events are a record, not chatter: no level turns them off.
    let content = if settings.content { "info" } else { "off" };
    let directives = [
        format!("{}=info", event::TARGET),
        format!("{}={content}", event::TARGET_CONTENT),
    ];
    // Stands before what is set, so that it can be set otherwise.
    let log = format!("{CHATTER},{}", settings.log);
    let mut filter = EnvFilter::builder()
        .parse(log)
        .map_err(|error| invalid(error.to_string()))?;
    for directive in directives {
        filter =
            filter.add_directive(directive.parse().map_err(
                |error: tracing_subscriber::filter::ParseError| invalid(error.to_string()),
            )?);
    }
    Ok(filter)
}

impl Telemetry {
    /// The metrics, for the admin listener and for those who have some of their own.
    pub fn metrics(&self) -> Arc<Registry> {
        Arc::clone(&self.metrics)
    }

    /// Sends the last traces. Waits five seconds at most.
    pub async fn shutdown(self) {
        let tracer = self.tracer;
        let flushed =
            tokio::task::spawn_blocking(move || tracer.shutdown_with_timeout(FLUSH)).await;
        match flushed {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the last traces were not sent"),
            Err(error) => tracing::warn!(%error, "the last traces were not sent"),
        }
    }
}
