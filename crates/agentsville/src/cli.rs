//! What can be written on the command line.

mod mcp;

use std::{ffi::OsString, path::PathBuf};

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum, builder::NonEmptyStringValueParser};
use serde::Serialize;

pub use mcp::{
    McpAddArgs, McpCommand, McpEditArgs, McpName, McpNpc, McpTestArgs, McpTransport, Pinning,
    Secrets,
};

/// Where a Village is unless something else is said.
pub(crate) const DEFAULT_SERVER: &str = "http://127.0.0.1:8080";

/// AgentsVille: NPCs that use Tools, only those they were granted.
///
/// Without a command it serves a Village: HTTP on 127.0.0.1:8080, data in the data directory, nothing to set up.
#[derive(Debug, Parser)]
#[command(
    name = "agentsville",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 the Village refused or failed, 2 wrong usage.\n\
                  Try `agentsville demo` first: it needs no key and no Village."
)]
pub struct Cli {
    /// Flags that stand anywhere.
    #[command(flatten)]
    pub global: Global,
    /// What to do; serve if nothing is said.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Flags that stand anywhere before `--`.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// The Village's HTTP address
    #[arg(
        long,
        global = true,
        value_name = "URL",
        default_value = DEFAULT_SERVER
    )]
    pub server: String,
    /// Print one compact JSON value a line, and errors as problem JSON on stderr
    #[arg(long, global = true)]
    pub json: bool,
    /// Read settings from this TOML file
    #[arg(long, global = true, value_name = "F")]
    pub config: Option<PathBuf>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a Village: all services in this process
    Serve,
    /// Bring the database to this release's schema, and stop
    Migrate,
    /// Check the settings and print those in effect, secrets masked
    CheckConfig,
    /// Ask the served Village's admin listener whether it is well
    Healthcheck,
    /// Watch an NPC answer with Tools, in a Village that lives for one turn
    Demo(DemoArgs),
    /// Print the `OpenAPI` document of the HTTP surface
    Openapi,
    /// Print new keys for services that run alone. Secret: they are shown here and nowhere else
    Keys,
    /// The secret that seals credentials
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// NPCs: the agents of the Village
    #[command(subcommand)]
    Npc(NpcCommand),
    /// Grants: what an NPC may use
    #[command(subcommand)]
    Grant(GrantCommand),
    /// MCP Servers: what offers Tools that a Village does not ship with
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Players: who may talk to NPCs
    #[command(subcommand)]
    Player(PlayerCommand),
    /// The record of who changed what
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Say something to an NPC and watch it answer
    Chat(ChatArgs),
    /// Your Conversations
    #[command(subcommand)]
    Conversation(ConversationCommand),
    /// Turns: an NPC answering
    #[command(subcommand)]
    Turn(TurnCommand),
    /// The guard that keeps fetches out of private networks
    #[command(subcommand)]
    Guard(GuardCommand),
    /// The MCP Server of the demo, over standard input and output
    #[command(hide = true)]
    DemoMcp,
}

/// `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Ask a real model, such as openai/gpt-5-mini; its key comes from the environment
    #[arg(long, value_name = "PROVIDER/MODEL", value_parser = NonEmptyStringValueParser::new())]
    pub model: Option<String>,
}

/// `secrets …`.
#[derive(Debug, Subcommand)]
pub enum SecretsCommand {
    /// Whether a root secret is set, which key it makes, and what it can read
    Status,
}

/// `npc …`.
#[derive(Debug, Subcommand)]
pub enum NpcCommand {
    /// Create an NPC. It has no Tools until you grant some
    Create(NpcArgs),
    /// Change an NPC. What is not said stays as it is
    Edit(NpcArgs),
    /// List the NPCs that you may see, newest first
    List,
    /// Show an NPC and its Grants
    Show(NpcName),
    /// Delete an NPC
    Delete(NpcName),
    /// List an NPC's Tools word for word as the model sees them now
    Tools(NpcName),
}

/// An NPC.
#[derive(Debug, Args)]
pub struct NpcName {
    /// The NPC's name or id
    #[arg(value_name = "NPC")]
    pub npc: String,
}

/// What can be said of an NPC.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("visibility"))]
pub struct NpcArgs {
    /// The NPC's name
    pub name: String,
    /// Who it is and how it talks
    #[arg(long, value_name = "T")]
    pub persona: Option<String>,
    /// The model that plays it; the Village's default if empty
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
    /// Only you and the Operator see it
    #[arg(long, group = "visibility")]
    pub private: bool,
    /// Every Player sees it
    #[arg(long, group = "visibility")]
    pub public: bool,
    /// Hosts that `fetch_url` may reach, such as example.com,*.example.org; every public host if empty
    #[arg(long, value_name = "h,…", value_delimiter = ',')]
    pub fetch_hosts: Option<Vec<String>>,
    /// Who shares its sandbox
    #[arg(long, value_name = "npc|player|conversation")]
    pub sandbox_scope: Option<SandboxScope>,
    /// What its sandbox may reach
    #[arg(long, value_name = "off|list|web")]
    pub sandbox_network: Option<SandboxNetwork>,
    /// Hosts that its sandbox may reach when the network is `list`
    #[arg(long, value_name = "h,…", value_delimiter = ',')]
    pub sandbox_hosts: Option<Vec<String>>,
}

/// Who shares a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxScope {
    /// All of an NPC's turns.
    Npc,
    /// An NPC's turns with one Player.
    Player,
    /// One Conversation.
    Conversation,
}

/// What a sandbox may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxNetwork {
    /// Nothing.
    Off,
    /// The listed hosts.
    List,
    /// The public web.
    Web,
}

