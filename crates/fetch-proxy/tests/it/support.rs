//! A fetch-proxy, and a world around it.

use std::{sync::Arc, time::Duration};

use kernel::{Caller, Clock, NpcId, PlayerId, SystemClock};
use proto::fetch::v1::{
    FetchRequest, Page, Refusal, RefusalReason, fetch_response::Outcome,
    fetch_service_client::FetchServiceClient,
};
use testkit::{
    dns::ScriptedDns,
    origin::{Authority, TlsOrigin},
};
use tonic::Status;

use crate::shape::{self, Running, Shape};

/// Names that `fetch_url` may reach on loopback.
const NAMES: [&str; 4] = ["site.test", "www.other.test", "impostor.test", "dead.test"];

/// A Village whose `site.test` is a web server on loopback that `fetch_url` may reach. So may `*.other.test`'s only host,
/// `www.other.test`, which is the same server, and `impostor.test`, whose name the server cannot prove. Nothing listens where
/// `dead.test` is.
pub(crate) struct Setup {
    pub(crate) dns: ScriptedDns,
    /// It keeps the file that is trusted.
    _authority: Authority,
    pub(crate) site: TlsOrigin,
    pub(crate) npc: Caller,
    pub(crate) running: Running,
}

impl Setup {
    pub(crate) async fn new(shape: Shape) -> Self {
        Self::with(shape, &[]).await
    }

    /// With these settings of the section `fetch`.
    pub(crate) async fn with(shape: Shape, settings: &[(&str, &str)]) -> Self {
        Self::at(shape, settings, &[], Arc::new(SystemClock)).await
    }

    /// With a clock besides, which only a fetch-proxy in this process looks at, and with more ports of `site.test`.
    pub(crate) async fn at(
        shape: Shape,
        settings: &[(&str, &str)],
        ports: &[u16],
        clock: Arc<dyn Clock>,
    ) -> Self {
        let authority = Authority::new();
        Self::of(shape, settings, ports, authority, clock).await
    }

    pub(crate) async fn of(
        shape: Shape,
        settings: &[(&str, &str)],
        ports: &[u16],
        authority: Authority,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let dns = ScriptedDns::start().await;
        let site = TlsOrigin::start(&authority, &["site.test", "www.other.test"]).await;
        for name in NAMES {
            dns.host(name, &["127.0.0.1"]);
        }
        dns.host("dead.test", &["127.0.0.2"]);
        let openings: Vec<String> = NAMES
            .iter()
            .map(|name| format!("{name}:{}", site.port()))
            .chain(ports.iter().map(|port| format!("site.test:{port}")))
            .map(|to| format!("{{to = {to:?}, for = [\"fetch\"]}}"))
            .collect();
        let mut environment: Vec<(String, String)> = settings
            .iter()
            .map(|(key, value)| {
                let name = format!("AGENTSVILLE__FETCH__{}", key.to_ascii_uppercase());
                (name, (*value).to_owned())
            })
            .collect();
        let mut outbound = |key: &str, value: String| {
            environment.push((format!("AGENTSVILLE__OUTBOUND__{key}"), value));
        };
        outbound("ALLOW", format!("[{}]", openings.join(", ")));
        outbound("NAMESERVER", dns.address().to_string());
        outbound("CA_FILE", authority.pem_path().display().to_string());
        let running = shape::start(shape, environment, clock).await;
        Self {
            dns,
            _authority: authority,
            site,
            npc: npc(),
            running,
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
        let mut client = FetchServiceClient::new(self.running.peer.as_caller(caller));
        let response = client.fetch(request).await?;
        Ok(response.into_inner().outcome.expect("an outcome"))
    }

    /// The NPC's call with a deadline of its own.
    pub(crate) async fn ask_within(
        &self,
        deadline: Duration,
        request: FetchRequest,
    ) -> Result<Outcome, Status> {
        let mut client = FetchServiceClient::new(self.running.peer.channel(&self.npc, deadline));
        let response = client.fetch(request).await?;
        Ok(response.into_inner().outcome.expect("an outcome"))
    }

    /// The page from a character on, for a caller.
    pub(crate) async fn page_from(&self, caller: &Caller, url: &str, start: u64) -> Page {
        let request = FetchRequest {
            start_index: start,
            ..of(url)
        };
        match self.ask(caller, request).await.expect("an answer") {
            Outcome::Page(page) => page,
            Outcome::Refusal(refusal) => panic!("{url} is refused: {refusal:?}"),
        }
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

/// An NPC for a Player, both of whom are new.
pub(crate) fn npc() -> Caller {
    Caller::Npc {
        npc: NpcId::mint(&SystemClock),
        player: PlayerId::mint(&SystemClock),
    }
}
