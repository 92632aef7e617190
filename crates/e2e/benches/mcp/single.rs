//! What a stream of calls does not show: the first contact, a list, a session that expired.

use std::time::{Duration, Instant};

use proto::mcp::v1::{ListToolsRequest, ServerTools, WantedServer};

use crate::{
    client::{Client, Place, Way},
    house::House,
    median, millis,
    upstream::{Era, Upstream},
};

/// How often each is done.
const TIMES: usize = 25;
/// Tools of the list.
const TOOLS: usize = 200;
/// Bytes of a long result: most of what is kept of one.
const LONG: usize = 1_000_000;
/// All of a list comes within it.
const DEADLINE: Duration = Duration::from_secs(10);

pub(crate) async fn bench(upstream: &Upstream, house: &House) {
    println!("\none after the other, ms p50 of {TIMES}");
    println!(
        "  {:<44}{:>10}{:>10}{:>12}",
        "", "direct", "gateway", "difference"
    );
    for era in Era::BOTH {
        first_contact(upstream, house, era).await;
    }
    for era in Era::BOTH {
        list(upstream, house, era).await;
    }
    long_result(upstream, house).await;
    expiry(upstream, house).await;
}

/// From nothing to the result of a first call. The gateway learns the server's configuration and era on the way; the direct client is told.
async fn first_contact(upstream: &Upstream, house: &House, era: Era) {
    let (mut direct, mut gateway) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let url = upstream.url(era, 1);
        let place = house.register(&url).await;
        for (way, took) in [
            (Way::Http { url, era }, &mut direct),
            (Way::Gateway(place), &mut gateway),
        ] {
            let start = Instant::now();
            Client::of(&way).await.call().await;
            took.push(millis(start.elapsed()));
        }
    }
    row(
        &format!("first contact and call, {}", era.name()),
        &mut direct,
        &mut gateway,
    );
}

/// A list of many Tools, read anew and from the cache.
async fn list(upstream: &Upstream, house: &House, era: Era) {
    let url = upstream.url(era, TOOLS);
    let client = Client::of(&Way::Http {
        url: url.clone(),
        era,
    })
    .await;
    let (mut direct, mut first, mut cached) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let start = Instant::now();
        assert_eq!(client.list().await, TOOLS);
        direct.push(millis(start.elapsed()));

        let place = house.register(&url).await;
        let start = Instant::now();
        let came = list_tools(&place, &[wanted(&place)], DEADLINE).await;
        first.push(millis(start.elapsed()));
        assert_eq!((came[0].tools.len(), came[0].cached), (TOOLS, false));

        let start = Instant::now();
        let came = list_tools(&place, &[wanted(&place)], DEADLINE).await;
        cached.push(millis(start.elapsed()));
        assert_eq!((came[0].tools.len(), came[0].cached), (TOOLS, true));
    }
    let name = era.name();
    row(
        &format!("list of {TOOLS} Tools, {name}; the gateway connects"),
        &mut direct.clone(),
        &mut first,
    );
    row(
        &format!("list of {TOOLS} Tools, {name}; the gateway knows it"),
        &mut direct,
        &mut cached,
    );
}

/// A call whose result is as long as results may be before they are cut.
async fn long_result(upstream: &Upstream, house: &House) {
    let url = upstream.long_url(Era::Modern, LONG);
    let place = house.register(&url).await;
    let era = Era::Modern;
    let (mut took, mut ways) = ([Vec::new(), Vec::new()], Vec::new());
    for way in [Way::Http { url, era }, Way::Gateway(place)] {
        let client = Client::of(&way).await;
        client.call().await;
        ways.push(client);
    }
    for _ in 0..TIMES {
        for (client, took) in ways.iter().zip(&mut took) {
            let start = Instant::now();
            client.call().await;
            took.push(millis(start.elapsed()));
        }
    }
    let [direct, gateway] = &mut took;
    row("call with a result of 1 MB, modern", direct, gateway);
}

/// The call that finds its session gone.
async fn expiry(upstream: &Upstream, house: &House) {
    let url = upstream.url(Era::Legacy, 1);
    let place = house.register(&url).await;
    let (mut took, mut ways) = ([Vec::new(), Vec::new()], Vec::new());
    for way in [
        Way::Http {
            url,
            era: Era::Legacy,
        },
        Way::Gateway(place),
    ] {
        ways.push(Client::of(&way).await);
    }
    for _ in 0..TIMES {
        for (client, took) in ways.iter().zip(&mut took) {
            client.call().await;
            upstream.expire().await;
            let start = Instant::now();
            client.call().await;
            took.push(millis(start.elapsed()));
        }
    }
    let [direct, gateway] = &mut took;
    row("call after its session expired, legacy", direct, gateway);
}

/// A server whose Tools are wanted, all of them.
pub(crate) fn wanted(place: &Place) -> WantedServer {
    WantedServer {
        server_id: place.server_id.clone(),
        generation: place.generation,
        tools: Vec::new(),
        limit: 4_096,
    }
}

/// Lists the Tools of these servers.
pub(crate) async fn list_tools(
    place: &Place,
    servers: &[WantedServer],
    deadline: Duration,
) -> Vec<ServerTools> {
    let request = ListToolsRequest {
        servers: servers.to_vec(),
    };
    let answer = place.client(deadline).list_tools(request).await.unwrap();
    answer.into_inner().servers
}

fn row(what: &str, direct: &mut [f64], gateway: &mut [f64]) {
    let (direct, gateway) = (median(direct), median(gateway));
    println!(
        "  {what:<44}{direct:>10.2}{gateway:>10.2}{:>12.2}",
        gateway - direct
    );
}
