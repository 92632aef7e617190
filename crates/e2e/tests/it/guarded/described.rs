//! The vectors that are a sentence: each is played as it says, against the fetch-proxy's binary, all at the same time.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture, future::join_all};
use proto::fetch::v1::{RefusalReason, fetch_response::Outcome};
use testkit::{
    dns::{Answer, Family},
    netns::{Internet, with_file_in_place_of},
    origin::{Reply, TlsOrigin},
};

use super::{
    raw,
    setup::{FetchProxy, Verdict, World, in_the_internet, page, refusal, verdict},
    vectors::{Play, Vector, vectors},
};
use crate::process::program;

/// What plays a vector, and gives what came of it in the end.
type Played<'p> = BoxFuture<'p, Outcome>;

/// One vector's share of the world: names and an address that no other vector uses.
struct Scene {
    world: Arc<World>,
    /// A fetch-proxy with nothing but the settings of this world.
    proxy: Arc<FetchProxy>,
    number: usize,
}

impl Scene {
    /// Its name.
    fn host(&self) -> String {
        format!("row-{}.test", self.number)
    }

    /// Another name of its.
    fn other(&self) -> String {
        format!("other-{}.test", self.number)
    }

    /// Its public address.
    fn address(&self) -> String {
        format!("93.184.216.{}", 100 + self.number)
    }

    /// A URL at its name.
    fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.host())
    }

    /// A path that is only its own: all vectors share the servers.
    fn path(&self, name: &str) -> String {
        format!("/{}/{name}", self.number)
    }

    /// Has its name stand for its address.
    fn is_public(&self) -> &Self {
        self.world.host(&self.host(), &[&self.address()]);
        self
    }

    /// A reply under a path of its own, which is returned.
    fn serve(&self, name: &str, reply: Reply) -> String {
        let path = self.path(name);
        self.world.web.serve(&path, reply);
        path
    }

    fn text(&self) -> Reply {
        Reply::text(format!("the page of row {}", self.number))
    }

    fn assert_text(&self, outcome: &Outcome) {
        assert_eq!(
            page(outcome).trim(),
            format!("the page of row {}", self.number)
        );
    }

    /// How many requests named one of its hosts.
    fn requests(&self) -> usize {
        let hosts = [self.host(), self.other()];
        let of_ours = |request: &&testkit::origin::SeenRequest| {
            let host = request.host.split(':').next().unwrap_or_default();
            hosts.iter().any(|ours| ours == host)
        };
        self.world.web.requests().iter().filter(of_ours).count()
    }

    /// How many connections came to its address.
    fn connections(&self) -> usize {
        self.world.connections_to(&self.address())
    }

    /// How often this name was looked up.
    fn look_ups(&self, name: &str, family: Family) -> usize {
        let asked = (name.to_owned(), family);
        let queries = self.world.dns.queries();
        queries.iter().filter(|query| **query == asked).count()
    }
}

#[test]
fn every_described_vector_holds() {
    in_the_internet(|internet| async move {
        let described: Vec<Vector> = vectors()
            .into_iter()
            .filter(|vector| matches!(vector.play(), Play::Described))
            .collect();
        let names: Vec<String> = (0..described.len())
            .flat_map(|number| [format!("row-{number}.test"), format!("other-{number}.test")])
            .chain(["intra.example".to_owned()])
            .collect();
        let world = Arc::new(World::start(internet, &names).await);
        let proxy = Arc::new(world.fetch_proxy().await);
        let played = described.iter().enumerate().map(|(number, vector)| {
            let scene = Scene {
                world: Arc::clone(&world),
                proxy: Arc::clone(&proxy),
                number,
            };
            async move {
                let outcome = play(&vector.input, &scene).await;
                (vector, outcome)
            }
        });
        let played = join_all(played).await;
        let faults: Vec<String> = played
            .iter()
            .filter(|(vector, outcome)| verdict(outcome) != vector.expected)
            .map(|(vector, outcome)| {
                format!(
                    "{}: {outcome:?}; expected {:?}: {}",
                    vector.input, vector.expected, vector.reason
                )
            })
            .collect();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        assert_eq!(world.own.accepted(), 0, "somebody came home");
        assert_eq!(world.connections_to("10.0.0.1"), 0);
        let count = |kind| {
            played
                .iter()
                .filter(|(vector, _)| vector.kind == kind)
                .count()
        };
        println!(
            "redirect vectors in words that hold: {0} of {0}",
            count("redirect")
        );
        println!("dns vectors in words that hold: {0} of {0}", count("dns"));
    });
}

