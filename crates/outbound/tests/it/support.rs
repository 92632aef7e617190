//! What the tests share.

use std::time::Duration;

use http::{Request, Response};
use outbound::{Body, Config, Connector, Consumer, Error, Exemption, Rule, Schemes, Target};
use testkit::{dns::ScriptedDns, origin::Authority};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// Long enough that only a fault reaches it.
pub(crate) fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

pub(crate) fn exempt(to: &str, consumers: &[Consumer]) -> Exemption {
    Exemption {
        to: to.parse().expect("an opening"),
        consumers: consumers.to_vec(),
    }
}

/// A connector that asks this DNS server and trusts this authority.
pub(crate) fn connector(
    dns: &ScriptedDns,
    authority: &Authority,
    allow: Vec<Exemption>,
) -> Connector {
    let config = Config {
        allow,
        nameserver: Some(dns.address()),
        ca_file: Some(authority.pem_path().to_owned()),
        ..Config::default()
    };
    Connector::new(&config, TaskTracker::new()).expect("a connector")
}

pub(crate) fn target(url: &str) -> Target {
    Target::parse(url, Schemes::HttpAndHttps)
        .expect("a target")
        .1
}

pub(crate) async fn get(
    connector: &Connector,
    url: &str,
    consumer: Consumer,
) -> Result<Response<Body>, Error> {
    let (url, target) = Target::parse(url, Schemes::HttpAndHttps)?;
    let get = Request::get(url.as_str())
        .body(bytes::Bytes::new())
        .expect("a request");
    connector.request(&target, consumer, get, deadline()).await
}

pub(crate) async fn text(response: Response<Body>) -> String {
    let (bytes, _end) = response
        .into_body()
        .read_at_most(1_024 * 1_024, deadline())
        .await
        .expect("a body");
    String::from_utf8(bytes).expect("text")
}

/// The rule that refused it.
pub(crate) fn rule<T: std::fmt::Debug>(outcome: Result<T, Error>) -> Rule {
    match outcome {
        Err(Error::Refused(refusal)) => refusal.rule,
        other => panic!("not refused: {other:?}"),
    }
}
