//! Long texts in pieces, and whose they are.

use std::{sync::Arc, time::Duration};

use kernel::{Caller, Clock as _, NpcId, PlayerId, SystemClock};
use proto::fetch::v1::{
    FetchRequest, PageForm, PageOrigin, RefusalReason, fetch_response::Outcome,
};
use testkit::{clock::ManualClock, origin::Reply};

use crate::{
    shape::{Shape, in_both_shapes},
    support::{Setup, npc, of},
};

in_both_shapes!(
    the_next_piece_is_of_the_page_that_the_first_was_of,
    nobody_reads_on_in_the_snapshot_of_another_npc_or_player,
    what_may_not_be_stored_is_fetched_again_and_says_so,
    a_snapshot_is_read_only_from_hosts_that_may_be_fetched,
    a_page_is_read_as_markdown_with_all_that_is_known_of_it,
    an_error_says_the_beginning_of_its_page,
    an_answer_without_a_body_is_said_in_words,
    one_npc_cannot_pile_up_fetches,
);

const SHORT: &[(&str, &str)] = &[("page_characters", "100")];

fn old_and_new() -> (String, String) {
    ("old words ".repeat(50), "new words ".repeat(50))
}

async fn the_next_piece_is_of_the_page_that_the_first_was_of(shape: Shape) {
    let setup = Setup::with(shape, SHORT).await;
    let (old, new) = old_and_new();
    setup.site.serve("/a", Reply::redirect(302, "/b"));
    setup.site.serve("/b", Reply::text(old));
    let first = setup.page_from(&setup.npc, &setup.url("/a"), 0).await;
    assert_eq!(first.origin(), PageOrigin::Host);
    let next = first.next_start_index.expect("more");

    setup.site.serve("/b", Reply::text(new));
    let requests = setup.site.requests().len();
    for path in ["/a", "/a#part", "/b"] {
        let piece = setup.page_from(&setup.npc, &setup.url(path), next).await;
        assert!(
            piece.text.starts_with("old words"),
            "{path}: {}",
            piece.text
        );
        assert_eq!(piece.origin(), PageOrigin::Snapshot);
        assert_eq!(piece.fetched_at_micros, first.fetched_at_micros);
        assert_eq!(piece.passed_urls, [setup.url("/a")]);
    }
    assert_eq!(setup.site.requests().len(), requests);

    let anew = setup.page_from(&setup.npc, &setup.url("/b"), 0).await;
    assert!(anew.text.starts_with("new words"));
    let piece = setup.page_from(&setup.npc, &setup.url("/b"), next).await;
    assert!(piece.text.starts_with("new words"));
}

async fn nobody_reads_on_in_the_snapshot_of_another_npc_or_player(shape: Shape) {
    let setup = Setup::with(shape, SHORT).await;
    let (old, new) = old_and_new();
    setup.site.serve("/", Reply::text(old));
    setup.page_from(&setup.npc, &setup.url("/"), 0).await;
    setup.site.serve("/", Reply::text(new));
    let Caller::Npc { npc: id, player } = setup.npc else {
        panic!("no NPC");
    };
    let same_player = Caller::Npc {
        npc: NpcId::mint(&SystemClock),
        player,
    };
    let same_npc = Caller::Npc {
        npc: id,
        player: PlayerId::mint(&SystemClock),
    };
    for stranger in [npc(), same_player, same_npc] {
        let piece = setup.page_from(&stranger, &setup.url("/"), 100).await;
        assert!(piece.text.starts_with("new words"));
        assert_eq!(piece.origin(), PageOrigin::HostAgain);
    }
}

async fn what_may_not_be_stored_is_fetched_again_and_says_so(shape: Shape) {
    let setup = Setup::with(shape, SHORT).await;
    let (old, new) = old_and_new();
    let secret = |text: String| Reply::text(text).header("cache-control", "private, No-Store");
    setup.site.serve("/", secret(old));
    setup.page_from(&setup.npc, &setup.url("/"), 0).await;
    setup.site.serve("/", secret(new));
    let piece = setup.page_from(&setup.npc, &setup.url("/"), 100).await;
    assert!(piece.text.starts_with("new words"));
    assert_eq!(piece.origin(), PageOrigin::HostAgain);
}

