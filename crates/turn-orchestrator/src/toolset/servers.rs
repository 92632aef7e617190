//! Tools of MCP Servers, on their way into a Tool set. Everything that a server lists is untrusted: it costs itself, and no other Tool.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};

use kernel::{GrantId, McpServerId, ToolName, floor_char_boundary, limits, strip_control};
use llm::ToolSpec;
use proto::registry::v1::ToolPin;
use tokio::sync::Semaphore;

use super::{Extent, Instructions, Offered, Unavailable};
use crate::{
    limits::{cut_end, one_line, thousands},
    peers::{
        CALL_DEADLINE, Grant, Listed, ListedTool, McpGrant, NAME_BYTES, NO_GATEWAY, Pinning,
        ServerList, TOOLS_PER_SERVER,
    },
    schema::Schemas,
    tool::{Definition, McpTool, Owner},
};

/// Bytes of all names, descriptions and schemas of servers in one set: every step sends them.
const SET_BYTES: usize = 512 * 1_024;
/// Bytes of a description that a model reads.
const DESCRIPTION_BYTES: usize = 8 * 1_024;
/// Tools that one sentence names, and sentences of one server that each name one.
const NAMED: usize = 8;
/// Bytes of one server's instructions.
const INSTRUCTIONS_BYTES: usize = 2 * 1_024;
/// Bytes of all servers' instructions.
const ALL_INSTRUCTIONS_BYTES: usize = 8 * 1_024;

const NEW: &str = "New since it was granted.";
const CHANGED: &str = "Changed since it was granted.";
const UNPINNED: &str = "Not pinned yet: the next turn pins the definition that it finds.";

/// A Grant without pins, and what its server lists.
#[derive(Debug)]
pub(crate) struct Unpinned {
    /// The Grant.
    pub(crate) grant: GrantId,
    tools: Vec<ListedTool>,
}

impl Unpinned {
    /// The definitions as they are pinned, each Tool once.
    pub(crate) fn pins(&self) -> Vec<ToolPin> {
        let tools: BTreeMap<&str, &ListedTool> = self
            .tools
            .iter()
            .map(|tool| (tool.name.as_str(), tool))
            .collect();
        tools
            .into_values()
            .map(|tool| ToolPin {
                tool_name: tool.name.clone(),
                definition_hash: tool.hash.clone(),
                definition_json: tool.canonical(),
            })
            .collect()
    }
}

/// What became of all servers.
pub(super) struct Found {
    pub(super) tools: BTreeMap<ToolName, Offered>,
    pub(super) unavailable: Vec<Unavailable>,
    pub(super) instructions: Vec<Instructions>,
    pub(super) unpinned: Vec<Unpinned>,
    pub(super) withheld: usize,
}

/// Adds one server after the other.
pub(super) struct Servers<'k> {
    schemas: &'k Schemas,
    found: Found,
    bytes: usize,
    instructions_bytes: usize,
}

/// How a definition compares with the pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    /// It is the one that was pinned, or none is compared.
    Same,
    /// No Tool of the name was pinned.
    New,
    /// Another definition was pinned.
    Changed,
    /// Nothing was pinned yet.
    Unpinned,
}

/// Why a Tool that is listed is not offered.
enum Withheld {
    /// Its definition is not the one that was pinned.
    Changed,
    /// There are too many Tools.
    Set,
    /// They are too large.
    Bytes,
    /// For a reason of its own.
    Own(String),
}

/// Tools of one server that are not offered, by reason.
#[derive(Default)]
struct Report {
    changed: Vec<String>,
    set: Vec<String>,
    bytes: Vec<String>,
    own: Vec<(String, String)>,
}

impl<'k> Servers<'k> {
    pub(super) fn new(schemas: &'k Schemas, tools: BTreeMap<ToolName, Offered>) -> Self {
        Self {
            schemas,
            found: Found {
                tools,
                unavailable: Vec::new(),
                instructions: Vec::new(),
                unpinned: Vec::new(),
                withheld: 0,
            },
            bytes: 0,
            instructions_bytes: 0,
        }
    }

    pub(super) fn finish(self) -> Found {
        self.found
    }

