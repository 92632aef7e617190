//! The Tool set: what an NPC was granted and can be offered now, and what it was granted and cannot.
//!
//! It is built from the Grants at the start of every turn, by the same function that answers "what can this NPC do?", and does not
//! change while the turn runs. Nothing filters a call afterwards: what is not in the set does not exist.

mod servers;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kernel::{BuiltinTool, Family, GrantKind, McpServerId, nearest};
use llm::ToolSpec;
use tokio::sync::Semaphore;

use crate::{
    peers::{Grant, Listed, NO_GATEWAY},
    schema::Schemas,
    tool::{Definition, Owner, Toolbox},
};

use servers::Servers;
pub(crate) use servers::Unpinned;

/// Whether pages can be fetched now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FetchState {
    /// They can.
    Ready,
    /// They cannot, and this is why.
    Unavailable(String),
}

/// What is known when a Tool set is built.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'k> {
    /// The Tools of ours.
    pub(crate) toolbox: &'k Toolbox,
    /// Schemas that were read before.
    pub(crate) schemas: &'k Schemas,
    /// Whether pages can be fetched.
    pub(crate) fetch: &'k FetchState,
    /// What MCP Servers list.
    pub(crate) listed: &'k Listed,
}

/// A Tool set, and what came up when it was built.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// The set.
    pub(crate) tools: ToolSet,
    /// Grants of MCP Servers without pins, and what their servers list.
    pub(crate) unpinned: Vec<Unpinned>,
    /// What was asked of MCP Servers.
    pub(crate) asked: Asked,
}

/// What was asked of MCP Servers, for the record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// How many were asked.
    pub(crate) servers: usize,
    /// How many of them could not be reached.
    pub(crate) unavailable: usize,
    /// How many of their Tools are not offered.
    pub(crate) withheld: usize,
    /// How many Grants had no pins yet.
    pub(crate) pinned: usize,
    /// How long it took.
    pub(crate) took: Duration,
}

/// What an NPC can do in a turn. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ToolSet {
    tools: Arc<[Offered]>,
    unavailable: Arc<[Unavailable]>,
    instructions: Arc<[Instructions]>,
}

/// A Tool that is in the set.
#[derive(Debug)]
pub(crate) struct Offered {
    /// What it is.
    pub(crate) definition: Arc<Definition>,
    /// The Grant that it comes from: `tool:current_time`.
    pub(crate) origin: String,
    /// What is to be known of its definition, in a sentence; usually empty.
    pub(crate) note: &'static str,
    /// Its calls that may run at the same time.
    pub(crate) slots: Semaphore,
}

/// What was granted and cannot be offered now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unavailable {
    /// The Grant: `family:sandbox`, `mcp:Docs`.
    pub(crate) what: String,
    /// Why, in a sentence.
    pub(crate) sentence: String,
    /// How much of it.
    pub(crate) extent: Extent,
}

/// How much of a Grant cannot be offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    All,
    /// Some of its Tools.
    Some,
}

/// What a server says of itself. Untrusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instructions {
    /// The server.
    pub(crate) server: McpServerId,
    /// Its name.
    pub(crate) name: String,
    /// What it says, without control characters, and bounded.
    pub(crate) text: String,
}

impl ToolSet {
    /// Builds the set. The order is stable: Tools by name, and what is unavailable by Grant.
    pub(crate) fn build(grants: &[Grant], known: &Known<'_>) -> Gathered {
        let mut tools = BTreeMap::new();
        let mut unavailable = Vec::new();
        for grant in grants.iter().filter(|grant| grant.kind != GrantKind::Mcp) {
            match offer(grant, known) {
                Ok(definition) => {
                    tools.insert(
                        definition.spec.name.clone(),
                        Offered {
                            origin: grant.what(),
                            note: "",
                            slots: Semaphore::new(definition.at_once),
                            definition,
                        },
                    );
                }
                Err(sentence) => unavailable.push(Unavailable {
                    what: grant.what(),
                    sentence,
                    extent: Extent::All,
                }),
            }
        }
        // Those of ours come first: no server takes a place, or a name, of theirs.
        let mut servers = Servers::new(known.schemas, tools);
        let mut granted: Vec<&Grant> = grants
            .iter()
            .filter(|grant| grant.kind == GrantKind::Mcp)
            .collect();
        granted.sort_by(|a, b| a.target.cmp(&b.target));
        for grant in granted {
            servers.add(grant, known.listed);
        }
        let found = servers.finish();
        unavailable.extend(found.unavailable);
        unavailable.sort_by(|a, b| a.what.cmp(&b.what));
        Gathered {
            tools: Self {
                tools: found.tools.into_values().collect(),
                unavailable: unavailable.into(),
                instructions: found.instructions.into(),
            },
            asked: Asked {
                servers: known.listed.asked,
                unavailable: known.listed.unavailable(),
                withheld: found.withheld,
                pinned: found.unpinned.len(),
                took: known.listed.took,
            },
            unpinned: found.unpinned,
        }
    }