/// Plays a vector. One that nobody has written down here is a failure.
fn play<'p>(vector: &str, scene: &'p Scene) -> Played<'p> {
    match vector {
        "chain: 300 hops public, limit 5" => three_hundred_hops(scene).boxed(),
        "chain: 0 hops, limit 0" => no_hop_is_allowed(scene).boxed(),
        "loop: https://pub.test/a -> 302 https://pub.test/a" => {
            a_page_leads_to_itself(scene).boxed()
        }
        "loop: a?1 -> a?2 -> a?3 ... new query each hop" => each_hop_has_a_new_query(scene).boxed(),
        "chain: hop 3 of 4 resolves to 127.0.0.1" => the_third_hop_leads_home(scene).boxed(),
        "chain: 4 hops of 3 s each, deadline 10 s" => slow_hops(scene).boxed(),
        "chain: hop 1 answers headers after 9.9 s, body takes 5 s" => slow_body(scene).boxed(),
        "chain: 302 whose own body never ends" => endless_redirect_body(scene).boxed(),
        "chain: meta refresh / JS redirect to 127.0.0.1 in a 200 body" => {
            meta_refresh(scene).boxed()
        }
        "chain: Refresh: 0;url=https://127.0.0.1/ header" => refresh_header(scene).boxed(),
        "chain: 103 Early Hints with Link to private, then 200" => early_hints(scene).boxed(),
        "rebind: ttl 0, lookup 1 = 93.184.216.34, lookup 2 = 127.0.0.1" => {
            one_look_up(scene).boxed()
        }
        "rebind: A public for check, connect refused, retry resolves to 10.0.0.1" => {
            a_retry_is_judged(scene).boxed()
        }
        "rebind: two hosts, same public address, h2 coalescing" => no_coalescing(scene).boxed(),
        "rebind: /etc/hosts maps pub.test to 127.0.0.1" => hosts_file(scene).boxed(),
        "rebind: HTTPS_PROXY set in the environment" => environment_proxy(scene).boxed(),
        "rebind: answer with 300 A records, one private" => three_hundred_records(scene).boxed(),
        "rebind: HTTPS/SVCB record with ipv4hint=10.0.0.1" => service_binding(scene).boxed(),
        "rebind: operator allow-list has intra.example:443, URL asks :8443" => {
            an_exemption_of_another_port(scene).boxed()
        }
        other => panic!("nobody plays this vector: {other}"),
    }
}

async fn three_hundred_hops(scene: &Scene) -> Outcome {
    scene.is_public();
    for hop in 0..300 {
        let next = Reply::redirect(302, &scene.path(&(hop + 1).to_string()));
        scene.serve(&hop.to_string(), next);
    }
    scene.serve("300", scene.text());
    let outcome = scene.proxy.fetch(&scene.url(&scene.path("0"))).await;
    assert_eq!(scene.requests(), 6);
    outcome
}

async fn no_hop_is_allowed(scene: &Scene) -> Outcome {
    scene.is_public();
    let end = scene.serve("end", scene.text());
    let start = scene.serve("start", Reply::redirect(302, &end));
    let settings = [("AGENTSVILLE__FETCH__MAX_HOPS", "0")];
    let proxy = scene
        .world
        .fetch_proxy_with(program("fetch-proxy"), &settings)
        .await;
    let refused = refusal(proxy.fetch(&scene.url(&start)).await);
    assert_eq!(refused.reason(), RefusalReason::Redirect);
    assert_eq!(scene.requests(), 1);
    let outcome = proxy.fetch(&scene.url(&end)).await;
    scene.assert_text(&outcome);
    outcome
}

