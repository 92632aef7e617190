//! The same twenty servers in a Village: how long a turn takes to reach its Provider.

use std::{
    fs::File,
    process::Stdio,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use kernel::{ConversationId, SystemClock};
use serde_json::json;
use tempfile::TempDir;
use testkit::{
    port::HeldPort,
    provider::{Manner, ScriptedProvider, Step, Wire},
};

use crate::{
    crowd::urls,
    house::{OPERATOR_TOKEN, common},
    median, millis,
    process::{Process, address_in_log, program},
    upstream::Upstream,
};

/// Turns with warm caches.
const TURNS: usize = 40;
/// Turns before those: what failed is let alone by then.
const BEFORE: usize = 3;

/// What the Provider saw of a turn.
struct Seen {
    at: Instant,
    tools: usize,
    system: String,
}

/// A Village of one process.
struct Village {
    url: String,
    client: reqwest::Client,
    seen: Arc<Mutex<Option<Seen>>>,
    _provider: ScriptedProvider,
    _process: Process,
    _folder: TempDir,
}

pub(crate) async fn bench(upstream: &Upstream) {
    let refusing = HeldPort::new();
    let village = Village::start(upstream, &refusing).await;
    village.cli(&["npc", "create", "plain", "--model", "openai/scripted"]);
    village.cli(&["npc", "create", "crowded", "--model", "openai/scripted"]);
    let servers = urls(upstream, &refusing);
    for (name, url) in &servers {
        village.cli(&["mcp", "add", name, "http", url]);
        village.cli(&["grant", "add", "crowded", &format!("mcp:{name}")]);
    }
    village.turn("plain").await;
    let (cold, seen) = village.turn("crowded").await;
    for name in ["refusing", "hanging"] {
        assert!(seen.system.contains(name), "{}", seen.system);
    }
    for _ in 0..BEFORE {
        village.turn("crowded").await;
    }
    let (mut plain, mut crowded) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        plain.push(millis(village.turn("plain").await.0));
        crowded.push(millis(village.turn("crowded").await.0));
    }
    let (plain, middle) = (median(&mut plain), median(&mut crowded));
    println!(
        "\na turn's start with {} servers granted, until its Provider is asked, {} Tools offered",
        servers.len(),
        seen.tools
    );
    println!(
        "  cold: {:.0} ms; from warm caches: {middle:.2} ms p50 and {:.2} ms at worst of {TURNS} (aim: at most 50); without any server: {plain:.2} ms",
        millis(cold),
        crowded[TURNS - 1]
    );
}

impl Village {
    async fn start(upstream: &Upstream, refusing: &HeldPort) -> Self {
        let folder = TempDir::new().unwrap();
        let provider = ScriptedProvider::start_with(Wire::ChatCompletions, Manner::Forgetful).await;
        let seen = Arc::new(Mutex::new(None));
        let notes = Arc::clone(&seen);
        provider.answer_with(move |request| {
            *notes.lock().unwrap() = Some(Seen {
                at: Instant::now(),
                tools: request.tools().len(),
                system: request.system().to_owned(),
            });
            Step::new().text("Four.").finish("stop")
        });
        let mut command = program("agentsville");
        common(&mut command, upstream, refusing);
        let log = folder.path().join("log");
        let child = command
            .arg("serve")
            .env("AGENTSVILLE__DATA_DIR", folder.path().join("data"))
            .env("AGENTSVILLE__EDGE__LISTEN", "127.0.0.1:0")
            .env("AGENTSVILLE__EGRESS__LISTEN", "127.0.0.1:0")
            .env("AGENTSVILLE__EDGE__REQUESTS_PER_MINUTE", "100000000")
            .env("OPENAI_BASE_URL", provider.base_url())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut process = Process(child);
        let address = address_in_log(&mut process, &log, "HTTP listens").await;
        let village = Self {
            url: format!("http://{address}"),
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            seen,
            _provider: provider,
            _process: process,
            _folder: folder,
        };
        while village.client.get(&village.url).send().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        village
    }

    fn cli(&self, arguments: &[&str]) {
        let output = program("agentsville")
            .args(["--server", &self.url])
            .args(arguments)
            .env("AGENTSVILLE_TOKEN", OPERATOR_TOKEN)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }

    /// A turn in a Conversation of its own: how long it took to reach the Provider, and what that saw.
    async fn turn(&self, npc: &str) -> (Duration, Seen) {
        let id = ConversationId::mint(&SystemClock);
        let message = json!({"id": format!("m-{id}"), "role": "user", "parts": [{"type": "text", "text": "What time is it?"}]});
        let body = json!({"id": id.to_string(), "messages": [message], "trigger": "submit-message", "npc": npc});
        let start = Instant::now();
        let response = self
            .client
            .post(format!("{}/v1/chat", self.url))
            .bearer_auth(OPERATOR_TOKEN)
            .json(&body)
            .send()
            .await
            .unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        assert!(
            status.is_success() && text.ends_with("data: [DONE]\n\n"),
            "{status}: {text}"
        );
        let seen = self.seen.lock().unwrap().take().unwrap();
        (seen.at - start, seen)
    }
}
