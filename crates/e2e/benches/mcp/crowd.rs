//! Twenty servers at once: one refuses connections, one never answers, one has 2,000 Tools.

use std::time::{Duration, Instant};

use proto::mcp::v1::WantedServer;
use testkit::port::HeldPort;

use crate::{
    client::Place,
    house::House,
    median, millis,
    single::{list_tools, wanted},
    upstream::{Era, Upstream},
};

/// What a turn gives its servers to answer.
const DEADLINE: Duration = Duration::from_secs(3);
/// Servers without trouble.
const SOUND: usize = 17;
/// Tools of each of them.
const TOOLS: usize = 5;
/// Tools of the large one, and how many of a server are offered unless a Grant chooses.
const MANY: usize = 2_000;
/// Lists from warm caches.
const WARM: usize = 200;

/// The URLs of all of them, by name.
pub(crate) fn urls(upstream: &Upstream, refusing: &HeldPort) -> Vec<(String, String)> {
    let mut urls: Vec<(String, String)> = (1..=SOUND)
        .zip(Era::BOTH.into_iter().cycle())
        .map(|(number, era)| (format!("sound {number}"), upstream.url(era, TOOLS)))
        .collect();
    urls.push(("large".to_owned(), upstream.url(Era::Modern, MANY)));
    let refusing = format!("http://{}/", refusing.on_loopback());
    urls.push(("refusing".to_owned(), refusing));
    urls.push(("hanging".to_owned(), upstream.hanging()));
    urls
}

pub(crate) async fn bench(upstream: &Upstream, house: &House) {
    let mut places = Vec::new();
    for (_, url) in urls(upstream, &house.refusing) {
        places.push(house.register(&url).await);
    }
    println!(
        "\nthe Tools of {} servers, of which one refuses, one hangs and one has {MANY} Tools; a deadline of {} s",
        places.len(),
        DEADLINE.as_secs()
    );
    let servers: Vec<WantedServer> = places
        .iter()
        .map(|place| WantedServer {
            limit: 0,
            ..wanted(place)
        })
        .collect();
    println!("  cold: {:.0} ms", list(&places[0], &servers).await);
    println!(
        "  cold, and none of them fails: {:.0} ms",
        without_trouble(upstream, house).await
    );
    let second = list(&places[0], &servers).await;
    let mut warm = Vec::new();
    for _ in 0..WARM {
        warm.push(list(&places[0], &servers).await);
    }
    let middle = median(&mut warm);
    println!(
        "  again: {second:.1} ms; from warm caches: {middle:.2} ms p50 and {:.2} ms at worst of {WARM} (aim: at most 50)",
        warm[WARM - 1]
    );
}

/// Lists all of them, and says how long that took in milliseconds.
async fn list(place: &Place, servers: &[WantedServer]) -> f64 {
    let start = Instant::now();
    let came = list_tools(place, servers, DEADLINE).await;
    let took = millis(start.elapsed());
    let reached = |tools: usize| {
        came.iter()
            .filter(|server| server.tools.len() == tools)
            .count()
    };
    assert_eq!((came.len(), reached(TOOLS)), (SOUND + 3, SOUND));
    let [large, refusing, hanging] = &came[SOUND..] else {
        panic!("{} servers", came.len())
    };
    assert!(!large.tools.is_empty() && large.beyond_limit > 0);
    assert!(!refusing.unavailable.is_empty(), "{refusing:?}");
    assert!(!hanging.unavailable.is_empty(), "{hanging:?}");
    took
}

/// The same number of servers, all sound and new.
async fn without_trouble(upstream: &Upstream, house: &House) -> f64 {
    let mut places = Vec::new();
    for era in Era::BOTH.into_iter().cycle().take(SOUND + 3) {
        places.push(house.register(&upstream.url(era, TOOLS)).await);
    }
    let servers: Vec<WantedServer> = places.iter().map(wanted).collect();
    let start = Instant::now();
    let came = list_tools(&places[0], &servers, DEADLINE).await;
    let took = millis(start.elapsed());
    assert!(came.iter().all(|server| server.tools.len() == TOOLS));
    took
}
