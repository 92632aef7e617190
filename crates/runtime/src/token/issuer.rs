//! Minting.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use jsonwebtoken::{Algorithm, Header};
use kernel::{Caller, Clock, ServiceName};

use super::{
    CACHED, Claims, EgressClaim, EgressPass, KeyError, MARGIN, SigningKey, Trust, default_mints,
    seconds,
};

/// A token cannot be signed.
#[derive(Debug, thiserror::Error)]
#[error("a caller token cannot be signed")]
pub struct MintError(#[from] jsonwebtoken::errors::Error);

/// Mints caller tokens in one service's name.
#[derive(Debug)]
pub struct Issuer {
    name: String,
    key: SigningKey,
    clock: Arc<dyn Clock>,
    minted: Mutex<HashMap<(Caller, ServiceName), (String, i64)>>,
}

impl Issuer {
    /// An issuer in a service's name.
    pub fn new(name: ServiceName, key: SigningKey, clock: Arc<dyn Clock>) -> Self {
        Self::named(name.as_str(), key, clock)
    }

    /// An issuer that is no service of the house, such as an API gateway.
    pub fn named(name: &str, key: SigningKey, clock: Arc<dyn Clock>) -> Self {
        Self {
            name: name.to_owned(),
            key,
            clock,
            minted: Mutex::default(),
        }
    }

    /// The name that tokens carry as `iss`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The public half of the key.
    pub fn public_key(&self) -> String {
        self.key.public_key()
    }

    #[cfg(test)]
    pub(super) fn cached(&self) -> usize {
        self.minted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// A token that says to `audience` that `caller` is calling. A cached one is given while more than 20 s of it are left.
    pub fn mint(&self, caller: &Caller, audience: ServiceName) -> Result<String, MintError> {
        let now = self.clock.now().as_seconds();
        let wanted = (caller.clone(), audience);
        let fresh = |exp: i64| exp.saturating_sub(now) >= seconds(MARGIN);
        {
            let minted = self.minted.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((token, exp)) = minted.get(&wanted)
                && fresh(*exp)
            {
                return Ok(token.clone());
            }
        }
        let claims = Claims::of(caller, &self.name, audience, now);
        let exp = claims.exp;
        let token = self.sign(&claims)?;
        let mut minted = self.minted.lock().unwrap_or_else(PoisonError::into_inner);
        if minted.len() >= CACHED {
            minted.retain(|_, (_, exp)| fresh(*exp));
        }
        if minted.len() >= CACHED {
            minted.clear();
        }
        minted.insert(wanted, (token.clone(), exp));
        Ok(token)
    }

    /// A pass for one connection through the egress listener of fetch-proxy. Each is minted for itself.
    pub fn mint_egress(&self, pass: &EgressPass) -> Result<String, MintError> {
        let caller = Caller::Npc {
            npc: pass.npc,
            player: pass.player,
        };
        let now = self.clock.now().as_seconds();
        let mut claims = Claims::of(&caller, &self.name, ServiceName::FetchProxy, now);
        claims.egress = Some(EgressClaim {
            hosts: pass.hosts.clone(),
        });
        self.sign(&claims)
    }

    fn sign(&self, claims: &Claims) -> Result<String, MintError> {
        let header = Header::new(Algorithm::EdDSA);
        Ok(jsonwebtoken::encode(&header, claims, self.key.encoding())?)
    }
}

/// The keys of a Village in one process: an issuer for every service, and the trust between them.
#[derive(Debug)]
pub struct Village {
    turn_orchestrator: Arc<Issuer>,
    tool_registry: Arc<Issuer>,
    mcp_gateway: Arc<Issuer>,
    fetch_proxy: Arc<Issuer>,
    sandbox_broker: Arc<Issuer>,
    edge: Arc<Issuer>,
    trust: Arc<Trust>,
}

impl Village {
    /// Makes all keys.
    pub fn generate(clock: &Arc<dyn Clock>) -> Result<Self, KeyError> {
        let trust = Trust::new(Arc::clone(clock));
        let issuer = |service: ServiceName| {
            let issuer = Issuer::new(service, SigningKey::generate()?, Arc::clone(clock));
            let mints = default_mints(issuer.name());
            trust.add(issuer.name(), &issuer.public_key(), mints)?;
            Ok(Arc::new(issuer))
        };
        Ok(Self {
            turn_orchestrator: issuer(ServiceName::TurnOrchestrator)?,
            tool_registry: issuer(ServiceName::ToolRegistry)?,
            mcp_gateway: issuer(ServiceName::McpGateway)?,
            fetch_proxy: issuer(ServiceName::FetchProxy)?,
            sandbox_broker: issuer(ServiceName::SandboxBroker)?,
            edge: issuer(ServiceName::Edge)?,
            trust: Arc::new(trust),
        })
    }

    /// The issuer of a service.
    pub fn issuer(&self, service: ServiceName) -> Arc<Issuer> {
        Arc::clone(match service {
            ServiceName::TurnOrchestrator => &self.turn_orchestrator,
            ServiceName::ToolRegistry => &self.tool_registry,
            ServiceName::McpGateway => &self.mcp_gateway,
            ServiceName::FetchProxy => &self.fetch_proxy,
            ServiceName::SandboxBroker => &self.sandbox_broker,
            ServiceName::Edge => &self.edge,
        })
    }

    /// Whom everybody in the process trusts. Issuers from outside, such as an API gateway, are added to it.
    pub fn trust(&self) -> Arc<Trust> {
        Arc::clone(&self.trust)
    }
}
