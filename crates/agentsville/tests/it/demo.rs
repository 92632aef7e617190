//! The demo.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use serde_json::json;
use testkit::provider::{ScriptedProvider, Step, Wire};

use crate::support::{Person, signal_to};

#[test]
fn the_demo_shows_an_npc_that_uses_tools_and_says_that_its_model_is_scripted() {
    let person = Person::new();
    let run = person.run(&["demo"]).ok();
    for part in [
        "The model is SCRIPTED",
        "you\n  What time is it, in UTC?",
        "tool 1 current_time\n  sent nothing\n",
        "tool 1 current_time  came back after",
        "tool 2 fetch_url  came back after",
        "Tonight: **lantern walk**, from the well, at dusk.",
        "tool 3 ledger__balance\n  sent {\"account\":\"lantern fund\"}\n",
        "tool 3 ledger__balance  came back after",
        "lantern fund: 128 crowns",
        "tool 4 fetch_url\n  sent {\"url\":\"https://169.254.169.254/latest/meta-data/\"}\n",
        "tool 4 fetch_url  FAILED after",
        "The other address was refused",
        "\ndone  ",
        "agentsville demo --model openai/",
    ] {
        assert!(run.out.contains(part), "{part:?}: {}", run.out);
    }
    // What no visitor of the page would see.
    assert!(!run.out.contains("on fire"), "{}", run.out);
    assert_eq!(run.err, "");
    assert!(!run.out.contains('\u{1b}'), "{}", run.out);
}

#[test]
fn the_demo_leaves_nothing_behind() {
    let temporary = tempfile::tempdir().unwrap();
    let person = Person::new().with("TMPDIR", temporary.path().display().to_string());
    person.run(&["demo", "--json"]).ok();
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
    assert_eq!(fs::read_dir(person.home()).unwrap().count(), 0);
}

#[test]
fn a_demo_that_is_ended_from_outside_leaves_nothing_behind_either() {
    let temporary = tempfile::tempdir().unwrap();
    let person = Person::new().with("TMPDIR", temporary.path().display().to_string());
    let mut demo = person
        .command(&["demo", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut out = BufReader::new(demo.stdout.take().unwrap());
    out.read_line(&mut first).unwrap();
    signal_to(demo.id(), "TERM");
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn the_demo_for_programs_prints_chunks_and_nothing_else() {
    let run = Person::new().run(&["demo", "--json"]).ok();
    let chunks = run.json_lines();
    let of_type = |wanted: &str| {
        chunks
            .iter()
            .filter(|chunk| chunk["type"] == wanted)
            .count()
    };
    assert_eq!(chunks[0]["type"], "start");
    assert_eq!(chunks.last().unwrap()["type"], "finish");
    assert_eq!(of_type("tool-input-available"), 4);
    assert_eq!(of_type("tool-output-available"), 3);
    assert_eq!(of_type("tool-output-error"), 1);
    assert_eq!(run.err, "");
}

#[test]
fn the_demo_is_not_disturbed_by_a_persons_settings() {
    let person = Person::new()
        .with("DATABASE_URL", "postgres://nobody@127.0.0.1:1/none")
        .with("AGENTSVILLE__EDGE__LISTEN", "0.0.0.0:80")
        .with("AGENTSVILLE__TURN__STEPS", "1");
    person.run(&["demo", "--json"]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_plays_with_a_model_of_a_persons_own() {
    let provider = ScriptedProvider::start(Wire::ChatCompletions).await;
    provider.script([
        Step::new().call("current_time", &json!({})),
        Step::new().text("Noon, I think."),
    ]);
    let person = Person::new()
        .with("OPENAI_BASE_URL", provider.base_url())
        .with("OPENAI_API_KEY", "sk-demo-key");
    let run = person.run(&["demo", "--model", "openai/real-one"]).ok();
    assert!(
        run.out.contains("The model is openai/real-one, a real one"),
        "{run:?}"
    );
    assert!(run.out.contains("Noon, I think."), "{run:?}");
    assert!(
        !run.out.contains("SCRIPTED") && !run.out.contains("sk-demo-key"),
        "{run:?}"
    );
    let asked = provider.requests();
    assert_eq!(asked[0].model(), "real-one");
    assert_eq!(
        asked[0].tools(),
        ["current_time", "fetch_url", "ledger__balance"]
    );
}

#[test]
fn a_model_that_does_not_exist_is_a_sentence() {
    let person = Person::new();
    let run = person.run(&["demo", "--model", "opnai/x"]);
    assert_eq!(run.code, Some(1));
    assert!(run.err.contains("openai"), "{run:?}");
    let run = person.run(&["demo", "--model", "openai/gpt-5-mini"]);
    assert_eq!(run.code, Some(1), "a model without its key: {run:?}");
}
