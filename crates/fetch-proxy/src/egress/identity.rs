//! Who is asking: the pass that sandbox-broker minted for the connection.
//!
//! **Architecture invariant:** the token is read here, and goes nowhere else: into no log, no error, and no request that is sent on.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderMap, header};
use kernel::{NpcId, PlayerId, Secret};
use outbound::Target;
use runtime::{Trust, token::TokenError};

use super::denial::Denial;
use crate::HostList;

/// Whose traffic it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Whose {
    /// The NPC whose Sandbox it comes from.
    pub(super) npc: NpcId,
    /// The Player whose turn it is.
    pub(super) player: PlayerId,
}

/// A pass that holds.
#[derive(Debug, Clone)]
pub(super) struct Pass {
    /// Whose it is.
    pub(super) whose: Whose,
    /// Hosts that it leads to.
    hosts: HostList,
    /// Whether it leads to some hosts only.
    pub(super) reach: Reach,
}

/// How far a pass leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// To every public host.
    Public,
    /// To those of a list.
    Listed,
}

impl Pass {
    /// The pass that a request's headers carry.
    pub(super) fn of(headers: &HeaderMap, trust: &Trust) -> Result<Self, Denial> {
        let token = token(headers)?;
        let pass = trust
            .verify_egress(token.expose())
            .map_err(|error| denial(&error))?;
        let reach = if pass.hosts.is_empty() {
            Reach::Public
        } else {
            Reach::Listed
        };
        let hosts = HostList::parse(&pass.hosts).map_err(|_invalid| {
            Denial::identity(
                "token-hosts",
                "the claim egress.hosts of the caller token is no list of hosts",
            )
        })?;
        Ok(Self {
            whose: Whose {
                npc: pass.npc,
                player: pass.player,
            },
            hosts,
            reach,
        })
    }

    /// Whether its policy leads to this host.
    pub(super) fn admit(&self, target: &Target) -> Result<(), Denial> {
        if self.hosts.allows(target.host()) {
            Ok(())
        } else {
            Err(Denial::host_not_allowed(target))
        }
    }
}

/// The token, as a bearer's or as the password of any user.
fn token(headers: &HeaderMap) -> Result<Secret, Denial> {
    let malformed = || {
        Denial::identity(
            "token-malformed",
            "Proxy-Authorization holds no caller token; send Bearer TOKEN, or Basic with the token as password",
        )
    };
    let mut values = headers.get_all(header::PROXY_AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().map_err(|_error| malformed())?,
        (None, _) => {
            return Err(Denial::identity(
                "token-missing",
                "the way out is for Sandboxes, whose connections carry a caller token in Proxy-Authorization",
            ));
        }
        // Which one would count?
        (Some(_), Some(_)) => return Err(malformed()),
    };
    let (scheme, credentials) = value.split_once(' ').ok_or_else(malformed)?;
    let credentials = credentials.trim_matches(' ');
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(Secret::new(credentials));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(malformed());
    }
    let decoded = BASE64_STANDARD
        .decode(credentials)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(malformed)?;
    let (_user, password) = decoded.split_once(':').ok_or_else(malformed)?;
    Ok(Secret::new(password))
}

/// What the bearer is told. It says which kind of thing is wrong, and nothing of the token.
fn denial(error: &TokenError) -> Denial {
    let (rule, sentence) = match error {
        TokenError::Malformed | TokenError::WrongSubject => {
            ("token-malformed", "the caller token is none")
        }
        TokenError::UnknownIssuer(_) | TokenError::BadSignature(_) => (
            "token-untrusted",
            "the caller token was not signed by anybody whom keys.trust names",
        ),
        TokenError::Expired | TokenError::WrongTimes => (
            "token-expired",
            "the caller token is not valid now; one is minted for each connection, and lives for a minute",
        ),
        TokenError::WrongAudience { .. } => {
            ("token-audience", "the caller token is for another service")
        }
        TokenError::KindNotAllowed { .. }
        | TokenError::NotThere { .. }
        | TokenError::NotAnNpc(_)
        | TokenError::EgressOnly => (
            "token-kind",
            "the way out is for NPCs, whose tokens are of the kind npc",
        ),
    };
    Denial::identity(rule, sentence)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(values: &[&str]) -> Result<String, &'static str> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(
                header::PROXY_AUTHORIZATION,
                HeaderValue::from_str(value).expect("a value"),
            );
        }
        token(&headers)
            .map(|token| token.expose().to_owned())
            .map_err(|denial| denial.rule)
    }

    #[test]
    fn a_token_comes_as_a_bearers_or_as_anybodys_password() {
        let basic = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
        assert_eq!(read(&["Bearer a.b.c"]), Ok("a.b.c".to_owned()));
        assert_eq!(read(&["bearer  a.b.c "]), Ok("a.b.c".to_owned()));
        assert_eq!(read(&[&basic("npc:a.b.c")]), Ok("a.b.c".to_owned()));
        assert_eq!(read(&[&basic(":a.b.c")]), Ok("a.b.c".to_owned()));
    }

    #[test]
    fn what_holds_no_token_is_not_guessed_at() {
        assert_eq!(read(&[]), Err("token-missing"));
        for values in [
            &["a.b.c"][..],
            &["Digest a.b.c"],
            &["Basic !!!"],
            &["Basic YWJj"],
            &["Bearer a", "Bearer b"],
        ] {
            assert_eq!(read(values), Err("token-malformed"), "{values:?}");
        }
    }
}
