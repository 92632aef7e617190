//! `robots.txt`, obeyed.

use std::time::Duration;

use proto::fetch::v1::{FetchRequest, RefusalReason, fetch_response::Outcome};
use testkit::origin::Reply;

use crate::{
    shape::{Shape, in_both_shapes},
    support::{Setup, facts, of},
};

in_both_shapes!(
    a_page_that_its_host_wants_left_alone_is_left_alone,
    a_file_that_is_not_there_allows_and_one_that_is_not_known_refuses,
    redirects_of_the_file_are_judged_like_any_other,
    the_file_is_asked_for_once_and_on_each_host_of_a_chain,
    without_the_setting_nobody_asks_for_the_file,
);

const OBEY: &[(&str, &str)] = &[("robots", "obey"), ("deadline_seconds", "3")];
const ROBOTS: (RefusalReason, u32, &str) = (RefusalReason::Robots, 0, "");

async fn a_page_that_its_host_wants_left_alone_is_left_alone(shape: Shape) {
    let setup = Setup::with(shape, OBEY).await;
    let file = "User-agent: *\nAllow: /\n\nUser-agent: AgentsVille\nDisallow: /secret";
    setup.site.serve("/robots.txt", Reply::text(file));
    setup.site.serve("/secret/page", Reply::text("secret"));
    setup.site.serve("/page", Reply::text("here"));
    assert_eq!(setup.page(&setup.url("/page")).await.text, "here");
    for path in ["/secret/page", "/%73ecret/page"] {
        let refusal = setup.refusal(&setup.url(path)).await;
        assert_eq!(facts(&refusal), ROBOTS);
        assert!(refusal.sentence.contains("robots.txt"));
    }
    let asked: Vec<String> = setup.site.requests().into_iter().map(|r| r.path).collect();
    assert_eq!(asked, ["/robots.txt", "/page"]);
}

async fn a_file_that_is_not_there_allows_and_one_that_is_not_known_refuses(shape: Shape) {
    for (reply, expected) in [
        (Reply::status(404), None),
        (Reply::status(403), None),
        (Reply::status(500), Some(RefusalReason::Robots)),
        (
            Reply::text("User-agent: *\nAllow: /").header("content-encoding", "zstd"),
            Some(RefusalReason::Robots),
        ),
        (
            Reply::text("User-agent: *").broken_off(),
            Some(RefusalReason::Robots),
        ),
        (
            Reply::text("User-agent: *").pause(Duration::from_hours(1)),
            Some(RefusalReason::Timeout),
        ),
    ] {
        let setup = Setup::with(shape, OBEY).await;
        setup.site.serve("/robots.txt", reply.clone());
        setup.site.serve("/page", Reply::text("here"));
        let reason = match setup.fetch(of(&setup.url("/page"))).await {
            Outcome::Page(_) => None,
            Outcome::Refusal(refusal) => Some(refusal.reason()),
        };
        assert_eq!(reason, expected, "{reply:?}");
    }
}

async fn redirects_of_the_file_are_judged_like_any_other(shape: Shape) {
    let setup = Setup::with(shape, OBEY).await;
    setup.site.serve("/page", Reply::text("here"));
    let metadata = Reply::redirect(302, "https://169.254.169.254/robots.txt");
    setup.site.serve("/robots.txt", metadata);
    let refusal = setup.refusal(&setup.url("/page")).await;
    assert_eq!(facts(&refusal), ROBOTS);
    assert!(
        !refusal.sentence.contains("169.254"),
        "{}",
        refusal.sentence
    );

    let away = format!("https://www.other.test:{}/file", setup.site.port());
    setup.site.serve("/robots.txt", Reply::redirect(302, &away));
    setup
        .site
        .serve("/file", Reply::text("user-agent: *\ndisallow: /no"));
    let listed = FetchRequest {
        allowed_hosts: vec!["site.test".to_owned()],
        ..of(&setup.url("/page"))
    };
    let Outcome::Refusal(refusal) = setup.fetch(listed).await else {
        panic!("not refused");
    };
    assert_eq!(facts(&refusal), ROBOTS);
    assert_eq!(setup.page(&setup.url("/page")).await.text, "here");

    let setup = Setup::with(shape, OBEY).await;
    setup.site.serve("/page", Reply::text("here"));
    setup
        .site
        .serve("/robots.txt", Reply::redirect(302, "/robots.txt"));
    assert_eq!(setup.page(&setup.url("/page")).await.text, "here");
    // The file, five redirects, the page.
    assert_eq!(setup.site.requests().len(), 7);
}

async fn the_file_is_asked_for_once_and_on_each_host_of_a_chain(shape: Shape) {
    let setup = Setup::with(shape, OBEY).await;
    let end = format!("https://www.other.test:{}/end", setup.site.port());
    setup
        .site
        .serve("/robots.txt", Reply::text("user-agent: *\nallow: /"));
    setup.site.serve("/", Reply::redirect(302, &end));
    setup.site.serve("/end", Reply::text("here"));
    for _ in 0..3 {
        assert_eq!(setup.page(&setup.url("/")).await.text, "here");
    }
    let files = setup
        .site
        .requests()
        .into_iter()
        .filter(|r| r.path == "/robots.txt");
    assert_eq!(files.count(), 2);
}

async fn without_the_setting_nobody_asks_for_the_file(shape: Shape) {
    let agent = [("user_agent", "Example/2.0 (+https://example.org/)")];
    let setup = Setup::with(shape, &agent).await;
    setup
        .site
        .serve("/robots.txt", Reply::text("user-agent: *\ndisallow: /"));
    setup.site.serve("/", Reply::text("here"));
    assert_eq!(setup.page(&setup.url("/")).await.text, "here");
    let requests = setup.site.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(
        requests[0].headers["user-agent"],
        "Example/2.0 (+https://example.org/)"
    );
}
