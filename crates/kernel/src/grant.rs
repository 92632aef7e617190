//! What can be granted, and how a person writes it.

use std::{fmt, str::FromStr};

use crate::nearest;

/// The kinds of grant. One table carries them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GrantKind {
    /// One built-in Tool.
    Tool,
    /// A family of Tools that one grant turns on.
    Family,
    /// An MCP Server; a Connector is one.
    Mcp,
    /// A colleague NPC that may be asked.
    Npc,
}

impl GrantKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Tool, Self::Family, Self::Mcp, Self::Npc];

    /// The word before the colon.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Family => "family",
            Self::Mcp => "mcp",
            Self::Npc => "npc",
        }
    }
}

impl fmt::Display for GrantKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The built-in Tools. The list is short on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BuiltinTool {
    /// The current UTC time.
    CurrentTime,
    /// A public page over HTTPS, as text.
    FetchUrl,
}

impl BuiltinTool {
    /// Every built-in Tool.
    pub const ALL: [Self; 2] = [Self::CurrentTime, Self::FetchUrl];

    /// The Tool's name, as the model sees it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CurrentTime => "current_time",
            Self::FetchUrl => "fetch_url",
        }
    }
}

/// The families.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// `bash`, `browse`, `install_package`, `list_files`, `read_file`, `write_file`.
    Sandbox,
    /// `remember`, `recall`, `forget`.
    Memory,
}

impl Family {
    /// Every family.
    pub const ALL: [Self; 2] = [Self::Sandbox, Self::Memory];

    /// The family's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Memory => "memory",
        }
    }
}

/// What a grant is about, as a person writes it: `tool:current_time`, `family:sandbox`, `mcp:SERVER`, `npc:NPC`.
/// A server or colleague may be named or given by its id; the registry looks it up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum GrantWhat {
    /// A built-in Tool.
    Tool(BuiltinTool),
    /// A family.
    Family(Family),
    /// An MCP Server, by name or id.
    Mcp(String),
    /// A colleague, by name or id.
    Npc(String),
}

impl GrantWhat {
    /// The kind of grant.
    pub const fn kind(&self) -> GrantKind {
        match self {
            Self::Tool(_) => GrantKind::Tool,
            Self::Family(_) => GrantKind::Family,
            Self::Mcp(_) => GrantKind::Mcp,
            Self::Npc(_) => GrantKind::Npc,
        }
    }
}

impl fmt::Display for GrantWhat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = match self {
            Self::Tool(tool) => tool.as_str(),
            Self::Family(family) => family.as_str(),
            Self::Mcp(name) | Self::Npc(name) => name,
        };
        write!(f, "{}:{target}", self.kind())
    }
}

/// Why a text says nothing that can be granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGrantWhat {
    /// There is no colon, or nothing after it.
    #[error("{0:?} says not what to grant: write tool:NAME, family:NAME, mcp:SERVER or npc:NPC")]
    Shape(String),
    /// The kind does not exist.
    #[error("there is no grant kind {kind:?}{}: kinds are tool, family, mcp and npc", did_you_mean(*.nearest))]
    Kind {
        /// What was given.
        kind: String,
        /// The nearest kind.
        nearest: Option<&'static str>,
    },
    /// The built-in Tool does not exist.
    #[error("there is no built-in Tool {name:?}{}: there are current_time and fetch_url", did_you_mean(*.nearest))]
    Tool {
        /// What was given.
        name: String,
        /// The nearest Tool.
        nearest: Option<&'static str>,
    },
    /// The family does not exist.
    #[error("there is no family {name:?}{}: there are sandbox and memory", did_you_mean(*.nearest))]
    Family {
        /// What was given.
        name: String,
        /// The nearest family.
        nearest: Option<&'static str>,
    },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest
        .map(|name| format!("; did you mean {name}?"))
        .unwrap_or_default()
}

impl FromStr for GrantWhat {
    type Err = InvalidGrantWhat;

    fn from_str(text: &str) -> Result<Self, InvalidGrantWhat> {
        let shown = |part: &str| part.chars().take(128).collect::<String>();
        let (kind, target) = match text.split_once(':') {
            Some((kind, target)) if !kind.is_empty() && !target.is_empty() => (kind, target),
            Some(_) | None => return Err(InvalidGrantWhat::Shape(shown(text))),
        };
        match kind {
            "tool" => BuiltinTool::ALL
                .into_iter()
                .find(|tool| tool.as_str() == target)
                .map(Self::Tool)
                .ok_or_else(|| InvalidGrantWhat::Tool {
                    name: shown(target),
                    nearest: nearest(target, BuiltinTool::ALL.map(BuiltinTool::as_str)),
                }),
            "family" => Family::ALL
                .into_iter()
                .find(|family| family.as_str() == target)
                .map(Self::Family)
                .ok_or_else(|| InvalidGrantWhat::Family {
                    name: shown(target),
                    nearest: nearest(target, Family::ALL.map(Family::as_str)),
                }),
            "mcp" => Ok(Self::Mcp(target.to_owned())),
            "npc" => Ok(Self::Npc(target.to_owned())),
            other => Err(InvalidGrantWhat::Kind {
                kind: shown(other),
                nearest: nearest(other, GrantKind::ALL.map(GrantKind::as_str)),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_reads_back_as_it_was_written() {
        for text in [
            "tool:current_time",
            "tool:fetch_url",
            "family:sandbox",
            "family:memory",
            "mcp:Docs",
            "npc:Old Keeper",
        ] {
            assert_eq!(
                text.parse::<GrantWhat>().map(|what| what.to_string()),
                Ok(text.to_owned())
            );
        }
    }

    #[test]
    fn a_wrong_grant_names_the_nearest_that_exists() {
        for (text, sentence) in [
            (
                "tool:curent_time",
                "there is no built-in Tool \"curent_time\"; did you mean current_time?: there are current_time and fetch_url",
            ),
            (
                "tol:x",
                "there is no grant kind \"tol\"; did you mean tool?: kinds are tool, family, mcp and npc",
            ),
            (
                "family:sandbx",
                "there is no family \"sandbx\"; did you mean sandbox?: there are sandbox and memory",
            ),
            (
                "current_time",
                "\"current_time\" says not what to grant: write tool:NAME, family:NAME, mcp:SERVER or npc:NPC",
            ),
        ] {
            assert_eq!(text.parse::<GrantWhat>().unwrap_err().to_string(), sentence);
        }
    }
}
