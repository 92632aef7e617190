//! Verifying.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use kernel::{Caller, CallerKind, Clock, ServiceName};

use super::{
    CACHED, Claims, EGRESS_TOKEN_BYTES, EgressPass, KeyError, LEEWAY, LIFETIME, TOKEN_BYTES, key,
    may_speak_there, seconds,
};

/// Why a token is refused. What the caller is told is the same sentence for all: see [`crate::server`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is not a token of ours: too long, not a JWT, another algorithm, unknown or missing claims.
    #[error("the caller token is malformed")]
    Malformed,
    /// Nobody of this name is trusted.
    #[error("the issuer {0:?} is not trusted here; add it to keys.trust")]
    UnknownIssuer(String),
    /// The signature is not the issuer's.
    #[error("the signature does not match the key of {0:?}")]
    BadSignature(String),
    /// It was made for another service.
    #[error("the caller token is for {found:?}, and this is {expected}")]
    WrongAudience {
        /// The token's audience.
        found: String,
        /// This service.
        expected: ServiceName,
    },
    /// Its time is over.
    #[error("the caller token has expired")]
    Expired,
    /// It was minted in the future, or is valid for longer than any may be.
    #[error("the caller token's times are wrong; tokens live {} seconds at most, and clocks must agree", LIFETIME.as_secs())]
    WrongTimes,
    /// The issuer may not speak for such a caller.
    #[error("{issuer:?} may not mint tokens of the kind {kind:?}")]
    KindNotAllowed {
        /// The issuer.
        issuer: String,
        /// The kind that it claimed.
        kind: CallerKind,
    },
    /// The issuer may speak for such a caller, but not to this service.
    #[error("{issuer:?} may not mint tokens of the kind {kind:?} for {audience}")]
    NotThere {
        /// The issuer.
        issuer: String,
        /// The kind that it claimed.
        kind: CallerKind,
        /// This service.
        audience: ServiceName,
    },
    /// The subject does not fit the kind.
    #[error("the caller token's subject does not fit its kind")]
    WrongSubject,
    /// It is a pass for the way out, whose list of hosts a call would not heed.
    #[error("the caller token is a pass for the egress listener, and good for no call")]
    EgressOnly,
    /// Only NPCs have a way out.
    #[error("the caller token is of the kind {0:?}, and the egress listener serves NPCs")]
    NotAnNpc(CallerKind),
}

struct TrustedIssuer {
    key: DecodingKey,
    mints: Vec<CallerKind>,
}

#[derive(Default)]
struct State {
    issuers: HashMap<String, TrustedIssuer>,
    verified: HashMap<String, Verified>,
}

struct Verified {
    caller: Caller,
    audience: ServiceName,
    iat: i64,
    exp: i64,
}

/// The issuers that a process trusts, and tokens that it has verified.
pub struct Trust {
    clock: Arc<dyn Clock>,
    state: RwLock<State>,
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Trust")
            .field("issuers", &state.issuers.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Trust {
    /// Trusts nobody yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: RwLock::default(),
        }
    }

    /// Trusts an issuer for these kinds of caller. An issuer that was trusted before is replaced, and what it vouched for is forgotten.
    pub fn add(
        &self,
        issuer: &str,
        public_key: &str,
        mints: &[CallerKind],
    ) -> Result<(), KeyError> {
        let key = key::public_key(issuer, public_key)?;
        let trusted = TrustedIssuer {
            key: DecodingKey::from_ed_der(&key),
            mints: mints.to_vec(),
        };
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.issuers.insert(issuer.to_owned(), trusted);
        state.verified.clear();
        Ok(())
    }

    /// Whether anybody is trusted.
    pub fn is_empty(&self) -> bool {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.issuers.is_empty()
    }

    #[cfg(test)]
    pub(super) fn cached(&self) -> usize {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.verified.len()
    }

