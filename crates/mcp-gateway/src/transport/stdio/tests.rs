//! Real processes, under real supervisors.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use kernel::Secret;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use serde_json::{Value, json};
use vault::Vault;

use super::*;
use crate::{FailureCode, SealedMap};

/// How long anything may take; nothing needs this long.
const LONG: Duration = Duration::from_mins(1);
/// How long servers may take to end, in tests whose servers do not end by themselves.
const SHORT: Graces = Graces {
    end_of_input: Duration::from_millis(50),
    terminated: Duration::from_millis(50),
};

/// `examples/stdio_peer.rs`, which cargo builds with the tests.
fn peer() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let target = tests.parent().and_then(|deps| deps.parent()).unwrap();
    let program = target.join("examples/stdio_peer");
    assert!(
        program.exists(),
        "{} is not there; build it with `cargo build -p mcp-gateway --examples`",
        program.display()
    );
    program
}

fn command(command: &str, arguments: &[&str]) -> StdioEndpoint {
    StdioEndpoint {
        command: command.to_owned(),
        arguments: arguments.iter().map(|&text| text.to_owned()).collect(),
        working_directory: String::new(),
        environment: sealed(&[]),
    }
}

fn shell(text: &str) -> StdioEndpoint {
    command("/bin/sh", &["-c", text])
}

fn scripted(words: &[&str]) -> StdioEndpoint {
    command(peer().to_str().unwrap(), words)
}

fn sealed(values: &[(&str, &str)]) -> SealedMap {
    let root = Secret::new("a root secret of a test, long enough for it");
    let vault = Arc::new(Vault::new(&root).unwrap());
    let values: BTreeMap<String, String> = values
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    SealedMap::seal(&vault, "environment", &values).unwrap()
}

/// What connections of a test share.
struct Bench {
    config: Config,
    graces: Graces,
    tracker: TaskTracker,
}

/// A connection, and what is known of it.
struct Connected {
    transport: StdioTransport,
    inbound: Inbound,
    trouble: Trouble,
}

impl Bench {
    fn new() -> Self {
        Self {
            config: Config::default(),
            graces: SHORT,
            tracker: TaskTracker::new(),
        }
    }

    async fn start(&self, endpoint: &StdioEndpoint) -> Result<Connected, Failure> {
        let (inbound, trouble) = (Inbound::default(), Trouble::default());
        let with = Start {
            program: &peer(),
            config: &self.config,
            inbound: &inbound,
            trouble: &trouble,
            tracker: &self.tracker,
        };
        let transport = start_within(endpoint, with, self.graces).await?;
        Ok(Connected {
            transport,
            inbound,
            trouble,
        })
    }

    async fn connect(&self, endpoint: &StdioEndpoint) -> Connected {
        self.start(endpoint).await.unwrap()
    }

    /// Returns when every task of every connection has ended.
    async fn quiet(&self) {
        self.tracker.close();
        timeout(LONG, self.tracker.wait()).await.unwrap();
    }
}

impl Connected {
    fn post(
        &mut self,
        id: i64,
        method: &str,
        params: &Value,
    ) -> BoxFuture<'static, Result<(), Failure>> {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let message: ClientJsonRpcMessage = serde_json::from_value(message).unwrap();
        Box::pin(self.transport.send(message))
    }

    async fn ask(&mut self, id: i64, method: &str, params: &Value) -> Result<(), Failure> {
        timeout(LONG, self.post(id, method, params)).await.unwrap()
    }

    async fn call(&mut self, id: i64, name: &str, arguments: Value) -> Result<(), Failure> {
        self.ask(
            id,
            "tools/call",
            &json!({"name": name, "arguments": arguments}),
        )
        .await
    }

    async fn receive(&mut self) -> Option<Value> {
        let message: ServerJsonRpcMessage =
            timeout(LONG, self.transport.receive()).await.unwrap()?;
        let mut answer = serde_json::to_value(&message).unwrap();
        // The result of a call is kept beside.
        if let JsonRpcMessage::Response(response) = &message {
            let answers = self.inbound.answers();
            let result = answers.take_call(&response.id, &response.result);
            answer["result"] = result.unwrap().to_value().unwrap();
        }
        Some(answer)
    }

    /// What came back for an echo.
    async fn echo(&mut self, id: i64, text: &str) -> Value {
        self.call(id, "echo", json!({"text": text})).await.unwrap();
        self.receive().await.unwrap()
    }

    /// The connection ends by itself: why.
    async fn trouble(mut self) -> Failure {
        while let Some(message) = self.receive().await {
            drop(message);
        }
        self.trouble.last().unwrap()
    }

    async fn close(mut self) {
        timeout(LONG, self.transport.close())
            .await
            .unwrap()
            .unwrap();
    }
}

