//! `mcp …`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use serde::Serialize;

/// `mcp …`.
#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Register a server. Nobody has it until you grant it; test it first
    #[command(after_help = EXAMPLES)]
    Add(McpAddArgs),
    /// Connect to a server and list its Tools: a saved one by NAME, or one that is not saved as `mcp add` takes it, without NAME
    #[command(
        override_usage = "agentsville mcp test NAME\n       agentsville mcp test http|sse URL [--header 'K: V']…\n       \
                          agentsville mcp test stdio [--env K=V]… [--cwd D] -- CMD ARG…"
    )]
    Test(McpTestArgs),
    /// List the servers that you may see, newest first
    List,
    /// Show a server, how its last test went, and the NPCs that have it
    Show(McpName),
    /// Change a server. What is not said stays as it is
    Edit(McpEditArgs),
    /// Delete a server and every Grant to it
    Delete(McpName),
    /// Show how a server's Tools changed since they were granted
    Diff(McpNpc),
    /// Accept a server's Tools as they are now
    Accept(McpNpc),
    /// Register servers as other clients write them down: {"mcpServers": {…}}
    Import {
        /// The file; - for standard input
        file: PathBuf,
    },
}

const EXAMPLES: &str = "Examples:\n  \
    agentsville mcp add Docs http https://docs.example/mcp --header-file docs.headers\n  \
    agentsville mcp add Files stdio -- npx -y @modelcontextprotocol/server-filesystem /srv/files\n\
    What --header and --env say is visible in the machine's list of processes while the command runs; files are not.";

/// A server.
#[derive(Debug, Args)]
pub struct McpName {
    /// The server's name or id
    pub name: String,
}

/// A server, and perhaps one of the NPCs that have it.
#[derive(Debug, Args)]
pub struct McpNpc {
    /// The server's name or id
    pub name: String,
    /// Only for this NPC
    #[arg(long)]
    pub npc: Option<String>,
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum McpTransport {
    /// Streamable HTTP.
    Http,
    /// The older HTTP with server-sent events.
    Sse,
    /// A command on the Village's host.
    Stdio,
}

/// Secrets and where they are read from. They may be mixed; a name that is said twice is refused.
#[derive(Debug, Args)]
pub struct Secrets {
    /// Send this header, such as 'authorization: Bearer …'
    #[arg(long = "header", value_name = "K: V")]
    pub headers: Vec<String>,
    /// Read headers from this file, one `K: V` a line
    #[arg(long, value_name = "F")]
    pub header_file: Option<PathBuf>,
    /// Set this environment variable
    #[arg(long = "env", value_name = "K=V")]
    pub environment: Vec<String>,
    /// Read environment variables from this file, one `K=V` a line
    #[arg(long, value_name = "F")]
    pub env_file: Option<PathBuf>,
}

impl Secrets {
    /// Whether nothing was said of them.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
            && self.header_file.is_none()
            && self.environment.is_empty()
            && self.env_file.is_none()
    }
}

/// `mcp add`.
#[derive(Debug, Args)]
pub struct McpAddArgs {
    /// The server's name, which starts the names of its Tools
    pub name: String,
    /// `http` (streamable HTTP), `sse` (the older one) or `stdio` (a command; the Operator's)
    #[arg(value_name = "http|sse|stdio")]
    pub transport: McpTransport,
    /// Where it is, for http and sse
    pub url: Option<String>,
    /// Its secrets
    #[command(flatten)]
    pub secrets: Secrets,
    /// The folder that the command runs in
    #[arg(long, value_name = "D")]
    pub cwd: Option<String>,
    /// Only your turns use it, and nobody else sees it
    #[arg(long)]
    pub private: bool,
    /// The command and its arguments, for stdio
    #[arg(last = true, value_name = "CMD ARG")]
    pub command: Vec<String>,
}

/// `mcp test`.
#[derive(Debug, Args)]
pub struct McpTestArgs {
    /// The server's name or id; or http, sse, stdio
    #[arg(value_name = "NAME|http|sse|stdio")]
    pub subject: String,
    /// Where it is, for http and sse
    pub url: Option<String>,
    /// Its secrets
    #[command(flatten)]
    pub secrets: Secrets,
    /// The folder that the command runs in
    #[arg(long, value_name = "D")]
    pub cwd: Option<String>,
    /// The command and its arguments, for stdio
    #[arg(last = true, value_name = "CMD ARG")]
    pub command: Vec<String>,
}

/// What happens when a server's Tools change after they were granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pinning {
    /// Changed Tools are withheld until you accept them; new ones are offered and marked.
    Strict,
    /// Changed and new Tools are offered and marked.
    Warn,
    /// Nothing is compared.
    Off,
}

/// `mcp edit`.
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are flags, which clap reads as such; groups keep them from contradicting each other"
)]
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("enabling"),
    group = ArgGroup::new("sight"),
    group = ArgGroup::new("some headers").args(["headers", "header_file"]).multiple(true),
    group = ArgGroup::new("some environment").args(["environment", "env_file"]).multiple(true),
)]
pub struct McpEditArgs {
    /// The server's name or id
    pub name: String,
    /// Its new URL; to another host, say or clear the headers too
    #[arg(long, value_name = "U")]
    pub url: Option<String>,
    /// Its secrets: what is said of headers replaces all of them, and likewise the environment
    #[command(flatten)]
    pub secrets: Secrets,
    /// Send no headers
    #[arg(long, conflicts_with = "some headers")]
    pub clear_headers: bool,
    /// Set no environment variables
    #[arg(long, conflicts_with = "some environment")]
    pub clear_env: bool,
    /// Turns may use it
    #[arg(long, group = "enabling")]
    pub enable: bool,
    /// No turn uses it
    #[arg(long, group = "enabling")]
    pub disable: bool,
    /// Only your turns use it
    #[arg(long, group = "sight")]
    pub private: bool,
    /// Every Player sees it and may grant it
    #[arg(long, group = "sight")]
    pub public: bool,
    /// What happens when its Tools change after they were granted
    #[arg(long, value_name = "strict|warn|off")]
    pub pinning: Option<Pinning>,
}
