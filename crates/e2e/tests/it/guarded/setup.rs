//! A world of web servers and DNS, and a fetch-proxy in the middle of it.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use kernel::{Caller, Clock, NpcId, PlayerId, ServiceName, SystemClock};
use proto::fetch::v1::{
    FetchRequest, Refusal, RefusalReason, fetch_response::Outcome,
    fetch_service_client::FetchServiceClient,
};
use runtime::{Issuer, Peer, SigningKey, Transport};
use tempfile::TempDir;
use testkit::{
    dns::{Answer, Family, ScriptedDns},
    netns::Internet,
    origin::{Authority, TlsOrigin},
};

use crate::process::{Service, program};

/// Who calls the fetch-proxy here: no service of the house, and trusted to speak for NPCs alone.
const TESTER: &str = "tester";

/// Runs a test on the Village's side of an Internet of its own.
pub(super) fn in_the_internet<F: Future<Output = ()>>(
    test: impl FnOnce(Arc<Internet>) -> F + Send,
) {
    drop(rustls::crypto::ring::default_provider().install_default());
    let internet = Arc::new(Internet::new());
    let inside = Arc::clone(&internet);
    internet.village.block_on(|| test(inside));
}

/// The peers of a Village in an Internet. Each web server takes connections to whatever address they were meant for.
pub(super) struct World {
    pub(super) authority: Authority,
    pub(super) dns: ScriptedDns,
    /// Everybody else, on port 443.
    pub(super) web: TlsOrigin,
    /// Everybody else, on port 8443.
    pub(super) web_8443: TlsOrigin,
    /// The Village's own machine, on port 443: loopback and its addresses on the wire.
    pub(super) own: TlsOrigin,
    pub(super) internet: Arc<Internet>,
    folder: TempDir,
    started: AtomicUsize,
}

impl World {
    /// Servers with certificates for these names.
    pub(super) async fn start(internet: Arc<Internet>, names: &[String]) -> Self {
        let authority = Authority::new();
        let shared = Arc::new((authority, names.to_vec()));
        let origin = |address: &str| {
            let (shared, address) = (Arc::clone(&shared), address.parse().unwrap());
            async move {
                let names: Vec<&str> = shared.1.iter().map(String::as_str).collect();
                TlsOrigin::start_on(&shared.0, &names, address).await
            }
        };
        let web = internet.world.spawn(origin("[::]:443")).await;
        let web_8443 = internet.world.spawn(origin("[::]:8443")).await;
        let own = internet.village.spawn(origin("[::]:443")).await;
        let at = SocketAddr::from((Internet::GATEWAY_V4, 53));
        let dns = internet.world.spawn(ScriptedDns::start_at(at)).await;
        let (authority, _names) = Arc::into_inner(shared).unwrap();
        Self {
            authority,
            dns,
            web,
            web_8443,
            own,
            internet,
            folder: TempDir::new().unwrap(),
            started: AtomicUsize::new(0),
        }
    }

    /// What DNS says of a name from now on: of both families, and nothing left of what it said before.
    pub(super) fn says(&self, name: &str, v4: Answer, v6: Answer) {
        self.dns.script(name, Family::V4, [v4]);
        self.dns.script(name, Family::V6, [v6]);
    }

    /// A name with these addresses.
    pub(super) fn host(&self, name: &str, addresses: &[&str]) {
        let of = |family: fn(&IpAddr) -> bool| {
            let addresses: Vec<IpAddr> = addresses
                .iter()
                .map(|address| address.parse().unwrap())
                .filter(family)
                .collect();
            if addresses.is_empty() {
                Answer::NoData
            } else {
                Answer::Addresses(addresses)
            }
        };
        self.says(name, of(IpAddr::is_ipv4), of(IpAddr::is_ipv6));
    }

    /// Where every connection so far was going to, over all web servers.
    pub(super) fn destinations(&self) -> Vec<SocketAddr> {
        [&self.web, &self.web_8443, &self.own]
            .into_iter()
            .flat_map(TlsOrigin::destinations)
            .collect()
    }

    /// How many connections went to this address.
    pub(super) fn connections_to(&self, address: &str) -> usize {
        let address: IpAddr = address.parse().unwrap();
        self.destinations()
            .iter()
            .filter(|destination| destination.ip() == address)
            .count()
    }

    /// A file for what a process logs.
    fn log(&self, name: &str) -> PathBuf {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        self.folder.path().join(format!("{name}-{number}.log"))
    }

