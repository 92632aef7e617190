//! Where a chain may lead, and how long it may be.

use std::time::Duration;

use kernel::{Caller, PlayerId, ServiceName, SystemClock};
use proto::fetch::v1::{FetchRequest, RefusalReason, fetch_response::Outcome};
use testkit::{dns::Answer, dns::Family, events, origin::Reply};
use tonic::Code;

use crate::{
    shape::{Shape, in_both_shapes},
    support::{Setup, facts, of},
};

in_both_shapes!(
    a_redirect_to_metadata_is_refused_at_its_hop,
    every_way_inside_is_refused_as_a_first_address_and_as_a_redirect,
    only_https_is_fetched_also_after_a_redirect,
    five_redirects_are_followed_and_a_sixth_is_not,
    a_redirect_that_leads_nowhere_is_said_and_its_body_is_not_the_page,
    a_location_that_is_not_a_redirect_is_not_followed,
    the_endless_body_of_a_redirect_is_not_waited_for,
    a_host_is_told_nothing_that_belongs_to_another,
    one_deadline_covers_the_whole_chain,
    a_name_that_points_inside_at_the_second_hop_is_refused_there,
    network_faults_are_told_apart,
    an_npc_with_a_list_of_hosts_reaches_no_other_at_any_hop,
    only_npcs_fetch,
    a_caller_in_a_hurry_gets_what_came_in_its_own_time,
);

async fn a_redirect_to_metadata_is_refused_at_its_hop(shape: Shape) {
    let setup = Setup::new(shape).await;
    setup.site.serve("/a", Reply::redirect(302, "/b"));
    setup.site.serve(
        "/b",
        Reply::redirect(302, "https://169.254.169.254/latest/meta-data/"),
    );
    let refusal = setup.refusal(&setup.url("/a")).await;
    assert_eq!(facts(&refusal), (RefusalReason::Blocked, 2, "metadata"));
    assert_eq!(refusal.address, "169.254.169.254");
    assert_eq!(
        refusal.sentence,
        "after 2 redirects: 169.254.169.254 is refused by rule metadata: 169.254.169.254 lies in 169.254.169.254/32 (instance metadata of AWS, Google, Azure, Oracle and others); fetch_url reads public pages only, and another spelling of the address will not help"
    );
}

async fn every_way_inside_is_refused_as_a_first_address_and_as_a_redirect(shape: Shape) {
    let setup = Setup::new(shape).await;
    setup.dns.host("private.test", &["10.0.0.5"]);
    setup.dns.host("mixed.test", &["93.184.216.34", "10.0.0.5"]);
    for (place, (location, rule)) in [
        ("https://127.0.0.1/", "loopback"),
        ("https://2130706433/", "loopback"),
        ("https://0x7f.1/", "loopback"),
        ("https://[::1]/", "loopback"),
        ("https://[::ffff:169.254.169.254]/", "metadata"),
        ("https://[64:ff9b::a9fe:a9fe]/", "metadata"),
        ("https://localhost/", "local-name"),
        ("https://localhost./", "local-name"),
        ("https://metadata.google.internal/", "metadata-name"),
        ("https://private.test/", "private"),
        ("https://mixed.test/", "private"),
        ("https://user:pw@www.other.test/", "userinfo"),
        ("https://www.other.test:22/", "port"),
    ]
    .into_iter()
    .enumerate()
    {
        let first = setup.refusal(location).await;
        assert_eq!(
            facts(&first),
            (RefusalReason::Blocked, 0, rule),
            "{location}"
        );
        let path = format!("/{place}");
        setup.site.serve(&path, Reply::redirect(302, location));
        let second = setup.refusal(&setup.url(&path)).await;
        assert_eq!(
            facts(&second),
            (RefusalReason::Blocked, 1, rule),
            "{location}"
        );
    }
}