    /// What servers whose Tools are in the set say of themselves, by name.
    pub(crate) fn instructions(&self) -> &[Instructions] {
        &self.instructions
    }

    /// What a Player is told of what is unavailable: each Grant once.
    pub(crate) fn unavailable_sentence(&self) -> Option<String> {
        if self.unavailable.is_empty() {
            return None;
        }
        let mut extents: BTreeMap<&str, Extent> = BTreeMap::new();
        for tools in &*self.unavailable {
            let extent = extents.entry(&tools.what).or_insert(tools.extent);
            if tools.extent == Extent::All {
                *extent = Extent::All;
            }
        }
        let names: Vec<String> = extents
            .into_iter()
            .map(|(what, extent)| match extent {
                Extent::All => what.to_owned(),
                Extent::Some => format!("some Tools of {what}"),
            })
            .collect();
        Some(format!("Unavailable in this turn: {}.", names.join(", ")))
    }

    /// The Tools, by name.
    pub(crate) fn tools(&self) -> &[Offered] {
        &self.tools
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// What was granted and cannot be offered now.
    pub(crate) fn unavailable(&self) -> &[Unavailable] {
        &self.unavailable
    }

    /// What the Provider is sent.
    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        self.tools
            .iter()
            .map(|tool| tool.definition.spec.clone())
            .collect()
    }

    /// The Tool of this name, by its place in the set.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.tools
            .binary_search_by(|tool| tool.definition.spec.name.as_str().cmp(name))
            .ok()
    }

    /// What the model is told of a name that is not in the set.
    pub(crate) fn no_such_tool(&self, name: &str) -> String {
        let shown: String = name.chars().take(64).collect();
        let names = || {
            self.tools
                .iter()
                .map(|tool| tool.definition.spec.name.as_str())
        };
        if self.is_empty() {
            return format!("there is no such tool {shown:?}: you have no Tools.");
        }
        match nearest(name, names()) {
            Some(nearest) => {
                format!("there is no such tool {shown:?}; did you mean {nearest:?}?")
            }
            None => format!(
                "there is no such tool {shown:?}; you have {}.",
                names().collect::<Vec<_>>().join(", ")
            ),
        }
    }
}

/// The Tool that a Grant offers now, or why it offers none.
fn offer(grant: &Grant, known: &Known<'_>) -> Result<Arc<Definition>, String> {
    match grant.kind {
        GrantKind::Tool => {
            let definition = known
                .toolbox
                .builtin(&grant.target)
                .ok_or_else(|| format!("This release has no built-in Tool {:?}.", grant.target))?;
            match (&definition.owner, known.fetch) {
                (Owner::Builtin(BuiltinTool::FetchUrl), FetchState::Unavailable(sentence)) => {
                    Err(sentence.clone())
                }
                (
                    Owner::Builtin(BuiltinTool::FetchUrl | BuiltinTool::CurrentTime)
                    | Owner::Mcp(_),
                    _,
                ) => Ok(Arc::clone(definition)),
            }
        }
        GrantKind::Family => Err(if grant.target == Family::Sandbox.as_str() {
            "This Village runs no sandbox-broker.".to_owned()
        } else if grant.target == Family::Memory.as_str() {
            "This Village has no memory.".to_owned()
        } else {
            format!("This release has no family {:?}.", grant.target)
        }),
        GrantKind::Mcp => Err(NO_GATEWAY.to_owned()),
        GrantKind::Npc => Err("Colleagues cannot be asked yet in this Village.".to_owned()),
    }
}
