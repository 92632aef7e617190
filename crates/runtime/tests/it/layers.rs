//! What holds on both paths.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use kernel::{Caller, ErrorCode, NpcId, ServiceName, SystemClock};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use runtime::{Issuer, Peer, SigningKey, Transport, status::problem};
use tonic::{Code, Request, body::Body};
use tower::ServiceExt as _;

use crate::support::{HERE, LONG, Rig, answer, ask, heard, player, say, streaming, unary, word};

#[tokio::test]
async fn the_caller_arrives_as_it_was_sent() {
    let rig = Rig::new();
    let npc: NpcId = "01930000-0000-7000-8000-000000000002".parse().unwrap();
    for (way, transport) in rig.both_ways().await {
        for (issuer, caller) in [
            (ServiceName::Edge, Caller::Operator(player())),
            (ServiceName::Edge, Caller::Player(player())),
            (
                ServiceName::TurnOrchestrator,
                Caller::Npc {
                    npc,
                    player: player(),
                },
            ),
            (
                ServiceName::McpGateway,
                Caller::Service {
                    name: ServiceName::McpGateway,
                    player: None,
                },
            ),
        ] {
            let peer = Peer::new(transport.clone(), rig.village.issuer(issuer), HERE);
            let response = unary(peer.as_caller(&caller)).export(say("who")).await;
            assert_eq!(answer(response.unwrap()), caller.label(), "{way}");
        }
    }
}

#[tokio::test]
async fn the_service_itself_never_sees_the_token() {
    let rig = Rig::new();
    for (way, transport) in rig.both_ways().await {
        assert_eq!(
            ask(&rig.peer(transport), "token").await.unwrap(),
            "false",
            "{way}"
        );
    }
}

#[tokio::test]
async fn a_call_without_a_token_is_unauthenticated() {
    let rig = Rig::new();
    for (way, transport) in rig.both_ways().await {
        let status = TraceServiceClient::new(transport)
            .export(say("who"))
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated, "{way}");
        assert_eq!(
            rig.parrot.calls.load(std::sync::atomic::Ordering::SeqCst),
            0
        );
    }
}

#[tokio::test]
async fn every_bad_token_gets_the_same_answer() {
    let rig = Rig::new();
    let stranger = Issuer::new(
        ServiceName::Edge,
        SigningKey::generate().unwrap(),
        Arc::new(SystemClock),
    );
    let caller = Caller::Operator(player());
    let edge = rig.village.issuer(ServiceName::Edge);
    let tokens = [
        format!("Bearer {}", stranger.mint(&caller, HERE).unwrap()),
        format!(
            "Bearer {}",
            edge.mint(&caller, ServiceName::ToolRegistry).unwrap()
        ),
        // A service that may not speak for the Operator.
        format!(
            "Bearer {}",
            rig.village
                .issuer(ServiceName::SandboxBroker)
                .mint(&caller, HERE)
                .unwrap()
        ),
        format!("bearer {}", edge.mint(&caller, HERE).unwrap()),
        edge.mint(&caller, HERE).unwrap(),
        "Bearer ".to_owned(),
        "Basic b3BlcmF0b3I6".to_owned(),
    ];
    for (way, transport) in rig.both_ways().await {
        for token in &tokens {
            let mut request = Request::new(say("who"));
            request
                .metadata_mut()
                .insert("authorization", token.parse().unwrap());
            let status = TraceServiceClient::new(transport.clone())
                .export(request)
                .await
                .unwrap_err();
            assert_eq!(status.code(), Code::Unauthenticated, "{way} {token}");
            for told in ["edge", "signature", "expired", "tool-registry"] {
                assert!(!status.message().contains(told), "{way}: {status}");
            }
        }
    }
    assert_eq!(
        rig.parrot.calls.load(std::sync::atomic::Ordering::SeqCst),
        0
    );
}

