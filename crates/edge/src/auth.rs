//! Who a web client is: bearer tokens, which tool-registry knows.

mod cache;

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::extract::FromRequestParts;
use http::{HeaderMap, header::AUTHORIZATION, request::Parts};
use kernel::{Caller, Clock, ErrorCode, PlayerId, Secret, ServiceName};
use proto::registry::v1::{AuthenticatePlayerRequest, Player};
use sha2::{Digest as _, Sha256};

use crate::{
    config::Config,
    guard::{ClientAddress, Limiter},
    peers::Registry,
    problem::Problem,
    routes::App,
};

use cache::Cache;

/// Characters of a token. Ours have far fewer.
const TOKEN_CHARS: usize = 512;

/// A token as the cache knows it: its SHA-256. Looking it up says nothing about the token, however long it takes.
pub(crate) type TokenHash = [u8; 32];

/// A client that is known.
#[derive(Debug, Clone)]
pub(crate) struct Authenticated {
    /// How services see the client.
    pub(crate) caller: Caller,
    /// The Player.
    pub(crate) player: Arc<Player>,
}

impl Authenticated {
    /// The Player's id.
    pub(crate) fn player_id(&self) -> Option<PlayerId> {
        self.caller.player()
    }
}

impl FromRequestParts<App> for Authenticated {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let address = parts
            .extensions
            .get::<ClientAddress>()
            .map_or(IpAddr::from([0, 0, 0, 0]), |address| address.0);
        app.authenticator
            .authenticate(&parts.headers, address)
            .await
    }
}

/// Turns tokens into Players, and counts.
#[derive(Debug)]
pub(crate) struct Authenticator {
    registry: Registry,
    clock: Arc<dyn Clock>,
    cache: Cache,
    requests: Limiter<PlayerId>,
    failures: Limiter<IpAddr>,
    requests_per_minute: u32,
}

impl Authenticator {
    pub(crate) fn new(config: &Config, registry: Registry, clock: Arc<dyn Clock>) -> Self {
        Self {
            registry,
            clock,
            cache: Cache::default(),
            requests: Limiter::per_minute(config.requests_per_minute),
            failures: Limiter::per_minute(config.failed_logins_per_minute),
            requests_per_minute: config.requests_per_minute,
        }
    }

    async fn authenticate(
        &self,
        headers: &HeaderMap,
        address: IpAddr,
    ) -> Result<Authenticated, Problem> {
        let token = bearer(headers)?;
        let hash = TokenHash::from(Sha256::digest(token.expose()));
        let found = match self.cache.fresh(&hash, self.clock.now()) {
            Some(known) => known,
            None => self.ask(token, hash, network(address)).await?,
        };
        self.count(&found)?;
        Ok(found)
    }

    /// Asks the registry. An address that failed too often waits, but for tokens that were good a while ago: one client behind a
    /// shared address must not lock out the others.
    async fn ask(
        &self,
        token: Secret,
        hash: TokenHash,
        network: IpAddr,
    ) -> Result<Authenticated, Problem> {
        let wait = self.failures.wait(&network, self.clock.now());
        if let Some(wait) = wait
            && !self.cache.was_good(&hash, self.clock.now())
        {
            return Err(Problem::too_many(
                "too many failed logins from this address; wait, and check the token",
                wait,
            ));
        }
        let edge = Caller::Service {
            name: ServiceName::Edge,
            player: None,
        };
        let request = AuthenticatePlayerRequest {
            token: token.expose().to_owned(),
        };
        let answer = self
            .registry
            .resolution(&edge)
            .authenticate_player(request)
            .await;
        let player = match answer {
            Ok(answer) => answer.into_inner().player,
            Err(status) if is_refusal(&status) => None,
            Err(status) => return Err(status.into()),
        };
        let Some(found) = player.and_then(known) else {
            self.cache.forget(&hash);
            // At the limit already: nothing more to count.
            let _waits = self.failures.take(&network, self.clock.now());
            return Err(refused());
        };
        self.cache.keep(hash, found.clone(), self.clock.now());
        Ok(found)
    }

    fn count(&self, found: &Authenticated) -> Result<(), Problem> {
        let Some(player) = found.player_id() else {
            return Ok(());
        };
        self.requests
            .take(&player, self.clock.now())
            .map_err(|wait| {
                Problem::too_many(
                    format!(
                        "more than {} requests in a minute with this token",
                        self.requests_per_minute
                    ),
                    wait,
                )
            })
    }

    /// Forgets a Player, so that a revoked token ends here at once. Other edges forget it within the five seconds that an answer is believed for.
    pub(crate) fn forget(&self, player: &str) {
        self.cache.forget_player(player);
    }
}

/// Whether the registry said that the token is nobody's, as opposed to not being asked at all.
fn is_refusal(status: &tonic::Status) -> bool {
    let code = runtime::status::problem(status).code;
    matches!(code, ErrorCode::NotFound | ErrorCode::InvalidArgument)
        // The same code tells that the edge's own token was refused; the registry's sentence is about the Player's.
        || (code == ErrorCode::Unauthenticated && !status.message().contains("caller token"))
}

fn known(player: Player) -> Option<Authenticated> {
    let id: PlayerId = player.id.parse().ok()?;
    let caller = if player.operator {
        Caller::Operator(id)
    } else {
        Caller::Player(id)
    };
    Some(Authenticated {
        caller,
        player: Arc::new(player),
    })
}

fn bearer(headers: &HeaderMap) -> Result<Secret, Problem> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(refused());
    };
    let (scheme, token) = value
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .ok_or_else(refused)?;
    let token = token.trim_matches(' ');
    let plausible = !token.is_empty()
        && token.len() <= TOKEN_CHARS
        && token.bytes().all(|b| b.is_ascii_graphic());
    if !scheme.eq_ignore_ascii_case("bearer") || !plausible {
        return Err(refused());
    }
    Ok(Secret::new(token))
}

/// One answer for every reason, so that it tells nothing.
fn refused() -> Problem {
    Problem::new(
        ErrorCode::Unauthenticated,
        "send the header Authorization: Bearer TOKEN with a token of this Village that was not revoked",
    )
}

/// What counts as one address: a whole /64 of IPv6, since one client has all of it.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let prefix = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(prefix.into())
        }
    }
}

/// For how long an answer of the registry is believed.
pub(crate) const FRESH: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_bearer_token_is_read_whatever_the_case_of_its_scheme() {
        for value in ["Bearer abc", "bearer abc", "BEARER  abc "] {
            assert_eq!(
                bearer(&headers(&[value])).unwrap().expose(),
                "abc",
                "{value}"
            );
        }
    }

    #[test]
    fn everything_else_is_refused_in_the_same_words() {
        let long = format!("Bearer {}", "a".repeat(TOKEN_CHARS + 1));
        for values in [
            &[][..],
            &["Bearer"],
            &["Bearer "],
            &["Basic YTpi"],
            &["abc"],
            &["Bearer a b"],
            &["Bearer a", "Bearer b"],
            &[long.as_str()],
        ] {
            assert_eq!(
                bearer(&headers(values)).unwrap_err(),
                refused(),
                "{values:?}"
            );
        }
    }

    #[test]
    fn the_addresses_of_one_client_count_together() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
