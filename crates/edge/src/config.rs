//! The section `edge` of the settings.

use std::{net::SocketAddr, time::Duration};

use runtime::{BoxError, Settings, exposure, process::KeysSettings};
use serde::Deserialize;

/// How the edge listens, and whom it answers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where to listen. Port 0 picks a free one.
    pub listen: SocketAddr,
    /// Host headers that are answered besides `localhost` and the listener's own address: `name` or `name:port`.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may call from a browser: `https://village.example`.
    pub cors_origins: Vec<String>,
    /// Requests a minute for one Player. At least 1.
    pub requests_per_minute: u32,
    /// Failed logins a minute from one address. At least 1.
    pub failed_logins_per_minute: u32,
    /// Streams that one Player may hold open at the same time.
    pub streams_per_token: usize,
    /// How long a client may take over things. Not a setting: tests shorten them.
    #[serde(skip)]
    pub timeouts: Timeouts,
}

/// How long a client may take, and how often it hears from us.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For the head of a request. A client that drips header bytes is cut off (slow loris).
    pub head: Duration,
    /// For the body of a request, once its head is there.
    pub body: Duration,
    /// Between comments on a stream that has nothing to say: shorter than the idle time of common proxies (30 to 60 s).
    pub keep_alive: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
        }
    }
}

impl Config {
    /// Reads the section.
    ///
    /// A listener beyond loopback needs `keys.private`: what the edge says there of its callers must not rest on a key that
    /// nobody chose.
    pub fn of(settings: &Settings) -> Result<Self, BoxError> {
        let config: Self = settings.section("edge")?;
        let keys: KeysSettings = settings.section("keys")?;
        exposure::check("HTTP", config.listen, &[("keys.private", &keys.private)])?;
        Ok(config)
    }
}