    /// A file with this text.
    pub(super) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The settings by which a Village sees this world.
    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            (
                "AGENTSVILLE__OUTBOUND__NAMESERVER",
                self.dns.address().to_string(),
            ),
            (
                "AGENTSVILLE__OUTBOUND__CA_FILE",
                self.authority.pem_path().display().to_string(),
            ),
        ]
    }

    /// A fetch-proxy as it is.
    pub(super) async fn fetch_proxy(&self) -> FetchProxy {
        self.fetch_proxy_with(program("fetch-proxy"), &[]).await
    }

    /// A fetch-proxy started by this command, with these settings besides.
    pub(super) async fn fetch_proxy_with(
        &self,
        mut command: Command,
        settings: &[(&str, &str)],
    ) -> FetchProxy {
        let tester = Tester::new();
        command
            .env("AGENTSVILLE__GRPC__LISTEN", "127.0.0.1:0")
            .env("AGENTSVILLE__ADMIN__LISTEN", "127.0.0.1:0")
            .env("AGENTSVILLE__EGRESS__LISTEN", "127.0.0.1:0")
            .envs(tester.settings())
            .envs(self.settings())
            .envs(settings.iter().copied());
        let mut service = Service::start(command, self.log("fetch-proxy"));
        let address = service.grpc_address().await;
        FetchProxy {
            client: tester.client(&address),
            service,
        }
    }
}

/// The key of somebody who may speak for NPCs.
pub(super) struct Tester {
    issuer: Arc<Issuer>,
}

impl Tester {
    pub(super) fn new() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let key = SigningKey::generate().unwrap();
        Self {
            issuer: Arc::new(Issuer::named(TESTER, key, clock)),
        }
    }

    /// The settings by which a process trusts this key.
    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            (
                "AGENTSVILLE__KEYS__TRUST__TESTER__PUBLIC_KEY",
                self.issuer.public_key(),
            ),
            (
                "AGENTSVILLE__KEYS__TRUST__TESTER__MINTS",
                r#"["npc"]"#.to_owned(),
            ),
        ]
    }

    /// A client of the fetch-proxy at this address.
    pub(super) fn client(&self, address: &str) -> Client {
        let transport = Transport::remote(&format!("http://{address}"), None).unwrap();
        Client {
            peer: Peer::new(transport, Arc::clone(&self.issuer), ServiceName::FetchProxy),
        }
    }
}

/// A fetch-proxy process that ends with the test.
pub(super) struct FetchProxy {
    client: Client,
    service: Service,
}

impl FetchProxy {
    /// What it has logged so far.
    pub(super) fn logged(&self) -> String {
        self.service.logged()
    }

    /// Where it listens, once it has logged this message.
    pub(super) async fn address(&mut self, message: &str) -> String {
        self.service.address(message).await
    }

    /// Who calls it.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// What comes of a URL.
    pub(super) async fn fetch(&self, url: &str) -> Outcome {
        self.client.fetch(url).await
    }
}

/// Calls a fetch-proxy as NPCs do.
#[derive(Clone)]
pub(super) struct Client {
    peer: Peer,
}

impl Client {
    /// What comes of a URL for an NPC that has asked for nothing before.
    pub(super) async fn fetch(&self, url: &str) -> Outcome {
        let npc = Caller::Npc {
            npc: NpcId::mint(&SystemClock),
            player: PlayerId::mint(&SystemClock),
        };
        let request = FetchRequest {
            url: url.to_owned(),
            ..FetchRequest::default()
        };
        FetchServiceClient::new(self.peer.as_caller(&npc))
            .fetch(request)
            .await
            .unwrap_or_else(|status| panic!("{url}: {status}"))
            .into_inner()
            .outcome
            .unwrap()
    }
}

/// What the vectors expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A page came.
    Allow,
    /// The guard refused.
    Block,
    /// There is no page for another reason.
    Error,
}

/// What an outcome is in the vectors' words. A refusal by the guard names its rule, or says that the name does not resolve.
pub(super) fn verdict(outcome: &Outcome) -> Verdict {
    let refusal = match outcome {
        Outcome::Page(_) => return Verdict::Allow,
        Outcome::Refusal(refusal) => refusal,
    };
    assert!(!refusal.sentence.is_empty(), "{refusal:?}");
    let is_unresolvable = refusal.reason() == RefusalReason::Unresolvable;
    if is_unresolvable || !["", "malformed"].contains(&refusal.rule.as_str()) {
        Verdict::Block
    } else {
        Verdict::Error
    }
}

/// The refusal that must have come.
pub(super) fn refusal(outcome: Outcome) -> Refusal {
    match outcome {
        Outcome::Refusal(refusal) => refusal,
        Outcome::Page(page) => panic!("a page: {page:?}"),
    }
}

/// The text of the page that must have come.
pub(super) fn page(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Page(page) => &page.text,
        Outcome::Refusal(refusal) => panic!("refused: {refusal:?}"),
    }
}