/// `grant …`.
#[derive(Debug, Subcommand)]
pub enum GrantCommand {
    /// Let an NPC use something, from its next turn on
    Add {
        /// What to whom
        #[command(flatten)]
        grant: GrantArgs,
        /// Only these Tools of an MCP Server
        #[arg(long, value_name = "a,b", value_delimiter = ',')]
        tools: Option<Vec<String>>,
    },
    /// Take something away, from the next turn on
    Remove {
        /// What from whom
        #[command(flatten)]
        grant: GrantArgs,
        /// Stop the NPC's running turns too
        #[arg(long)]
        abort_turns: bool,
    },
    /// List an NPC's Grants, newest first
    List(NpcName),
}

/// What and whom a Grant is about.
#[derive(Debug, Args)]
pub struct GrantArgs {
    /// The NPC's name or id
    pub npc: String,
    /// `tool:current_time`, `tool:fetch_url`, `family:sandbox`, `family:memory`, `mcp:SERVER` or `npc:NPC`
    pub what: String,
}

/// `player …`.
#[derive(Debug, Subcommand)]
pub enum PlayerCommand {
    /// Create a Player and print the token, once
    Create {
        /// The Player's name
        name: String,
    },
    /// List the Players, newest first
    List,
    /// Make a Player's token worthless
    Revoke {
        /// The Player's name or id
        player: String,
    },
}

/// `audit …`.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// List who changed what, newest first
    List,
}

/// `chat`.
#[derive(Debug, Args)]
pub struct ChatArgs {
    /// The NPC's name or id
    pub npc: String,
    /// What to say; write `--` before a text that starts with a dash
    pub text: String,
    /// Go on with this Conversation; a new one without
    #[arg(long, value_name = "ID")]
    pub conversation: Option<String>,
}

/// `conversation …`.
#[derive(Debug, Subcommand)]
pub enum ConversationCommand {
    /// List your Conversations, newest first
    List,
    /// Show a Conversation with everything that was said, called and returned
    Show {
        /// The Conversation's id
        id: String,
    },
}

/// `turn …`.
#[derive(Debug, Subcommand)]
pub enum TurnCommand {
    /// Stop a running turn
    Abort {
        /// The turn's id
        id: String,
    },
}

/// `guard …`.
#[derive(Debug, Subcommand)]
pub enum GuardCommand {
    /// Judge a URL or address as `fetch_url` would. Needs no Village
    Check(GuardCheckArgs),
}

/// `guard check`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("input").required(true))]
pub struct GuardCheckArgs {
    /// The URL or address
    #[arg(value_name = "URL|ADDRESS", group = "input")]
    pub target: Option<OsString>,
    /// Read one a line, untrimmed; blank lines count
    #[arg(long, group = "input")]
    pub stdin: bool,
    /// Judge without look-ups, and without this machine's own addresses
    #[arg(long)]
    pub offline: bool,
}

/// Whether `--json` stands before `--`: needed when the rest does not parse.
pub(crate) fn asks_for_json(arguments: &[OsString]) -> bool {
    arguments
        .iter()
        .skip(1)
        .take_while(|argument| *argument != "--")
        .any(|argument| argument == "--json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("agentsville").chain(line.iter().copied()))
    }

    #[test]
    fn the_definition_holds_together() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn nothing_said_means_serve() {
        assert!(parse(&[]).unwrap().command.is_none());
        assert!(parse(&["--json"]).unwrap().global.json);
    }

    #[test]
    fn global_flags_stand_anywhere_before_the_dashes() {
        for line in [
            ["--json", "--server", "http://h", "npc", "show", "Keeper"],
            ["npc", "--json", "--server", "http://h", "show", "Keeper"],
            ["npc", "show", "Keeper", "--server", "http://h", "--json"],
            [
                "npc",
                "show",
                "--server=http://h",
                "Keeper",
                "--json",
                "--json",
            ],
        ]
        .map(|line| {
            let mut line = line.to_vec();
            line.dedup();
            line
        }) {
            let cli = parse(&line).unwrap();
            assert!(cli.global.json, "{line:?}");
            assert_eq!(cli.global.server, "http://h", "{line:?}");
        }
        let cli = parse(&["mcp", "show", "Docs", "--json"]).unwrap();
        assert_eq!(cli.global.server, DEFAULT_SERVER);
        let cli = parse(&[
            "mcp", "add", "F", "stdio", "--json", "--", "run", "--server", "x",
        ]);
        let cli = cli.unwrap();
        assert_eq!(
            (cli.global.json, &*cli.global.server),
            (true, DEFAULT_SERVER)
        );
        let cli = parse(&["chat", "Keeper", "--", "--json"]).unwrap();
        assert!(!cli.global.json);
        assert!(matches!(cli.command, Some(Command::Chat(chat)) if chat.text == "--json"));
    }

    #[test]
    fn an_unknown_command_names_the_nearest() {
        let refused = parse(&["npcs", "list"]).unwrap_err();
        assert_eq!(refused.exit_code(), 2);
        assert!(refused.to_string().contains("'npc'"), "{refused}");
    }

    #[test]
    fn private_and_public_are_not_said_together() {
        assert!(parse(&["npc", "create", "K", "--private", "--public"]).is_err());
        assert!(parse(&["guard", "check", "--stdin", "1.1.1.1"]).is_err());
        assert!(parse(&["guard", "check"]).is_err());
    }

    #[test]
    fn json_is_seen_even_when_nothing_else_parses() {
        let line = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(asks_for_json(&line(&["agentsville", "nope", "--json"])));
        assert!(!asks_for_json(&line(&[
            "agentsville",
            "nope",
            "--",
            "--json"
        ])));
    }
}
