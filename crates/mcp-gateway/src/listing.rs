//! A server's list of Tools, read leniently: a Tool that cannot be offered is left out with a sentence, and never takes the others along.

mod schema;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use kernel::{JsonText, ToolDefinition, strip_control};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    Config,
    names::{Taken, full_name, shown},
};

/// Tools that are named as withheld; further ones are counted.
const MAX_WITHHELD: usize = 64;

/// Bytes of a Tool's own name. The protocol speaks of 128 characters; what is pinned allows this much.
const NAME_BYTES: usize = 512;

/// A Tool that can be offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// Its name for the model.
    pub full_name: String,
    /// What the server says of it, without control characters in the description. Untrusted.
    pub definition: ToolDefinition,
    /// Names the definition.
    pub hash: String,
}

/// A Tool that the server lists and that is not offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withheld {
    /// Its name, made fit to be shown.
    pub name: String,
    /// Why, in a sentence.
    pub sentence: String,
}

/// A whole list, as far as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The Tools, by full name.
    pub tools: Vec<Tool>,
    /// Tools that are not offered, in the order in which they were met. At most 64.
    pub withheld: Vec<Withheld>,
    /// What is missing of the list itself, in a sentence; empty when it is whole.
    pub cut: String,
}

/// One page, as it came.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page {
    tools: Vec<Box<RawValue>>,
    #[serde(default)]
    next_cursor: Option<Box<RawValue>>,
    #[serde(default)]
    ttl_ms: Option<Box<RawValue>>,
    /// Tools that the transport kept; nothing when it had nothing to say.
    #[serde(skip)]
    kept: Option<HashSet<String>>,
}

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    /// It is none: what is wrong with it.
    pub(crate) fn parse(result: &JsonText) -> Result<Self, String> {
        serde_json::from_str(result.as_str())
            .map_err(|_source| "its answer to tools/list has no list of Tools in it".to_owned())
    }

    /// Says which Tools the transport kept: over HTTP a Tool whose `x-mcp-header` annotations are against the protocol must not be used
    /// (2026-07-28, Transports, "Standard headers"), and `rmcp` drops it.
    pub(crate) fn kept(&mut self, names: impl Iterator<Item = String>) {
        self.kept = Some(names.collect());
    }

    /// The cursor of the next page. An empty one is one (the protocol's pagination section says so); one that is no text is none.
    pub(crate) fn next_cursor(&self) -> Option<String> {
        serde_json::from_str(self.next_cursor.as_ref()?.get()).ok()
    }

    /// For how long the server says that its list holds, in milliseconds.
    pub(crate) fn ttl_ms(&self) -> Option<u64> {
        serde_json::from_str(self.ttl_ms.as_ref()?.get()).ok()
    }
}

/// A Tool as it came: everything may be anything.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTool {
    #[serde(default)]
    name: Option<Box<RawValue>>,
    #[serde(default)]
    description: Option<Box<RawValue>>,
    #[serde(default)]
    input_schema: Option<Box<RawValue>>,
    #[serde(default)]
    annotations: Option<Box<RawValue>>,
}

/// Puts a list together from its pages, within the bounds of the settings.
#[derive(Debug)]
pub(crate) struct Reader<'c> {
    config: &'c Config,
    slug: &'c str,
    found: Vec<ToolDefinition>,
    withheld: Vec<Withheld>,
    more_withheld: usize,
    listed: usize,
    bytes: usize,
    cut: String,
}

impl<'c> Reader<'c> {
    /// Nothing read yet.
    pub(crate) fn new(config: &'c Config, slug: &'c str) -> Self {
        Self {
            config,
            slug,
            found: Vec::new(),
            withheld: Vec::new(),
            more_withheld: 0,
            listed: 0,
            bytes: 0,
            cut: String::new(),
        }
    }

    /// Reads one more page; false when no further page is to be asked for.
    pub(crate) fn add(&mut self, page: &Page) -> bool {
        for tool in &page.tools {
            if self.listed == self.config.max_listed_tools {
                self.cut = format!(
                    "It lists more than {} Tools; the rest were not read.",
                    self.config.max_listed_tools
                );
                return false;
            }
            self.listed += 1;
            self.bytes += tool.get().len();
            if self.bytes > self.config.list_bytes {
                self.cut = format!(
                    "Its list is longer than {} bytes; the rest was not read.",
                    self.config.list_bytes
                );
                return false;
            }
            match self.read(tool, page.kept.as_ref()) {
                Ok(definition) => self.found.push(definition),
                Err((name, sentence)) => self.withhold(name, sentence),
            }
        }
        true
    }

