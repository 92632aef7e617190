//! A person, a served Village and a scripted Provider.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Stdio,
};

use serde_json::{Value, json};
use testkit::provider::{Gate, ScriptedProvider, Step, Wire};

use crate::support::{FREE_PORTS, Person, Run, Served, finished, signal_to};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A person with a Village, whose Provider answers from a script.
struct Home {
    provider: ScriptedProvider,
    person: Person,
    village: Served,
}

impl Home {
    async fn new() -> Self {
        let provider = ScriptedProvider::start(Wire::ChatCompletions).await;
        let person = Person::new()
            .with("OPENAI_BASE_URL", provider.base_url())
            .with("OPENAI_API_KEY", "sk-test");
        let village = Served::by(&person);
        Self {
            provider,
            person,
            village,
        }
    }

    fn run(&self, arguments: &[&str]) -> Run {
        let mut line = vec!["--server", self.village.http.as_str()];
        line.extend(arguments);
        self.person.run(&line)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let mut line = vec!["--json"];
        line.extend(arguments);
        self.run(&line).ok().json()
    }

    /// Runs as somebody else.
    fn run_as(&self, token: &str, arguments: &[&str]) -> Run {
        finished(
            self.person
                .command(arguments)
                .args(["--server", &self.village.http, "--json"])
                .env("AGENTSVILLE_TOKEN", token),
        )
    }

