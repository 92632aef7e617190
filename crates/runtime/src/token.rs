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

use kernel::{Caller, CallerKind, ServiceName};
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
        Ok(
            ServiceName::ToolRegistry
            | ServiceName::McpGateway
            | ServiceName::FetchProxy
            | ServiceName::SandboxBroker,
        ) => &[CallerKind::Service],
        Err(_) => &[CallerKind::Player],
    }
}