async fn a_page_leads_to_itself(scene: &Scene) -> Outcome {
    scene.is_public();
    let path = scene.path("a");
    scene.serve("a", Reply::redirect(302, &scene.url(&path)));
    let outcome = scene.proxy.fetch(&scene.url(&path)).await;
    assert!(scene.requests() <= 6, "{}", scene.requests());
    outcome
}

async fn each_hop_has_a_new_query(scene: &Scene) -> Outcome {
    scene.is_public();
    for hop in 1..20 {
        let next = format!("?{}", hop + 1);
        scene.serve(&format!("a?{hop}"), Reply::redirect(302, &next));
    }
    let outcome = scene.proxy.fetch(&scene.url(&scene.path("a?1"))).await;
    assert_eq!(scene.requests(), 6);
    outcome
}

async fn the_third_hop_leads_home(scene: &Scene) -> Outcome {
    scene.is_public();
    scene.world.host(&scene.other(), &["127.0.0.1"]);
    let home = format!("https://{}/", scene.other());
    let third = scene.serve("2", Reply::redirect(302, &home));
    let second = scene.serve("1", Reply::redirect(302, &third));
    let first = scene.serve("0", Reply::redirect(302, &second));
    let outcome = scene.proxy.fetch(&scene.url(&first)).await;
    let refused = refusal(outcome.clone());
    assert_eq!(
        (refused.hop, refused.rule.as_str(), refused.address.as_str()),
        (3, "loopback", "127.0.0.1")
    );
    outcome
}

async fn slow_hops(scene: &Scene) -> Outcome {
    scene.is_public();
    let slow = Duration::from_secs(3);
    for hop in 0..4 {
        let next = Reply::redirect(302, &scene.path(&(hop + 1).to_string()));
        scene.serve(&hop.to_string(), next.after(slow));
    }
    scene.serve("4", scene.text().after(slow));
    let outcome = scene.proxy.fetch(&scene.url(&scene.path("0"))).await;
    assert_eq!(refusal(outcome.clone()).reason(), RefusalReason::Timeout);
    outcome
}

async fn slow_body(scene: &Scene) -> Outcome {
    scene.is_public();
    let slow = Reply::status(200)
        .header("content-type", "text/plain")
        .after(Duration::from_millis(9_900))
        .pause(Duration::from_secs(5))
        .piece("too late");
    let path = scene.serve("slow", slow);
    let outcome = scene.proxy.fetch(&scene.url(&path)).await;
    assert_eq!(refusal(outcome.clone()).reason(), RefusalReason::Timeout);
    outcome
}

async fn endless_redirect_body(scene: &Scene) -> Outcome {
    scene.is_public();
    let end = scene.serve("end", scene.text());
    let endless = Reply::redirect(302, &end)
        .piece("and so on")
        .pause(Duration::from_hours(1));
    let path = scene.serve("start", endless);
    let outcome = scene.proxy.fetch(&scene.url(&path)).await;
    scene.assert_text(&outcome);
    outcome
}

async fn meta_refresh(scene: &Scene) -> Outcome {
    scene.is_public();
    let html = r#"<html><head><meta http-equiv="refresh" content="0;url=https://127.0.0.1/"></head>
        <body><p>These words stay here.</p><script>location = "https://127.0.0.1/"</script></body></html>"#;
    let path = scene.serve("page", Reply::ok("text/html; charset=utf-8", html));
    let outcome = scene.proxy.fetch(&scene.url(&path)).await;
    assert!(page(&outcome).contains("These words stay here."));
    assert_eq!(scene.connections(), 1);
    outcome
}

