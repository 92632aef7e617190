use http::StatusCode;
use kernel::{NpcId, PlayerId, SystemClock};
use reader::{Form, Reading};
use testkit::clock::ManualClock;

use super::*;
use crate::body::End;

const LIFE: Duration = Duration::from_mins(5);

fn owner() -> Owner {
    (NpcId::mint(&SystemClock), PlayerId::mint(&SystemClock))
}

fn url(text: &str) -> Url {
    text.parse().expect("a URL")
}

fn snapshot(asked: &str, at: &str, text: &str) -> Arc<Snapshot> {
    Arc::new(Snapshot {
        asked: url(asked),
        url: url(at),
        passed: Vec::new(),
        status: StatusCode::OK,
        content_type: String::new(),
        reading: Reading {
            text: text.to_owned(),
            form: Form::Text,
            media_type: String::new(),
            charset: None,
            title: None,
            truncated: None,
            cost: None,
        },
        end: End::Complete,
        body_bytes: 0,
        wire_bytes: 0,
        is_excerpt: false,
        at: Timestamp::from_micros(0),
    })
}

fn snapshots(bytes: usize) -> (Snapshots, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let shared: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
    (Snapshots::new(LIFE, bytes, shared), clock)
}

fn found(snapshots: &Snapshots, owner: Owner, asked: &str) -> Option<String> {
    let snapshot = snapshots.find(owner, &url(asked))?;
    Some(snapshot.reading.text.clone())
}

#[test]
fn a_page_is_found_by_what_was_asked_and_by_where_it_is_and_by_its_owner_alone() {
    let (snapshots, clock) = snapshots(1_000_000);
    let (one, other) = (owner(), owner());
    snapshots.keep(
        one,
        snapshot("https://a.test/x#part", "https://b.test/", "text"),
    );
    for asked in [
        "https://a.test/x",
        "https://a.test/x#else",
        "https://b.test/",
    ] {
        assert_eq!(found(&snapshots, one, asked).as_deref(), Some("text"));
        for stranger in [other, (one.0, other.1), (other.0, one.1)] {
            assert_eq!(found(&snapshots, stranger, asked), None);
        }
    }
    assert_eq!(found(&snapshots, one, "https://a.test/x?y"), None);
    snapshots.keep(one, snapshot("https://b.test/", "https://b.test/", "new"));
    assert_eq!(
        found(&snapshots, one, "https://b.test/").as_deref(),
        Some("new")
    );
    assert_eq!(found(&snapshots, one, "https://a.test/x"), None);
    snapshots.keep(one, snapshot("https://a.test/x", "https://b.test/", "old"));
    snapshots.forget(one, &url("https://b.test/"));
    assert_eq!(found(&snapshots, one, "https://b.test/"), None);
    snapshots.keep(one, snapshot("https://a.test/x", "https://b.test/", "old"));
    clock.advance(LIFE);
    assert_eq!(found(&snapshots, one, "https://a.test/x"), None);
}

#[test]
fn whoever_fetches_most_loses_its_own_and_no_other_does() {
    let (snapshots, _) = snapshots(100_000);
    let (quiet, greedy) = (owner(), owner());
    snapshots.keep(
        quiet,
        snapshot("https://a.test/", "https://a.test/", "mine"),
    );
    for number in 0..200 {
        let asked = format!("https://b.test/{number}");
        snapshots.keep(greedy, snapshot(&asked, &asked, &"x".repeat(9_000)));
        let shelves = snapshots.shelves.lock().expect("a lock");
        assert!(shelves.bytes <= 100_000 && shelves.bytes_of(greedy) <= 25_000);
    }
    assert_eq!(
        found(&snapshots, quiet, "https://a.test/").as_deref(),
        Some("mine")
    );
    assert!(found(&snapshots, greedy, "https://b.test/199").is_some());
    // Many owners together stay within the whole, and what is too large for a share is not kept.
    for number in 0..50 {
        let asked = format!("https://c.test/{number}");
        snapshots.keep(owner(), snapshot(&asked, &asked, &"x".repeat(9_000)));
        assert!(snapshots.shelves.lock().expect("a lock").bytes <= 100_000);
    }
    assert_eq!(
        found(&snapshots, quiet, "https://a.test/").as_deref(),
        Some("mine")
    );
    snapshots.keep(
        quiet,
        snapshot("https://d.test/", "https://d.test/", &"x".repeat(25_000)),
    );
    assert_eq!(found(&snapshots, quiet, "https://d.test/"), None);
}
