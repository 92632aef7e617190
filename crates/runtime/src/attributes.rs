//! Names of attributes in wide events: OpenTelemetry's semantic conventions (generative AI, MCP, `error`, `server`, `http`) where they
//! have a name, `agentsville.…` where they have none.

/// `chat`, `execute_tool`, …
pub const OPERATION: &str = "gen_ai.operation.name";
/// The Provider's name.
pub const PROVIDER: &str = "gen_ai.provider.name";
/// The model that was asked for.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// The model that answered.
pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
/// The Provider's id of the answer.
pub const RESPONSE_ID: &str = "gen_ai.response.id";
/// Why the model stopped.
pub const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// Tokens that were read.
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// Tokens that were written.
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// Tokens that were read from the Provider's cache.
pub const CACHED_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
/// The NPC's id.
pub const NPC_ID: &str = "gen_ai.agent.id";
/// The NPC's name.
pub const NPC_NAME: &str = "gen_ai.agent.name";
/// The Conversation's id.
pub const CONVERSATION_ID: &str = "gen_ai.conversation.id";
/// The Tool's name.
pub const TOOL_NAME: &str = "gen_ai.tool.name";
/// The Tool call's id.
pub const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
/// Content: the Tool call's arguments.
pub const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
/// Content: the Tool call's result.
pub const TOOL_RESULT: &str = "gen_ai.tool.call.result";
/// The MCP method.
pub const MCP_METHOD: &str = "mcp.method.name";
/// The MCP session.
pub const MCP_SESSION_ID: &str = "mcp.session.id";
/// The MCP protocol version.
pub const MCP_PROTOCOL_VERSION: &str = "mcp.protocol.version";
/// The class of a failure: an `ErrorCode`.
pub const ERROR_TYPE: &str = "error.type";
/// The host that was connected to.
pub const SERVER_ADDRESS: &str = "server.address";
/// The port that was connected to.
pub const SERVER_PORT: &str = "server.port";
/// The status of an HTTP response.
pub const HTTP_STATUS: &str = "http.response.status_code";
/// Bytes of a response's body.
pub const HTTP_BODY_BYTES: &str = "http.response.body.size";
/// The Turn's id.
pub const TURN_ID: &str = "agentsville.turn.id";
/// The Step's number, from 1.
pub const STEP: &str = "agentsville.step";
/// Steps that were taken.
pub const STEPS: &str = "agentsville.steps";
/// Tool calls that were made.
pub const TOOL_CALLS: &str = "agentsville.tool_calls";
/// Who is calling, as `Caller::label` says it.
pub const CALLER: &str = "agentsville.caller";
/// The Player's id.
pub const PLAYER_ID: &str = "agentsville.player.id";
/// The MCP Server's id.
pub const MCP_SERVER_ID: &str = "agentsville.mcp_server.id";
/// Redirects that were followed.
pub const HOPS: &str = "agentsville.hops";
/// What the address guard said: `allow`, or the slug of the rule that refused.
pub const VERDICT: &str = "agentsville.verdict";
/// Bytes that went in, such as arguments.
pub const INPUT_BYTES: &str = "agentsville.input.bytes";
/// Bytes that came out, such as a result.
pub const OUTPUT_BYTES: &str = "agentsville.output.bytes";
/// Whether the output was cut.
pub const TRUNCATED: &str = "agentsville.truncated";
/// The reason of an end that is no error: which ceiling, who stopped it.
pub const REASON: &str = "agentsville.reason";
/// Time from the start to the first output, in milliseconds.
pub const FIRST_OUTPUT_MS: &str = "agentsville.first_output_ms";
/// Content: the host's path that was fetched.
pub const URL_FULL: &str = "url.full";
