//! The mcp-gateway's contract, spoken by a script: what servers list, and how calls end.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use futures::{StreamExt as _, stream::BoxStream};
use kernel::{Caller, JsonText, ServiceName, ToolDefinition};
use proto::mcp::v1::{
    CallEnd, CallProgress, CallResult, CallToolRequest, CallToolResponse, Content,
    ListToolsRequest, ListToolsResponse, McpTool, ServerTools, TestServerRequest,
    TestServerResponse,
    call_tool_response::Item,
    content::Kind,
    mcp_service_server::{McpService, McpServiceServer},
};
use runtime::GrpcServer;
use serde_json::Value;
use tokio::sync::Notify;
use tonic::{Request, Response, Status};

/// What the script says, and what was asked.
#[derive(Default)]
pub(crate) struct Gateway {
    /// What servers list, by id.
    pub(crate) servers: Mutex<BTreeMap<String, ServerTools>>,
    /// How the next calls go; then they succeed with "Done".
    pub(crate) calls: Mutex<VecDeque<Call>>,
    pub(crate) listed: Mutex<Vec<(Caller, ListToolsRequest)>>,
    pub(crate) called: Mutex<Vec<(Caller, CallToolRequest)>>,
    /// Nobody answers.
    pub(crate) is_away: AtomicBool,
    /// Lists never come.
    pub(crate) hangs: AtomicBool,
    /// A call has begun.
    pub(crate) begun: Notify,
    /// Calls whose caller went away.
    pub(crate) dropped: AtomicUsize,
    pub(crate) drop_seen: Notify,
}

/// How a call goes.
pub(crate) enum Call {
    /// It has a result.
    Gives(CallResult),
    /// It has none, as long as it is waited for.
    Hangs,
    /// The gateway breaks off after it told of progress.
    Breaks,
    /// The stream ends without a result.
    Ends,
}

impl Gateway {
    /// A server lists these.
    pub(crate) fn lists(&self, server: &str, generation: u64, tools: Vec<McpTool>) {
        let tools = ServerTools {
            server_id: server.to_owned(),
            tools,
            generation,
            ..ServerTools::default()
        };
        self.servers
            .lock()
            .unwrap()
            .insert(server.to_owned(), tools);
    }

    /// The next calls go like this.
    pub(crate) fn script(&self, calls: impl IntoIterator<Item = Call>) {
        self.calls.lock().unwrap().extend(calls);
    }
}

/// A Tool with a definition of its own.
pub(crate) fn tool(slug: &str, name: &str, description: &str, schema: &Value) -> McpTool {
    let definition = ToolDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: JsonText::of(schema),
        annotations: None,
    };
    McpTool {
        full_name: format!("{slug}__{name}"),
        definition_hash: definition.hash(),
        input_schema_json: definition.input_schema.as_str().to_owned(),
        name: definition.name,
        description: definition.description,
        annotations_json: String::new(),
    }
}

/// A call gave these pieces.
pub(crate) fn gives(kinds: impl IntoIterator<Item = Kind>) -> Call {
    Call::Gives(CallResult {
        end: CallEnd::Ok.into(),
        content: kinds
            .into_iter()
            .map(|kind| Content { kind: Some(kind) })
            .collect(),
        ..CallResult::default()
    })
}

pub(crate) fn server(gateway: &Arc<Gateway>) -> GrpcServer {
    let service = McpServiceServer::new(Speaks(Arc::clone(gateway)))
        .max_encoding_message_size(kernel::limits::RPC_MESSAGE_BYTES);
    GrpcServer::new(ServiceName::McpGateway).add(service)
}

struct Speaks(Arc<Gateway>);

/// Tells when the caller of a call has gone.
struct Gone(Arc<Gateway>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
        self.0.drop_seen.notify_one();
    }
}

fn item(item: Item) -> CallToolResponse {
    CallToolResponse { item: Some(item) }
}

#[tonic::async_trait]
impl McpService for Speaks {
    type CallToolStream = BoxStream<'static, Result<CallToolResponse, Status>>;

    async fn list_tools(
        &self,
        request: Request<ListToolsRequest>,
    ) -> Result<Response<ListToolsResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        self.0
            .listed
            .lock()
            .unwrap()
            .push((caller, request.clone()));
        if self.0.is_away.load(Ordering::SeqCst) {
            return Err(Status::unavailable("down"));
        }
        if self.0.hangs.load(Ordering::SeqCst) {
            futures::future::pending::<()>().await;
        }
        let known = self.0.servers.lock().unwrap();
        let servers = request.servers.iter().map(|wanted| {
            known
                .get(&wanted.server_id)
                .cloned()
                .unwrap_or_else(|| ServerTools {
                    server_id: wanted.server_id.clone(),
                    unavailable: "connection refused.".to_owned(),
                    code: "unreachable".to_owned(),
                    ..ServerTools::default()
                })
        });
        Ok(Response::new(ListToolsResponse {
            servers: servers.collect(),
        }))
    }

    async fn call_tool(
        &self,
        request: Request<CallToolRequest>,
    ) -> Result<Response<Self::CallToolStream>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        self.0.called.lock().unwrap().push((caller, request));
        self.0.begun.notify_one();
        let progress = Item::Progress(CallProgress {
            progress: 1.0,
            total: 2.0,
            message: "half".to_owned(),
        });
        let next = self.0.calls.lock().unwrap().pop_front();
        let done = || gives([Kind::Text("Done".to_owned())]);
        let items: Self::CallToolStream = match next.unwrap_or_else(done) {
            Call::Gives(result) => {
                futures::stream::iter([Ok(item(progress)), Ok(item(Item::Result(result)))]).boxed()
            }
            Call::Hangs => {
                let gone = Gone(Arc::clone(&self.0));
                futures::stream::iter([Ok(item(progress))])
                    .chain(futures::stream::pending())
                    .inspect(move |_| {
                        let _held = &gone;
                    })
                    .boxed()
            }
            Call::Breaks => futures::stream::iter([
                Ok(item(progress)),
                Err(Status::unavailable("the process died")),
            ])
            .boxed(),
            Call::Ends => futures::stream::iter([Ok(item(progress))]).boxed(),
        };
        Ok(Response::new(items))
    }

    async fn test_server(
        &self,
        _request: Request<TestServerRequest>,
    ) -> Result<Response<TestServerResponse>, Status> {
        Err(Status::unimplemented("no turn tests servers"))
    }
}
