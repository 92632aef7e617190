//! Tunnels of a pass that leads to some hosts only: the name in the hello.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::pem::PemObject as _};
use testkit::origin::{Act, RawOrigin};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;

use super::{
    in_both_shapes,
    setup::{Proxy, Shape, World},
    wire::{Wire, connect},
};

in_both_shapes!(
    a_tunnel_to_an_allowed_host_does_not_lead_to_another_behind_the_same_address,
    a_pass_for_every_public_host_is_not_asked_for_names,
    a_server_that_speaks_first_is_heard_through_a_listed_tunnel,
);

/// What comes of a GET over TLS for this name, through a tunnel to `secure.test`.
async fn said(world: &World, proxy: &Proxy, token: &str, name: &str) -> Result<String, String> {
    let mut wire = Wire::to(proxy.address).await;
    wire.say(connect(&world.secure(), token)).await;
    assert_eq!(wire.head_answer().await.status, 200);
    let mut roots = RootCertStore::empty();
    let ca = rustls::pki_types::CertificateDer::from_pem_file(world.authority.pem_path());
    roots.add(ca.expect("a certificate")).expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = name.to_owned().try_into().expect("a name");
    let mut tls = TlsConnector::from(Arc::new(config))
        .connect(name, wire.into_stream())
        .await
        .map_err(|error| error.to_string())?;
    let get = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    tls.write_all(get).await.expect("it is open");
    let mut answer = String::new();
    tls.read_to_string(&mut answer).await.expect("an answer");
    Ok(answer)
}

async fn a_tunnel_to_an_allowed_host_does_not_lead_to_another_behind_the_same_address(
    shape: Shape,
) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    world.secure.file("/", "hello");
    let token = world.token_for(&["secure.test"]);
    let own = said(&world, &proxy, &token, "secure.test").await;
    assert!(own.expect("an answer").ends_with("hello"));
    let other = said(&world, &proxy, &token, "other.secure.test").await;
    other.expect_err("it is refused");
    assert_eq!(world.secure.asked().len(), 1);
}

async fn a_pass_for_every_public_host_is_not_asked_for_names(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    world.secure.file("/", "hello");
    let other = said(&world, &proxy, &world.token(), "other.secure.test").await;
    assert!(other.expect("an answer").ends_with("hello"));
}

async fn a_server_that_speaks_first_is_heard_through_a_listed_tunnel(shape: Shape) {
    let world = World::start().await;
    let server = RawOrigin::plain(vec![vec![
        Act::say("220 hello"),
        Act::hear("EHLO"),
        Act::say("250 ok"),
        Act::Close,
    ]])
    .await;
    let port = server.port();
    let allow = format!(r#"[{{to = "index.test:{port}", for = ["egress"]}}]"#);
    let settings = [("AGENTSVILLE__OUTBOUND__ALLOW", allow.as_str())];
    let proxy = world.proxy(shape, &settings).await;
    let mut wire = Wire::to(proxy.address).await;
    let token = world.token_for(&["index.test"]);
    wire.say(connect(&format!("index.test:{port}"), &token))
        .await;
    assert_eq!(wire.head_answer().await.status, 200);
    assert_eq!(wire.take(9).await, b"220 hello");
    wire.say("EHLO").await;
    assert_eq!(wire.rest().await, b"250 ok");
}
