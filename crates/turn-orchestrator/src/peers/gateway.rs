//! The mcp-gateway, as a turn speaks of it. All that servers say comes through here, and is bounded again.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kernel::{
    CallId, Caller, ErrorCode, JsonText, McpServerId, PlayerId, ServiceName, ToolDefinition,
    limits::RPC_MESSAGE_BYTES,
};
use proto::mcp::v1::{
    CallEnd, CallResult, CallToolRequest, ListToolsRequest, ServerTools, WantedServer,
    call_tool_response::Item, mcp_service_client::McpServiceClient,
};
use runtime::{CallerChannel, Peer, status};
use tokio::time::Instant;

use super::McpGrant;
use crate::limits::one_line;

/// How long the gateway may take for all lists of a turn's start: it gives what it has by then.
const LIST_DEADLINE: Duration = Duration::from_secs(3);
/// The longest call, whatever time the turn has left: longer than the gateway's own bound, which ends a call in better words.
pub(crate) const CALL_DEADLINE: Duration = Duration::from_secs(330);
/// How long "it cannot be reached" is believed: turns should not each wait for it.
const AWAY_FOR: Duration = Duration::from_secs(3);
/// Tools of one server that one NPC is offered.
pub(crate) const TOOLS_PER_SERVER: usize = 64;
/// Servers in one question: as many as an NPC can have Grants.
const SERVERS: usize = kernel::limits::GRANTS_PER_NPC;
/// Bytes of a sentence of the gateway's, which may have a server's words in it.
const SENTENCE_BYTES: usize = 400;
/// Bytes of a Tool's name that are shown.
pub(crate) const NAME_BYTES: usize = 100;
/// Bytes of the name of a Tool at its server.
const TOOL_NAME_BYTES: usize = 1_024;
/// Tools that a server lists and that are not offered, of which is spoken.
const WITHHELD: usize = 64;

/// What the Village says where there is no gateway.
pub(crate) const NO_GATEWAY: &str = "This Village runs no mcp-gateway.";
const AWAY: &str = "The mcp-gateway cannot be reached.";

/// The Tools of all servers that an NPC was granted, each server's with its own outcome.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// By server: its list, or why there is none.
    pub(crate) servers: BTreeMap<McpServerId, Result<ServerList, String>>,
    /// How many servers were asked.
    pub(crate) asked: usize,
    /// How long that took.
    pub(crate) took: Duration,
}

impl Listed {
    /// The schemas of all Tools, each with the hash of its definition.
    pub(crate) fn schemas(&self) -> impl Iterator<Item = (&str, &str)> {
        let lists = self.servers.values().flatten();
        let tools = lists.flat_map(|list| &list.tools);
        tools.map(|tool| (tool.hash.as_str(), tool.schema.as_str()))
    }

    /// How many servers gave no list.
    pub(crate) fn unavailable(&self) -> usize {
        self.servers
            .values()
            .filter(|server| server.is_err())
            .count()
    }
}

/// The Tools of one server.
#[derive(Debug, Default)]
pub(crate) struct ServerList {
    /// The generation that answered.
    pub(crate) generation: u64,
    /// Its Tools.
    pub(crate) tools: Vec<ListedTool>,
    /// What it says of itself. Untrusted.
    pub(crate) instructions: String,
    /// Tools that are not offered, and why.
    pub(crate) withheld: Vec<(String, String)>,
    /// Tools beyond the limit, which are not among them.
    pub(crate) beyond: u32,
}

/// One Tool as its server describes it. Untrusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedTool {
    /// Its name at the server.
    pub(crate) name: String,
    /// Its name for the model, yet to be read.
    pub(crate) full_name: String,
    /// Its description.
    pub(crate) description: String,
    /// Its schema, yet to be read.
    pub(crate) schema: String,
    /// Its annotations: JSON, or empty. A model never reads them.
    pub(crate) annotations: String,
    /// Names the definition.
    pub(crate) hash: String,
}

impl ListedTool {
    /// The whole definition in canonical form, to show what changed. Empty when it is not the one that its hash names.
    pub(crate) fn canonical(&self) -> String {
        let Ok(input_schema) = JsonText::parse(&self.schema) else {
            return String::new();
        };
        let definition = ToolDefinition {
            name: self.name.clone(),
            description: self.description.clone(),
            input_schema,
            annotations: JsonText::parse(&self.annotations).ok(),
        };
        let canonical = definition.canonical();
        if ToolDefinition::hash_of(&canonical) == self.hash {
            canonical.as_str().to_owned()
        } else {
            String::new()
        }
    }
}

