//! Caller tokens: who is calling, said by a service that may say so.
//!
//! A token is a JWT (RFC 7519) signed with Ed25519 (RFC 8037), valid for at most [`LIFETIME`], for one audience. A service holds the
//! public keys of the issuers that it trusts and which kinds of caller each may speak for.

mod issuer;
mod key;
#[cfg(test)]
mod tests;
mod trust;

use std::time::Duration;

use kernel::{Caller, CallerKind, NpcId, PlayerId, ServiceName};
use serde::{Deserialize, Serialize};

pub use issuer::{Issuer, MintError, Village};
pub use key::{KeyError, SigningKey};
pub use trust::{TokenError, Trust};

/// The longest that a token is valid.
pub const LIFETIME: Duration = Duration::from_mins(1);
/// A cached token is minted anew when less than this is left, so that it outlives the call's way.
const MARGIN: Duration = Duration::from_secs(20);
/// How far clocks of two machines may differ.
const LEEWAY: Duration = Duration::from_secs(5);
/// Bytes of the longest token that is looked at.
const TOKEN_BYTES: usize = 2_048;
/// Bytes of the longest pass for the way out that is looked at: it carries a list of hosts.
const EGRESS_TOKEN_BYTES: usize = 16 * 1_024;
/// Tokens that an issuer or a verifier keeps.
const CACHED: usize = 4_096;

/// What a token says. Names are those of RFC 7519 §4.1, and two of our own.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    /// Who minted it.
    iss: String,
    /// Who is calling: a Player's id, an NPC's id or a service's name.
    sub: String,
    /// What the caller is.
    kind: CallerKind,
    /// The Player on whose behalf an NPC or a service acts.
    #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
    on_behalf_of: Option<String>,
    /// Which service it is for.
    aud: String,
    /// When it was minted, in seconds since the epoch.
    iat: i64,
    /// When it ends, in seconds since the epoch.
    exp: i64,
    /// Where the bearer's traffic may go: such a token is a pass for the egress listener and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    egress: Option<EgressClaim>,
}

/// The claim `egress`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EgressClaim {
    /// Hosts, as lists of hosts are written in settings. Empty: every public one.
    hosts: Vec<String>,
}

/// Whose traffic may leave, and where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressPass {
    /// The NPC whose Sandbox it comes from.
    pub npc: NpcId,
    /// The Player whose turn it is.
    pub player: PlayerId,
    /// Hosts that it may go to, not yet read as a list of hosts. Empty: every public one.
    pub hosts: Vec<String>,
}

impl Claims {
    fn of(caller: &Caller, issuer: &str, audience: ServiceName, iat: i64) -> Self {
        let (sub, on_behalf_of) = match caller {
            Caller::Operator(player) | Caller::Player(player) => (player.to_string(), None),
            Caller::Npc { npc, player } => (npc.to_string(), Some(player.to_string())),
            Caller::Service { name, player } => {
                (name.to_string(), player.map(|player| player.to_string()))
            }
        };
        Self {
            iss: issuer.to_owned(),
            sub,
            kind: caller.kind(),
            on_behalf_of,
            aud: audience.to_string(),
            iat,
            exp: iat.saturating_add(seconds(LIFETIME)),
            egress: None,
        }
    }
}

/// Whole seconds, as claims count them.
fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

/// What the services need to say of their callers, and nothing else. An issuer that is no service, such as an API gateway, speaks for
/// Players only unless the Operator says otherwise.
pub fn default_mints(issuer: &str) -> &'static [CallerKind] {
    match issuer.parse::<ServiceName>() {
        Ok(ServiceName::Edge) => &[
            CallerKind::Operator,
            CallerKind::Player,
            CallerKind::Service,
        ],
        Ok(ServiceName::TurnOrchestrator) => &[
            CallerKind::Operator,
            CallerKind::Player,
            CallerKind::Npc,
            CallerKind::Service,
        ],
        Ok(ServiceName::ToolRegistry | ServiceName::McpGateway | ServiceName::FetchProxy) => {
            &[CallerKind::Service]
        }
        // Passes for the way out: see `may_speak_there`.
        Ok(ServiceName::SandboxBroker) => &[CallerKind::Service, CallerKind::Npc],
        Err(_) => &[CallerKind::Player],
    }
}

/// Whether an issuer that may speak for a kind of caller may do so to this service. The sandbox-broker stands next to what models run:
/// it speaks for NPCs where their traffic leaves, and nowhere else.
fn may_speak_there(issuer: &str, kind: CallerKind, audience: ServiceName) -> bool {
    issuer != ServiceName::SandboxBroker.as_str()
        || kind != CallerKind::Npc
        || audience == ServiceName::FetchProxy
}
