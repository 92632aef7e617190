//! The listener: health, reflection, bounds, the end.

use std::{future::pending, net::SocketAddr, sync::atomic::Ordering, time::Duration};

use futures::StreamExt as _;
use kernel::Caller;
use runtime::{GrpcServer, Host, Lifecycle, ServerLayers, Stopped, host::Keys};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic::Code;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use crate::support::{HERE, LONG, Rig, ask, heard, local, player, remote, streaming, word};

const PARROT: &str = "opentelemetry.proto.collector.trace.v1.TraceService";

fn check(service: &str) -> HealthCheckRequest {
    HealthCheckRequest {
        service: service.to_owned(),
    }
}

#[tokio::test]
async fn health_follows_readiness_and_needs_no_token() {
    let rig = Rig::new();
    let schema = rig.lifecycle.readiness().task("schema");
    let mut health = HealthClient::new(remote(rig.listen().await));
    for service in ["", PARROT] {
        let mut watched = health.watch(check(service)).await.unwrap().into_inner();
        let first = watched.next().await.unwrap().unwrap().status();
        assert_eq!(first, ServingStatus::NotServing, "{service}");
    }
    let mut watched = health.watch(check(PARROT)).await.unwrap().into_inner();
    let mut next = async || watched.next().await.unwrap().map(|answer| answer.status());
    assert_eq!(next().await.unwrap(), ServingStatus::NotServing);
    drop(schema);
    assert_eq!(next().await.unwrap(), ServingStatus::Serving);
    assert_eq!(
        health
            .check(check(PARROT))
            .await
            .unwrap()
            .into_inner()
            .status(),
        ServingStatus::Serving
    );
    assert_eq!(
        health.check(check("nobody")).await.unwrap_err().code(),
        Code::NotFound
    );
}

#[tokio::test]
async fn health_reads_no_long_question() {
    let rig = Rig::new();
    let mut health = HealthClient::new(remote(rig.listen().await));
    let long = check(&"x".repeat(64 * 1_024));
    assert_eq!(
        health.check(long.clone()).await.unwrap_err().code(),
        Code::OutOfRange
    );
    assert_eq!(
        health.watch(long).await.unwrap_err().code(),
        Code::OutOfRange
    );
}

#[tokio::test]
async fn a_watcher_of_health_does_not_hold_up_the_end() {
    let rig = Rig::new();
    let mut health = HealthClient::new(remote(rig.listen().await));
    let mut watched = health.watch(check("")).await.unwrap().into_inner();
    watched.next().await.unwrap().unwrap();
    assert_eq!(
        rig.lifecycle
            .drain(Duration::from_hours(1), pending())
            .await,
        Stopped::Drained
    );
    while let Some(Ok(answer)) = watched.next().await {
        assert_eq!(answer.status(), ServingStatus::NotServing);
    }
}

async fn services(address: SocketAddr) -> Result<Vec<String>, Code> {
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = ServerReflectionClient::new(remote(address))
        .server_reflection_info(tokio_stream::iter([request]))
        .await
        .map_err(|status| status.code())?
        .into_inner();
    match answers.next().await.unwrap().unwrap().message_response {
        Some(MessageResponse::ListServicesResponse(list)) => Ok(list
            .service
            .into_iter()
            .map(|service| service.name)
            .collect()),
        other => panic!("reflection said {other:?}"),
    }
}

#[tokio::test]
async fn reflection_describes_what_is_served_and_can_be_turned_off() {
    let rig = Rig::new();
    let host = Host::new(rig.lifecycle.clone(), Keys::MadeAtStart);
    let address = host.clone().listen(local()).await.unwrap();
    assert_eq!(
        services(address).await,
        Ok(vec!["grpc.health.v1.Health".to_owned()])
    );
    let address = host.without_reflection().listen(local()).await.unwrap();
    assert_eq!(services(address).await, Err(Code::Unimplemented));
}

#[tokio::test]
async fn beyond_loopback_keys_must_be_set_and_nothing_is_described() {
    let open = SocketAddr::from(([0, 0, 0, 0], 0));
    let refused = Host::new(Lifecycle::new(), Keys::MadeAtStart)
        .listen(open)
        .await
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "gRPC would listen on 0.0.0.0:0, which others can reach, and no keys are set; set keys.private and keys.trust (`agentsville keys` prints them), or listen on 127.0.0.1"
    );
    let address = Host::new(Lifecycle::new(), Keys::Set)
        .listen(open)
        .await
        .unwrap();
    let local = SocketAddr::from(([127, 0, 0, 1], address.port()));
    assert_eq!(services(local).await, Err(Code::Unimplemented));
    HealthClient::new(remote(local))
        .check(check(""))
        .await
        .unwrap();
}

