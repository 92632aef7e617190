//! What the tests of connections share.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use kernel::Secret;
use outbound::{Connector, Consumer, Exemption};
use testkit::{dns::ScriptedDns, origin::Authority};
use tokio_util::task::TaskTracker;
use vault::Vault;

use super::super::Connecting;
use crate::{Config, Endpoint, Handling, RemoteEndpoint, SealedMap};

/// A gateway's surroundings.
pub(super) struct Place {
    pub(super) how: Connecting,
    vault: Arc<Vault>,
}

pub(super) fn place() -> Place {
    place_with(|_config| {})
}

pub(super) fn place_with(change: impl FnOnce(&mut Config)) -> Place {
    let mut config = Config::default();
    change(&mut config);
    new(config, &opening(None))
}

pub(super) fn place_without_exemptions() -> Place {
    new(Config::default(), &outbound::Config::default())
}

pub(super) fn place_trusting(authority: &Authority) -> Place {
    new(Config::default(), &opening(Some(authority)))
}

/// One that asks this DNS server, and has no exemptions.
pub(super) fn place_asking(dns: &ScriptedDns) -> Place {
    let outbound = outbound::Config {
        nameserver: Some(dns.address()),
        ..outbound::Config::default()
    };
    new(Config::default(), &outbound)
}

/// Loopback is open, as it is for nobody else.
fn opening(authority: Option<&Authority>) -> outbound::Config {
    let open = |to: &str| Exemption {
        to: to.parse().expect("an opening"),
        consumers: vec![Consumer::Mcp],
    };
    outbound::Config {
        allow: vec![open("127.0.0.0/8"), open("localhost")],
        ca_file: authority.map(|authority| authority.pem_path().to_owned()),
        ..outbound::Config::default()
    }
}

fn new(config: Config, outbound: &outbound::Config) -> Place {
    let tracker = TaskTracker::new();
    Place {
        how: Connecting {
            connector: Connector::new(outbound, tracker.clone()).expect("a connector"),
            config: Arc::new(config),
            program: PathBuf::from("/nowhere"),
            tracker,
            handling: Handling::Decline,
        },
        vault: vault("the root secret of one test, 32 bytes"),
    }
}

fn vault(secret: &str) -> Arc<Vault> {
    Arc::new(Vault::new(&Secret::new(secret)).expect("a vault"))
}

impl Place {
    /// A server at this URL, all of which is sealed.
    pub(super) fn remote(&self, url: &str, headers: &[(&str, &str)]) -> RemoteEndpoint {
        let sealed = |field, secrets: &[(&str, &str)]| {
            let secrets: BTreeMap<String, String> = secrets
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            SealedMap::seal(&self.vault, field, &secrets).expect("it is sealed")
        };
        RemoteEndpoint {
            shown_url: "http://masked.example/".to_owned(),
            sealed_url: sealed("url", &[("url", url)]),
            headers: sealed("headers", headers),
        }
    }

    /// One whose credentials were sealed under another root secret.
    pub(super) fn unreadable(&self, url: &str) -> RemoteEndpoint {
        let other = Place {
            how: place().how,
            vault: vault("another root secret of one test, 32 b"),
        };
        let mut endpoint = other.remote(url, &[("authorization", "Bearer abcdefgh")]);
        let sealed = endpoint.headers.sealed_text().parse().expect("sealed text");
        endpoint.headers = SealedMap::stored(&self.vault, "unsaved", "headers", Some(sealed));
        endpoint.sealed_url = self.remote(url, &[]).sealed_url;
        endpoint
    }
}

pub(super) fn http(place: &Place, url: &str) -> Endpoint {
    Endpoint::Http(place.remote(url, &[]))
}

pub(super) fn sse(place: &Place, url: &str) -> Endpoint {
    Endpoint::Sse(place.remote(url, &[]))
}
