//! Clients that make the same requests, each in a process of its own.

use std::{
    fmt,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use outbound::{Config, Connector, Consumer, End, Resolver, Schemes, Target};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use rustls::{
    ClientConfig, RootCertStore,
    client::Resumption,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use crate::{
    process::{own_cpu, own_peak_memory, this_program},
    server::{HOST, PLAIN_PATH, Places, Server},
};

/// Bytes of the page.
const PAGE_BYTES: usize = 2_000;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    /// The connector.
    Guarded,
    /// `reqwest` as it is, without pooling.
    Plain,
    /// The same without resumption of TLS sessions, by which a server can tell who asked before.
    PlainWithoutResumption,
}

impl Client {
    const ALL: [(Self, &str); 3] = [
        (Self::Guarded, "guarded"),
        (Self::Plain, "plain"),
        (Self::PlainWithoutResumption, "plain-without-resumption"),
    ];

    fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(client, _)| *client == self)
            .unwrap()
            .1
    }
}

/// Which HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
        })
    }
}

/// What a client's requests came to.
pub(crate) struct Measured {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    /// By how much the process grew, in bytes at its peak.
    pub(crate) memory: usize,
}

/// The page.
pub(crate) fn url(places: &Places, protocol: Protocol) -> String {
    let port = match protocol {
        Protocol::Http1 => places.http1,
        Protocol::Http2 => places.http2,
    };
    format!("https://{HOST}:{port}{PLAIN_PATH}")
}

/// Runs a client's requests in a process of its own.
pub(crate) fn measure(
    server: &Server,
    client: Client,
    protocol: Protocol,
    requests: usize,
    at_once: usize,
) -> Measured {
    let places = &server.places;
    let output = this_program()
        .args(["client", client.name()])
        .arg(url(places, protocol))
        .arg(serde_json::to_string(places).unwrap())
        .args([requests.to_string(), at_once.to_string()])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let mut numbers = text
        .split_whitespace()
        .map(|number| number.parse::<u64>().unwrap());
    let mut next = || numbers.next().unwrap();
    Measured {
        wall: Duration::from_micros(next()),
        cpu: Duration::from_micros(next()),
        memory: usize::try_from(next()).unwrap(),
    }
}

/// The child's side: prints wall time and processor time in microseconds, and growth in bytes.
pub(crate) async fn run(arguments: &[String]) {
    let [client, url, places, requests, at_once] = arguments else {
        panic!("client WHO URL PLACES REQUESTS AT_ONCE")
    };
    let places: Places = serde_json::from_str(places).unwrap();
    let (requests, at_once): (usize, usize) = (requests.parse().unwrap(), at_once.parse().unwrap());
    let client = Client::ALL
        .into_iter()
        .find(|(_, name)| name == client)
        .unwrap()
        .0;
    let asker = Arc::new(Asker::new(client, &places, url));
    asker.ask().await;
    let (memory, cpu, start) = (own_peak_memory(), own_cpu(), Instant::now());
    // A task each, as in a service: what one connection computes, others do not wait for.
    let left = Arc::new(AtomicUsize::new(requests));
    let mut tasks = JoinSet::new();
    for _ in 0..at_once {
        let (asker, left) = (Arc::clone(&asker), Arc::clone(&left));
        tasks.spawn(async move {
            while take_one(&left) {
                asker.ask().await;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    println!(
        "{} {} {}",
        start.elapsed().as_micros(),
        own_cpu().saturating_sub(cpu).as_micros(),
        own_peak_memory().saturating_sub(memory)
    );
}

/// Whether one was left.
fn take_one(left: &AtomicUsize) -> bool {
    left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        left.checked_sub(1)
    })
    .is_ok()
}

enum Asker {
    Guarded(Connector, String),
    Plain(reqwest::Client, String),
}

impl Asker {
    fn new(client: Client, places: &Places, url: &str) -> Self {
        match client {
            Client::Guarded => Self::Guarded(connector(places), url.to_owned()),
            Client::Plain => Self::Plain(plain(places, Resumption::default()), url.to_owned()),
            Client::PlainWithoutResumption => {
                Self::Plain(plain(places, Resumption::disabled()), url.to_owned())
            }
        }
    }

    async fn ask(&self) {
        let read = match self {
            Self::Guarded(connector, url) => {
                let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
                let (url, target) = Target::parse(url, Schemes::Https).unwrap();
                let request = http::Request::get(url.path()).body(Bytes::new()).unwrap();
                let response = connector
                    .request(&target, Consumer::Fetch, request, deadline)
                    .await
                    .unwrap();
                let (bytes, end) = response
                    .into_body()
                    .read_at_most(1_024 * 1_024, deadline)
                    .await
                    .unwrap();
                assert_eq!(end, End::Complete);
                bytes.len()
            }
            Self::Plain(client, url) => {
                let response = client.get(url).send().await.unwrap();
                response.bytes().await.unwrap().len()
            }
        };
        assert_eq!(read, PAGE_BYTES);
    }
}

/// A connector that may go to the servers.
pub(crate) fn connector(places: &Places) -> Connector {
    let config = Config {
        allow: vec![outbound::Exemption {
            to: HOST.parse().unwrap(),
            consumers: vec![Consumer::Fetch],
        }],
        nameserver: Some(places.dns),
        ca_file: Some(places.authority.clone()),
        ..Config::default()
    };
    Connector::new(&config, TaskTracker::new()).unwrap()
}

/// A `reqwest` client with our roots and our resolver, and a new connection for every request.
fn plain(places: &Places, resumption: Resumption) -> reqwest::Client {
    let mut roots = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    for certificate in CertificateDer::pem_file_iter(&places.authority).unwrap() {
        roots.add(certificate.unwrap()).unwrap();
    }
    let mut tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.resumption = resumption;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(0)
        .timeout(Duration::from_secs(10))
        .dns_resolver(Arc::new(SameResolver(Arc::new(Resolver::new(Some(
            places.dns,
        ))))))
        .tls_backend_preconfigured(tls)
        .build()
        .unwrap()
}

/// The connector's resolver, so that both clients ask the same of the same server.
struct SameResolver(Arc<Resolver>);

impl Resolve for SameResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = Arc::clone(&self.0);
        Box::pin(async move {
            let addresses = resolver.look_up(name.as_str()).await?;
            let addresses = addresses
                .into_iter()
                .map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}