#[tokio::test]
async fn an_address_that_is_taken_is_a_sentence() {
    let rig = Rig::new();
    let address = rig.listen().await;
    let refused = rig.host().listen(address).await.unwrap_err().to_string();
    assert!(
        refused.starts_with(&format!("gRPC cannot listen on {address}: ")),
        "{refused}"
    );
}

#[tokio::test]
async fn each_service_of_one_host_accepts_only_tokens_that_are_for_it() {
    let rig = Rig::new();
    let layers = ServerLayers {
        trust: rig.village.trust(),
        longest_call: LONG,
    };
    let registry = GrpcServer::new(kernel::ServiceName::ToolRegistry)
        .add(
            tonic_reflection::pb::v1::server_reflection_server::ServerReflectionServer::new(
                rig.parrot.clone(),
            ),
        )
        .layered(layers.clone());
    let fetch = GrpcServer::new(HERE)
        .add(
            opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::TraceServiceServer::new(
                rig.parrot.clone(),
            ),
        )
        .layered(layers);
    let address = Host::new(rig.lifecycle.clone(), Keys::MadeAtStart)
        .without_reflection()
        .add(registry)
        .add(fetch)
        .listen(local())
        .await
        .unwrap();
    let peer = rig.peer(remote(address));
    ask(&peer, "who").await.unwrap();
    let refused = streaming(peer.as_caller(&Caller::Player(player())))
        .server_reflection_info(tokio_stream::iter([word("one")]))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn calls_that_run_are_finished_before_the_end() {
    let rig = Rig::new();
    let peer = rig.peer(remote(rig.listen().await));
    let (sender, words) = tokio::sync::mpsc::unbounded_channel();
    let mut answers = streaming(peer.channel(&Caller::Player(player()), LONG))
        .server_reflection_info(tokio_stream::wrappers::UnboundedReceiverStream::new(words))
        .await
        .unwrap()
        .into_inner();
    sender.send(word("before")).unwrap();
    assert_eq!(heard(answers.next().await.unwrap().unwrap()), "before");
    rig.lifecycle.stop();
    sender.send(word("after")).unwrap();
    assert_eq!(heard(answers.next().await.unwrap().unwrap()), "after");
    drop(sender);
    assert!(answers.next().await.is_none());
    assert_eq!(
        rig.lifecycle
            .drain(Duration::from_hours(1), pending())
            .await,
        Stopped::Drained
    );
    let refused = ask(&peer, "who").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
}

#[tokio::test]
async fn calls_that_do_not_end_are_cut_off() {
    let rig = Rig::new();
    let peer = rig.peer(remote(rig.listen().await));
    let end = async {
        while rig.parrot.calls.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        rig.lifecycle.drain(Duration::ZERO, pending()).await
    };
    let (answer, stopped) = tokio::join!(ask(&peer, "hang"), end);
    assert_eq!(stopped, Stopped::CutOff);
    assert_eq!(rig.parrot.dropped.load(Ordering::SeqCst), 1);
    answer.unwrap_err();
}

#[tokio::test]
async fn what_is_not_http2_is_hung_up_on() {
    let rig = Rig::new();
    let address = rig.listen().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    // Reset or end: both say that nobody talks HTTP/1 here.
    let _ended = stream.read_to_end(&mut answer).await;
    assert_eq!(answer, b"");
}

#[tokio::test]
async fn a_silent_connection_does_not_hold_up_the_end() {
    let rig = Rig::new();
    let mut silent = TcpStream::connect(rig.listen().await).await.unwrap();
    // The first half of what HTTP/2 begins with, and nothing more.
    silent.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    while rig.lifecycle.tracker().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(
        rig.lifecycle
            .drain(Duration::from_hours(1), pending())
            .await,
        Stopped::Drained
    );
}

#[tokio::test]
async fn connections_beyond_the_bound_are_closed() {
    let rig = Rig::new();
    let mut settings: runtime::host::GrpcSettings =
        runtime::Settings::load(runtime::Sources::default())
            .unwrap()
            .section("grpc")
            .unwrap();
    settings.connections = 1;
    settings.reflection = false;
    let address = rig
        .host()
        .with_settings(&settings)
        .listen(local())
        .await
        .unwrap();
    let first = TcpStream::connect(address).await.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    let mut answer = Vec::new();
    let _ended = second.read_to_end(&mut answer).await;
    assert_eq!(answer, b"");
    drop(first);
    // The place of the first is free again.
    let peer = rig.peer(remote(address));
    while ask(&peer, "who").await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