async fn a_snapshot_is_read_only_from_hosts_that_may_be_fetched(shape: Shape) {
    let setup = Setup::with(shape, SHORT).await;
    let end = format!("https://www.other.test:{}/end", setup.site.port());
    setup.site.serve("/", Reply::redirect(302, &end));
    setup.site.serve("/end", Reply::text(old_and_new().0));
    setup.page_from(&setup.npc, &setup.url("/"), 0).await;
    for (hosts, hop) in [(["site.test"], 1), (["www.other.test"], 0)] {
        let request = FetchRequest {
            start_index: 100,
            allowed_hosts: hosts.map(str::to_owned).to_vec(),
            ..of(&setup.url("/"))
        };
        let Outcome::Refusal(refusal) = setup.fetch(request).await else {
            panic!("not refused");
        };
        assert_eq!(
            (refusal.reason(), refusal.hop),
            (RefusalReason::HostNotAllowed, hop)
        );
    }
}

#[tokio::test]
async fn a_snapshot_lives_for_as_long_as_is_set() {
    let clock = Arc::new(ManualClock::at(SystemClock.now()));
    let shared: Arc<dyn kernel::Clock> = Arc::<ManualClock>::clone(&clock);
    let setup = Setup::at(Shape::InProcess, SHORT, &[], shared).await;
    setup.site.serve("/", Reply::text(old_and_new().0));
    setup.page_from(&setup.npc, &setup.url("/"), 0).await;
    clock.advance(Duration::from_secs(299));
    let piece = setup.page_from(&setup.npc, &setup.url("/"), 100).await;
    assert_eq!(piece.origin(), PageOrigin::Snapshot);
    clock.advance(Duration::from_secs(1));
    let piece = setup.page_from(&setup.npc, &setup.url("/"), 100).await;
    assert_eq!(piece.origin(), PageOrigin::HostAgain);
}

async fn a_page_is_read_as_markdown_with_all_that_is_known_of_it(shape: Shape) {
    let setup = Setup::new(shape).await;
    let html = "<html><head><meta charset=windows-1251><title>\u{423}</title></head>\
                <body><h1>Heading</h1><p>Some <a href='/x'>words</a>.</p></body></html>";
    let bytes = html.replace('\u{423}', "?").into_bytes();
    setup.site.serve("/from", Reply::redirect(301, "/page"));
    setup.site.serve("/page", Reply::ok("text/html", bytes));
    let page = setup.page(&setup.url("/from")).await;
    assert_eq!(page.form(), PageForm::Markdown);
    assert_eq!(
        (page.media_type.as_str(), page.charset.as_str()),
        ("text/html", "windows-1251")
    );
    assert_eq!(page.passed_urls, [setup.url("/from")]);
    assert!(
        page.text.contains(&format!("[words]({})", setup.url("/x"))),
        "{}",
        page.text
    );
    assert!(page.left_out.is_empty() && !page.total_is_minimum);
}

async fn an_error_says_the_beginning_of_its_page(shape: Shape) {
    let setup = Setup::new(shape).await;
    let reply = Reply::status(503)
        .header("content-type", "text/plain")
        .piece("sorry ".repeat(2_000));
    setup.site.serve("/", reply);
    let page = setup.page(&setup.url("/")).await;
    assert_eq!((page.status, page.total_characters), (503, 4_000));
    assert!(page.total_is_minimum && page.next_start_index.is_none());
}

async fn an_answer_without_a_body_is_said_in_words(shape: Shape) {
    let setup = Setup::new(shape).await;
    for (status, words) in [(204, "no content"), (304, "not changed"), (200, "empty")] {
        let path = format!("/{status}");
        setup.site.serve(&path, Reply::status(status));
        let page = setup.page(&setup.url(&path)).await;
        assert!(page.text.contains(words), "{}", page.text);
        assert_eq!(page.form(), PageForm::Description);
    }
}

async fn one_npc_cannot_pile_up_fetches(shape: Shape) {
    let few = [
        ("at_once_per_npc", "1"),
        ("queue", "8"),
        ("deadline_seconds", "3"),
    ];
    let setup = Setup::with(shape, &few).await;
    let endless = Reply::text("x").pause(Duration::from_hours(1));
    setup.site.serve("/endless", endless);
    setup.site.serve("/", Reply::text("here"));
    let greedy = async {
        let url = setup.url("/endless");
        let asks = std::array::from_fn::<_, 8, _>(|_| setup.ask(&setup.npc, of(&url)));
        futures::future::join_all(asks).await
    };
    let (someone, url) = (npc(), setup.url("/"));
    let (outcomes, other) = tokio::join!(greedy, setup.page_from(&someone, &url, 0));
    assert_eq!(other.text, "here");
    let refused: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| outcome.as_ref().err())
        .collect();
    // One runs, one waits.
    assert_eq!(refused.len(), 6, "{outcomes:?}");
    for status in refused {
        assert_eq!(status.code(), tonic::Code::ResourceExhausted);
        assert!(status.message().contains("try again"), "{status:?}");
    }
}
