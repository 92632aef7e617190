//! A fetch-proxy in this process, and a Village around it.

use std::{sync::Arc, time::Duration};

use fetch_proxy::{Config, Deps, build};
use kernel::{Caller, Clock, NpcId, PlayerId, ServiceName, SystemClock};
use outbound::{Connector, Consumer, Exemption};
use proto::fetch::v1::{
    FetchRequest, Page, Refusal, RefusalReason, fetch_response::Outcome,
    fetch_service_client::FetchServiceClient,
};
use runtime::{Lifecycle, Peer, ServerLayers, Transport, token::Village};
use testkit::{
    dns::ScriptedDns,
    origin::{Authority, TlsOrigin},
};
use tonic::Status;

/// A Village whose `site.test` is a web server on loopback that `fetch_url` may reach. So may `*.other.test`'s only host,
/// `www.other.test`, which is the same server, and `impostor.test`, whose name the server cannot prove. Nothing listens where
/// `dead.test` is.
pub(crate) struct Setup {
    pub(crate) dns: ScriptedDns,
    pub(crate) site: TlsOrigin,
    pub(crate) npc: Caller,
    peer: Peer,
}

impl Setup {
    pub(crate) async fn new() -> Self {
        Self::with(Config::default()).await
    }

    pub(crate) async fn with(config: Config) -> Self {
        let (dns, authority) = (ScriptedDns::start().await, Authority::new());
        let site = TlsOrigin::start(&authority, &["site.test", "www.other.test"]).await;
        let names = ["site.test", "www.other.test", "impostor.test"];
        for name in names {
            dns.host(name, &["127.0.0.1"]);
        }
        dns.host("dead.test", &["127.0.0.2"]);
        let lifecycle = Lifecycle::new();
        let outbound = outbound::Config {
            allow: names
                .into_iter()
                .chain(["dead.test"])
                .map(|name| exempt(name, site.port()))
                .collect(),
            nameserver: Some(dns.address()),
            ca_file: Some(authority.pem_path().to_owned()),
            ..outbound::Config::default()
        };
        let connector =
            Connector::new(&outbound, lifecycle.tracker().clone()).expect("a connector");
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let deps = Deps {
            connector,
            clock: Arc::clone(&clock),
        };
        let village = Village::generate(&clock).expect("keys");
        let service = build(config, deps, &lifecycle).layered(ServerLayers {
            trust: village.trust(),
            longest_call: Duration::from_mins(1),
        });
        Self {
            dns,
            site,
            npc: Caller::Npc {
                npc: NpcId::mint(&*clock),
                player: PlayerId::mint(&*clock),
            },
            peer: Peer::new(
                Transport::in_process(&service),
                village.issuer(ServiceName::TurnOrchestrator),
                ServiceName::FetchProxy,
            ),
        }
    }

    /// A URL of the web server.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://site.test:{}{path}", self.site.port())
    }

    pub(crate) async fn ask(
        &self,
        caller: &Caller,
        request: FetchRequest,
    ) -> Result<Outcome, Status> {
        let mut client = FetchServiceClient::new(self.peer.as_caller(caller));
        let response = client.fetch(request).await?;
        Ok(response.into_inner().outcome.expect("an outcome"))
    }

    /// The NPC's call with a deadline of its own.
    pub(crate) async fn ask_within(
        &self,
        deadline: Duration,
        request: FetchRequest,
    ) -> Result<Outcome, Status> {
        let mut client = FetchServiceClient::new(self.peer.channel(&self.npc, deadline));
        let response = client.fetch(request).await?;
        Ok(response.into_inner().outcome.expect("an outcome"))
    }

    pub(crate) async fn fetch(&self, request: FetchRequest) -> Outcome {
        self.ask(&self.npc, request).await.expect("an answer")
    }

    /// The page at a URL.
    pub(crate) async fn page(&self, url: &str) -> Page {
        match self.fetch(of(url)).await {
            Outcome::Page(page) => page,
            Outcome::Refusal(refusal) => panic!("{url} is refused: {refusal:?}"),
        }
    }

    /// Why there is no page at a URL, and the hop.
    pub(crate) async fn refusal(&self, url: &str) -> Refusal {
        match self.fetch(of(url)).await {
            Outcome::Page(page) => panic!("{url} is a page: {page:?}"),
            Outcome::Refusal(refusal) => refusal,
        }
    }
}

pub(crate) fn of(url: &str) -> FetchRequest {
    FetchRequest {
        url: url.to_owned(),
        ..FetchRequest::default()
    }
}

/// Reason, hop and rule: what programs read of a refusal.
pub(crate) fn facts(refusal: &Refusal) -> (RefusalReason, u32, &str) {
    (refusal.reason(), refusal.hop, refusal.rule.as_str())
}

fn exempt(name: &str, port: u16) -> Exemption {
    Exemption {
        to: format!("{name}:{port}").parse().expect("an opening"),
        consumers: vec![Consumer::Fetch],
    }
}
