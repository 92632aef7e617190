//! Balancing, and peers that are away.

use std::{collections::BTreeSet, future::pending, time::Duration};

use runtime::{Transport, transport::RemoteError};
use testkit::port::HeldPort;
use tokio::net::TcpListener;
use tonic::Code;

use crate::support::{Rig, ask, local, remote};

/// A second process with the same keys.
fn replica(of: &Rig, name: &'static str) -> Rig {
    let mut rig = Rig::named(name);
    for service in kernel::ServiceName::ALL {
        let issuer = of.village.issuer(service);
        rig.village
            .trust()
            .add(
                issuer.name(),
                &issuer.public_key(),
                runtime::token::default_mints(issuer.name()),
            )
            .unwrap();
    }
    rig.longest_call = of.longest_call;
    rig
}

#[tokio::test]
async fn calls_go_to_every_address_and_past_one_that_went_away() {
    let first = Rig::named("first");
    let second = replica(&first, "second");
    // Nobody else is there when it has gone.
    let port = HeldPort::new();
    let goes = second.host().listen(port.on_loopback()).await.unwrap();
    let urls = [first.listen().await, goes].map(|at| format!("http://{at}"));
    let peer = first.peer(Transport::remote_all(&urls, None).unwrap());
    let mut heard = BTreeSet::new();
    for _call in 0..8 {
        heard.insert(ask(&peer, "name").await.unwrap());
    }
    assert_eq!(heard.len(), 2, "{heard:?}");
    second.lifecycle.drain(Duration::ZERO, pending()).await;
    let mut answered = 0;
    for _call in 0..8 {
        match ask(&peer, "name").await {
            Ok(name) => {
                assert_eq!(name, "first");
                answered += 1;
            }
            // A call that may have been on its way is never sent twice.
            Err(status) => assert_eq!(status.code(), Code::Unavailable),
        }
    }
    assert!(answered >= 6, "{answered}");
    // From here on every call finds the one that is left.
    for _call in 0..8 {
        assert_eq!(ask(&peer, "name").await.unwrap(), "first");
    }
}

#[tokio::test]
async fn an_address_that_refuses_costs_no_call() {
    let rig = Rig::named("alive");
    let alive = rig.listen().await;
    let dead = HeldPort::new();
    let urls = [dead.on_loopback(), alive].map(|at| format!("http://{at}"));
    let peer = rig.peer(Transport::remote_all(&urls, None).unwrap());
    for _call in 0..6 {
        assert_eq!(ask(&peer, "name").await.unwrap(), "alive");
    }
}

#[tokio::test]
async fn services_may_start_in_any_order() {
    let rig = Rig::named("late");
    let port = HeldPort::new();
    let address = port.on_loopback();
    let peer = rig.peer(remote(address));
    let status = ask(&peer, "name").await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(
        status.message().starts_with(&format!(
            "the service at http://{address} cannot be reached: "
        )),
        "{status}"
    );
    rig.host().listen(address).await.unwrap();
    assert_eq!(ask(&peer, "name").await.unwrap(), "late");
}

#[tokio::test]
async fn a_name_is_looked_up() {
    let rig = Rig::named("localhost");
    let port = rig.listen().await.port();
    let peer = rig.peer(Transport::remote(&format!("http://localhost:{port}"), None).unwrap());
    assert_eq!(ask(&peer, "name").await.unwrap(), "localhost");
}

#[tokio::test]
async fn a_peer_that_accepts_and_says_nothing_does_not_hold_a_call_beyond_its_deadline() {
    let rig = Rig::new();
    let silent = TcpListener::bind(local()).await.unwrap();
    let peer = rig.peer(remote(silent.local_addr().unwrap()));
    let channel = peer.channel(
        &kernel::Caller::Player(crate::support::player()),
        Duration::from_millis(300),
    );
    let status = crate::support::unary(channel)
        .export(crate::support::say("who"))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
}

#[tokio::test]
async fn what_is_no_address_of_a_service_is_refused_at_the_start() {
    for url in [
        "",
        "tool-registry:7070",
        "ftp://tool-registry",
        "http://",
        "http://user@tool-registry",
        "http://tool-registry/path",
        "http://tool-registry?x",
        "/tmp/socket",
    ] {
        assert_eq!(
            Transport::remote(url, None).unwrap_err(),
            RemoteError::InvalidUrl(url.to_owned()),
            "{url}"
        );
    }
    assert_eq!(
        Transport::remote("https://tool-registry:7070", None).unwrap_err(),
        RemoteError::NoCa("https://tool-registry:7070".to_owned())
    );
    assert_eq!(
        Transport::remote_all(&[], None).unwrap_err(),
        RemoteError::Empty
    );
}
