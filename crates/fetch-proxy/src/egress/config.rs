//! The settings' section `egress`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de::Error as _};

use crate::config::within;

/// The most ports that `egress.ports` may name.
const MAX_PORTS: usize = 64;

/// Where the listener is, and the bounds of what goes through it. Each has a hard maximum, so that no setting lets one Sandbox hold
/// a process.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// address:port; port 0 picks a free one; empty: no such listener.
    pub listen: String,
    /// Ports that may be connected to besides those of exemptions, at most 64.
    #[serde(deserialize_with = "ports")]
    pub ports: Vec<u16>,
    /// Connections of clients at the same time, 1 to 65,536.
    #[serde(deserialize_with = "connections")]
    pub connections: usize,
    /// Tunnels and requests that are being served at the same time, 1 to 65,536.
    #[serde(deserialize_with = "tunnels")]
    pub tunnels: usize,
    /// The same for one NPC on behalf of one Player, 1 to 4,096.
    #[serde(deserialize_with = "tunnels_per_npc")]
    pub tunnels_per_npc: usize,
    /// Requests over one connection of a client, 1 to 100,000; the last one's answer closes it.
    #[serde(deserialize_with = "requests")]
    pub requests_per_connection: usize,
    /// Silence after which a tunnel or a connection ends. In seconds, 1 to 3,600.
    #[serde(rename = "idle_seconds", deserialize_with = "idle")]
    pub idle: Duration,
    /// The longest life of a tunnel, or of a connection that is kept for requests. In seconds, 1 to 86,400.
    #[serde(rename = "tunnel_seconds", deserialize_with = "lifetime")]
    pub lifetime: Duration,
    /// Bytes of one tunnel or one body each way, 1 KiB to 1 TiB.
    #[serde(deserialize_with = "bytes")]
    pub tunnel_bytes: u64,
    /// Time to resolve a name and to connect. In seconds, 1 to 60.
    #[serde(rename = "connect_seconds", deserialize_with = "short")]
    pub connect: Duration,
    /// Time for the head of a request, and for the handshakes before it. In seconds, 1 to 60.
    #[serde(rename = "header_seconds", deserialize_with = "short")]
    pub header: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:3128".to_owned(),
            ports: vec![80, 443],
            connections: 1_024,
            tunnels: 512,
            tunnels_per_npc: 64,
            requests_per_connection: 1_000,
            idle: Duration::from_mins(2),
            lifetime: Duration::from_hours(1),
            tunnel_bytes: 4 * 1_024 * 1_024 * 1_024,
            connect: Duration::from_secs(10),
            header: Duration::from_secs(10),
        }
    }
}

fn ports<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u16>, D::Error> {
    let ports = Vec::<u16>::deserialize(deserializer)?;
    if ports.len() > MAX_PORTS || ports.contains(&0) {
        return Err(D::Error::custom(format!(
            "it names {} ports; at most {MAX_PORTS} from 1 to 65535 are taken",
            ports.len()
        )));
    }
    Ok(ports)
}

fn connections<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(deserializer, &(1..=65_536))
}

fn tunnels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(deserializer, &(1..=65_536))
}

fn tunnels_per_npc<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(deserializer, &(1..=4_096))
}

fn requests<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(deserializer, &(1..=100_000))
}

fn idle<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    within(deserializer, &(1..=3_600)).map(Duration::from_secs)
}

fn lifetime<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    within(deserializer, &(1..=86_400)).map(Duration::from_secs)
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    within(deserializer, &(1_024..=1_024 * 1_024 * 1_024 * 1_024))
}

fn short<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    within(deserializer, &(1..=60)).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> toml::Value {
        let file: toml::Table =
            toml::from_str(include_str!("../../../../deploy/config.default.toml")).expect("TOML");
        file["egress"].clone()
    }

    #[test]
    fn the_defaults_are_those_of_the_defaults_file() {
        let read: Config = file().try_into().expect("the section");
        assert_eq!(format!("{read:?}"), format!("{:?}", Config::default()));
    }

    #[test]
    fn a_bound_beyond_its_hard_maximum_is_refused_in_words() {
        for (key, bad) in [
            ("connections", 0),
            ("tunnels", 1_000_000),
            ("tunnels_per_npc", 5_000),
            ("requests_per_connection", 0),
            ("idle_seconds", 4_000),
            ("tunnel_seconds", 100_000),
            ("tunnel_bytes", 1),
            ("connect_seconds", 61),
            ("header_seconds", 0),
        ] {
            let mut section = file();
            section[key] = toml::Value::Integer(bad);
            let error = section.try_into::<Config>().expect_err(key);
            assert!(error.to_string().contains("must be from"), "{error}");
        }
        let mut section = file();
        section["ports"] = toml::Value::Array(vec![toml::Value::Integer(0)]);
        let error = section.try_into::<Config>().expect_err("port 0");
        assert!(error.to_string().contains("ports"), "{error}");
    }
}
