//! What belongs to the machine and to the Village, as it changes and whatever the Operator opens; and what the machine's settings
//! would make of names.

use std::time::Duration;

use testkit::{
    dns::Family,
    netns::{Internet, with_file_in_place_of},
    origin::Reply,
};

use super::setup::{Verdict, World, in_the_internet, page, refusal, verdict};
use crate::process::program;

/// An address of the machine is known to be its own at the latest after this long, on a machine under load.
const NOTICED: Duration = Duration::from_mins(1);

#[test]
fn an_address_that_the_machine_gets_while_it_runs_is_refused_from_then_on() {
    in_the_internet(|internet| async move {
        let names = ["93.184.216.200", "93.185.7.7"].map(str::to_owned);
        let world = World::start(internet, &names).await;
        world.web.serve("/", Reply::text("the page"));
        world.own.serve("/", Reply::text("the machine itself"));
        let proxy = world.fetch_proxy().await;
        for name in &names {
            let outcome = proxy.fetch(&format!("https://{name}/")).await;
            assert_eq!(page(&outcome).trim(), "the page");
        }
        // One becomes the machine's own, the other a neighbour on its wire.
        world
            .internet
            .village
            .ip("address add 93.184.216.200/32 dev wire
             address add 93.185.0.1/16 dev wire");
        for (name, rule) in names.iter().zip(["own-address", "own-network"]) {
            let noticed = async {
                loop {
                    let outcome = proxy.fetch(&format!("https://{name}/")).await;
                    if verdict(&outcome) == Verdict::Block {
                        return refusal(outcome);
                    }
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
            };
            let refused = tokio::time::timeout(NOTICED, noticed).await.unwrap();
            assert_eq!((&*refused.rule, &*refused.address), (rule, &**name));
        }
    });
}

#[test]
fn no_exemption_opens_the_villages_own_listeners_in_any_spelling() {
    in_the_internet(|internet| async move {
        let world = World::start(internet, &["home.test".to_owned()]).await;
        world.host("home.test", &["127.0.0.1"]);
        world
            .own
            .serve("/", Reply::text("another program of the machine"));
        let opened = ["127.0.0.0/8", "0.0.0.0/8", "::1", "home.test", "localhost"];
        let opened = opened.map(|to| format!("{{ to = \"{to}\", for = [\"fetch\"] }}"));
        let opened = format!("[{}]", opened.join(", "));
        let settings = [("AGENTSVILLE__OUTBOUND__ALLOW", &*opened)];
        let mut proxy = world
            .fetch_proxy_with(program("fetch-proxy"), &settings)
            .await;
        let mut listeners = Vec::new();
        for message in [
            "gRPC is listening",
            "admin is listening",
            "egress is listening",
        ] {
            listeners.push(proxy.address(message).await);
        }
        for host in [
            "127.0.0.1",
            "2130706433",
            "0177.1",
            "0.0.0.0",
            "[::ffff:127.0.0.1]",
            "[64:ff9b::7f00:1]",
            "[::]",
            "localhost",
            "home.test",
        ] {
            for listener in &listeners {
                let port = listener.rsplit(':').next().unwrap();
                let refused = refusal(proxy.fetch(&format!("https://{host}:{port}/")).await);
                assert_eq!(refused.rule, "own-listener", "{host}: {refused:?}");
            }
        }
        // The exemption itself is real: what else the machine runs is open.
        let outcome = proxy.fetch("https://home.test/").await;
        assert_eq!(page(&outcome).trim(), "another program of the machine");
    });
}

#[test]
fn a_guard_that_only_reports_still_keeps_the_machine_its_links_and_metadata() {
    in_the_internet(|internet| async move {
        let kept = [
            ("127.0.0.1", "loopback"),
            ("::1", "loopback"),
            ("::ffff:127.0.0.1", "loopback"),
            ("64:ff9b::7f00:1", "loopback"),
            ("169.254.7.7", "link-local"),
            ("fe80::7", "link-local"),
            ("169.254.169.254", "metadata"),
            ("64:ff9b::a9fe:a9fe", "metadata"),
            ("100.100.100.200", "metadata"),
            ("fd00:ec2::254", "metadata"),
            ("0.0.0.0", "this-network"),
            ("10.66.0.1", "private"),
            ("::ffff:10.66.0.1", "private"),
            ("93.185.7.7", "own-network"),
            ("64:ff9b::5db9:707", "own-network"),
        ];
        let reported = ["10.0.0.5", "192.168.1.1", "fd00::5", "198.18.0.1"];
        let name_of = |number: usize| format!("name-{number}.report.test");
        let world = World::start(internet, &["*.report.test".to_owned()]).await;
        world.web.serve("/", Reply::text("a private page"));
        let addresses = kept.iter().map(|(address, _)| *address).chain(reported);
        for (number, address) in addresses.enumerate() {
            world.host(&name_of(number), &[address]);
        }
        let settings = [
            ("AGENTSVILLE__OUTBOUND__MODE", "report"),
            (
                "AGENTSVILLE__OUTBOUND__OWN_NETWORKS",
                r#"["10.66.0.0/16", "93.185.0.0/16"]"#,
            ),
        ];
        let proxy = world
            .fetch_proxy_with(program("fetch-proxy"), &settings)
            .await;
        for (number, (address, rule)) in kept.into_iter().enumerate() {
            let refused = refusal(proxy.fetch(&format!("https://{}/", name_of(number))).await);
            assert_eq!((&*refused.rule, &*refused.address), (rule, address));
        }
        assert_eq!(
            world.destinations().len(),
            0,
            "a kept address was connected to"
        );
        for (number, address) in reported.into_iter().enumerate() {
            let url = format!("https://{}/", name_of(kept.len() + number));
            assert_eq!(page(&proxy.fetch(&url).await).trim(), "a private page");
            assert_eq!(world.connections_to(address), 1);
        }
        let warned = proxy.logged();
        let warnings = warned.matches("the guard would have refused this").count();
        assert_eq!(warnings, reported.len(), "{warned}");
    });
}

#[test]
fn neither_resolv_conf_nor_the_environment_completes_a_name() {
    in_the_internet(|internet| async move {
        let names = ["www.pub.test", "app.intra.corp.test"].map(str::to_owned);
        let world = World::start(internet, &names).await;
        world.host("www.pub.test", &["93.184.216.34"]);
        for trap in [
            "app.intra.corp.test",
            "app.intra.evil.test",
            "printer.corp.test",
        ] {
            world.host(trap, &["93.184.216.66"]);
        }
        world.web.serve("/", Reply::text("the page"));
        let text = format!(
            "nameserver {}\nsearch corp.test evil.test\noptions ndots:15\n",
            Internet::GATEWAY_V4
        );
        let file = world.file("resolv.conf", &text);
        let plain = program("fetch-proxy");
        let mut command = with_file_in_place_of("/etc/resolv.conf", &file, plain.get_program());
        command.env_clear();
        let settings = [
            ("AGENTSVILLE__OUTBOUND__NAMESERVER", ""),
            ("LOCALDOMAIN", "evil.test"),
            ("RES_OPTIONS", "ndots:15"),
        ];
        let proxy = world.fetch_proxy_with(command, &settings).await;
        let outcome = proxy.fetch("https://www.pub.test/").await;
        assert_eq!(page(&outcome).trim(), "the page");
        for short in ["https://app.intra.test/", "https://printer/"] {
            assert_eq!(
                verdict(&proxy.fetch(short).await),
                Verdict::Block,
                "{short}"
            );
        }
        assert_eq!(world.connections_to("93.184.216.66"), 0);
        let mut asked = world.dns.queries();
        asked.retain(|(_, family)| *family == Family::V4);
        let asked: Vec<&str> = asked.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(asked, ["www.pub.test", "app.intra.test"]);
    });
}
