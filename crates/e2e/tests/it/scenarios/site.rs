//! A Village with a web server that its NPCs may read.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::{
    dns::ScriptedDns,
    origin::{Authority, TlsOrigin},
    provider::Step,
};

use crate::village::{OPERATOR_TOKEN, Options, Shape, Village};

/// Names of the one web server that NPCs may reach.
pub(super) const NAMES: [&str; 2] = ["pages.example.test", "other.example.test"];

/// A Village, and a web server that its NPCs may read.
pub(super) struct Site {
    pub(super) village: Village,
    pub(super) origin: TlsOrigin,
    _dns: ScriptedDns,
    _authority: Authority,
}

impl Site {
    pub(super) async fn start(shape: Shape) -> Self {
        let authority = Authority::new();
        let origin = TlsOrigin::start(&authority, &NAMES).await;
        let dns = ScriptedDns::start().await;
        let port = origin.port();
        let allow = NAMES.map(|name| {
            dns.host(name, &["127.0.0.1"]);
            format!("{{ to = \"{name}:{port}\", for = [\"fetch\"] }}")
        });
        let settings = vec![
            (
                "AGENTSVILLE__OUTBOUND__CA_FILE",
                authority.pem_path().display().to_string(),
            ),
            (
                "AGENTSVILLE__OUTBOUND__NAMESERVER",
                dns.address().to_string(),
            ),
            (
                "AGENTSVILLE__OUTBOUND__ALLOW",
                format!("[{}]", allow.join(", ")),
            ),
        ];
        Self {
            village: Village::start_with(shape, Options { settings }).await,
            origin,
            _dns: dns,
            _authority: authority,
        }
    }

    pub(super) fn url(&self, path: &str) -> String {
        self.url_at(NAMES[0], path)
    }

    pub(super) fn url_at(&self, host: &str, path: &str) -> String {
        format!("https://{host}:{}{path}", self.origin.port())
    }

    /// An NPC that can read pages, with what else its making takes.
    pub(super) fn reader(&self, name: &str, arguments: &[&str]) {
        let create = ["npc", "create", name, "--model", "openai/scripted"];
        self.village.cli_json(&[&create, arguments].concat());
        self.village
            .cli_json(&["grant", "add", name, "tool:fetch_url"]);
    }

    /// Has the Operator's NPC make these calls of `fetch_url` in one step, and returns what the Provider is told of each.
    pub(super) async fn read(&self, npc: &str, conversation: &str, calls: &[Value]) -> Vec<String> {
        self.read_as(OPERATOR_TOKEN, npc, conversation, calls).await
    }

    /// The same for whoever holds the token.
    pub(super) async fn read_as(
        &self,
        token: &str,
        npc: &str,
        conversation: &str,
        calls: &[Value],
    ) -> Vec<String> {
        let step = calls
            .iter()
            .fold(Step::new(), |step, call| step.call("fetch_url", call));
        let provider = &self.village.chat_completions;
        provider.script([step, Step::new().text("Read.")]);
        let said = json!({"id": format!("{conversation}-said"), "role": "user", "parts": [{"type": "text", "text": "Read."}]});
        let body = json!({"id": conversation, "messages": [said], "trigger": "submit-message", "npc": npc});
        let request = self.village.request_as(token, Method::POST, "/v1/chat");
        let response = request.json(&body).send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        assert_eq!(status, 200, "{text}");
        let request = provider.requests().pop().unwrap();
        let told: Vec<String> = request.body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|message| message["role"] == "tool")
            .map(|message| message["content"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(told.len(), calls.len(), "{told:#?}");
        told
    }

    /// The Tool calls of a Conversation's last Message, as a client reads them back.
    pub(super) async fn recorded(&self, conversation: &str) -> Vec<Value> {
        let shown = self.village.conversation(conversation).await;
        let messages = shown["messages"].as_array().unwrap();
        let parts = messages.last().unwrap()["parts"].as_array().unwrap();
        parts
            .iter()
            .filter(|part| part["type"] == "dynamic-tool")
            .cloned()
            .collect()
    }
}
