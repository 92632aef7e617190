//! The gRPC face. Only this file, what is under it, and `peers` name tonic and the generated types.

mod fit;
mod render;

use std::{pin::Pin, sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _, future::BoxFuture, stream};
use kernel::{
    JsonText, McpServerId, ServiceName,
    limits::{RPC_MESSAGE_BYTES, TOOL_ARGUMENT_BYTES},
};
use proto::{
    mcp::v1::{
        CallToolRequest, CallToolResponse, ListToolsRequest, ListToolsResponse, TestServerRequest,
        TestServerResponse, WantedServer,
        call_tool_response::Item,
        mcp_service_server::{McpService, McpServiceServer},
        test_server_request::Server as WireSubject,
    },
    registry::v1::{CreateMcpServerRequest, NamedSecret},
};
use runtime::GrpcServer;
use tokio::{sync::mpsc, time::Instant};
use tonic::{Request, Response, Status};

use crate::{
    Call, Error, Progress,
    peers::read_transport,
    service::{self, Called, Gateway, Wanted, Wish},
    test_server::Subject,
    validate::Draft,
};

/// Time left for an answer's way back, so that a caller in a hurry still gets a sentence.
const WAY_BACK: Duration = Duration::from_millis(150);
/// Servers whose Tools are asked for in one request.
const MAX_SERVERS: usize = 256;
/// Tools that one Grant names.
const MAX_NAMED: usize = 4_096;
/// Bytes of a Tool's name at its server.
const TOOL_NAME_BYTES: usize = 1_024;
/// Bytes of what names a call.
const CALL_ID_BYTES: usize = 256;
/// Progress that waits to be read by the caller; what comes while so much waits is not told.
const WAITING_PROGRESS: usize = 8;

/// The services, without layers.
pub(crate) fn server(gateway: Arc<Gateway>) -> GrpcServer {
    GrpcServer::new(ServiceName::McpGateway)
        .add(
            McpServiceServer::new(Service { gateway })
                .max_decoding_message_size(RPC_MESSAGE_BYTES)
                .max_encoding_message_size(RPC_MESSAGE_BYTES),
        )
        .describe(proto::FILE_DESCRIPTOR_SET)
}

#[derive(Debug)]
struct Service {
    gateway: Arc<Gateway>,
}

type Items = Pin<Box<dyn Stream<Item = Result<CallToolResponse, Status>> + Send>>;

#[async_trait::async_trait]
impl McpService for Service {
    type CallToolStream = Items;

    async fn test_server(
        &self,
        request: Request<TestServerRequest>,
    ) -> Result<Response<TestServerResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let patience = runtime::remaining(&request).saturating_sub(WAY_BACK);
        let subject = parse_subject(request.into_inner())?;
        let test = self.gateway.test(&caller, subject, patience);
        let report = Box::pin(test).await?;
        Ok(Response::new(render::test(&report)))
    }

    async fn list_tools(
        &self,
        request: Request<ListToolsRequest>,
    ) -> Result<Response<ListToolsResponse>, Status> {
        let player = service::reader_of(&runtime::caller(&request)?)?;
        let patience = runtime::remaining(&request).saturating_sub(WAY_BACK);
        let wanted = parse_wanted(request.into_inner())?;
        let offers = self.gateway.list(player, &wanted, patience).await;
        let servers = wanted.iter().zip(&offers);
        Ok(Response::new(ListToolsResponse {
            servers: fit::into_one_answer(servers.map(render::offer).collect()),
        }))
    }

    async fn call_tool(
        &self,
        request: Request<CallToolRequest>,
    ) -> Result<Response<Items>, Status> {
        let player = service::turn_of(&runtime::caller(&request)?)?;
        let patience = runtime::remaining(&request).saturating_sub(WAY_BACK);
        let wish = parse_wish(request.into_inner(), Instant::now() + patience)?;
        let gateway = Arc::clone(&self.gateway);
        let (teller, told) = mpsc::channel(WAITING_PROGRESS);
        let work = async move {
            let tell = move |step: Progress| {
                // A caller that does not read has no use for progress.
                drop(teller.try_send(step));
            };
            gateway.call(player, wish, &tell).await
        };
        let mut items = items(Box::pin(work), told);
        // With the first item the head goes out in one piece, and the caller is woken once.
        let first = items.next().await;
        let items = stream::iter(first).chain(items);
        Ok(Response::new(Box::pin(items)))
    }
}