/// An answer, as the caller reads it.
fn said(answer: &Value) -> String {
    answer["result"].to_string()
}

/// A word that stands in the arguments of this test's processes alone.
fn marker() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("stdio-test-{}-{number}", std::process::id())
}

/// How many processes have this in a file of theirs: `cmdline`, `environ`.
fn count(file: &str, marker: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|process| {
            let text = fs::read(process.path().join(file)).unwrap_or_default();
            String::from_utf8_lossy(&text).contains(marker)
        })
        .count()
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(LONG, wait).await.is_ok(), "never: {what}");
}

/// A wrapper in the manner of `npx`: it ignores the end of its input and SIGTERM, and forks one into a session of its own that does, too.
fn wrapper(marker: &str) -> StdioEndpoint {
    let stubborn = "trap '' TERM; while :; do sleep 1000; done";
    shell(&format!(
        "trap '' TERM; setsid sh -c \"{stubborn}\" {marker} & echo '{}'; while :; do wait; sleep 1; done; : {marker}",
        r#"{"jsonrpc":"2.0","id":"up","method":"ping"}"#
    ))
}

#[tokio::test]
async fn a_server_answers_and_ends_when_its_input_does() {
    let bench = Bench {
        // It needs none of it.
        graces: Graces {
            end_of_input: LONG,
            terminated: LONG,
        },
        ..Bench::new()
    };
    let mut connected = bench.connect(&scripted(&["legacy"])).await;
    let answer = connected.echo(1, "ä\n\u{2028}").await;
    assert_eq!(answer["id"], 1);
    assert!(said(&answer).contains("ä\\n\u{2028}"), "{answer}");
    connected.close().await;
    bench.quiet().await;
}