async fn only_https_is_fetched_also_after_a_redirect(shape: Shape) {
    let setup = Setup::new(shape).await;
    for (url, reason) in [
        ("http://site.test/", RefusalReason::NotHttps),
        ("ftp://site.test/", RefusalReason::NotHttps),
        ("file:///etc/passwd", RefusalReason::NotHttps),
        ("data:text/plain,hi", RefusalReason::NotHttps),
        ("site.test", RefusalReason::InvalidUrl),
        ("", RefusalReason::InvalidUrl),
    ] {
        assert_eq!(setup.refusal(url).await.reason(), reason, "{url}");
    }
    let long = format!("https://site.test/{}", "a".repeat(2_048));
    assert_eq!(
        setup.refusal(&long).await.reason(),
        RefusalReason::InvalidUrl
    );
    for status in [301, 302, 303, 307, 308] {
        let path = format!("/{status}");
        setup
            .site
            .serve(&path, Reply::redirect(status, "HTTP://www.other.test/"));
        let refusal = setup.refusal(&setup.url(&path)).await;
        assert_eq!(facts(&refusal), (RefusalReason::NotHttps, 1, "scheme"));
    }
}

async fn five_redirects_are_followed_and_a_sixth_is_not(shape: Shape) {
    let setup = Setup::new(shape).await;
    for hop in 0..6 {
        let next = format!("/{}", hop + 1);
        setup
            .site
            .serve(&format!("/{hop}"), Reply::redirect(302, &next));
    }
    setup.site.serve("/6", Reply::text("here"));
    let page = setup.page(&setup.url("/1")).await;
    assert_eq!((page.text.as_str(), page.redirects), ("here", 5));
    assert_eq!(page.final_url, setup.url("/6"));

    let before = setup.site.requests().len();
    let refusal = setup.refusal(&setup.url("/0")).await;
    assert_eq!(facts(&refusal), (RefusalReason::Redirect, 5, ""));
    assert_eq!(setup.site.requests().len() - before, 6);
}

async fn a_redirect_that_leads_nowhere_is_said_and_its_body_is_not_the_page(shape: Shape) {
    let setup = Setup::new(shape).await;
    for (path, reply) in [
        ("/missing", Reply::status(302).piece("not the page")),
        ("/empty", Reply::redirect(302, "")),
        ("/broken", Reply::redirect(302, "https://[::1")),
        ("/nothing", Reply::redirect(302, "https://")),
    ] {
        setup.site.serve(path, reply);
        let refusal = setup.refusal(&setup.url(path)).await;
        assert_eq!(facts(&refusal), (RefusalReason::Redirect, 0, ""), "{path}");
    }
}

async fn a_location_that_is_not_a_redirect_is_not_followed(shape: Shape) {
    let setup = Setup::new(shape).await;
    for status in [200, 201, 300, 305, 306] {
        let path = format!("/{status}");
        let reply = Reply::redirect(status, "https://127.0.0.1/")
            .header("content-type", "text/plain")
            .header("refresh", "0;url=https://127.0.0.1/")
            .piece("the page");
        setup.site.serve(&path, reply);
        let page = setup.page(&setup.url(&path)).await;
        assert_eq!(
            (page.status, page.text.as_str()),
            (u32::from(status), "the page")
        );
    }
}

async fn the_endless_body_of_a_redirect_is_not_waited_for(shape: Shape) {
    let setup = Setup::new(shape).await;
    let endless = Reply::redirect(302, "/end").pause(Duration::from_hours(1));
    setup.site.serve("/start", endless);
    setup.site.serve("/end", Reply::text("here"));
    assert_eq!(setup.page(&setup.url("/start")).await.text, "here");
}