async fn refresh_header(scene: &Scene) -> Outcome {
    scene.is_public();
    let reply = scene.text().header("refresh", "0;url=https://127.0.0.1/");
    let path = scene.serve("page", reply);
    let outcome = scene.proxy.fetch(&scene.url(&path)).await;
    scene.assert_text(&outcome);
    assert_eq!(scene.connections(), 1);
    outcome
}

async fn early_hints(scene: &Scene) -> Outcome {
    scene.is_public();
    let answer = concat!(
        "HTTP/1.1 103 Early Hints\r\nlink: <https://10.0.0.1/a.css>; rel=preload; as=style\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 10\r\n\r\nafter 103\n",
    );
    let tls = scene.world.authority.server_config(&[&scene.host()]);
    let at = SocketAddr::new(scene.address().parse().unwrap(), 9_443);
    let world = &scene.world.internet.world;
    let _server = world.spawn(raw::https_server(tls, at, answer)).await;
    let url = format!("https://{}:9443/", scene.host());
    let outcome = scene.proxy.fetch(&url).await;
    assert_eq!(page(&outcome).trim(), "after 103");
    outcome
}

async fn one_look_up(scene: &Scene) -> Outcome {
    let answers = [&scene.address(), "127.0.0.1"].map(|address| Answer::addresses(&[address]));
    scene.world.dns.script(&scene.host(), Family::V4, answers);
    let path = scene.serve("page", scene.text());
    let outcome = scene.proxy.fetch(&scene.url(&path)).await;
    scene.assert_text(&outcome);
    assert_eq!(scene.connections(), 1);
    for family in [Family::V4, Family::V6] {
        assert_eq!(scene.look_ups(&scene.host(), family), 1, "{family:?}");
    }
    outcome
}

async fn a_retry_is_judged(scene: &Scene) -> Outcome {
    let answers = [&scene.address(), "10.0.0.1"].map(|address| Answer::addresses(&[address]));
    scene.world.dns.script(&scene.host(), Family::V4, answers);
    // Nobody listens there at the public address, and somebody does at the private one.
    let shared = Arc::clone(&scene.world);
    let host = scene.host();
    let at = SocketAddr::from(([10, 0, 0, 1], 9_444));
    let world = &scene.world.internet.world;
    let private = world
        .spawn(async move { TlsOrigin::start_on(&shared.authority, &[&host], at).await })
        .await;
    let url = format!("https://{}:9444/", scene.host());
    let first = refusal(scene.proxy.fetch(&url).await);
    assert!(
        matches!(
            first.reason(),
            RefusalReason::Unreachable | RefusalReason::Blocked
        ),
        "{first:?}"
    );
    let outcome = scene.proxy.fetch(&url).await;
    let second = refusal(outcome.clone());
    assert_eq!(
        (second.rule.as_str(), second.address.as_str()),
        ("private", "10.0.0.1")
    );
    assert_eq!(private.accepted(), 0);
    outcome
}

async fn no_coalescing(scene: &Scene) -> Outcome {
    scene.is_public();
    scene.world.host(&scene.other(), &[&scene.address()]);
    let end = scene.serve("end", scene.text());
    let next = format!("https://{}{end}", scene.other());
    let start = scene.serve("start", Reply::redirect(302, &next));
    let outcome = scene.proxy.fetch(&scene.url(&start)).await;
    scene.assert_text(&outcome);
    assert_eq!(scene.connections(), 2);
    assert_eq!(scene.look_ups(&scene.other(), Family::V4), 1);
    outcome
}

/// The hosts file has no say: a name that only it knows does not resolve, and one that DNS knows goes where DNS says.
async fn hosts_file(scene: &Scene) -> Outcome {
    scene.world.host(&scene.other(), &[&scene.address()]);
    let path = scene.serve("page", scene.text());
    let (host, other) = (scene.host(), scene.other());
    let text = format!("127.0.0.1 {host} {other}\n::1 {host} {other}\n");
    let hosts = scene.world.file("hosts", &text);
    let command = program("fetch-proxy");
    let mut inside = with_file_in_place_of("/etc/hosts", &hosts, command.get_program());
    inside.env_clear();
    let proxy = scene.world.fetch_proxy_with(inside, &[]).await;
    let known = proxy.fetch(&format!("https://{other}{path}")).await;
    scene.assert_text(&known);
    assert_eq!(scene.connections(), 1);
    proxy.fetch(&scene.url(&path)).await
}