    /// Says that the list ends before its end.
    pub(crate) fn cut(&mut self, sentence: impl Into<String>) {
        self.cut = sentence.into();
    }

    fn withhold(&mut self, name: String, sentence: String) {
        if self.withheld.len() < MAX_WITHHELD {
            self.withheld.push(Withheld { name, sentence });
        } else {
            self.more_withheld += 1;
        }
    }

    fn read(
        &self,
        raw: &RawValue,
        kept: Option<&HashSet<String>>,
    ) -> Result<ToolDefinition, (String, String)> {
        let nameless = || format!("Tool {}", self.listed);
        let tool: RawTool = serde_json::from_str(raw.get())
            .ok()
            .filter(|_| raw.get().starts_with('{'))
            .ok_or_else(|| {
                let sentence = "It is no JSON object with distinct members.".to_owned();
                (nameless(), sentence)
            })?;
        let name = tool
            .name
            .as_ref()
            .and_then(|name| JsonText::parse(name.get()).ok())
            .and_then(|name| serde_json::from_str::<String>(name.as_str()).ok())
            .filter(|name| !name.is_empty())
            .ok_or_else(|| (nameless(), "It has no name.".to_owned()))?;
        let refused = |sentence: String| (shown(&name), sentence);
        if raw.get().len() > self.config.definition_bytes {
            return Err(refused(format!(
                "Its definition has {} bytes; at most {} are offered.",
                raw.get().len(),
                self.config.definition_bytes
            )));
        }
        if name.len() > NAME_BYTES {
            return Err(refused(format!(
                "Its name has {} bytes; at most {NAME_BYTES} are offered.",
                name.len()
            )));
        }
        let schema = schema::read(tool.input_schema.as_deref(), self.config.schema_depth)
            .map_err(refused)?;
        if raw.get().contains("\"x-mcp-header\"") && kept.is_some_and(|kept| !kept.contains(&name))
        {
            return Err(refused(
                "Its inputSchema has x-mcp-header annotations that the protocol forbids."
                    .to_owned(),
            ));
        }
        let description = tool
            .description
            .as_ref()
            .and_then(|text| JsonText::parse(text.get()).ok())
            .and_then(|text| serde_json::from_str::<String>(text.as_str()).ok())
            .unwrap_or_default();
        // Annotations are hints for people: odd ones cost themselves.
        let annotations = tool
            .annotations
            .as_ref()
            .and_then(|json| JsonText::parse(json.get()).ok())
            .filter(JsonText::is_object);
        Ok(ToolDefinition {
            description: strip_control(&description).into_owned(),
            name,
            input_schema: schema,
            annotations,
        })
    }

    /// The list. Names that fit as they are come first when two would take one name: the order in which a server lists decides nothing.
    pub(crate) fn finish(mut self) -> Listing {
        let mut named: Vec<(String, bool, ToolDefinition)> = std::mem::take(&mut self.found)
            .into_iter()
            .map(|definition| {
                let full = full_name(self.slug, &definition.name);
                let made = full != format!("{}__{}", self.slug, definition.name);
                (full, made, definition)
            })
            .collect();
        named.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        let mut taken = Taken::default();
        let mut tools = Vec::with_capacity(named.len());
        for (full_name, _made, definition) in named {
            match taken.take(&full_name, &definition.name) {
                Ok(()) => tools.push(Tool {
                    hash: definition.hash(),
                    full_name,
                    definition,
                }),
                Err(owner) if owner == definition.name => self.withhold(
                    shown(&definition.name),
                    "The server lists it twice; the first one is offered.".to_owned(),
                ),
                Err(owner) => self.withhold(
                    shown(&definition.name),
                    format!(
                        "Its name for the model, {full_name}, is that of the Tool \"{}\", too.",
                        shown(&owner)
                    ),
                ),
            }
        }
        if self.more_withheld > 0 {
            let more = format!(
                "{} more of its Tools cannot be offered.",
                self.more_withheld
            );
            if !self.cut.is_empty() {
                self.cut.push(' ');
            }
            self.cut.push_str(&more);
        }
        Listing {
            tools,
            withheld: self.withheld,
            cut: self.cut,
        }
    }
}
