//! curl, as people and build tools use it.

use super::{
    in_both_shapes,
    setup::{Shape, World, folder, run},
};

in_both_shapes!(
    curl_downloads_and_uploads_megabytes_over_a_tunnel_and_by_absolute_form,
    curl_shows_its_token_as_a_bearers_too,
    curl_is_told_why_it_may_not_connect,
    curl_that_uploads_megabytes_to_a_refused_host_is_told_why,
);

const MEGABYTES: usize = 5 * 1_024 * 1_024;

fn bytes() -> Vec<u8> {
    (0..MEGABYTES)
        .map(|at| u8::try_from(at % 251).expect("a byte"))
        .collect()
}

async fn curl_downloads_and_uploads_megabytes_over_a_tunnel_and_by_absolute_form(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    let (_folder, path) = folder();
    let (sent, got) = (path.join("sent"), path.join("got"));
    std::fs::write(&sent, bytes()).expect("a file");
    let (sent_text, got_text) = (sent.display().to_string(), got.display().to_string());
    let upload = format!("@{sent_text}");
    let ca = world.authority.pem_path().display().to_string();
    for (web, base) in [
        (&world.web, format!("http://{}", world.index())),
        (&world.secure, format!("https://{}", world.secure())),
    ] {
        web.file("/big", bytes());
        let url = proxy.url(&world.token());
        let common = [
            "-sS", "--fail", "--cacert", &ca, "--proxy", &url, "-o", &got_text,
        ];
        let big = format!("{base}/big");
        let (done, said) = run("curl", &[&common[..], &[&big]].concat()).await;
        assert!(done, "{said}");
        assert!(std::fs::read(&got).expect("a file") == bytes(), "{base}");
        let echo = format!("{base}/echo");
        let upload = ["-X", "POST", "--data-binary", &upload, &echo];
        let (done, said) = run("curl", &[&common[..], &upload].concat()).await;
        assert!(done, "{said}");
        assert!(std::fs::read(&got).expect("a file") == bytes(), "{base}");
        let asked = web.asked();
        assert_eq!(asked.len(), 2);
        assert!(asked[1].body == bytes(), "{base}");
        for asked in asked {
            assert_eq!(asked.headers.get("proxy-authorization"), None);
        }
    }
}

async fn curl_shows_its_token_as_a_bearers_too(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    world.web.file("/", "hello");
    let (address, token) = (format!("http://{}", proxy.address), world.token());
    let header = format!("Proxy-Authorization: Bearer {token}");
    let url = format!("http://{}/", world.index());
    let arguments = ["-sS", "--proxy", &address, "--proxy-header", &header, &url];
    assert_eq!(run("curl", &arguments).await, (true, "hello".to_owned()));
}

async fn curl_is_told_why_it_may_not_connect(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    let proxy_url = proxy.url(&world.token());
    let (done, said) = run(
        "curl",
        &["-sSv", "--proxy", &proxy_url, "https://169.254.169.254/"],
    )
    .await;
    assert!(!done, "{said}");
    assert!(said.contains("403 Forbidden"), "{said}");
    assert!(said.contains("x-agentsville-refusal: metadata"), "{said}");
    let plain = [
        "-sS",
        "--proxy",
        &proxy_url,
        "http://169.254.169.254/latest",
    ];
    let (_done, said) = run("curl", &plain).await;
    assert!(said.contains(r#""rule":"metadata""#), "{said}");
}

async fn curl_that_uploads_megabytes_to_a_refused_host_is_told_why(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    let (_folder, path) = folder();
    let sent = path.join("sent");
    std::fs::write(&sent, bytes()).expect("a file");
    let (upload, proxy_url) = (format!("@{}", sent.display()), proxy.url(&world.token()));
    for expect in ["Expect: 100-continue", "Expect:"] {
        let mut arguments = vec!["-sS", "--proxy", &proxy_url, "-H", expect];
        arguments.extend(["-X", "POST", "--data-binary", &upload, "http://10.0.0.1/"]);
        let (_done, said) = run("curl", &arguments).await;
        assert!(said.contains(r#""rule":"private""#), "{expect} {said}");
    }
}