#[tokio::test]
async fn many_calls_at_once_all_come_back() {
    let bench = Bench::new();
    let mut connected = bench.connect(&scripted(&["both"])).await;
    let text = "x".repeat(100_000);
    let params = json!({"name": "echo", "arguments": {"text": text}});
    let sends: Vec<_> = (0..100)
        .map(|id| connected.post(id, "tools/call", &params))
        .collect();
    bench.tracker.spawn(futures::future::join_all(sends));
    let mut ids = Vec::new();
    for _ in 0..100 {
        let answer = connected.receive().await.unwrap();
        assert!(said(&answer).contains(&text));
        ids.push(answer["id"].as_i64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_command_gets_its_environment_and_nothing_else_of_this_process() {
    let bench = Bench::new();
    let folder = tempfile::tempdir().unwrap();
    let mut endpoint = shell("env -0 > environment");
    endpoint.working_directory = folder.path().to_str().unwrap().to_owned();
    endpoint.environment = sealed(&[("KEY", "a=b\nc"), ("EMPTY", "")]);
    bench.connect(&endpoint).await.trouble().await;
    let found = fs::read_to_string(folder.path().join("environment")).unwrap();
    let mut names: Vec<&str> = found
        .split_terminator('\0')
        .filter_map(|pair| pair.split_once('=').map(|(name, _)| name))
        // The shell's own.
        .filter(|name| !matches!(*name, "PWD" | "OLDPWD" | "SHLVL" | "_"))
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["EMPTY", "HOME", "KEY", "LANG", "PATH", "TMPDIR"]);
    assert!(found.contains("KEY=a=b\nc\0") && found.contains("EMPTY=\0"));
}

#[tokio::test]
async fn what_a_command_is_given_shows_in_no_other_process() {
    let bench = Bench::new();
    let secret = format!("planted-{}", marker());
    let mut endpoint = shell("read -r line");
    endpoint.environment = sealed(&[("KEY", &secret)]);
    let connected = bench.connect(&endpoint).await;
    assert_eq!(
        (count("environ", &secret), count("cmdline", &secret)),
        (1, 0)
    );
    connected.close().await;
    assert_eq!(count("environ", &secret), 0);
}

#[tokio::test]
async fn a_command_that_cannot_be_started_says_why() {
    let bench = Bench::new();
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    fs::write(&plain, "text").unwrap();
    let plain = plain.to_str().unwrap();
    let nowhere = StdioEndpoint {
        working_directory: "/no/such/folder".to_owned(),
        ..shell("true")
    };
    let nul = command("a\0b", &[]);
    for (endpoint, sentence) in [
        (
            command("no-such-command", &[]),
            "The command no-such-command was not found.".to_owned(),
        ),
        (
            command("/no/such/command", &[]),
            "There is no file /no/such/command.".to_owned(),
        ),
        (
            command(plain, &[]),
            format!("{plain} cannot be executed: Permission denied (os error 13)."),
        ),
        (
            nowhere,
            "The working directory /no/such/folder cannot be entered: No such file or directory (os error 2).".to_owned(),
        ),
        (
            nul,
            "The command cannot be started: the command has a NUL character in it.".to_owned(),
        ),
    ] {
        let failure = bench.start(&endpoint).await.err().unwrap();
        assert_eq!(failure.code, FailureCode::CommandNotFound);
        assert_eq!(failure.sentence, sentence);
        assert!(!failure.next_step.is_empty());
    }
    bench.quiet().await;
}

#[tokio::test]
async fn a_process_that_ends_is_quoted_without_its_secrets() {
    let bench = Bench::new();
    let mut endpoint = shell("echo \"fatal: bad key $KEY\" >&2; echo 'see log' >&2; exit 3");
    endpoint.environment = sealed(&[("KEY", "s3cret-of-mine")]);
    let failure = bench.connect(&endpoint).await.trouble().await;
    assert_eq!(failure.code, FailureCode::Exited);
    assert_eq!(
        failure.sentence,
        "/bin/sh exited with status 3; it last wrote: fatal: bad key ••• | see log"
    );
    let failure = bench.connect(&shell("kill -SEGV $$")).await.trouble().await;
    assert_eq!(
        failure.sentence,
        "/bin/sh was ended by SIGSEGV without a word of why."
    );
    bench.quiet().await;
}

#[tokio::test]
async fn a_process_that_dies_in_a_call_ends_the_call() {
    let bench = Bench::new();
    let mut connected = bench
        .connect(&scripted(&["legacy", "breaks-off=tools/call"]))
        .await;
    connected.call(1, "echo", json!({})).await.unwrap();
    assert_eq!(connected.receive().await, None);
    let failure = connected.trouble.last().unwrap();
    assert_eq!(failure.code, FailureCode::Exited);
    assert_eq!(failure.reached, Reached::Maybe);
    // What comes after it surely never reached the server.
    let failure = connected.call(2, "echo", json!({})).await.unwrap_err();
    assert_eq!(
        (failure.code, failure.reached),
        (FailureCode::Exited, Reached::Never)
    );
    bench.quiet().await;
}

#[tokio::test]
async fn words_that_are_no_messages_are_skipped() {
    let bench = Bench::new();
    let server = peer();
    let noise = r#"echo starting; echo; echo '{"level":"info","id":1}'; echo '[1,2]'; printf '\377\376 {\n'; echo '{"jsonrpc'; printf '\357\273\277'; exec "$0" legacy "says-before=[debug] {x}""#;
    let mut connected = bench
        .connect(&command(
            "/bin/sh",
            &["-c", noise, server.to_str().unwrap()],
        ))
        .await;
    assert!(said(&connected.echo(1, "heard").await).contains("heard"));
    assert!(said(&connected.echo(2, "again").await).contains("again"));
    connected.close().await;
}

#[tokio::test]
async fn an_answer_that_is_no_message_fails_its_request_alone() {
    let bench = Bench::new();
    for odd in [
        r#"{"jsonrpc":"2.0","id":1,"error":"no"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":["#,
        r#"{"result":{"content":[},"jsonrpc":"2.0","id":1}"#,
    ] {
        let fault = format!("says-instead=tools/list:{odd}");
        let mut connected = bench.connect(&scripted(&["legacy", &fault])).await;
        connected.ask(1, "tools/list", &json!({})).await.unwrap();
        let answer = connected.receive().await.unwrap();
        assert_eq!(answer["id"], 1, "{odd}");
        assert_eq!(
            answer["error"]["message"],
            "What the server answered is no message of the protocol."
        );
        assert!(said(&connected.echo(2, "still there").await).contains("still there"));
        connected.close().await;
    }
}

#[tokio::test]
async fn an_answer_of_a_hundred_megabytes_costs_its_call_and_nothing_else() {
    let bench = Bench::new();
    let mut connected = bench
        .connect(&scripted(&["legacy", "huge-result=100000000"]))
        .await;
    connected.call(1, "echo", json!({})).await.unwrap();
    let answer = connected.receive().await.unwrap();
    assert_eq!(answer["id"], 1);
    assert_eq!(
        answer["error"]["message"],
        format!(
            "The server's answer is longer than {} bytes.",
            16 * 1_024 * 1_024
        )
    );
    connected.ask(2, "tools/list", &json!({})).await.unwrap();
    assert_eq!(connected.receive().await.unwrap()["id"], 2);
    connected.close().await;
}

#[tokio::test]
async fn a_line_without_an_end_ends_the_connection() {
    let bench = Bench::new();
    let marker = marker();
    let endless = shell(&format!("printf '{{'; cat /dev/zero; : {marker}"));
    let failure = bench.connect(&endless).await.trouble().await;
    assert_eq!(failure.code, FailureCode::ProtocolError);
    bench.quiet().await;
    assert_eq!(count("cmdline", &marker), 0);
}

#[tokio::test]
async fn a_flood_of_notifications_is_let_by() {
    let bench = Bench::new();
    let mut connected = bench
        .connect(&scripted(&["legacy", "flood=20000", "list-changes"]))
        .await;
    assert!(said(&connected.echo(1, "after the flood").await).contains("after the flood"));
    connected.close().await;
}

#[tokio::test]
async fn a_flood_of_errors_blocks_nobody() {
    let bench = Bench::new();
    let server = peer();
    let flood = r#"head -c 50000000 /dev/zero | tr '\0' e >&2; exec "$0" legacy"#;
    let mut connected = bench
        .connect(&command(
            "/bin/sh",
            &["-c", flood, server.to_str().unwrap()],
        ))
        .await;
    assert!(said(&connected.echo(1, "heard").await).contains("heard"));
    connected.close().await;
}

#[tokio::test]
async fn a_server_that_never_reads_ends_itself_and_blocks_nobody_else() {
    let mut bench = Bench::new();
    bench.config.connect_seconds = 1;
    let marker = marker();
    let deaf = shell(&format!("while :; do sleep 1000; done; : {marker}"));
    let mut connected = bench.connect(&deaf).await;
    let big = "x".repeat(1_000_000);
    let failure = connected
        .call(1, "echo", json!({"text": big}))
        .await
        .unwrap_err();
    assert_eq!(failure.code, FailureCode::TimedOut);
    assert_eq!(
        failure.sentence,
        "The server did not read what it was sent for 1 seconds, and was ended."
    );
    assert_eq!(failure.reached, Reached::Never);
    assert_eq!(connected.receive().await, None);
    bench.quiet().await;
    assert_eq!(count("cmdline", &marker), 0);
}

#[tokio::test]
async fn a_server_that_closes_its_output_and_goes_on_is_ended() {
    let bench = Bench::new();
    let marker = marker();
    let mute = shell(&format!(
        "exec >&-; echo bye >&2; while :; do sleep 1000; done; : {marker}"
    ));
    let failure = bench.connect(&mute).await.trouble().await;
    assert_eq!(failure.code, FailureCode::Exited);
    assert_eq!(
        failure.sentence,
        "/bin/sh closed its output, and was ended; it last wrote: bye"
    );
    bench.quiet().await;
    assert_eq!(count("cmdline", &marker), 0);
}

#[tokio::test]
async fn a_server_that_closes_its_input_says_so_to_whoever_sends() {
    let bench = Bench::new();
    let deaf = shell(
        "exec <&-; echo '{\"jsonrpc\":\"2.0\",\"id\":\"up\",\"method\":\"ping\"}'; while :; do sleep 1000; done",
    );
    let mut connected = bench.connect(&deaf).await;
    assert_eq!(connected.receive().await.unwrap()["id"], "up");
    let failure = connected.call(1, "echo", json!({})).await.unwrap_err();
    assert_eq!(
        (failure.code, failure.reached),
        (FailureCode::Exited, Reached::Never)
    );
    connected.close().await;
}

#[tokio::test]
async fn a_slow_start_is_the_callers_to_bound() {
    let bench = Bench::new();
    let server = peer();
    let slow = r#"sleep 0.3; exec "$0" legacy"#;
    let mut connected = bench
        .connect(&command("/bin/sh", &["-c", slow, server.to_str().unwrap()]))
        .await;
    assert!(said(&connected.echo(1, "at last").await).contains("at last"));
    connected.close().await;
}

#[tokio::test]
async fn a_dropped_connection_leaves_no_process() {
    let bench = Bench::new();
    let marker = marker();
    let mut connected = bench.connect(&wrapper(&marker)).await;
    assert_eq!(connected.receive().await.unwrap()["id"], "up");
    assert!(count("cmdline", &marker) >= 2);
    drop(connected);
    bench.quiet().await;
    assert_eq!(count("cmdline", &marker), 0);
}

#[tokio::test]
async fn a_start_that_nobody_waits_for_leaves_no_process() {
    let bench = Bench::new();
    let marker = marker();
    let endpoint = wrapper(&marker);
    for microseconds in [0, 50, 200, 1_000, 5_000, 20_000] {
        let start = bench.start(&endpoint);
        drop(timeout(Duration::from_micros(microseconds), start).await);
    }
    bench.quiet().await;
    until("nothing is left", || count("cmdline", &marker) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_rounds_of_a_stubborn_wrapper_leave_nothing() {
    let bench = Bench::new();
    let marker = marker();
    let endpoint = wrapper(&marker);
    for _ in 0..20 {
        let rounds = (0..10).map(|_| async {
            let mut connected = bench.connect(&endpoint).await;
            assert_eq!(connected.receive().await.unwrap()["id"], "up");
            connected.close().await;
        });
        futures::future::join_all(rounds).await;
    }
    assert_eq!(count("cmdline", &marker), 0);
    bench.quiet().await;
}

#[tokio::test]
async fn what_a_connection_knows_is_not_shown_for_debugging() {
    let mut endpoint = shell("true");
    endpoint.environment = sealed(&[("KEY", "s3cret-of-mine")]);
    let spec = environment::spec(&endpoint, LONG).unwrap();
    assert!(!format!("{spec:?} {endpoint:?} {:?}", redactor(&endpoint)).contains("s3cret"));
}