#[tokio::test]
async fn a_refusal_arrives_with_its_sentence() {
    let rig = Rig::new();
    for (way, transport) in rig.both_ways().await {
        let status = ask(&rig.peer(transport), "refuse").await.unwrap_err();
        let told = problem(&status);
        assert_eq!(told.code, ErrorCode::NotFound, "{way}");
        assert_eq!(told.sentence, "there is no NPC \"Ada\"", "{way}");
    }
}

#[tokio::test]
async fn a_panic_is_an_internal_error_that_tells_nothing() {
    let rig = Rig::new();
    for (way, transport) in rig.both_ways().await {
        let peer = rig.peer(transport);
        let status = ask(&peer, "panic").await.unwrap_err();
        assert_eq!(status.code(), Code::Internal, "{way}");
        assert!(
            !format!("{status:?}").contains("hunter2"),
            "{way}: {status:?}"
        );
        assert_eq!(ask(&peer, "hello").await.unwrap(), "5", "{way}: it goes on");
    }
}

#[tokio::test]
async fn a_panic_in_a_stream_ends_the_stream_alone() {
    let rig = Rig::new();
    for (way, transport) in rig.both_ways().await {
        let peer = rig.peer(transport);
        let mut client = streaming(peer.channel(&Caller::Player(player()), LONG));
        let (sender, words) = tokio::sync::mpsc::unbounded_channel();
        let words = tokio_stream::wrappers::UnboundedReceiverStream::new(words);
        sender.send(word("one")).unwrap();
        let mut answers = client
            .server_reflection_info(words)
            .await
            .unwrap()
            .into_inner();
        let first = answers.next().await.unwrap().unwrap();
        assert_eq!(heard(first), "one", "{way}");
        sender.send(word("panic")).unwrap();
        let status = answers.next().await.unwrap().unwrap_err();
        assert_eq!(status.code(), Code::Internal, "{way}");
        assert!(!format!("{status:?}").contains("hunter2"), "{way}");
        assert!(answers.next().await.is_none(), "{way}");
    }
}

#[tokio::test]
async fn a_stream_goes_both_ways_and_ends_with_its_status() {
    let rig = Rig::new();
    for (way, transport) in rig.both_ways().await {
        let mut client = streaming(rig.peer(transport).channel(&Caller::Player(player()), LONG));
        let words = futures::stream::iter([word("one"), word("two"), word("fail")]);
        let mut answers = client
            .server_reflection_info(words)
            .await
            .unwrap()
            .into_inner();
        for expected in ["one", "two"] {
            let answer = answers.next().await.unwrap().unwrap();
            assert_eq!(heard(answer), expected, "{way}");
        }
        let status = answers.next().await.unwrap().unwrap_err();
        assert_eq!(
            (status.code(), status.message()),
            (Code::NotFound, "no such parrot"),
            "{way}"
        );
    }
}