    /// Adds what a Grant offers.
    pub(super) fn add(&mut self, grant: &Grant, listed: &Listed) {
        let Some(server) = &grant.server else {
            return self.unavailable(grant, NO_GATEWAY.to_owned());
        };
        if !server.enabled {
            return self.unavailable(grant, "This server is disabled.".to_owned());
        }
        match listed.servers.get(&server.server) {
            None => self.unavailable(grant, NO_GATEWAY.to_owned()),
            Some(Err(sentence)) => self.unavailable(grant, sentence.clone()),
            Some(Ok(list)) => self.add_list(grant, server, list),
        }
    }

    fn unavailable(&mut self, grant: &Grant, sentence: String) {
        self.found.unavailable.push(Unavailable {
            what: grant.what(),
            sentence,
            extent: Extent::All,
        });
    }

    fn add_list(&mut self, grant: &Grant, server: &McpGrant, list: &ServerList) {
        // A Tool that was not granted does not exist, whatever the gateway lists.
        let mut tools: Vec<&ListedTool> = list
            .tools
            .iter()
            .filter(|tool| server.tools.is_empty() || server.tools.contains(&tool.name))
            .collect();
        tools.sort_by(|a, b| (&a.full_name, &a.name).cmp(&(&b.full_name, &b.name)));
        let before = self.found.tools.len();
        let mut report = Report::default();
        for tool in &tools {
            if let Err(why) = self.offer(grant, server, list.generation, tool) {
                report.add(one_line(&tool.name, NAME_BYTES), why);
            }
        }
        for (name, sentence) in &list.withheld {
            report.own.push((name.clone(), sentence.clone()));
        }
        if server.pins.is_none() && server.pinning != Pinning::Off && !tools.is_empty() {
            self.found.unpinned.push(Unpinned {
                grant: server.id,
                tools: tools.into_iter().cloned().collect(),
            });
        }
        self.found.withheld += report.count() + usize::try_from(list.beyond).unwrap_or(usize::MAX);
        let total = list.tools.len() + list.withheld.len();
        let what = grant.what();
        for sentence in report.sentences(&grant.target, list.beyond, total) {
            self.found.unavailable.push(Unavailable {
                what: what.clone(),
                sentence,
                extent: Extent::Some,
            });
        }
        if self.found.tools.len() > before {
            self.instruct(server.server, &grant.target, &list.instructions);
        }
    }

    fn offer(
        &mut self,
        grant: &Grant,
        server: &McpGrant,
        generation: u64,
        tool: &ListedTool,
    ) -> Result<(), Withheld> {
        let name: ToolName = tool
            .full_name
            .parse()
            .map_err(|invalid: kernel::InvalidToolName| Withheld::Own(format!("{invalid}.")))?;
        if let Some(owner) = self.found.tools.get(&name) {
            return Err(Withheld::Own(format!(
                "its name for the model, {name}, is taken by {}.",
                owned_by(owner)
            )));
        }
        let compared = compare(server, tool);
        if compared == Compared::Changed && server.pinning == Pinning::Strict {
            return Err(Withheld::Changed);
        }
        if self.found.tools.len() >= limits::TOOLS_PER_SET {
            return Err(Withheld::Set);
        }
        let schema = self
            .schemas
            .get(&tool.hash, &tool.schema)
            .map_err(|why| Withheld::Own(format!("{why}.")))?;
        let (mark, note) = match compared {
            Compared::Same => ("", ""),
            Compared::New => ("[new since it was granted] ", NEW),
            Compared::Changed => ("[changed since it was granted] ", CHANGED),
            Compared::Unpinned => ("", UNPINNED),
        };
        let said = strip_control(&tool.description);
        let description = format!("{mark}{}", cut_end(said.trim(), DESCRIPTION_BYTES));
        let bytes = name.as_str().len() + description.len() + schema.sent.as_str().len();
        if self.bytes + bytes > SET_BYTES {
            return Err(Withheld::Bytes);
        }
        self.bytes += bytes;
        let definition = Definition {
            spec: ToolSpec {
                name: name.clone(),
                description,
                schema: schema.sent.clone(),
            },
            owner: Owner::Mcp(McpTool {
                server: server.server,
                server_name: grant.target.clone(),
                slug: server.slug.clone(),
                generation,
                tool: tool.name.clone(),
            }),
            // The call has its own deadline, within the turn's, and ends in better words; this one is behind it.
            timeout: CALL_DEADLINE + Duration::from_secs(5),
            at_once: limits::PARALLEL_CALLS,
            schema,
        };
        self.found.tools.insert(
            name,
            Offered {
                origin: grant.what(),
                note,
                slots: Semaphore::new(definition.at_once),
                definition: Arc::new(definition),
            },
        );
        Ok(())
    }

