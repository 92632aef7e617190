//! What a request wants of Grants, read.

use kernel::{GrantKind, GrantWhat, limits::TOOLS_PER_SET, strip_control};

use crate::{Error, error::shown, pin::Pin};

/// Characters of a Tool's name at its server.
const TOOL_NAME_CHARS: usize = 128;

/// What a request wants to grant, or to take away.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) npc: String,
    pub(crate) what: GrantWhat,
    pub(crate) tools: Vec<String>,
    /// The definitions that the granter saw. Empty: what is listed first is pinned.
    pub(crate) seen: Vec<Pin>,
}

impl Wish {
    pub(crate) fn parse(
        npc: String,
        what: &str,
        tools: Vec<String>,
        seen: Vec<Pin>,
    ) -> Result<Self, Error> {
        let what: GrantWhat = what
            .parse()
            .map_err(|error| Error::invalid("what", error))?;
        let kind = what.kind();
        if kind != GrantKind::Mcp && !seen.is_empty() {
            return Err(Error::invalid(
                "seen",
                format_args!(
                    "only the definitions of an mcp: Grant are pinned, and this one is {kind}:"
                ),
            ));
        }
        Ok(Self {
            npc,
            tools: check_tools(kind, tools)?,
            what,
            seen,
        })
    }
}

/// Only a server's Grant is narrowed to some of its Tools.
pub(super) fn check_tools(kind: GrantKind, tools: Vec<String>) -> Result<Vec<String>, Error> {
    if kind != GrantKind::Mcp && !tools.is_empty() {
        return Err(Error::invalid(
            "tools",
            format_args!(
                "only an mcp: Grant can be narrowed to some Tools, and this one is {kind}:"
            ),
        ));
    }
    if tools.len() > TOOLS_PER_SET {
        let count = tools.len();
        return Err(Error::invalid(
            "tools",
            format_args!("{count} Tools are too many; at most {TOOLS_PER_SET} are allowed"),
        ));
    }
    let mut checked: Vec<String> = Vec::with_capacity(tools.len());
    for tool in tools {
        check_tool_name(&tool)?;
        if !checked.contains(&tool) {
            checked.push(tool);
        }
    }
    Ok(checked)
}

/// Servers call their Tools as they like. What no person could tell apart is no name to grant by.
fn check_tool_name(tool: &str) -> Result<(), Error> {
    let chars = tool.chars().count();
    let plain = strip_control(tool) == tool && !tool.contains(['\n', '\t']);
    if chars == 0 || chars > TOOL_NAME_CHARS || !plain {
        let shown: String = shown(tool).escape_debug().collect();
        return Err(Error::invalid(
            "tools",
            format_args!(
                "\"{shown}\" is no name of a Tool; one has 1 to {TOOL_NAME_CHARS} characters and no control characters"
            ),
        ));
    }
    Ok(())
}
