//! A page end to end: through the fetch-proxy's gRPC, and through `mcp-server-fetch` over stdio.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    time::Instant,
};

use kernel::{Caller, Clock, NpcId, PlayerId, ServiceName, SystemClock};
use proto::fetch::v1::{
    FetchRequest, fetch_response::Outcome, fetch_service_client::FetchServiceClient,
};
use runtime::{Issuer, Peer, SigningKey, Transport};
use serde_json::{Value, json};
use testkit::port::listener_in_log;

use crate::{
    count, median, millis,
    process::{Process, program, workspace},
    server::{COPIES, Server},
};

/// Pages of ours in one round.
const PAGES: usize = 100;
/// Pages of the peer in one round; each takes a second or more.
const PEER_PAGES: usize = 3;

pub(crate) async fn bench(server: &Server, rounds: usize) {
    let proxy = FetchProxy::start(server);
    let mut peer = FetchServer::start(server);
    println!(
        "\nan HTML page end to end, one after the other: fetch-proxy over gRPC, mcp-server-fetch over stdio\n{rounds} rounds in turns; medians"
    );
    println!(
        "  {:<22}{:>12}{:>20}{:>10}",
        "", "fetch-proxy", "mcp-server-fetch", "faster"
    );
    let mut copies = (0..COPIES).cycle();
    for (page, size) in [("small", "2 kB"), ("large", "200 kB")] {
        let mut url = || {
            let copy = copies.next().unwrap();
            format!("https://127.0.0.1:{}/{page}?{copy}", server.places.http1)
        };
        proxy.fetch(&url()).await;
        peer.fetch(&url());
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            for _ in 0..PAGES {
                let (url, start) = (url(), Instant::now());
                proxy.fetch(&url).await;
                ours.push(millis(start.elapsed()));
            }
            for _ in 0..PEER_PAGES {
                let (url, start) = (url(), Instant::now());
                peer.fetch(&url);
                theirs.push(millis(start.elapsed()));
            }
        }
        let (ours, theirs) = (median(&mut ours), median(&mut theirs));
        println!(
            "  {:<22}{ours:>12.2}{theirs:>20.2}{:>9.0}x",
            format!("{size}, ms p50"),
            theirs / ours
        );
    }
    println!(
        "  pages a round: {PAGES} and {PEER_PAGES}; every page has a URL of its own ({:.0} of them)",
        count(COPIES)
    );
}

/// The fetch-proxy's own process, for which the server's address is exempt.
struct FetchProxy {
    peer: Peer,
    npc: Caller,
    _process: Process,
}

impl FetchProxy {
    fn start(server: &Server) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let issuer = Arc::new(Issuer::named(
            "bench",
            SigningKey::generate().unwrap(),
            clock,
        ));
        let places = &server.places;
        let mut child = program("fetch-proxy")
            .env("AGENTSVILLE__GRPC__LISTEN", "127.0.0.1:0")
            .env("AGENTSVILLE__ADMIN__LISTEN", "127.0.0.1:0")
            .env("AGENTSVILLE__EGRESS__LISTEN", "127.0.0.1:0")
            .env(
                "AGENTSVILLE__KEYS__TRUST__BENCH__PUBLIC_KEY",
                issuer.public_key(),
            )
            .env("AGENTSVILLE__KEYS__TRUST__BENCH__MINTS", r#"["npc"]"#)
            .env("AGENTSVILLE__OUTBOUND__NAMESERVER", places.dns.to_string())
            .env("AGENTSVILLE__OUTBOUND__CA_FILE", &places.authority)
            .env(
                "AGENTSVILLE__OUTBOUND__ALLOW",
                format!(
                    r#"[{{ to = "127.0.0.1:{}", for = ["fetch"] }}]"#,
                    places.http1
                ),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = child.stderr.take().unwrap();
        let process = Process(child);
        let mut log = BufReader::new(log).lines().map_while(Result::ok);
        let address = log
            .find_map(|line| listener_in_log(&line, "gRPC is listening"))
            .unwrap();
        // A pipe that nobody reads would stop it in the end.
        std::thread::spawn(move || log.for_each(drop));
        let transport = Transport::remote(&format!("http://{address}"), None).unwrap();
        Self {
            peer: Peer::new(transport, issuer, ServiceName::FetchProxy),
            npc: Caller::Npc {
                npc: NpcId::mint(&SystemClock),
                player: PlayerId::mint(&SystemClock),
            },
            _process: process,
        }
    }

    async fn fetch(&self, url: &str) {
        let request = FetchRequest {
            url: url.to_owned(),
            ..FetchRequest::default()
        };
        let response = FetchServiceClient::new(self.peer.as_caller(&self.npc))
            .fetch(request)
            .await
            .unwrap();
        match response.into_inner().outcome.unwrap() {
            Outcome::Page(page) => assert!(page.text.contains("35 degrees"), "{page:?}"),
            Outcome::Refusal(refusal) => panic!("{refusal:?}"),
        }
    }
}

/// The peer: an MCP server that fetches pages, over stdio (modelcontextprotocol.io, protocol 2025-06-18).
struct FetchServer {
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    next_id: u64,
    _process: Process,
}

impl FetchServer {
    fn start(server: &Server) -> Self {
        let program = workspace().join(".tools/fetch-peer/bin/mcp-server-fetch");
        assert!(
            program.exists(),
            "{} is missing: run scripts/setup-fetch-peer",
            program.display()
        );
        let mut child = Command::new(program)
            .args(["--ignore-robots-txt", "--allow-private-ips"])
            .env("SSL_CERT_FILE", &server.places.authority)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut peer = Self {
            requests: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            next_id: 0,
            _process: Process(child),
        };
        peer.call(
            "initialize",
            &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}),
        );
        peer.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        peer
    }

    fn fetch(&mut self, url: &str) {
        let result = self.call(
            "tools/call",
            &json!({"name": "fetch", "arguments": {"url": url}}),
        );
        let text = result.to_string();
        assert!(
            result["isError"] != json!(true) && text.contains("35 degrees"),
            "{text}"
        );
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            let read = self.answers.read_line(&mut line).unwrap();
            assert!(read > 0, "mcp-server-fetch ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == json!(id) {
                assert!(message["error"].is_null(), "{message}");
                return message["result"].clone();
            }
        }
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.requests, "{message}").unwrap();
        self.requests.flush().unwrap();
    }
}
