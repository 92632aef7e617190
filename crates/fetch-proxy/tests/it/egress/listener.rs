//! The listener itself: where it listens, over what, and what its passes are no good for.

use std::{path::Path, process::Command};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use proto::fetch::v1::{FetchRequest, fetch_service_client::FetchServiceClient};
use runtime::Transport;
use testkit::origin::Authority;
use tonic::Code;

use super::{
    in_both_shapes,
    setup::{Shape, World, folder, run},
    wire::Wire,
};

in_both_shapes!(
    with_tls_set_the_listener_speaks_it_and_asks_for_a_certificate,
    with_tls_set_nothing_is_served_without_it,
);

/// A certificate and a key for a name, as files.
fn identity(authority: &Authority, folder: &Path, name: &str) -> (String, String) {
    let identity = authority.issue(&[name]);
    let write = |what: &str, label: &str, der: &[u8]| {
        let path = folder.join(format!("{name}.{what}"));
        let text = BASE64_STANDARD.encode(der);
        let lines: Vec<&str> = (0..text.len())
            .step_by(64)
            .map(|at| &text[at..text.len().min(at + 64)])
            .collect();
        let lines = lines.join("\n");
        let pem = format!("-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n");
        std::fs::write(&path, pem).expect("a file");
        path.display().to_string()
    };
    (
        write("pem", "CERTIFICATE", &identity.certificate),
        write("key", "PRIVATE KEY", identity.key.secret_pkcs8_der()),
    )
}

async fn with_tls_set_the_listener_speaks_it_and_asks_for_a_certificate(shape: Shape) {
    let world = World::start().await;
    let (_folder, path) = folder();
    let (certificate, key) = identity(&world.authority, &path, "localhost");
    let (client_certificate, client_key) = identity(&world.authority, &path, "broker.test");
    let ca = world.authority.pem_path().display().to_string();
    let proxy = world
        .proxy(
            shape,
            &[
                ("AGENTSVILLE__TLS__CERTIFICATE", &certificate),
                ("AGENTSVILLE__TLS__KEY", &key),
                ("AGENTSVILLE__TLS__CLIENT_CA", &ca),
            ],
        )
        .await;
    world.web.file("/", "hello");
    world.secure.file("/", "hello");
    let url = format!(
        "https://npc:{}@localhost:{}",
        world.token(),
        proxy.address.port()
    );
    let plain = [
        "-sS",
        "--proxy",
        &url,
        "--proxy-cacert",
        &ca,
        "--cacert",
        &ca,
    ];
    let shown = [
        "--proxy-cert",
        &client_certificate,
        "--proxy-key",
        &client_key,
    ];
    for target in [
        format!("http://{}/", world.index()),
        format!("https://{}/", world.secure()),
    ] {
        let arguments = [&plain[..], &shown, &[&target]].concat();
        assert_eq!(run("curl", &arguments).await, (true, "hello".to_owned()));
        let (done, said) = run("curl", &[&plain[..], &[&target]].concat()).await;
        assert!(!done && !said.contains("hello"), "{said}");
    }
}

async fn with_tls_set_nothing_is_served_without_it(shape: Shape) {
    let world = World::start().await;
    let (_folder, path) = folder();
    let (certificate, key) = identity(&world.authority, &path, "localhost");
    let settings = [
        ("AGENTSVILLE__TLS__CERTIFICATE", certificate.as_str()),
        ("AGENTSVILLE__TLS__KEY", &key),
    ];
    let proxy = world.proxy(shape, &settings).await;
    let mut wire = Wire::to(proxy.address).await;
    let url = format!("http://{}/", world.index());
    wire.say(super::wire::get(&url, &world.token())).await;
    let said = wire.rest().await;
    assert!(!said.starts_with(b"HTTP"), "{said:?}");
    assert!(world.web.asked().is_empty());
}

/// What the binary says when it does not start.
fn refused(environment: Vec<(String, String)>) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_fetch-proxy"))
        .env_clear()
        .envs(environment)
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_loopback_it_listens_with_keys_that_are_set_and_not_otherwise() {
    let world = World::start().await;
    let open = ("AGENTSVILLE__EGRESS__LISTEN", "0.0.0.0:0");
    let said = refused(world.environment(&[open, ("AGENTSVILLE__KEYS__PRIVATE", "")]));
    assert!(said.contains("egress would listen on 0.0.0.0:0"), "{said}");
    assert!(said.contains("keys.private is not set"), "{said}");
    let proxy = world.proxy(Shape::Binary, &[open]).await;
    assert!(proxy.address.ip().is_unspecified());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_taken_or_none_is_a_sentence() {
    let world = World::start().await;
    let taken = format!("127.0.0.1:{}", world.web.port());
    let said = refused(world.environment(&[("AGENTSVILLE__EGRESS__LISTEN", &taken)]));
    let expected = format!("egress cannot listen on {taken}");
    assert!(said.contains(&expected), "{said}");
    let said = refused(world.environment(&[("AGENTSVILLE__EGRESS__LISTEN", "here")]));
    assert!(said.contains("egress.listen is \"here\""), "{said}");
    let said = refused(world.environment(&[("AGENTSVILLE__EGRESS__TUNNELS", "0")]));
    assert!(said.contains("must be from 1 to 65536"), "{said}");
}

#[tokio::test]
async fn an_empty_address_in_a_file_is_no_listener() {
    let world = World::start().await;
    let config = fetch_proxy::egress::Config {
        listen: String::new(),
        ..fetch_proxy::egress::Config::default()
    };
    let lifecycle = runtime::Lifecycle::new();
    let outbound = outbound::Config {
        nameserver: Some(world.dns.address()),
        ..outbound::Config::default()
    };
    let connector = outbound::Connector::new(&outbound, lifecycle.tracker().clone());
    let deps = fetch_proxy::egress::Deps {
        connector: connector.expect("a connector"),
        trust: std::sync::Arc::new(runtime::Trust::new(std::sync::Arc::new(
            kernel::SystemClock,
        ))),
        keys: runtime::host::Keys::MadeAtStart,
        tls: None,
    };
    let address = fetch_proxy::egress::listen(config, deps, &lifecycle).await;
    assert_eq!(address.expect("it is allowed"), None);
    assert!(lifecycle.tracker().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_for_the_way_out_is_good_for_no_call_since_its_hosts_would_not_count() {
    let world = World::start().await;
    let proxy = world.proxy(Shape::Binary, &[]).await;
    let grpc = proxy.grpc.expect("an address");
    let transport = Transport::remote(&format!("http://{grpc}"), None).expect("a transport");
    let mut client = FetchServiceClient::new(transport);
    let with_hosts = world.token_for(&["secure.test"]);
    for token in [with_hosts, world.token()] {
        let mut request = tonic::Request::new(FetchRequest {
            url: "https://secure.test/".to_owned(),
            ..FetchRequest::default()
        });
        let header = format!("Bearer {token}").parse().expect("a value");
        request.metadata_mut().insert("authorization", header);
        let refused = client.fetch(request).await.expect_err("it is refused");
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused:?}");
    }
}
