//! Lines, metrics and traces of one process.

use std::{
    io::Write,
    sync::{Arc, Mutex},
    time::Duration,
};

use kernel::{Caller, ErrorCode};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::any_value::Value as Any,
    trace::v1::Span,
};
use prometheus::TextEncoder;
use runtime::{
    EventKind, Outcome, WideEvent, attributes,
    telemetry::{self, Telemetry, TelemetrySettings},
};
use serde_json::{Map, Value, json};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};
use tracing::dispatcher::DefaultGuard;

use crate::support::{LONG, Rig, local, player, remote, say, unary};

/// What was written, for tests.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Output {
    fn lines(&self) -> Vec<Map<String, Value>> {
        let bytes = self.0.lock().unwrap().clone();
        String::from_utf8(bytes)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

struct Logged {
    output: Output,
    telemetry: Telemetry,
    _guard: DefaultGuard,
}

impl Logged {
    fn with(settings: &TelemetrySettings) -> Self {
        let output = Output::default();
        let (telemetry, subscriber) = telemetry::build(settings, "edge", output.clone()).unwrap();
        Self {
            output,
            telemetry,
            _guard: tracing::dispatcher::set_default(&tracing::Dispatch::new(subscriber)),
        }
    }

    fn metrics(&self) -> String {
        TextEncoder::new()
            .encode_to_string(&self.telemetry.metrics().gather())
            .unwrap()
    }
}

#[tokio::test]
async fn a_wide_event_is_one_flat_line_and_two_metrics() {
    let logged = Logged::with(&TelemetrySettings::default());
    let mut event = WideEvent::begin(EventKind::ToolCall);
    event
        .set(attributes::TOOL_NAME, "fetch_url")
        .set(attributes::INPUT_BYTES, 12_usize)
        .set(attributes::TRUNCATED, false)
        .set(attributes::INPUT_BYTES, 13_usize)
        .set_some(attributes::HTTP_STATUS, Some(200_u16))
        .set_some(attributes::REASON, None::<String>)
        .outcome(Outcome::Error(ErrorCode::DeadlineExceeded));
    drop(event);
    let mut lines = logged.output.lines();
    let line = &mut lines[0];
    for varying in ["timestamp", "duration_ms", "trace_id", "span_id"] {
        assert!(line.remove(varying).is_some(), "{varying}");
    }
    assert_eq!(
        Value::Object(line.clone()),
        json!({
            "level": "INFO",
            "service": "edge",
            "target": "agentsville.event",
            "event": "tool_call",
            "outcome": "error",
            "error.type": "deadline_exceeded",
            "gen_ai.tool.name": "fetch_url",
            "agentsville.input.bytes": 13,
            "agentsville.truncated": false,
            "http.response.status_code": 200,
        })
    );
    let metrics = logged.metrics();
    for line in [
        r#"agentsville_events_total{event="tool_call",outcome="error"} 1"#,
        r#"agentsville_event_duration_seconds_count{event="tool_call",outcome="error"} 1"#,
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
}

#[tokio::test]
async fn an_event_that_is_dropped_without_a_word_was_interrupted() {
    let logged = Logged::with(&TelemetrySettings::default());
    let work = async {
        let event = WideEvent::begin(EventKind::Turn);
        event.within(std::future::pending::<()>()).await;
    };
    tokio::time::timeout(Duration::from_millis(1), work)
        .await
        .unwrap_err();
    assert_eq!(logged.output.lines()[0]["outcome"], "interrupted");
}

#[tokio::test]
async fn an_event_is_written_when_its_work_panics() {
    let logged = Logged::with(&TelemetrySettings::default());
    let work = std::panic::AssertUnwindSafe(async {
        let _event = WideEvent::begin(EventKind::Step);
        panic!("bad luck");
    });
    futures::FutureExt::catch_unwind(work).await.unwrap_err();
    assert_eq!(logged.output.lines()[0]["event"], "step");
}

#[tokio::test]
async fn content_is_kept_only_while_it_is_turned_on() {
    for (content, expected) in [(false, None), (true, Some(&json!("hunter2")))] {
        let logged = Logged::with(&TelemetrySettings {
            content,
            ..TelemetrySettings::default()
        });
        let mut event = WideEvent::begin(EventKind::ToolCall);
        event.content(attributes::TOOL_ARGUMENTS, || {
            assert!(content, "content is not even made");
            "hunter2".to_owned()
        });
        drop(event);
        let lines = logged.output.lines();
        assert_eq!(lines[0].get(attributes::TOOL_ARGUMENTS), expected);
    }
}

#[tokio::test]
async fn no_level_turns_wide_events_off() {
    let logged = Logged::with(&TelemetrySettings {
        log: "error".to_owned(),
        ..TelemetrySettings::default()
    });
    tracing::info!("chatter");
    drop(WideEvent::begin(EventKind::Fetch));
    let lines = logged.output.lines();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["event"], "fetch");
}

#[tokio::test]
async fn one_event_is_bounded_in_attributes_and_text() {
    const NAMES: [&str; 200] = {
        let mut names = ["a"; 200];
        let text = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        let mut at = 0;
        while at < 200 {
            names[at] = text.split_at(at + 1).0;
            at += 1;
        }
        names
    };
    let logged = Logged::with(&TelemetrySettings::default());
    let mut event = WideEvent::begin(EventKind::Turn);
    event.set(attributes::REASON, "é".repeat(1_000_000));
    for name in NAMES {
        event.set(name, 1_u32);
    }
    drop(event);
    let lines = logged.output.lines();
    assert!(lines[0].len() < 80);
    assert_eq!(
        lines[0][attributes::REASON].as_str().unwrap().len(),
        16 * 1_024
    );
}

#[tokio::test]
async fn a_log_line_carries_its_trace_and_cannot_be_forged() {
    let logged = Logged::with(&TelemetrySettings::default());
    let span = tracing::info_span!("work");
    span.in_scope(|| {
        tracing::warn!(name = "x\"}\n{\"level\":\"forged\"", "a\u{1b}[31mline");
    });
    let lines = logged.output.lines();
    assert_eq!(lines.len(), 1);
    let line = &lines[0];
    assert_eq!(line["level"], "WARN");
    assert_eq!(line["name"], "x\"}\n{\"level\":\"forged\"");
    assert_eq!(line["trace_id"].as_str().unwrap().len(), 32);
    assert!(
        !String::from_utf8(logged.output.0.lock().unwrap().clone())
            .unwrap()
            .contains('\u{1b}')
    );
}

#[tokio::test]
async fn a_first_start_does_not_tell_of_each_migration_unless_it_is_asked_to() {
    let say = || {
        tracing::info!(target: "sea_orm_migration::migrator::exec", "Applying migration");
        tracing::info!("the schema was brought up to date");
    };
    let quiet = Logged::with(&TelemetrySettings::default());
    say();
    assert_eq!(quiet.output.lines().len(), 1);
    drop(quiet);
    let asked = Logged::with(&TelemetrySettings {
        log: "info,sea_orm_migration=info".to_owned(),
        ..TelemetrySettings::default()
    });
    say();
    assert_eq!(asked.output.lines().len(), 2);
}

#[test]
fn settings_that_do_not_fit_are_sentences() {
    let refuse = |settings: TelemetrySettings| {
        telemetry::build(&settings, "edge", Output::default())
            .err()
            .unwrap()
            .to_string()
    };
    let sentence = refuse(TelemetrySettings {
        log: "loud=very".to_owned(),
        ..TelemetrySettings::default()
    });
    assert!(
        sentence.starts_with("telemetry.log is \"loud=very\", which is no level"),
        "{sentence}"
    );
    let sentence = refuse(TelemetrySettings {
        otlp_endpoint: "https://collector".to_owned(),
        ..TelemetrySettings::default()
    });
    assert!(
        sentence.starts_with("telemetry.otlp_endpoint cannot be used: it must begin with http://"),
        "{sentence}"
    );
}

#[tokio::test]
async fn what_captures_events_in_tests_sees_what_is_logged() {
    let events = testkit::events::capture();
    let mut event = WideEvent::begin(EventKind::Fetch);
    event.set(attributes::HOPS, 2_u32).outcome(Outcome::Ok);
    drop(event);
    tracing::info!(answer = 42, "chatter");
    let event = events.one("fetch");
    assert_eq!(event["outcome"], "ok");
    assert_eq!(event[attributes::HOPS], 2);
    assert!(
        events.lines()[0].ends_with("message=chatter answer=42"),
        "{:?}",
        events.lines()
    );
}

/// A collector that keeps what it is sent.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource in request.into_inner().resource_spans {
            for scope in resource.scope_spans {
                self.0.lock().unwrap().extend(scope.spans);
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tokio::test]
async fn one_trace_goes_from_the_caller_over_the_socket_into_the_service() {
    let collector = Collector::default();
    let listener = tokio::net::TcpListener::bind(local()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tonic::transport::Server::builder()
        .add_service(TraceServiceServer::new(collector.clone()))
        .serve_with_incoming(TcpListenerStream::new(listener));
    let rig = Rig::new();
    rig.lifecycle.spawn_background("collector", async move {
        serving.await.unwrap();
    });
    let logged = Logged::with(&TelemetrySettings {
        otlp_endpoint: format!("http://{address}"),
        ..TelemetrySettings::default()
    });
    let peer = rig.peer(remote(rig.listen().await));
    let mut event = WideEvent::begin(EventKind::ToolCall);
    event.set(attributes::TOOL_NAME, "fetch_url");
    let channel = peer.channel(&Caller::Player(player()), LONG);
    event
        .within(async { unary(channel).export(say("who")).await })
        .await
        .unwrap();
    event.outcome(Outcome::Ok);
    drop(event);
    rig.lifecycle.stop();
    // The server's span ends with its answer's body, a moment after the client has the answer.
    let method = "opentelemetry.proto.collector.trace.v1.TraceService";
    while !logged.metrics().contains(r#"rpc_grpc_status="OK""#) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(logged.metrics().contains(&format!(
        r#"rpc_server_duration_seconds_count{{rpc_grpc_status="OK",rpc_method="Export",rpc_service="{method}"}} 1"#
    )), "{}", logged.metrics());
    let line = logged
        .output
        .lines()
        .into_iter()
        .find(|line| line.contains_key("event"))
        .unwrap();
    logged.telemetry.shutdown().await;
    let spans = collector.0.lock().unwrap().clone();
    let named = |name: &str| {
        spans
            .iter()
            .find(|span| span.name == name)
            .unwrap_or_else(|| panic!("{name} in {spans:#?}"))
    };
    let (client, server) = (named("tool_call"), named(&format!("{method}/Export")));
    assert_eq!(server.trace_id, client.trace_id);
    assert_eq!(server.parent_span_id, client.span_id);
    let id: [u8; 16] = client.trace_id.clone().try_into().unwrap();
    let hex = format!("{:032x}", u128::from_be_bytes(id));
    assert_eq!(line["trace_id"], hex.as_str());
    let tool = client
        .attributes
        .iter()
        .find(|attribute| attribute.key == attributes::TOOL_NAME)
        .and_then(|attribute| attribute.value.clone()?.value);
    assert_eq!(tool, Some(Any::StringValue("fetch_url".to_owned())));
    // Exporting traces makes none.
    assert!(
        spans
            .iter()
            .all(|span| ["tool_call", server.name.as_str()].contains(&span.name.as_str())),
        "{spans:#?}"
    );
}

#[tokio::test]
async fn callers_without_a_token_make_up_no_time_series() {
    let logged = Logged::with(&TelemetrySettings::default());
    let rig = Rig::new();
    let transport = runtime::Transport::in_process(&rig.service());
    for method in ["A", "B", "C"] {
        let request = http::Request::post(format!(
            "http://x/opentelemetry.proto.collector.trace.v1.TraceService/{method}"
        ))
        .body(tonic::body::Body::empty())
        .unwrap();
        tower::ServiceExt::oneshot(transport.clone(), request)
            .await
            .unwrap();
    }
    assert!(logged.metrics().contains(
        r#"rpc_server_duration_seconds_count{rpc_grpc_status="UNAUTHENTICATED",rpc_method="unknown",rpc_service="opentelemetry.proto.collector.trace.v1.TraceService"} 3"#
    ), "{}", logged.metrics());
}