/// Which Tool is called, and for whom.
#[derive(Debug)]
pub(crate) struct Wanted<'c> {
    /// The server.
    pub(crate) server: McpServerId,
    /// The generation that the Tool set was built from.
    pub(crate) generation: u64,
    /// The Tool's name at the server.
    pub(crate) tool: &'c str,
    /// The arguments: a JSON object.
    pub(crate) arguments: &'c JsonText,
    /// The call.
    pub(crate) call: CallId,
    /// The Player whose turn it is.
    pub(crate) player: PlayerId,
    /// How long it may take.
    pub(crate) deadline: Duration,
}

/// What came of a call.
#[derive(Debug)]
pub(crate) enum Called {
    /// The gateway's one result.
    Result(Box<CallResult>),
    /// None, and why.
    Failed(String),
    /// It is not allowed, and why.
    Denied(String),
}

/// The mcp-gateway. Cheap to clone; clones share what is known of its state.
#[derive(Debug, Clone)]
pub(crate) struct Gateway {
    peer: Peer,
    away_until: Arc<Mutex<Option<Instant>>>,
}

impl Gateway {
    pub(crate) fn new(peer: Peer) -> Self {
        Self {
            peer,
            away_until: Arc::default(),
        }
    }

    /// The Tools of these servers, in one question. Servers that are disabled are not asked for.
    pub(crate) async fn list(&self, grants: &[&McpGrant], player: PlayerId) -> Listed {
        let begun = Instant::now();
        let mut asked: BTreeSet<McpServerId> = BTreeSet::new();
        let wanted: Vec<WantedServer> = grants
            .iter()
            .filter(|grant| asked.insert(grant.server))
            .take(SERVERS)
            .map(|grant| WantedServer {
                server_id: grant.server.to_string(),
                generation: grant.generation,
                tools: grant.tools.iter().cloned().collect(),
                limit: u32::try_from(TOOLS_PER_SERVER).unwrap_or(u32::MAX),
            })
            .collect();
        if wanted.is_empty() {
            return Listed::default();
        }
        let count = wanted.len();
        let servers = match self.ask(wanted, player).await {
            Ok(answered) => read(answered, &asked),
            Err(sentence) => asked
                .iter()
                .map(|server| (*server, Err(sentence.clone())))
                .collect(),
        };
        Listed {
            servers,
            asked: count,
            took: begun.elapsed(),
        }
    }

    async fn ask(
        &self,
        servers: Vec<WantedServer>,
        player: PlayerId,
    ) -> Result<Vec<ServerTools>, String> {
        if self.is_away() {
            return Err(AWAY.to_owned());
        }
        let answer = self
            .client(player, LIST_DEADLINE)
            .list_tools(ListToolsRequest { servers })
            .await;
        match answer {
            Ok(answer) => Ok(answer.into_inner().servers),
            Err(refused) => {
                let problem = status::problem(&refused);
                Err(match problem.code {
                    ErrorCode::Unavailable => {
                        self.goes_away();
                        AWAY.to_owned()
                    }
                    ErrorCode::DeadlineExceeded => {
                        self.goes_away();
                        format!(
                            "The mcp-gateway gave no answer within {} seconds.",
                            LIST_DEADLINE.as_secs()
                        )
                    }
                    ErrorCode::InvalidArgument
                    | ErrorCode::Unauthenticated
                    | ErrorCode::PermissionDenied
                    | ErrorCode::NotFound
                    | ErrorCode::AlreadyExists
                    | ErrorCode::FailedPrecondition
                    | ErrorCode::ResourceExhausted
                    | ErrorCode::Aborted
                    | ErrorCode::Internal => one_line(&problem.sentence, SENTENCE_BYTES),
                })
            }
        }
    }

    /// Calls a Tool, and waits for its one result. Dropping this ends the call at the server.
    pub(crate) async fn call(&self, wanted: &Wanted<'_>) -> Called {
        let request = CallToolRequest {
            server_id: wanted.server.to_string(),
            generation: wanted.generation,
            tool_name: wanted.tool.to_owned(),
            arguments_json: wanted.arguments.as_str().to_owned(),
            call_id: wanted.call.to_string(),
        };
        let mut client = self.client(wanted.player, wanted.deadline);
        let mut items = match client.call_tool(request).await {
            Ok(answer) => answer.into_inner(),
            Err(refused) => return failed(&refused, wanted),
        };
        loop {
            match items.message().await {
                Ok(Some(message)) => match message.item {
                    Some(Item::Result(result)) => return Called::Result(Box::new(result)),
                    Some(Item::Progress(_)) | None => {}
                },
                Ok(None) => {
                    return Called::Failed(format!(
                        "the mcp-gateway ended the call without a result; {UNKNOWN}"
                    ));
                }
                Err(refused) => return failed(&refused, wanted),
            }
        }
    }