#[tokio::test]
async fn a_call_ends_at_its_deadline_and_its_work_is_dropped() {
    let rig = Rig::new();
    for (way, transport) in rig.both_ways().await {
        let before = rig.parrot.dropped.load(std::sync::atomic::Ordering::SeqCst);
        let channel = rig
            .peer(transport)
            .channel(&Caller::Player(player()), Duration::from_millis(300));
        let status = unary(channel).export(say("hang")).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{way}");
        while rig.parrot.dropped.load(std::sync::atomic::Ordering::SeqCst) == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_stream_ends_at_its_deadline() {
    let rig = Rig::new();
    for (way, transport) in rig.both_ways().await {
        let channel = rig
            .peer(transport)
            .channel(&Caller::Player(player()), Duration::from_millis(500));
        let words = futures::stream::iter([word("one"), word("hang")]);
        let mut answers = streaming(channel)
            .server_reflection_info(words)
            .await
            .unwrap()
            .into_inner();
        assert_eq!(
            heard(answers.next().await.unwrap().unwrap()),
            "one",
            "{way}"
        );
        let status = answers.next().await.unwrap().unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{way}");
    }
}

#[tokio::test]
async fn a_caller_cannot_ask_for_more_time_than_there_is() {
    let mut rig = Rig::new();
    rig.longest_call = Duration::from_secs(90);
    for (way, transport) in rig.both_ways().await {
        let peer = rig.peer(transport);
        let channel = peer.channel(&Caller::Player(player()), Duration::from_hours(20));
        let response = unary(channel).export(say("remaining")).await.unwrap();
        let seconds: u64 = answer(response).parse().unwrap();
        assert!(seconds <= 90, "{way}: {seconds}");
        // A shorter timeout of the request itself holds.
        let mut request = Request::new(say("remaining"));
        request.set_timeout(Duration::from_secs(40));
        let channel = peer.channel(&Caller::Player(player()), LONG);
        let response = unary(channel).export(request).await.unwrap();
        let seconds: u64 = answer(response).parse().unwrap();
        assert!(seconds <= 40, "{way}: {seconds}");
    }
}

#[tokio::test]
async fn a_timeout_that_is_none_is_an_invalid_argument() {
    let rig = Rig::new();
    for (way, transport) in rig.both_ways().await {
        for text in ["never", "-1S", "999999999S"] {
            let mut request = Request::new(say("who"));
            request
                .metadata_mut()
                .insert("grpc-timeout", text.parse().unwrap());
            let code = raw(&transport, request).await;
            // tonic's own client reads the header too, and drops what it cannot read.
            assert_eq!(code, Code::InvalidArgument, "{way} {text}");
        }
    }
}

/// Calls without the layers of a [`Peer`].
async fn raw(
    transport: &Transport,
    request: Request<opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest>,
) -> Code {
    TraceServiceClient::new(transport.clone())
        .export(request)
        .await
        .map_or_else(|status| status.code(), |_answer| Code::Ok)
}

#[tokio::test]
async fn a_message_beyond_the_bound_is_refused_both_ways() {
    let rig = Rig::new();
    for (way, transport) in rig.both_ways().await {
        let peer = rig.peer(transport);
        let most = "x".repeat(kernel::limits::RPC_MESSAGE_BYTES - 64);
        assert_eq!(
            ask(&peer, &most).await.unwrap(),
            most.len().to_string(),
            "{way}"
        );
        let more = "x".repeat(kernel::limits::RPC_MESSAGE_BYTES);
        let status = ask(&peer, &more).await.unwrap_err();
        assert_eq!(
            problem(&status).code,
            ErrorCode::ResourceExhausted,
            "{way}: {status:?}"
        );
        let status = ask(&peer, "big").await.unwrap_err();
        assert_eq!(
            problem(&status).code,
            ErrorCode::ResourceExhausted,
            "{way}: {status:?}"
        );
    }
}

#[tokio::test]
async fn a_method_that_does_not_exist_is_unimplemented() {
    let rig = Rig::new();
    let edge = rig.village.issuer(ServiceName::Edge);
    let token = edge.mint(&Caller::Player(player()), HERE).unwrap();
    for (way, transport) in rig.both_ways().await {
        let request = http::Request::post(
            "http://x/opentelemetry.proto.collector.trace.v1.TraceService/Nope",
        )
        .header("content-type", "application/grpc")
        .header("authorization", format!("Bearer {token}"))
        .body(Body::empty())
        .unwrap();
        let response = transport.oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let trailers = body.collect().await.unwrap();
        let status = parts
            .headers
            .get("grpc-status")
            .or_else(|| trailers.trailers()?.get("grpc-status"))
            .cloned();
        assert_eq!(status.unwrap(), "12", "{way}");
    }
}

#[tokio::test]
async fn a_deadline_that_no_clock_can_say_is_as_good_as_none() {
    let mut rig = Rig::new();
    rig.longest_call = Duration::MAX;
    for (way, transport) in rig.both_ways().await {
        let peer = rig.peer(transport);
        let channel = peer.channel(&Caller::Player(player()), Duration::MAX);
        let answered = unary(channel).export(say("who")).await;
        answered.unwrap_or_else(|status| panic!("{way}: {status}"));
    }
}
