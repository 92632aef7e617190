//! The Tool set: what an NPC was granted and can be offered now, and what it was granted and cannot.
//!
//! It is built from the Grants at the start of every turn, by the same function that answers "what can this NPC do?", and does not
//! change while the turn runs. Nothing filters a call afterwards: what is not in the set does not exist.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use kernel::{BuiltinTool, Family, GrantKind, limits, nearest};
use llm::ToolSpec;
use tokio::sync::Semaphore;

use crate::{
    peers::Grant,
    tool::{Definition, Toolbox},
};

/// Whether pages can be fetched now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FetchState {
    /// They can.
    Ready,
    /// They cannot, and this is why.
    Unavailable(String),
}

/// What an NPC can do in a turn. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ToolSet {
    tools: Arc<[Offered]>,
    unavailable: Arc<[Unavailable]>,
}

/// A Tool that is in the set.
#[derive(Debug)]
pub(crate) struct Offered {
    /// What it is.
    pub(crate) definition: Arc<Definition>,
    /// The Grant that it comes from: `tool:current_time`.
    pub(crate) origin: String,
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
}

impl ToolSet {
    /// Builds the set. The order is stable: Tools by name, and what is unavailable by Grant.
    pub(crate) fn build(grants: &[Grant], toolbox: &Toolbox, fetch: &FetchState) -> Self {
        let mut tools = BTreeMap::new();
        let mut unavailable = Vec::new();
        for grant in grants {
            match offer(grant, toolbox, fetch) {
                Ok(definition) => {
                    tools.insert(
                        definition.spec.name.clone(),
                        Offered {
                            origin: grant.what(),
                            slots: Semaphore::new(definition.at_once),
                            definition,
                        },
                    );
                }
                Err(sentence) => unavailable.push(Unavailable {
                    what: grant.what(),
                    sentence,
                }),
            }
        }
        let mut tools: Vec<Offered> = tools.into_values().collect();
        for extra in tools.drain(limits::TOOLS_PER_SET.min(tools.len())..) {
            unavailable.push(Unavailable {
                what: extra.origin,
                sentence: format!(
                    "The NPC has more than {} Tools, and Providers take no more; {} was left out.",
                    limits::TOOLS_PER_SET,
                    extra.definition.spec.name
                ),
            });
        }
        unavailable.sort_by(|a, b| a.what.cmp(&b.what));
        Self {
            tools: tools.into(),
            unavailable: unavailable.into(),
        }
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
fn offer(grant: &Grant, toolbox: &Toolbox, fetch: &FetchState) -> Result<Arc<Definition>, String> {
    match grant.kind {
        GrantKind::Tool => {
            let definition = toolbox
                .builtin(&grant.target)
                .ok_or_else(|| format!("This release has no built-in Tool {:?}.", grant.target))?;
            match (definition.kind, fetch) {
                (BuiltinTool::FetchUrl, FetchState::Unavailable(sentence)) => Err(sentence.clone()),
                (BuiltinTool::FetchUrl, FetchState::Ready) | (BuiltinTool::CurrentTime, _) => {
                    Ok(Arc::clone(definition))
                }
            }
        }
        GrantKind::Family => Err(if grant.target == Family::Sandbox.as_str() {
            "This Village runs no sandbox-broker.".to_owned()
        } else if grant.target == Family::Memory.as_str() {
            "This Village has no memory.".to_owned()
        } else {
            format!("This release has no family {:?}.", grant.target)
        }),
        GrantKind::Mcp => Err("This Village runs no mcp-gateway.".to_owned()),
        GrantKind::Npc => Err("Colleagues cannot be asked yet in this Village.".to_owned()),
    }
}