async fn a_host_is_told_nothing_that_belongs_to_another(shape: Shape) {
    let setup = Setup::new(shape).await;
    let port = setup.site.port();
    let to = format!("https://www.other.test:{port}/end");
    let from = Reply::redirect(302, &to).header("set-cookie", "a=b");
    setup.site.serve("/start?secret=1", from);
    setup.site.serve("/end", Reply::text("here"));
    let page = setup.page(&setup.url("/start?secret=1#part")).await;
    assert_eq!(
        (page.text.as_str(), page.final_url.as_str()),
        ("here", to.as_str())
    );
    for request in setup.site.requests() {
        let mut names: Vec<&str> = request
            .headers
            .keys()
            .map(http::HeaderName::as_str)
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["accept", "accept-encoding", "user-agent"]);
    }
}

async fn one_deadline_covers_the_whole_chain(shape: Shape) {
    let setup = Setup::with(shape, &[("deadline_seconds", "1")]).await;
    let slow = Duration::from_millis(300);
    for hop in 0..5 {
        let reply = Reply::redirect(302, &format!("/{}", hop + 1)).after(slow);
        setup.site.serve(&format!("/{hop}"), reply);
    }
    setup.site.serve("/5", Reply::text("too late"));
    let refusal = setup.refusal(&setup.url("/0")).await;
    assert_eq!(refusal.reason(), RefusalReason::Timeout);
    assert!(refusal.hop > 0, "{refusal:?}");

    let endless = Reply::text("so far").pause(Duration::from_hours(1));
    setup.site.serve("/endless", endless);
    let page = setup.page(&setup.url("/endless")).await;
    assert_eq!((page.text.as_str(), page.body_short), ("so far", true));
    let silent = Reply::ok("text/html", "").pause(Duration::from_hours(1));
    setup.site.serve("/silent", silent);
    let refusal = setup.refusal(&setup.url("/silent")).await;
    assert_eq!(facts(&refusal), (RefusalReason::Timeout, 0, ""));
}

async fn a_name_that_points_inside_at_the_second_hop_is_refused_there(shape: Shape) {
    let setup = Setup::new(shape).await;
    let port = setup.site.port();
    setup.dns.script(
        "www.other.test",
        Family::V4,
        [
            Answer::addresses(&["127.0.0.1"]),
            Answer::addresses(&["169.254.169.254"]),
        ],
    );
    let own = format!("https://www.other.test:{port}/");
    setup.site.serve("/", Reply::redirect(302, &own));
    let refusal = setup.refusal(&own).await;
    assert_eq!(facts(&refusal), (RefusalReason::Blocked, 1, "metadata"));
    assert_eq!(setup.site.accepted(), 1);
}

async fn network_faults_are_told_apart(shape: Shape) {
    let setup = Setup::new(shape).await;
    let port = setup.site.port();
    setup
        .dns
        .script("nowhere.test", Family::V4, [Answer::NxDomain]);
    setup
        .dns
        .script("broken.test", Family::V4, [Answer::ServFail]);
    for (host, reason) in [
        ("nowhere.test", RefusalReason::Unresolvable),
        ("broken.test", RefusalReason::Unresolvable),
        ("impostor.test", RefusalReason::Tls),
        ("dead.test", RefusalReason::Unreachable),
    ] {
        let refusal = setup.refusal(&format!("https://{host}:{port}/")).await;
        assert_eq!(facts(&refusal), (reason, 0, ""), "{host}");
        assert!(refusal.sentence.starts_with(host), "{}", refusal.sentence);
    }
}

