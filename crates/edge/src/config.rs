//! The section `edge` of the settings.

use std::{net::SocketAddr, time::Duration};

use runtime::{BoxError, Settings, exposure, process::KeysSettings};
use serde::Deserialize;

use crate::{error::Error, guard::Rules};

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
    /// For a client that does not read what it asked for.
    pub write: Duration,
    /// Between comments on a stream that has nothing to say: shorter than the idle time of common proxies (30 to 60 s).
    pub keep_alive: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            write: Duration::from_mins(1),
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
        config.check()?;
        Ok(config)
    }

    /// Judges the values: what an edge would refuse when it is built is refused where settings are checked.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (name, limit) in [
            ("requests_per_minute", u64::from(self.requests_per_minute)),
            (
                "failed_logins_per_minute",
                u64::from(self.failed_logins_per_minute),
            ),
            ("streams_per_token", self.streams_per_token as u64),
        ] {
            if limit == 0 {
                return Err(Error::ZeroLimit(name));
            }
        }
        Rules::of(self).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use runtime::Sources;

    use super::*;

    fn read(environment: &[(&str, &str)]) -> Result<Config, String> {
        let environment = environment
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let sources = Sources {
            file: None,
            environment,
        };
        Settings::load(sources)
            .map_err(BoxError::from)
            .and_then(|settings| Config::of(&settings))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_listen_on_this_machine_alone() {
        let config = read(&[]).unwrap();
        assert!(exposure::is_loopback(config.listen));
        assert_eq!(config.requests_per_minute, 600);
        assert!(config.cors_origins.is_empty() && config.allowed_hosts.is_empty());
    }

    #[test]
    fn what_an_edge_would_refuse_is_refused_as_a_setting() {
        for (name, value, sentence) in [
            ("CORS_ORIGINS", r#"["nope"]"#, "\"nope\" is not an origin"),
            ("ALLOWED_HOSTS", r#"["no pe"]"#, "\"no pe\" is not a host"),
            ("REQUESTS_PER_MINUTE", "0", "requests_per_minute is 0"),
        ] {
            let refusal = read(&[(&format!("AGENTSVILLE__EDGE__{name}"), value)]).unwrap_err();
            assert!(refusal.contains(sentence), "{refusal}");
        }
    }

    #[test]
    fn a_listener_that_others_reach_needs_a_key() {
        let refusal = read(&[("AGENTSVILLE__EDGE__LISTEN", "0.0.0.0:8080")]).unwrap_err();
        assert!(refusal.contains("keys.private is not set"), "{refusal}");
        let set = "x".repeat(32);
        let open = read(&[
            ("AGENTSVILLE__EDGE__LISTEN", "0.0.0.0:8080"),
            ("AGENTSVILLE__KEYS__PRIVATE", &set),
        ]);
        assert!(open.is_ok(), "{open:?}");
    }
}
