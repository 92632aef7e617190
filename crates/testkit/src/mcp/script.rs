//! What a scripted MCP Server says: messages in, acts out. It knows nothing of sockets, so that every transport can speak it.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each part of a scripted server looks for the faults that are its own"
)]

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::tools;

/// The version of the protocol that has no sessions.
pub const MODERN: &str = "2026-07-28";
/// The newest version that begins with `initialize`.
pub const LEGACY: &str = "2025-11-25";

/// Which eras of the protocol a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eras {
    /// `initialize` alone.
    Legacy,
    /// `server/discover` alone.
    Modern,
    /// Both.
    Both,
}

/// What a server does wrong, or oddly. What is said of calls holds for `tools/call`.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// Lists this besides the Tools, as it is.
    ListsToo(Value),
    /// Lists so many more Tools, `tool_0` and so on.
    ManyTools(usize),
    /// Lists so many Tools a page.
    PagesOf(usize),
    /// Every page of the list names the same next cursor.
    CursorNeverAdvances,
    /// Every page names an empty next cursor.
    CursorIsEmpty,
    /// An empty cursor leads to the second of two pages, and there the list ends.
    EmptyCursorOnce,
    /// Answers `tools/list` with this.
    ListIs(Value),
    /// Answers calls with this result.
    ResultIs(Value),
    /// Answers requests of this method with this result.
    AnswersWith {
        /// The method of the requests.
        method: &'static str,
        /// The result.
        result: Value,
    },
    /// Answers requests of this method with this error.
    ErrorIs {
        /// The method of the requests.
        method: &'static str,
        /// The error's code.
        code: i64,
        /// Its message.
        message: String,
    },
    /// Says this text instead of an answer to requests of this method; it need be no JSON.
    SaysInstead {
        /// The method of the requests.
        method: &'static str,
        /// What it says.
        text: String,
    },
    /// Says this text, on a line of its own, before each answer. For stdio.
    SaysBefore(String),
    /// Takes requests of this method and never answers them.
    NeverAnswers(&'static str),
    /// Answers requests of this method so much later.
    AnswersAfter(&'static str, Duration),
    /// Breaks off instead of an answer to requests of this method: the stream ends, the process exits.
    BreaksOff(&'static str),
    /// Answers requests of this method for an id that nobody gave.
    AnswersForAnother(&'static str),
    /// Asks the client this (a method and its params) before it answers a call, and waits for the reply.
    AsksFirst(&'static str, Value),
    /// Asks the client so many times without waiting, before it answers a call.
    AsksOften(usize),
    /// Sends so many log messages before it answers a call.
    FloodOfNotifications(usize),
    /// Says that its list of Tools changed, before it answers `initialize`.
    NotifiesBeforeInitialize,
    /// Says that its list of Tools changed, after each call.
    ListChangesAfterCalls,
    /// Answers calls with so many bytes of text.
    HugeResult(usize),
    /// A fault of the transport; see there.
    Http(super::HttpFault),
}

/// What happens next on the way to the client.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// A message.
    Say(Value),
    /// A text that need be no message.
    SayText(String),
    /// Time passes.
    Pause(Duration),
    /// Waits for the client's answer to the server's request of this id.
    Await(String),
    /// Nothing ever comes any more.
    Hang,
    /// The stream, or the process, ends.
    BreakOff,
}

/// A server's script, and what it has seen. Shared by all connections.
#[derive(Debug)]
pub struct Script {
    eras: Eras,
    faults: Mutex<Vec<Fault>>,
    seen: Mutex<Vec<Value>>,
    next_ask: AtomicUsize,
}

impl Script {
    /// A server without faults.
    pub fn new(eras: Eras) -> Arc<Self> {
        Self::with(eras, [])
    }

    /// A server with these faults.
    pub fn with(eras: Eras, faults: impl IntoIterator<Item = Fault>) -> Arc<Self> {
        Arc::new(Self {
            eras,
            faults: Mutex::new(faults.into_iter().collect()),
            seen: Mutex::default(),
            next_ask: AtomicUsize::default(),
        })
    }

    /// From now on it has these faults and no others.
    pub fn set_faults(&self, faults: impl IntoIterator<Item = Fault>) {
        *lock(&self.faults) = faults.into_iter().collect();
    }

    /// The faults.
    pub fn faults(&self) -> Vec<Fault> {
        lock(&self.faults).clone()
    }

    /// Which eras it speaks.
    pub fn eras(&self) -> Eras {
        self.eras
    }

    /// Every message that came, in order.
    pub fn seen(&self) -> Vec<Value> {
        lock(&self.seen).clone()
    }

    /// How many messages of this method came.
    pub fn count(&self, method: &str) -> usize {
        lock(&self.seen)
            .iter()
            .filter(|message| message["method"] == method)
            .count()
    }

    /// What clients answered to the server's own requests.
    pub fn replies(&self) -> Vec<Value> {
        lock(&self.seen)
            .iter()
            .filter(|message| message.get("method").is_none())
            .cloned()
            .collect()
    }

    /// One client's side of it: a session, a process.
    pub fn conversation(self: &Arc<Self>) -> Conversation {
        Conversation {
            script: Arc::clone(self),
            calls: AtomicUsize::default(),
            answered: Mutex::default(),
            answer_came: Notify::new(),
        }
    }

    fn find<T>(&self, pick: impl FnMut(&Fault) -> Option<T>) -> Option<T> {
        lock(&self.faults).iter().find_map(pick)
    }

    fn has(&self, fault: &Fault) -> bool {
        lock(&self.faults).contains(fault)
    }
}

/// One client's conversation with the server. What the server keeps for a client is kept here.
#[derive(Debug)]
pub struct Conversation {
    script: Arc<Script>,
    calls: AtomicUsize,
    answered: Mutex<HashSet<String>>,
    answer_came: Notify,
}

impl Conversation {
    /// The script.
    pub fn script(&self) -> &Arc<Script> {
        &self.script
    }

    /// Takes a message and says what happens then. Nothing, for notifications and answers.
    pub fn receive(&self, message: &Value) -> Vec<Act> {
        lock(&self.script.seen).push(message.clone());
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
            if let Some(id) = message["id"].as_str() {
                lock(&self.answered).insert(id.to_owned());
                self.answer_came.notify_waiters();
            }
            return Vec::new();
        };
        self.acts(method, id, message)
    }

    /// Waits until the client answered the server's request of this id.
    pub async fn answered(&self, id: &str) {
        loop {
            let came = self.answer_came.notified();
            if lock(&self.answered).contains(id) {
                return;
            }
            came.await;
        }
    }

    fn acts(&self, method: &str, id: &Value, message: &Value) -> Vec<Act> {
        let script = &self.script;
        let mut acts = self.before(method);
        let of = |wanted: &str| wanted == method;
        let odd = script.find(|fault| match fault {
            Fault::NeverAnswers(wanted) if of(wanted) => Some(Act::Hang),
            Fault::BreaksOff(wanted) if of(wanted) => Some(Act::BreakOff),
            Fault::SaysInstead {
                method: wanted,
                text,
            } if of(wanted) => Some(Act::SayText(text.clone())),
            Fault::AnswersForAnother(wanted) if of(wanted) => Some(Act::Say(json!({
                "jsonrpc": "2.0", "id": 987_654_321, "result": {"content": []}
            }))),
            Fault::ErrorIs {
                method: wanted,
                code,
                message,
            } if of(wanted) => Some(Act::Say(error(id, *code, message))),
            _ => None,
        });
        if let Some(odd) = odd {
            acts.push(odd);
            return acts;
        }
        let told = script.find(|fault| match fault {
            Fault::AnswersWith {
                method: wanted,
                result,
            } if of(wanted) => Some(Ok(result.clone())),
            _ => None,
        });
        let answer = match told.unwrap_or_else(|| self.answer(method, message)) {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, sentence)) => error(id, code, &sentence),
        };
        if method == "tools/call" {
            acts.extend(tools::meanwhile(message));
        }
        acts.push(Act::Say(answer));
        if of("tools/call") && script.has(&Fault::ListChangesAfterCalls) {
            acts.push(Act::Say(list_changed()));
        }
        acts
    }

    /// What comes before the answer.
    fn before(&self, method: &str) -> Vec<Act> {
        let mut acts = Vec::new();
        for fault in self.script.faults() {
            match fault {
                Fault::SaysBefore(text) => acts.push(Act::SayText(text)),
                Fault::AnswersAfter(wanted, time) if wanted == method => {
                    acts.push(Act::Pause(time));
                }
                Fault::NotifiesBeforeInitialize if method == "initialize" => {
                    acts.push(Act::Say(list_changed()));
                }
                Fault::FloodOfNotifications(count) if method == "tools/call" => {
                    acts.extend((0..count).map(|n| {
                        Act::Say(json!({
                            "jsonrpc": "2.0", "method": "notifications/message",
                            "params": {"level": "info", "data": format!("line {n}")}
                        }))
                    }));
                }
                Fault::AsksFirst(asked, params) if method == "tools/call" => {
                    let id = self.next_ask();
                    acts.push(Act::Say(json!({
                        "jsonrpc": "2.0", "id": id, "method": asked, "params": params
                    })));
                    acts.push(Act::Await(id));
                }
                Fault::AsksOften(count) if method == "tools/call" => {
                    acts.extend((0..count).map(|_| {
                        Act::Say(json!({
                            "jsonrpc": "2.0", "id": self.next_ask(), "method": "ping"
                        }))
                    }));
                }
                _ => {}
            }
        }
        acts
    }

    fn next_ask(&self) -> String {
        let number = self.script.next_ask.fetch_add(1, Ordering::SeqCst);
        format!("ask-{number}")
    }

    fn answer(&self, method: &str, message: &Value) -> Result<Value, (i64, String)> {
        let params = &message["params"];
        let is_modern = params["_meta"]["io.modelcontextprotocol/protocolVersion"] == MODERN;
        let eras = self.script.eras;
        let mut result = match method {
            "initialize" if eras != Eras::Modern => Ok(initialized(params)),
            "server/discover" if eras != Eras::Legacy => Ok(discovered()),
            "ping" => Ok(json!({})),
            "tools/list" => Ok(self.list(params)),
            "tools/call" => self.call(params),
            _ => Err((-32_601, format!("Method not found: {method}"))),
        }?;
        if is_modern && let Some(result) = result.as_object_mut() {
            result
                .entry("resultType")
                .or_insert_with(|| json!("complete"));
        }
        Ok(result)
    }

    fn list(&self, params: &Value) -> Value {
        let script = &self.script;
        if let Some(list) = script.find(|fault| match fault {
            Fault::ListIs(list) => Some(list.clone()),
            _ => None,
        }) {
            return list;
        }
        let mut listed = tools::all();
        let mut page = usize::MAX;
        for fault in script.faults() {
            match fault {
                Fault::ListsToo(tool) => listed.push(tool),
                Fault::ManyTools(count) => {
                    listed.extend((0..count).map(|n| tools::plain(&format!("tool_{n}"))));
                }
                Fault::PagesOf(count) => page = count.max(1),
                _ => {}
            }
        }
        let cursor = params["cursor"].as_str();
        if script.has(&Fault::CursorNeverAdvances) {
            return json!({"tools": listed, "nextCursor": "again"});
        }
        if script.has(&Fault::CursorIsEmpty) {
            return json!({"tools": listed, "nextCursor": ""});
        }
        if script.has(&Fault::EmptyCursorOnce) {
            let half = listed.len() / 2;
            return match cursor {
                None => json!({"tools": listed[..half], "nextCursor": ""}),
                Some(_) => json!({"tools": listed[half..]}),
            };
        }
        let start = cursor
            .and_then(|cursor| cursor.parse().ok())
            .unwrap_or(0)
            .min(listed.len());
        let end = start.saturating_add(page).min(listed.len());
        let mut result = json!({"tools": listed[start..end]});
        if end < listed.len() {
            result["nextCursor"] = json!(end.to_string());
        }
        result
    }

    fn call(&self, params: &Value) -> Result<Value, (i64, String)> {
        let calls = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let odd = self.script.find(|fault| match fault {
            Fault::ResultIs(result) => Some(result.clone()),
            Fault::HugeResult(bytes) => {
                Some(json!({"content": [{"type": "text", "text": "x".repeat(*bytes)}]}))
            }
            _ => None,
        });
        match odd {
            Some(result) => Ok(result),
            None => tools::call(params, calls),
        }
    }
}

