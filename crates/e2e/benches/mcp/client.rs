//! Clients that call the same Tool, each load in a process of its own.

use std::{
    io::Write as _,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use kernel::{Caller, Clock, PlayerId, Secret, ServiceName, SystemClock};
use proto::mcp::v1::{
    CallEnd, CallToolRequest, call_tool_response::Item, content::Kind,
    mcp_service_client::McpServiceClient,
};
use rmcp::{
    RoleClient,
    model::{CallToolRequestParams, ProtocolVersion},
    service::{ClientLifecycleMode, ClientServiceExt as _, RunningService},
    transport::{
        StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use runtime::{CallerChannel, Issuer, Peer, SigningKey, Transport};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    count,
    process::{Usage, this_program},
    upstream::Era,
};

/// What is said and given back.
const MESSAGE: &str = "The village clock strikes four.";
/// The most requests of one client that are under way, here as in the gateway.
const AT_ONCE: usize = 64;
/// How long before what is measured a client calls already: connections open, caches fill.
const WARM_UP: Duration = Duration::from_millis(400);

/// How to reach the Tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Way {
    /// An `rmcp` client over streamable HTTP.
    Http { url: String, era: Era },
    /// An `rmcp` client of a command's input and output.
    Stdio { command: Vec<String> },
    /// The gateway, as the turn-orchestrator asks it.
    Gateway(Place),
}

/// A server as the gateway knows it, and who asks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) gateway: String,
    /// The turn-orchestrator's private key.
    pub(crate) key: String,
    pub(crate) player: PlayerId,
    pub(crate) server_id: String,
    pub(crate) generation: u64,
}

impl Place {
    /// The gateway, as the turn-orchestrator has it: one channel.
    pub(crate) fn client(&self, deadline: Duration) -> McpServiceClient<CallerChannel> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let key = SigningKey::from_setting(&Secret::new(self.key.clone())).unwrap();
        let issuer = Arc::new(Issuer::new(ServiceName::TurnOrchestrator, key, clock));
        let transport = Transport::remote(&self.gateway, None).unwrap();
        let caller = Caller::Service {
            name: ServiceName::TurnOrchestrator,
            player: Some(self.player),
        };
        let peer = Peer::new(transport, issuer, ServiceName::McpGateway);
        McpServiceClient::new(peer.channel(&caller, deadline))
            .max_decoding_message_size(64 * 1_024 * 1_024)
    }
}

/// A client that is connected, or will be with its first call.
pub(crate) enum Client {
    Rmcp {
        running: RunningService<RoleClient, ()>,
        /// The process at the other end of the pipes, which ends with this.
        child: Option<tokio::process::Child>,
    },
    Gateway {
        client: McpServiceClient<CallerChannel>,
        place: Place,
        next: AtomicU64,
    },
}

impl Client {
    pub(crate) async fn of(way: &Way) -> Self {
        match way {
            Way::Http { url, era } => Self::Rmcp {
                running: connect(url, *era).await,
                child: None,
            },
            Way::Stdio { command } => {
                let mut child = tokio::process::Command::new(&command[0])
                    .args(&command[1..])
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .kill_on_drop(true)
                    .spawn()
                    .unwrap();
                let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
                let running =
                    ().serve_with_lifecycle(pipes, ClientLifecycleMode::Initialize)
                        .await
                        .unwrap();
                Self::Rmcp {
                    running,
                    child: Some(child),
                }
            }
            Way::Gateway(place) => Self::Gateway {
                client: place.client(Duration::from_secs(30)),
                place: place.clone(),
                next: AtomicU64::new(0),
            },
        }
    }

