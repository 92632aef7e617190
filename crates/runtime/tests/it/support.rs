//! A small Village: keys, a lifecycle, and two services whose answers say what reached them.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt as _};
use kernel::{Caller, Clock, PlayerId, ServiceName, SystemClock};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_client::TraceServiceClient,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    trace::v1::ResourceSpans,
};
use runtime::{
    CallerChannel, GrpcServer, GrpcService, Host, Lifecycle, Peer, ServerLayers, Transport,
    host::Keys, token::Village,
};
use tonic::{Request, Response, Status, Streaming};
use tonic_reflection::pb::v1::{
    ErrorResponse, ServerReflectionRequest, ServerReflectionResponse,
    server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest,
    server_reflection_response::MessageResponse,
    server_reflection_server::{ServerReflection, ServerReflectionServer},
};

/// Who answers in every test.
pub(crate) const HERE: ServiceName = ServiceName::FetchProxy;
/// A deadline that no test reaches.
pub(crate) const LONG: Duration = Duration::from_mins(2);

/// A unary service (in OpenTelemetry's clothes) and a streaming one (in reflection's), which do what the request's text says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parrot {
    pub(crate) name: &'static str,
    pub(crate) calls: Arc<AtomicUsize>,
    pub(crate) dropped: Arc<AtomicUsize>,
}

struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tonic::async_trait]
impl TraceService for Parrot {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let _dropped = CountDrop(Arc::clone(&self.dropped));
        let caller = runtime::caller(&request)?;
        let remaining = runtime::remaining(&request);
        let token = request.metadata().get("authorization").is_some();
        let command = request.into_inner().resource_spans.remove(0).schema_url;
        let answer = match command.as_str() {
            "who" => caller.label(),
            "name" => self.name.to_owned(),
            "remaining" => remaining.as_secs().to_string(),
            "token" => token.to_string(),
            "panic" => panic!("hunter2"),
            "hang" => std::future::pending().await,
            "big" => "x".repeat(kernel::limits::RPC_MESSAGE_BYTES),
            "refuse" => {
                return Err(runtime::status::new(
                    kernel::ErrorCode::NotFound,
                    "there is no NPC \"Ada\"",
                ));
            }
            other => other.len().to_string(),
        };
        Ok(Response::new(ExportTraceServiceResponse {
            partial_success: Some(ExportTracePartialSuccess {
                rejected_spans: 0,
                error_message: answer,
            }),
        }))
    }
}

#[tonic::async_trait]
impl ServerReflection for Parrot {
    type ServerReflectionInfoStream =
        Pin<Box<dyn Stream<Item = Result<ServerReflectionResponse, Status>> + Send>>;

    async fn server_reflection_info(
        &self,
        request: Request<Streaming<ServerReflectionRequest>>,
    ) -> Result<Response<Self::ServerReflectionInfoStream>, Status> {
        let dropped = CountDrop(Arc::clone(&self.dropped));
        let answers = request.into_inner().then(move |item| {
            let _kept = &dropped;
            async move {
                match item?.host.as_str() {
                    "panic" => panic!("hunter2"),
                    "hang" => std::future::pending().await,
                    "fail" => Err(Status::not_found("no such parrot")),
                    word => Ok(spoken(word)),
                }
            }
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

fn spoken(word: &str) -> ServerReflectionResponse {
    ServerReflectionResponse {
        message_response: Some(MessageResponse::ErrorResponse(ErrorResponse {
            error_code: 0,
            error_message: word.to_owned(),
        })),
        ..Default::default()
    }
}

/// A request of the unary service.
pub(crate) fn say(command: &str) -> ExportTraceServiceRequest {
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            schema_url: command.to_owned(),
            ..Default::default()
        }],
    }
}

/// An item of the streaming service.
pub(crate) fn word(word: &str) -> ServerReflectionRequest {
    ServerReflectionRequest {
        host: word.to_owned(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    }
}

/// What an item of the stream says.
pub(crate) fn heard(response: ServerReflectionResponse) -> String {
    match response.message_response {
        Some(MessageResponse::ErrorResponse(error)) => error.error_message,
        other => panic!("a parrot said {other:?}"),
    }
}

pub(crate) fn player() -> PlayerId {
    "01930000-0000-7000-8000-000000000001".parse().unwrap()
}

pub(crate) struct Rig {
    pub(crate) village: Village,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) parrot: Parrot,
    pub(crate) longest_call: Duration,
}

impl Rig {
    pub(crate) fn new() -> Self {
        runtime::process::install_crypto();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Self {
            village: Village::generate(&clock).unwrap(),
            lifecycle: Lifecycle::new(),
            parrot: Parrot::default(),
            longest_call: LONG,
        }
    }

    pub(crate) fn named(name: &'static str) -> Self {
        let mut rig = Self::new();
        rig.parrot.name = name;
        rig
    }

    pub(crate) fn service(&self) -> GrpcService {
        let bytes = kernel::limits::RPC_MESSAGE_BYTES;
        GrpcServer::new(HERE)
            .add(TraceServiceServer::new(self.parrot.clone()).max_decoding_message_size(2 * bytes))
            .add(ServerReflectionServer::new(self.parrot.clone()))
            .layered(ServerLayers {
                trust: self.village.trust(),
                longest_call: self.longest_call,
            })
    }

    pub(crate) fn host(&self) -> Host {
        // The parrot wears reflection's name.
        Host::new(self.lifecycle.clone(), Keys::MadeAtStart)
            .without_reflection()
            .add(self.service())
    }

    pub(crate) async fn listen(&self) -> SocketAddr {
        self.host().listen(local()).await.unwrap()
    }

    pub(crate) fn peer(&self, transport: Transport) -> Peer {
        Peer::new(transport, self.village.issuer(ServiceName::Edge), HERE)
    }

    /// Both ways to the same service.
    pub(crate) async fn both_ways(&self) -> [(&'static str, Transport); 2] {
        let address = self.listen().await;
        [
            ("in process", Transport::in_process(&self.service())),
            ("remote", remote(address)),
        ]
    }
}

pub(crate) fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub(crate) fn remote(address: SocketAddr) -> Transport {
    Transport::remote(&format!("http://{address}"), None).unwrap()
}

pub(crate) fn unary(channel: CallerChannel) -> TraceServiceClient<CallerChannel> {
    TraceServiceClient::new(channel)
        .max_decoding_message_size(2 * kernel::limits::RPC_MESSAGE_BYTES)
}

pub(crate) fn streaming(channel: CallerChannel) -> ServerReflectionClient<CallerChannel> {
    ServerReflectionClient::new(channel)
}

/// Asks the unary service as a Player.
pub(crate) async fn ask(peer: &Peer, command: &str) -> Result<String, Status> {
    let channel = peer.channel(&Caller::Player(player()), LONG);
    let response = unary(channel).export(say(command)).await?;
    Ok(answer(response))
}

pub(crate) fn answer(response: Response<ExportTraceServiceResponse>) -> String {
    response.into_inner().partial_success.unwrap().error_message
}