async fn an_npc_with_a_list_of_hosts_reaches_no_other_at_any_hop(shape: Shape) {
    let setup = Setup::new(shape).await;
    let port = setup.site.port();
    setup.site.serve("/", Reply::text("here"));
    let away = format!("https://www.other.test:{port}/");
    setup.site.serve("/away", Reply::redirect(302, &away));
    let with = |url: &str, hosts: &[&str]| FetchRequest {
        allowed_hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        ..of(url)
    };
    let site = setup.url("/");
    for (url, hosts, expected) in [
        (site.as_str(), ["site.test"], None),
        (&away, ["*.other.test"], None),
        (&away, ["other.test"], Some(0)),
        (&away, ["site.test"], Some(0)),
        (&setup.url("/away"), ["site.test"], Some(1)),
    ] {
        let hop = match setup.fetch(with(url, &hosts)).await {
            Outcome::Page(_) => None,
            Outcome::Refusal(refusal) => {
                assert_eq!(refusal.reason(), RefusalReason::HostNotAllowed);
                Some(refusal.hop)
            }
        };
        assert_eq!(hop, expected, "{url} {hosts:?}");
    }
    let status = setup
        .ask(&setup.npc, with(&site, &["https://site.test"]))
        .await
        .expect_err("no host");
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().starts_with("allowed_hosts cannot be used"));
}

async fn only_npcs_fetch(shape: Shape) {
    let setup = Setup::new(shape).await;
    let player = PlayerId::mint(&SystemClock);
    for caller in [
        Caller::Player(player),
        Caller::Operator(player),
        Caller::Service {
            name: ServiceName::TurnOrchestrator,
            player: Some(player),
        },
    ] {
        let status = setup
            .ask(&caller, of(&setup.url("/")))
            .await
            .expect_err("not allowed");
        assert_eq!(status.code(), Code::PermissionDenied, "{caller:?}");
    }
    assert_eq!(setup.site.accepted(), 0);
}

#[tokio::test]
async fn a_fetch_is_one_event_that_names_the_host_and_not_the_url() {
    let setup = Setup::new(Shape::InProcess).await;
    let events = events::capture();
    setup.site.serve(
        "/start?token=hunter2",
        Reply::redirect(302, "/path-hunter2"),
    );
    setup
        .site
        .serve("/path-hunter2", Reply::text("body-hunter2"));
    setup.page(&setup.url("/start?token=hunter2")).await;
    let event = events.one("fetch");
    assert_eq!(event["outcome"], "ok");
    assert_eq!(event["server.address"], "site.test");
    assert_eq!(event["agentsville.hops"], 1);
    assert_eq!(event["agentsville.verdict"], "allow");
    assert_eq!(event["http.response.status_code"], 200);
    assert_eq!(event["http.response.body.size"], 12);
    assert_eq!(event["agentsville.caller"], setup.npc.label());
    assert!(!events.text().contains("hunter2"), "{}", events.text());
}

#[tokio::test]
async fn a_caller_that_hangs_up_leaves_an_event_that_says_how_far_it_came() {
    let setup = Setup::new(Shape::InProcess).await;
    let events = events::capture();
    let endless = Reply::text("x").pause(Duration::from_hours(1));
    setup.site.serve("/endless", endless);
    let hung_up = async {
        while setup.site.requests().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let url = setup.url("/endless");
    tokio::select! {
        page = setup.page(&url) => panic!("{page:?}"),
        () = hung_up => {}
    }
    let event = events.wait_for("fetch", 1).await.remove(0);
    assert_eq!(event["outcome"], "interrupted");
    assert_eq!(event["server.address"], "site.test");
}

async fn a_caller_in_a_hurry_gets_what_came_in_its_own_time(shape: Shape) {
    let setup = Setup::new(shape).await;
    let endless = Reply::text("x").pause(Duration::from_hours(1));
    setup.site.serve("/endless", endless);
    let outcome = setup
        .ask_within(Duration::from_secs(1), of(&setup.url("/endless")))
        .await;
    let Ok(Outcome::Page(page)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!((page.text.as_str(), page.body_short), ("x", true));
}

#[tokio::test]
async fn a_refused_fetch_is_an_event_with_the_rule() {
    let setup = Setup::new(Shape::InProcess).await;
    let events = events::capture();
    setup.refusal("https://127.0.0.1/").await;
    let event = events.one("fetch");
    assert_eq!(event["outcome"], "denied");
    assert_eq!(event["agentsville.verdict"], "loopback");
    assert_eq!(event["agentsville.reason"], "blocked");
}