/// Progress, then one result. Dropping the stream drops the call, which cancels it.
fn items(work: BoxFuture<'static, Result<Called, Error>>, told: mpsc::Receiver<Progress>) -> Items {
    Box::pin(stream::unfold(Some((work, told)), async |state| {
        let (mut work, mut told) = state?;
        let ended = tokio::select! {
            biased;
            Some(step) = told.recv() => {
                let item = render::progress(step);
                return Some((Ok(item), Some((work, told))));
            }
            ended = &mut work => ended,
        };
        let item = ended.map(|called| CallToolResponse {
            item: Some(Item::Result(render::result(called))),
        });
        Some((item.map_err(Status::from), None))
    }))
}

fn parse_wanted(request: ListToolsRequest) -> Result<Vec<Wanted>, Error> {
    if request.servers.len() > MAX_SERVERS {
        return Err(Error::argument(
            "servers",
            format!(
                "{} servers are asked for; at most {MAX_SERVERS} are answered at once",
                request.servers.len()
            ),
        ));
    }
    let wanted: Vec<Wanted> = request
        .servers
        .into_iter()
        .map(parse_one)
        .collect::<Result<_, _>>()?;
    match service::named_twice(&wanted) {
        Some(id) => Err(Error::argument(
            "servers",
            format!("the server {id} is asked for twice; ask once, for all Tools that are wanted"),
        )),
        None => Ok(wanted),
    }
}

fn parse_one(wanted: WantedServer) -> Result<Wanted, Error> {
    let is_named = |name: &String| !name.is_empty() && name.len() <= TOOL_NAME_BYTES;
    if wanted.tools.len() > MAX_NAMED || !wanted.tools.iter().all(is_named) {
        return Err(Error::argument(
            "servers.tools",
            format!("at most {MAX_NAMED} Tools are named, each in 1 to {TOOL_NAME_BYTES} bytes"),
        ));
    }
    Ok(Wanted {
        id: parse_id("servers.server_id", &wanted.server_id)?,
        generation: wanted.generation,
        tools: wanted.tools,
        limit: usize::try_from(wanted.limit).unwrap_or(usize::MAX),
    })
}

fn parse_id(field: &'static str, text: &str) -> Result<McpServerId, Error> {
    text.parse()
        .map_err(|invalid: kernel::InvalidId| Error::argument(field, invalid.to_string()))
}

fn parse_wish(request: CallToolRequest, deadline: Instant) -> Result<Wish, Error> {
    let id = parse_id("server_id", &request.server_id)?;
    if request.tool_name.is_empty() || request.tool_name.len() > TOOL_NAME_BYTES {
        return Err(Error::argument(
            "tool_name",
            format!("a Tool's name has 1 to {TOOL_NAME_BYTES} bytes"),
        ));
    }
    if request.call_id.is_empty() || request.call_id.len() > CALL_ID_BYTES {
        return Err(Error::argument(
            "call_id",
            format!("a call is named in 1 to {CALL_ID_BYTES} bytes"),
        ));
    }
    let wrong = |problem: String| Error::argument("arguments_json", problem);
    let length = request.arguments_json.len();
    if length > TOOL_ARGUMENT_BYTES {
        return Err(wrong(format!(
            "the arguments have {length} bytes; at most {TOOL_ARGUMENT_BYTES} are taken"
        )));
    }
    let arguments = JsonText::parse(&request.arguments_json)
        .map_err(|invalid| wrong(format!("the arguments are no JSON: {invalid}")))?;
    if !arguments.is_object() {
        return Err(wrong("the arguments are no JSON object".to_owned()));
    }
    Ok(Wish {
        id,
        generation: request.generation,
        call: Call {
            tool: request.tool_name,
            arguments,
            id: request.call_id,
            deadline,
        },
    })
}

fn parse_subject(request: TestServerRequest) -> Result<Subject, Error> {
    match request.server {
        Some(WireSubject::Saved(name)) => Ok(Subject::Saved(name)),
        Some(WireSubject::Unsaved(draft)) => parse_draft(draft).map(Subject::Unsaved),
        None => Err(Error::argument(
            "server",
            "say which server: a saved one by name or id, or one that is not saved",
        )),
    }
}

fn parse_draft(request: CreateMcpServerRequest) -> Result<Draft, Error> {
    let transport = read_transport(request.transport()).ok_or_else(|| {
        Error::argument(
            "transport",
            "say how the server is reached: http, sse or stdio",
        )
    })?;
    let pairs = |secrets: Vec<NamedSecret>| -> Vec<(String, String)> {
        secrets
            .into_iter()
            .map(|secret| (secret.name, secret.value))
            .collect()
    };
    Ok(Draft {
        name: request.name,
        transport,
        url: request.url,
        headers: pairs(request.headers),
        command: request.command,
        arguments: request.arguments,
        environment: pairs(request.environment),
        working_directory: request.working_directory,
    })
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        runtime::status::from_error(&error, error.code(), error.field())
    }
}