    /// What a server says of itself, as far as there is room for it.
    fn instruct(&mut self, server: McpServerId, name: &str, said: &str) {
        let room = ALL_INSTRUCTIONS_BYTES.saturating_sub(self.instructions_bytes);
        let said = &said[..floor_char_boundary(said, 2 * INSTRUCTIONS_BYTES)];
        let said = strip_control(said);
        let text = cut_end(said.trim(), INSTRUCTIONS_BYTES.min(room)).into_owned();
        if text.is_empty() || room == 0 {
            return;
        }
        self.instructions_bytes += text.len();
        self.found.instructions.push(Instructions {
            server,
            name: name.to_owned(),
            text,
        });
    }
}

fn compare(server: &McpGrant, tool: &ListedTool) -> Compared {
    if server.pinning == Pinning::Off {
        return Compared::Same;
    }
    let Some(pins) = &server.pins else {
        return Compared::Unpinned;
    };
    match pins.get(&tool.name) {
        None => Compared::New,
        Some(hash) if *hash == tool.hash => Compared::Same,
        Some(_) => Compared::Changed,
    }
}

/// Who has a Tool, in words.
fn owned_by(offered: &Offered) -> String {
    match &offered.definition.owner {
        Owner::Builtin(_) => format!("the built-in Tool ({})", offered.origin),
        Owner::Mcp(owner) => format!(
            "the Tool \"{}\" of {}",
            one_line(&owner.tool, NAME_BYTES),
            offered.origin
        ),
    }
}

impl Report {
    fn add(&mut self, name: String, why: Withheld) {
        match why {
            Withheld::Changed => self.changed.push(name),
            Withheld::Set => self.set.push(name),
            Withheld::Bytes => self.bytes.push(name),
            Withheld::Own(sentence) => self.own.push((name, sentence)),
        }
    }

    fn count(&self) -> usize {
        self.changed.len() + self.set.len() + self.bytes.len() + self.own.len()
    }

    /// One sentence for each reason, each of bounded length.
    fn sentences(mut self, server: &str, beyond: u32, listed: usize) -> Vec<String> {
        let mut sentences = Vec::new();
        if !self.changed.is_empty() {
            sentences.push(format!(
                "{}: changed since it was granted; its owner can look with `agentsville mcp diff {server}` and accept.",
                names(&self.changed)
            ));
        }
        let more = self.own.split_off(NAMED.min(self.own.len()));
        for (name, sentence) in self.own {
            sentences.push(format!("{name}: {sentence}"));
        }
        if !more.is_empty() {
            let mut sentence = format!("{} more of its Tools cannot be offered: ", more.len());
            let more: Vec<String> = more.into_iter().map(|(name, _)| name).collect();
            let _infallible = write!(sentence, "{}.", names(&more));
            sentences.push(sentence);
        }
        if !self.set.is_empty() {
            sentences.push(format!(
                "The NPC has more than {} Tools, and Providers take no more. Left out: {}. Choose with --tools on the Grants.",
                limits::TOOLS_PER_SET,
                names(&self.set)
            ));
        }
        if !self.bytes.is_empty() {
            sentences.push(format!(
                "The NPC's Tools have more than {} KiB of definitions. Left out: {}. Choose with --tools on the Grants.",
                SET_BYTES / 1_024,
                names(&self.bytes)
            ));
        }
        if beyond > 0 {
            let total = u64::from(beyond) + listed as u64;
            sentences.push(format!(
                "{server} offers {} Tools; {TOOLS_PER_SERVER} are offered. Choose others with --tools on the Grant.",
                thousands(total)
            ));
        }
        sentences
    }
}

/// The first of these names, and how many more there are.
fn names(all: &[String]) -> String {
    let first: Vec<&str> = all.iter().take(NAMED).map(String::as_str).collect();
    let first = first.join(", ");
    match all.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