fn initialized(params: &Value) -> Value {
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    let version = match asked {
        "2024-11-05" | "2025-03-26" | "2025-06-18" => asked,
        _ => LEGACY,
    };
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": true}, "logging": {}},
        "serverInfo": {"name": "scripted", "version": "1.0.0"},
        "instructions": "Use echo to hear yourself."
    })
}

fn discovered() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": [MODERN],
        "capabilities": {"tools": {"listChanged": true}},
        "instructions": "Use echo to hear yourself.",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1.0.0"}}
    })
}

fn list_changed() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
}

fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(conversation: &Conversation, method: &str, params: &Value) -> Vec<Act> {
        conversation
            .receive(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
    }

    fn result(acts: &[Act]) -> Value {
        match acts.last() {
            Some(Act::Say(message)) => message["result"].clone(),
            other => panic!("no answer: {other:?}"),
        }
    }

    #[test]
    fn pages_follow_their_cursors_to_the_end() {
        let script = Script::with(Eras::Legacy, [Fault::PagesOf(5), Fault::ManyTools(6)]);
        let conversation = script.conversation();
        let mut names = 0;
        let mut params = json!({});
        loop {
            let page = result(&ask(&conversation, "tools/list", &params));
            names += page["tools"].as_array().map_or(0, Vec::len);
            match page["nextCursor"].as_str() {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => break,
            }
        }
        assert_eq!(names, tools::all().len() + 6);
    }

    #[test]
    fn what_a_server_keeps_is_kept_for_one_conversation() {
        let script = Script::new(Eras::Legacy);
        let (one, other) = (script.conversation(), script.conversation());
        let count = |conversation: &Conversation| {
            let params = json!({"name": "count", "arguments": {}});
            result(&ask(conversation, "tools/call", &params))["content"][0]["text"].clone()
        };
        assert_eq!((count(&one), count(&one)), (json!("1"), json!("2")));
        assert_eq!(count(&other), json!("1"));
    }

    #[test]
    fn each_era_is_refused_by_a_server_of_the_other() {
        for (eras, method) in [
            (Eras::Legacy, "server/discover"),
            (Eras::Modern, "initialize"),
        ] {
            let acts = ask(&Script::new(eras).conversation(), method, &json!({}));
            let [Act::Say(message)] = acts.as_slice() else {
                panic!("one answer: {acts:?}");
            };
            assert_eq!(message["error"]["code"], json!(-32_601), "{method}");
        }
    }

    #[tokio::test]
    async fn a_question_waits_for_its_answer() {
        let fault = Fault::AsksFirst("elicitation/create", json!({}));
        let script = Script::with(Eras::Legacy, [fault]);
        let conversation = script.conversation();
        let params = json!({"name": "echo", "arguments": {"text": "a"}});
        let acts = ask(&conversation, "tools/call", &params);
        let Some(Act::Await(id)) = acts.get(1) else {
            panic!("a wait: {acts:?}");
        };
        conversation.receive(&json!({"jsonrpc": "2.0", "id": id, "result": {}}));
        conversation.answered(id).await;
        assert_eq!(script.replies().len(), 1);
    }
}