    fn client(&self, player: PlayerId, deadline: Duration) -> McpServiceClient<CallerChannel> {
        let caller = Caller::Service {
            name: ServiceName::TurnOrchestrator,
            player: Some(player),
        };
        McpServiceClient::new(self.peer.channel(&caller, deadline))
            .max_decoding_message_size(RPC_MESSAGE_BYTES)
            .max_encoding_message_size(RPC_MESSAGE_BYTES)
    }

    fn is_away(&self) -> bool {
        let until = self
            .away_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    fn goes_away(&self) {
        *self
            .away_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + AWAY_FOR);
    }
}

/// What is said of a call that may have been made.
pub(crate) const UNKNOWN: &str = "whether it took effect is not known. Do not just call again.";

fn failed(refused: &tonic::Status, wanted: &Wanted<'_>) -> Called {
    let problem = status::problem(refused);
    match problem.code {
        ErrorCode::PermissionDenied => Called::Denied(one_line(&problem.sentence, SENTENCE_BYTES)),
        ErrorCode::Unavailable => Called::Failed(format!(
            "the mcp-gateway could not be reached, or broke off; {UNKNOWN}"
        )),
        ErrorCode::DeadlineExceeded => Called::Failed(format!(
            "the call took longer than {} seconds and was ended; {UNKNOWN}",
            wanted.deadline.as_secs()
        )),
        ErrorCode::InvalidArgument
        | ErrorCode::Unauthenticated
        | ErrorCode::NotFound
        | ErrorCode::AlreadyExists
        | ErrorCode::FailedPrecondition
        | ErrorCode::ResourceExhausted
        | ErrorCode::Aborted
        | ErrorCode::Internal => Called::Failed(one_line(&problem.sentence, SENTENCE_BYTES)),
    }
}

/// Reads the gateway's answer. A server that it does not speak of could not be reached.
fn read(
    answered: Vec<ServerTools>,
    asked: &BTreeSet<McpServerId>,
) -> BTreeMap<McpServerId, Result<ServerList, String>> {
    let mut servers = BTreeMap::new();
    for tools in answered {
        if let Ok(server) = tools.server_id.parse::<McpServerId>()
            && asked.contains(&server)
        {
            servers.entry(server).or_insert_with(|| read_one(tools));
        }
    }
    for server in asked {
        servers
            .entry(*server)
            .or_insert_with(|| Err("The mcp-gateway said nothing of this server.".to_owned()));
    }
    servers
}

fn read_one(tools: ServerTools) -> Result<ServerList, String> {
    if !tools.unavailable.is_empty() {
        return Err(one_line(&tools.unavailable, SENTENCE_BYTES));
    }
    let mut list = ServerList {
        generation: tools.generation,
        instructions: tools.instructions,
        beyond: tools.beyond_limit,
        withheld: tools
            .withheld
            .into_iter()
            .take(WITHHELD)
            .map(|tool| {
                (
                    one_line(&tool.name, NAME_BYTES),
                    one_line(&tool.sentence, SENTENCE_BYTES),
                )
            })
            .collect(),
        tools: Vec::new(),
    };
    for tool in tools.tools {
        if list.tools.len() == TOOLS_PER_SERVER {
            list.beyond = list.beyond.saturating_add(1);
        } else if tool.name.is_empty() || tool.name.len() > TOOL_NAME_BYTES {
            let shown = one_line(&tool.name, NAME_BYTES);
            list.withheld.push((
                shown,
                format!(
                    "its name has {} bytes; 1 to {TOOL_NAME_BYTES} can be offered.",
                    tool.name.len()
                ),
            ));
        } else {
            list.tools.push(ListedTool {
                name: tool.name,
                full_name: tool.full_name,
                description: tool.description,
                schema: tool.input_schema_json,
                annotations: tool.annotations_json,
                hash: tool.definition_hash,
            });
        }
    }
    Ok(list)
}

/// The end of a call as a sentence of ours, where the server itself says nothing.
pub(crate) fn end_sentence(end: CallEnd) -> Option<String> {
    match end {
        CallEnd::Ok | CallEnd::ToolError => None,
        CallEnd::NotSent => {
            Some("the server could not be reached, so the call was not made.".to_owned())
        }
        CallEnd::NoAnswer => Some(format!(
            "the server gave no answer; the call may have been made, and {UNKNOWN}"
        )),
        CallEnd::BadAnswer => Some(format!(
            "the server answered what is no result; the call was made, and {UNKNOWN}"
        )),
        CallEnd::ServerRemoved => Some(
            "server removed: it was deleted, disabled or changed while this turn ran, so the call was not made."
                .to_owned(),
        ),
        CallEnd::Unspecified => Some(format!("the mcp-gateway did not say how it ended; {UNKNOWN}")),
    }
}
