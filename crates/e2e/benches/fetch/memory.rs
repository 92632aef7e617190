//! What a connection costs while nothing happens on it.

use std::time::Duration;

use bytes::Bytes;
use outbound::{Connector, Consumer, LaneBounds, Schemes, Target};

use crate::{
    client::{Protocol, connector, url},
    count,
    process::{own_memory, this_program},
    server::{Places, Server},
};

/// Connections that are kept.
const CONNECTIONS: usize = 500;

pub(crate) fn bench(server: &Server) {
    println!("\nmemory of a connection that a lane keeps, {CONNECTIONS} of them");
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let output = this_program()
            .arg("memory")
            .arg(url(&server.places, protocol))
            .arg(serde_json::to_string(&server.places).unwrap())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8(output.stdout).unwrap();
        let bytes: usize = text.trim().parse().unwrap();
        println!(
            "  {:<22}{:>12.1} kB",
            protocol.to_string(),
            count(bytes) / count(CONNECTIONS) / 1_000.0
        );
    }
}

/// The child's side: prints how much the process grew, in bytes.
pub(crate) async fn run(arguments: &[String]) {
    let [url, places] = arguments else {
        panic!("memory URL PLACES")
    };
    let places: Places = serde_json::from_str(places).unwrap();
    let connector = connector(&places);
    let warm = keep_one(&connector, url).await;
    let before = own_memory();
    let mut lanes = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        lanes.push(keep_one(&connector, url).await);
    }
    println!("{}", own_memory().saturating_sub(before));
    drop((warm, lanes));
}

/// A lane that keeps the connection of one request.
async fn keep_one(connector: &Connector, url: &str) -> outbound::Lane {
    let bounds = LaneBounds {
        idle_time: Duration::from_secs(30),
        idle_connections: 1,
    };
    let lane = connector.lane(Consumer::Fetch, bounds);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    let (url, target) = Target::parse(url, Schemes::Https).unwrap();
    let request = http::Request::get(url.path()).body(Bytes::new()).unwrap();
    let response = lane.request(&target, request, deadline).await.unwrap();
    response
        .into_body()
        .read_at_most(1_024 * 1_024, deadline)
        .await
        .unwrap();
    assert_eq!(lane.idle_connections(), 1);
    lane
}
