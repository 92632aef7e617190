//! MCP Servers: what is registered, who sees what of it, and how it is changed.
//!
//! - Values of headers, of a URL's query and of the environment are sealed before they reach the database, and no read returns them.
//! - A server whose transport, address or command changes is another one: what was learnt of it is forgotten. Kept secrets never go
//!   to another place unless their owner sends them there.
//! - Every change is announced once it is committed, so that no gateway goes on with an old client.

mod announce;
mod edit;
mod fields;
mod resolution;
pub(crate) mod sealed;
mod secrets;
mod url;
mod verbs;

use std::str::FromStr;

use kernel::{McpServerId, McpTransport, OwnedFacts, PlayerId, Timestamp};
use serde::{Deserialize, Serialize, Serializer};
use vault::{UnsealError, Vault};

use crate::audit;
use sealed::SealedText;

pub(crate) use fields::{Fields, NamedSecret};
pub(crate) use resolution::Observed;

/// A registered server. It is serialized for the audit log, in the words of the HTTP surface and without anything that is sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct McpServer {
    pub(crate) id: McpServerId,
    #[serde(rename = "ownerId")]
    pub(crate) owner: PlayerId,
    pub(crate) name: String,
    pub(crate) slug: String,
    #[serde(serialize_with = "transport_word")]
    pub(crate) transport: McpTransport,
    /// With the values of its query masked; empty for stdio.
    pub(crate) url: String,
    pub(crate) query_names: Vec<String>,
    #[serde(skip)]
    pub(crate) sealed_url: Option<SealedText>,
    pub(crate) header_names: Vec<String>,
    #[serde(skip)]
    pub(crate) sealed_headers: Option<SealedText>,
    /// Empty for http and sse.
    pub(crate) command: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) working_directory: String,
    pub(crate) environment_names: Vec<String>,
    #[serde(skip)]
    pub(crate) sealed_environment: Option<SealedText>,
    pub(crate) private: bool,
    pub(crate) enabled: bool,
    pub(crate) pinning: Pinning,
    #[serde(skip)]
    pub(crate) era: Option<Era>,
    pub(crate) preset: String,
    #[serde(skip)]
    pub(crate) last_test: Option<TestResult>,
    pub(crate) generation: i64,
    pub(crate) credentials_generation: i64,
    #[serde(serialize_with = "audit::time")]
    pub(crate) created_at: Timestamp,
    #[serde(serialize_with = "audit::time")]
    pub(crate) updated_at: Timestamp,
}

impl McpServer {
    pub(crate) const fn facts(&self) -> OwnedFacts {
        OwnedFacts {
            owner: self.owner,
            private: self.private,
            transport: self.transport,
        }
    }

    /// Whether the root secret reads all that is sealed of it.
    pub(crate) fn credentials(&self, vault: &Vault) -> Result<(), UnsealError> {
        let fields = [
            (sealed::Field::Url, &self.sealed_url),
            (sealed::Field::Headers, &self.sealed_headers),
            (sealed::Field::Environment, &self.sealed_environment),
        ];
        for (field, sealed) in fields {
            if let Some(sealed) = sealed {
                sealed.check(vault, self.id, field)?;
            }
        }
        Ok(())
    }
}

/// How a transport is called in the database, in logs and in the audit log.
pub(crate) const fn transport_as_str(transport: McpTransport) -> &'static str {
    match transport {
        McpTransport::Stdio => "stdio",
        McpTransport::Http => "http",
        McpTransport::Sse => "sse",
    }
}

/// The transport that is called so.
pub(crate) fn transport_of(word: &str) -> Option<McpTransport> {
    [McpTransport::Stdio, McpTransport::Http, McpTransport::Sse]
        .into_iter()
        .find(|&transport| transport_as_str(transport) == word)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands fields over by reference"
)]
fn transport_word<S: Serializer>(transport: &McpTransport, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(transport_as_str(*transport))
}

/// What happens when a server's Tool definitions change after they were pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pinning {
    #[default]
    Strict,
    Warn,
    Off,
}

impl Pinning {
    const ALL: [Self; 3] = [Self::Strict, Self::Warn, Self::Off];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Warn => "warn",
            Self::Off => "off",
        }
    }
}

impl FromStr for Pinning {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut all = Self::ALL.into_iter();
        all.find(|pinning| pinning.as_str() == text).ok_or(())
    }
}

/// The era of the protocol that a server was last spoken to in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Era {
    Legacy,
    Modern,
}

impl Era {
    const ALL: [Self; 2] = [Self::Legacy, Self::Modern];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

impl FromStr for Era {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut all = Self::ALL.into_iter();
        all.find(|era| era.as_str() == text).ok_or(())
    }
}

/// How a test went, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TestResult {
    pub(crate) ok: bool,
    pub(crate) code: String,
    pub(crate) sentence: String,
    pub(crate) next_step: String,
    pub(crate) tools: u32,
    pub(crate) protocol_version: String,
    /// Microseconds since the Unix epoch.
    pub(crate) at_micros: i64,
    pub(crate) latency_micros: u64,
    pub(crate) era: Option<Era>,
    /// See [`transport_as_str`]; empty when none was spoken.
    pub(crate) transport: String,
}

/// A server, as one caller is shown it.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) server: McpServer,
    pub(crate) credentials: Result<(), UnsealError>,
    /// Where kept secrets go since this change.
    pub(crate) notice: Option<String>,
    pub(crate) holders: Vec<Holder>,
}

/// An NPC that has a server.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(crate) npc_id: String,
    pub(crate) npc: String,
    pub(crate) tools: Vec<String>,
}