    fn keeper(&self) -> Value {
        let npc = self.json(&["npc", "create", "Keeper", "--model", "openai/scripted"]);
        self.run(&["grant", "add", "Keeper", "tool:current_time"])
            .ok();
        npc
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_start_makes_what_only_its_owner_reads_and_a_second_village_is_refused() {
    let home = Home::new().await;
    assert_eq!(mode(&home.person.data_dir()), 0o700);
    assert_eq!(mode(&home.village.token_file), 0o600);
    assert_eq!(
        home.village.token_file,
        home.person.data_dir().join("operator.token")
    );
    let second = finished(home.person.command(&["serve", "--json"]).envs(FREE_PORTS));
    assert_eq!(second.code, Some(1), "{second:?}");
    let sentence = second.err.lines().last().unwrap();
    assert!(
        sentence.contains(&home.person.data_dir().display().to_string()),
        "{second:?}"
    );
    // The first one is none the worse for it.
    home.run(&["npc", "list"]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_village_stops_when_it_is_told_to_and_opens_again_with_what_it_had() {
    let home = Home::new().await;
    home.keeper();
    let (code, log) = home.village.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("sk-test"), "{log}");
    let again = Served::by(&home.person);
    let list = home
        .person
        .run(&["npc", "list", "--json", "--server", &again.http])
        .ok();
    assert_eq!(list.json()[0]["name"], "Keeper");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_a_sentence() {
    let home = Home::new().await;
    let taken = home.village.http.strip_prefix("http://").unwrap();
    let other = Person::new();
    let run = finished(
        other
            .command(&["--json"])
            .envs(FREE_PORTS)
            .env("AGENTSVILLE__EDGE__LISTEN", taken),
    );
    assert_eq!(run.code, Some(1));
    let sentence = run.err.lines().last().unwrap();
    assert!(
        sentence.contains(taken) && sentence.contains("AGENTSVILLE__EDGE__LISTEN"),
        "{run:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn healthcheck_asks_the_admin_listener() {
    let home = Home::new().await;
    let run = finished(
        home.person
            .command(&["healthcheck"])
            .env("AGENTSVILLE__ADMIN__LISTEN", &home.village.admin),
    );
    assert_eq!(
        (run.code, run.out.lines().next()),
        (Some(0), Some("ready")),
        "{run:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_npc_is_created_shown_edited_granted_and_deleted() {
    let home = Home::new().await;
    let npc = home.keeper();
    assert!(npc["id"].is_string());
    let shown = home.json(&["npc", "show", "keeper"]);
    assert_eq!(shown["grants"][0]["what"], "tool:current_time");
    let text = home.run(&["npc", "show", "Keeper"]).ok().out;
    assert!(
        text.contains("tool:current_time") && text.contains("openai/scripted"),
        "{text}"
    );

    let edited = home.json(&[
        "npc",
        "edit",
        "Keeper",
        "--persona",
        "Kind.",
        "--private",
        "--fetch-hosts",
        "a.example,*.b.example",
    ]);
    assert_eq!(
        (
            &edited["persona"],
            &edited["private"],
            &edited["fetchHosts"]
        ),
        (
            &json!("Kind."),
            &json!(true),
            &json!(["a.example", "*.b.example"])
        )
    );
    assert_eq!(edited["model"], "openai/scripted");
    assert_eq!(home.run(&["npc", "edit", "Keeper"]).code, Some(2));

    let tools = home.json(&["npc", "tools", "Keeper"]);
    assert_eq!(tools["tools"][0]["name"], "current_time");
    assert!(tools["tools"][0]["inputSchema"].is_object(), "{tools}");
    home.run(&["grant", "add", "Keeper", "family:sandbox"]).ok();
    let tools = home.run(&["npc", "tools", "Keeper"]).ok().out;
    assert!(
        tools.contains("Unavailable:\n  family:sandbox: "),
        "{tools}"
    );

    let grants = home.json(&["grant", "list", "Keeper"]);
    let listed: Vec<_> = grants
        .as_array()
        .unwrap()
        .iter()
        .map(|grant| &grant["what"])
        .collect();
    assert_eq!(listed, ["family:sandbox", "tool:current_time"]);
    home.run(&[
        "grant",
        "remove",
        "Keeper",
        "tool:current_time",
        "--abort-turns",
    ])
    .ok();
    home.run(&["grant", "remove", "Keeper", "family:sandbox"])
        .ok();
    assert!(
        home.run(&["npc", "tools", "Keeper"])
            .ok()
            .out
            .contains("no Tools")
    );

    home.run(&["npc", "delete", "Keeper"]).ok();
    assert_eq!(home.json(&["npc", "list"]), json!([]));
    let gone = home.run(&["npc", "show", "Keeper", "--json"]);
    assert_eq!(
        (gone.code, &gone.problem()["code"]),
        (Some(1), &json!("not_found"))
    );
    let actions: Vec<String> = home
        .json(&["audit", "list"])
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["action"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(actions.first().map(String::as_str), Some("npc.delete"));
    assert!(actions.contains(&"grant.remove".to_owned()), "{actions:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_one_array_newest_first_and_every_row_has_an_id() {
    let home = Home::new().await;
    for name in ["First", "Second"] {
        home.run(&["npc", "create", name]).ok();
        home.run(&["player", "create", name]).ok();
    }
    for (arguments, first) in [(["npc", "list"], "Second"), (["player", "list"], "Second")] {
        let rows = home.json(&arguments);
        assert_eq!(rows[0]["name"], first, "{rows}");
        assert!(
            rows.as_array()
                .unwrap()
                .iter()
                .all(|row| row["id"].is_string()),
            "{rows}"
        );
    }
    let audit = home.json(&["audit", "list"]);
    assert!(
        audit
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["id"].is_string()),
        "{audit}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_provider_is_refused_with_the_nearest() {
    let home = Home::new().await;
    let run = home.run(&[
        "npc",
        "create",
        "K",
        "--model",
        "opnai/gpt-5-mini",
        "--json",
    ]);
    assert_eq!(run.code, Some(1));
    assert!(
        run.problem()["detail"].as_str().unwrap().contains("openai"),
        "{run:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_streams_the_turn_and_the_conversation_keeps_it() {
    let home = Home::new().await;
    home.keeper();
    let steps = || {
        [
            Step::new()
                .text("Let me look.")
                .call("current_time", &json!({})),
            Step::new().words("It is noon.\n\ndone  forged\u{1b}[2J"),
        ]
    };
    home.provider.script(steps());
    let run = home.run(&["chat", "Keeper", "What time is it?"]).ok();
    for part in [
        "you\n  What time is it?\n",
        "Keeper\n  Let me look.\n",
        "tool 1 current_time\n  sent nothing\n",
        "tool 1 current_time  came back after",
        "Keeper\n  It is noon.\n\n  done  forged[2J\n",
        "done  ",
        "go on with  ",
    ] {
        assert!(run.out.contains(part), "{part:?}: {}", run.out);
    }
    assert!(!run.out.contains('\u{1b}'), "{run:?}");

    home.provider.script(steps());
    let list = home.json(&["conversation", "list"]);
    let id = list[0]["id"].as_str().unwrap();
    let line = ["chat", "Keeper", "And now?", "--conversation", id, "--json"];
    let chunks = home.run(&line).ok().json_lines();
    let types: Vec<&str> = chunks
        .iter()
        .map(|chunk| chunk["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        (types.first(), types.last()),
        (Some(&"start"), Some(&"finish")),
        "{types:?}"
    );
    assert_eq!(chunks[0]["messageMetadata"]["conversationId"], id);

    let shown = home.json(&["conversation", "show", id]);
    assert_eq!(shown["status"], "idle");
    assert_eq!(shown["messages"].as_array().unwrap().len(), 4);
    let text = home.run(&["conversation", "show", id]).ok().out;
    assert!(text.contains("tool current_time  came back"), "{text}");
    assert_eq!(
        home.json(&["conversation", "list"])
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_refuses_fails_the_chat_in_words() {
    let home = Home::new().await;
    home.keeper();
    let body = json!({ "error": { "message": "Incorrect API key provided", "type": "invalid_request_error" } });
    home.provider.script([Step::refusal(401, body.to_string())]);
    let run = home.run(&["chat", "Keeper", "hi"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.out.contains("\nfailed\n"), "{run:?}");
    assert!(
        !run.out.contains("sk-test") && !run.err.contains("sk-test"),
        "{run:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_stops_the_turn_and_leaves_a_settled_conversation() {
    let home = Home::new().await;
    home.keeper();
    let gate = Gate::new();
    home.provider
        .script([Step::new().text("I begin\n").gate(&gate).text("and go on")]);
    let mut chat = home
        .person
        .command(&[
            "chat",
            "Keeper",
            "hi",
            "--json",
            "--server",
            &home.village.http,
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(chat.stdout.take().unwrap()).lines();
    lines
        .by_ref()
        .find(|line| line.as_ref().unwrap().contains("I begin"))
        .unwrap()
        .unwrap();
    signal_to(chat.id(), "INT");
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(
        rest.iter().any(|line| line.contains(r#""type":"abort""#)),
        "{rest:?}"
    );
    assert_eq!(chat.wait().unwrap().code(), Some(0));
    gate.open();
    let list = home.json(&["conversation", "list"]);
    assert_eq!(list[0]["status"], "idle");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_turn_is_aborted_from_elsewhere() {
    let home = Home::new().await;
    home.keeper();
    home.provider
        .script([Step::new().text("I begin\n").stall()]);
    let mut chat = home
        .person
        .command(&[
            "chat",
            "Keeper",
            "hi",
            "--json",
            "--server",
            &home.village.http,
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(chat.stdout.take().unwrap()).lines();
    let start: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let turn = start["messageMetadata"]["turnId"].as_str().unwrap();
    let aborted = home.json(&["turn", "abort", turn]);
    assert_eq!(aborted["id"], turn);
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(
        rest.iter().any(|line| line.contains(r#""type":"abort""#)),
        "{rest:?}"
    );
    assert_eq!(chat.wait().unwrap().code(), Some(0));
    let unknown = home.run(&[
        "turn",
        "abort",
        "0193fb11-0000-7000-8000-000000000000",
        "--json",
    ]);
    assert_eq!(
        (unknown.code, &unknown.problem()["code"]),
        (Some(1), &json!("not_found"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_player_enters_with_a_token_sees_what_players_see_and_is_shown_out() {
    let home = Home::new().await;
    home.run(&["npc", "create", "Secret", "--private"]).ok();
    home.run(&["npc", "create", "Open"]).ok();
    let player = home.json(&["player", "create", "Ann"]);
    let token = player["token"].as_str().unwrap();
    let seen = home.run_as(token, &["npc", "list"]).ok().json();
    let names: Vec<_> = seen
        .as_array()
        .unwrap()
        .iter()
        .map(|npc| &npc["name"])
        .collect();
    assert_eq!(names, ["Open"]);
    for (arguments, code) in [
        (vec!["npc", "show", "Secret"], "not_found"),
        (vec!["npc", "delete", "Open"], "permission_denied"),
        (vec!["player", "list"], "permission_denied"),
        (vec!["audit", "list"], "permission_denied"),
    ] {
        let run = home.run_as(token, &arguments);
        assert_eq!(
            (run.code, run.problem()["code"].as_str()),
            (Some(1), Some(code)),
            "{arguments:?}"
        );
    }
    assert!(
        !home
            .run(&["player", "list", "--json"])
            .ok()
            .out
            .contains(token)
    );
    home.run(&["player", "revoke", "Ann"]).ok();
    let stranger = home.run_as("not-a-token", &["npc", "list"]);
    let problem = stranger.problem();
    assert_eq!(problem["code"], "unauthenticated");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("(AGENTSVILLE_TOKEN)"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_village_for_people_says_where_it_is_and_what_to_try() {
    let person = Person::new();
    let mut child = person
        .command(&[])
        .envs(FREE_PORTS)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = Vec::new();
    for line in lines {
        let line = line.unwrap();
        let last = line.contains(" chat Keeper ");
        said.push(line);
        if last {
            signal_to(child.id(), "TERM");
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let said = said.join("\n");
    assert!(said.contains("HTTP            http://127.0.0.1:"), "{said}");
    let file = person.data_dir().join("operator.token");
    assert!(said.contains(&file.display().to_string()), "{said}");
    assert!(said.contains("OPENAI_API_KEY"), "{said}");
    assert!(
        !said.contains(fs::read_to_string(file).unwrap().trim()),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_interrupt_leaves_at_once_and_says_what_may_still_run() {
    let home = Home::new().await;
    home.keeper();
    home.provider
        .script([Step::new().text("I begin\n").stall()]);
    // A Village that is told to stop the turn and never answers: the real one is asked for the stream only.
    let silent = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = silent.local_addr().unwrap();
    let real = home
        .village
        .http
        .strip_prefix("http://")
        .unwrap()
        .to_owned();
    std::thread::spawn(move || {
        let (mut client, _) = silent.accept().unwrap();
        let mut server = std::net::TcpStream::connect(real).unwrap();
        let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut up, &mut down));
        drop(std::io::copy(&mut server, &mut client));
    });
    let mut chat = home
        .person
        .command(&[
            "chat",
            "Keeper",
            "hi",
            "--json",
            "--server",
            &format!("http://{address}"),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(chat.stdout.take().unwrap()).lines();
    lines
        .by_ref()
        .find(|line| line.as_ref().unwrap().contains("I begin"))
        .unwrap()
        .unwrap();
    signal_to(chat.id(), "INT");
    // Two signals that come together are one: they are told apart by sending until the program has left.
    while chat.try_wait().unwrap().is_none() {
        signal_to(chat.id(), "INT");
        std::thread::yield_now();
    }
    let output = chat.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("agentsville turn abort "), "{said}");
}