    /// Who is calling `audience`, by a token.
    pub fn verify(&self, token: &str, audience: ServiceName) -> Result<Caller, TokenError> {
        if token.len() > TOKEN_BYTES {
            return Err(TokenError::Malformed);
        }
        let now = self.clock.now().as_seconds();
        let verified = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            match state.verified.get(token) {
                Some(known) if known.audience == audience => {
                    check_times(known.iat, known.exp, now)?;
                    return Ok(known.caller.clone());
                }
                _ => {
                    let claims = state.check(token, audience, now)?;
                    if claims.egress.is_some() {
                        return Err(TokenError::EgressOnly);
                    }
                    Verified {
                        caller: caller(&claims)?,
                        audience,
                        iat: claims.iat,
                        exp: claims.exp,
                    }
                }
            }
        };
        let caller = verified.caller.clone();
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.verified.len() >= CACHED {
            state
                .verified
                .retain(|_, known| check_times(known.iat, known.exp, now).is_ok());
        }
        if state.verified.len() >= CACHED {
            state.verified.clear();
        }
        state.verified.insert(token.to_owned(), verified);
        Ok(caller)
    }

    /// Whose traffic may leave through the egress listener of fetch-proxy, and where to, by a token. Without a list of hosts in it:
    /// to every public one.
    pub fn verify_egress(&self, token: &str) -> Result<EgressPass, TokenError> {
        if token.len() > EGRESS_TOKEN_BYTES {
            return Err(TokenError::Malformed);
        }
        let now = self.clock.now().as_seconds();
        let claims = self
            .state
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .check(token, ServiceName::FetchProxy, now)?;
        match caller(&claims)? {
            Caller::Npc { npc, player } => Ok(EgressPass {
                npc,
                player,
                hosts: claims.egress.map(|egress| egress.hosts).unwrap_or_default(),
            }),
            other @ (Caller::Operator(_) | Caller::Player(_) | Caller::Service { .. }) => {
                Err(TokenError::NotAnNpc(other.kind()))
            }
        }
    }
}

impl State {
    /// The claims of a token that a trusted issuer signed for this audience, for now, and may sign.
    fn check(&self, token: &str, audience: ServiceName, now: i64) -> Result<Claims, TokenError> {
        let malformed = |_error| TokenError::Malformed;
        // The algorithm is ours to choose, never the token's (RFC 8725 §3.1).
        if jsonwebtoken::decode_header(token).map_err(malformed)?.alg != Algorithm::EdDSA {
            return Err(TokenError::Malformed);
        }
        // Which key to take stands in the claims; nothing of them is believed before the signature holds.
        let unverified: jsonwebtoken::TokenData<Claims> =
            jsonwebtoken::dangerous::insecure_decode(token).map_err(malformed)?;
        let name = unverified.claims.iss;
        let issuer = self
            .issuers
            .get(&name)
            .ok_or_else(|| TokenError::UnknownIssuer(name.chars().take(64).collect()))?;
        // Audience and times are checked below, against our clock and word for word.
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        let claims = jsonwebtoken::decode::<Claims>(token, &issuer.key, &validation)
            .map_err(|_error| TokenError::BadSignature(name.clone()))?
            .claims;
        if claims.aud != audience.as_str() {
            return Err(TokenError::WrongAudience {
                found: claims.aud.chars().take(64).collect(),
                expected: audience,
            });
        }
        check_times(claims.iat, claims.exp, now)?;
        if !issuer.mints.contains(&claims.kind) {
            return Err(TokenError::KindNotAllowed {
                issuer: name,
                kind: claims.kind,
            });
        }
        if !may_speak_there(&name, claims.kind, audience) {
            return Err(TokenError::NotThere {
                issuer: name,
                kind: claims.kind,
                audience,
            });
        }
        Ok(claims)
    }
}

fn check_times(iat: i64, exp: i64, now: i64) -> Result<(), TokenError> {
    if exp <= now {
        return Err(TokenError::Expired);
    }
    let too_long = exp.saturating_sub(iat) > seconds(LIFETIME);
    let in_future = iat > now.saturating_add(seconds(LEEWAY));
    if too_long || in_future || exp < iat {
        return Err(TokenError::WrongTimes);
    }
    Ok(())
}

fn caller(claims: &Claims) -> Result<Caller, TokenError> {
    let wrong = |_error| TokenError::WrongSubject;
    let player = claims
        .on_behalf_of
        .as_deref()
        .map(|text| text.parse().map_err(wrong))
        .transpose()?;
    match claims.kind {
        CallerKind::Operator | CallerKind::Player if player.is_some() => {
            Err(TokenError::WrongSubject)
        }
        CallerKind::Operator => Ok(Caller::Operator(claims.sub.parse().map_err(wrong)?)),
        CallerKind::Player => Ok(Caller::Player(claims.sub.parse().map_err(wrong)?)),
        CallerKind::Npc => Ok(Caller::Npc {
            npc: claims.sub.parse().map_err(wrong)?,
            player: player.ok_or(TokenError::WrongSubject)?,
        }),
        // A service speaks for itself: no issuer can pose as another service.
        CallerKind::Service if claims.sub != claims.iss => Err(TokenError::WrongSubject),
        CallerKind::Service => Ok(Caller::Service {
            name: claims
                .sub
                .parse()
                .map_err(|_unknown| TokenError::WrongSubject)?,
            player,
        }),
    }
}