    /// One call, to its result.
    pub(crate) async fn call(&self) {
        match self {
            Self::Rmcp { running, .. } => {
                let arguments = json!({"message": MESSAGE});
                let Value::Object(arguments) = arguments else {
                    unreachable!()
                };
                let call = CallToolRequestParams::new("echo").with_arguments(arguments);
                let result = running.peer().call_tool(call).await.unwrap();
                assert_eq!(result.content[0].as_text().unwrap().text, MESSAGE);
            }
            Self::Gateway {
                client,
                place,
                next,
            } => {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let request = CallToolRequest {
                    server_id: place.server_id.clone(),
                    generation: place.generation,
                    tool_name: "echo".to_owned(),
                    arguments_json: format!(r#"{{"message":"{MESSAGE}"}}"#),
                    call_id: format!("call_{number}"),
                };
                let mut items = client
                    .clone()
                    .call_tool(request)
                    .await
                    .unwrap()
                    .into_inner();
                let mut result = None;
                while let Some(item) = items.message().await.unwrap() {
                    if let Some(Item::Result(came)) = item.item {
                        result = Some(came);
                    }
                }
                let result = result.unwrap();
                assert_eq!(result.end(), CallEnd::Ok, "{result:?}");
                assert_eq!(
                    result.content[0].kind,
                    Some(Kind::Text(MESSAGE.to_owned())),
                    "{result:?}"
                );
            }
        }
    }

    /// The whole list of a server that is called directly: how many Tools it has.
    pub(crate) async fn list(&self) -> usize {
        let Self::Rmcp { running, .. } = self else {
            panic!("the gateway is asked for lists of many servers")
        };
        running.peer().list_all_tools().await.unwrap().len()
    }

    fn proxy(&self) -> Option<u32> {
        match self {
            Self::Rmcp { child, .. } => child.as_ref().and_then(tokio::process::Child::id),
            Self::Gateway { .. } => None,
        }
    }
}

async fn connect(url: &str, era: Era) -> RunningService<RoleClient, ()> {
    // Connections are kept, as reqwest does unless told otherwise; rmcp's own client keeps none.
    let http = reqwest::Client::builder()
        .no_proxy()
        .tcp_nodelay(true)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let config =
        StreamableHttpClientTransportConfig::with_uri(url).max_concurrent_requests(AT_ONCE);
    let lifecycle = match era {
        Era::Modern => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
        Era::Legacy => ClientLifecycleMode::Initialize,
    };
    ().serve_with_lifecycle(
        StreamableHttpClientTransport::with_client(http, config),
        lifecycle,
    )
    .await
    .unwrap()
}

/// A load.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    way: Way,
    at_once: usize,
    time: Duration,
}

/// What came of a load.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Milliseconds of a call.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) per_second: f64,
    /// Calls, those before the measure included.
    pub(crate) calls: usize,
    /// Memory of the client's process that is resident, in bytes.
    pub(crate) resident: usize,
    /// Of the proxy that the client started, if it did, likewise; and its processor time.
    pub(crate) proxy: Option<(usize, Duration)>,
}

/// Lets a process of its own call for so long, so many times at once.
pub(crate) fn measure(way: &Way, at_once: usize, time: Duration) -> Measured {
    let order = Order {
        way: way.clone(),
        at_once,
        time,
    };
    let mut child = this_program()
        .arg("client")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    serde_json::to_writer(&mut input, &order).unwrap();
    input.flush().unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{way:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The child's side: reads the order, prints what came of it.
pub(crate) async fn run() {
    let order: Order = serde_json::from_reader(std::io::stdin().lock()).unwrap();
    let client = Arc::new(Client::of(&order.way).await);
    let before = load(&client, order.at_once, WARM_UP).await.len();
    let start = Instant::now();
    let mut took = load(&client, order.at_once, order.time).await;
    let wall = start.elapsed();
    took.sort_unstable();
    let at = |per_mille: usize| {
        let place = (took.len() * per_mille / 1_000).min(took.len() - 1);
        took[place].as_secs_f64() * 1_000.0
    };
    let measured = Measured {
        p50: at(500),
        p99: at(990),
        per_second: count(took.len()) / wall.as_secs_f64(),
        calls: before + took.len(),
        resident: Usage::own().resident,
        proxy: client.proxy().map(|pid| {
            let usage = Usage::of(pid);
            (usage.resident, usage.cpu)
        }),
    };
    println!("{}", serde_json::to_string(&measured).unwrap());
}

/// Calls for so long. A task each, as turns are: what one computes, others do not wait for.
async fn load(client: &Arc<Client>, at_once: usize, time: Duration) -> Vec<Duration> {
    let end = Instant::now() + time;
    let mut tasks = JoinSet::new();
    for _ in 0..at_once {
        let client = Arc::clone(client);
        tasks.spawn(async move {
            let mut took = Vec::new();
            while took.is_empty() || Instant::now() < end {
                let start = Instant::now();
                client.call().await;
                took.push(start.elapsed());
            }
            took
        });
    }
    tasks.join_all().await.concat()
}