async fn environment_proxy(scene: &Scene) -> Outcome {
    scene.is_public();
    let path = scene.serve("page", scene.text());
    let shared = Arc::clone(&scene.world);
    let at = SocketAddr::from((Internet::GATEWAY_V4, 3_128));
    let world = &scene.world.internet.world;
    let proxy_server = world
        .spawn(async move { TlsOrigin::start_on(&shared.authority, &["proxy.test"], at).await })
        .await;
    let proxy = format!("http://{at}");
    let settings = [
        "HTTPS_PROXY",
        "https_proxy",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
    ]
    .map(|name| (name, proxy.as_str()));
    let proxy = scene
        .world
        .fetch_proxy_with(program("fetch-proxy"), &settings)
        .await;
    let outcome = proxy.fetch(&scene.url(&path)).await;
    scene.assert_text(&outcome);
    assert_eq!((scene.connections(), proxy_server.accepted()), (1, 0));
    outcome
}

async fn three_hundred_records(scene: &Scene) -> Outcome {
    let public = (0..299_u16).map(|n| {
        let [high, low] = n.to_be_bytes();
        std::net::IpAddr::from([93, 185, high, low])
    });
    let mut addresses: Vec<_> = public.collect();
    addresses.insert(150, "10.0.0.1".parse().unwrap());
    let (v4, v6) = (Answer::Addresses(addresses), Answer::NoData);
    scene.world.says(&scene.host(), v4, v6);
    scene.proxy.fetch(&scene.url("/")).await
}

async fn service_binding(scene: &Scene) -> Outcome {
    let at = SocketAddr::from((Internet::GATEWAY_V4, 5_353));
    let address = scene.address().parse().unwrap();
    let hint = [10, 0, 0, 1].into();
    let world = &scene.world.internet.world;
    let _server = world.spawn(raw::dns_with_a_hint(at, address, hint)).await;
    let nameserver = at.to_string();
    let settings = [("AGENTSVILLE__OUTBOUND__NAMESERVER", nameserver.as_str())];
    let path = scene.serve("page", scene.text());
    let proxy = scene
        .world
        .fetch_proxy_with(program("fetch-proxy"), &settings)
        .await;
    let outcome = proxy.fetch(&scene.url(&path)).await;
    scene.assert_text(&outcome);
    assert_eq!(scene.connections(), 1);
    outcome
}

async fn an_exemption_of_another_port(scene: &Scene) -> Outcome {
    let world = &scene.world;
    world.host("intra.example", &["10.0.0.7"]);
    let path = scene.serve("page", scene.text());
    world.web_8443.serve(&path, Reply::text("never read"));
    let settings = [(
        "AGENTSVILLE__OUTBOUND__ALLOW",
        r#"[{ to = "intra.example:443", for = ["fetch"] }]"#,
    )];
    let proxy = world
        .fetch_proxy_with(program("fetch-proxy"), &settings)
        .await;
    let open = proxy.fetch(&format!("https://intra.example{path}")).await;
    scene.assert_text(&open);
    let url = format!("https://intra.example:8443{path}");
    let outcome = proxy.fetch(&url).await;
    let refused = refusal(outcome.clone());
    assert_eq!(
        (refused.rule.as_str(), refused.address.as_str()),
        ("private", "10.0.0.7")
    );
    assert_eq!(world.web_8443.accepted(), 0);
    // Nor does a redirect carry it to the other port.
    let away = scene.serve("away", Reply::redirect(302, &url));
    let refused = refusal(proxy.fetch(&format!("https://intra.example{away}")).await);
    assert_eq!((refused.rule.as_str(), refused.hop), ("private", 1));
    assert_eq!(verdict(&outcome), Verdict::Block);
    outcome
}
