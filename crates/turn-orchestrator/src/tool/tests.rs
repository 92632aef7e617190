use kernel::{CallId, SystemClock};

use super::*;

fn toolbox() -> Toolbox {
    Toolbox::compile().unwrap()
}

fn json(text: &str) -> JsonText {
    text.parse().unwrap()
}

fn gave(lead: &str, text: Option<&str>) -> Ran {
    Ran::Gave(Given {
        lead: lead.to_owned(),
        data: text.map(|text| Data {
            source: "https://example.com/".to_owned(),
            text: text.to_owned(),
            stamp: String::new(),
        }),
        ..Given::default()
    })
}

fn text_of(read: &Read) -> String {
    match &read.outcome {
        Outcome::Ok(output) => serde_json::from_str(output.as_str()).unwrap(),
        Outcome::Error(sentence) | Outcome::Denied(sentence) | Outcome::Interrupted(sentence) => {
            sentence.clone()
        }
    }
}

#[test]
fn every_builtin_has_a_schema_that_compiles() {
    let toolbox = toolbox();
    for tool in BuiltinTool::ALL {
        assert!(toolbox.builtin(tool.as_str()).is_some(), "{tool:?}");
    }
}

#[test]
fn builtins_tolerate_arguments_that_they_do_not_know() {
    let toolbox = toolbox();
    for (tool, arguments) in [
        ("current_time", r#"{"timezone":"UTC","n":1}"#),
        ("current_time", "{}"),
        (
            "fetch_url",
            r#"{"url":"https://a.example/","method":"GET"}"#,
        ),
        (
            "fetch_url",
            r#"{"url":"https://a.example/","start_index":12000}"#,
        ),
    ] {
        assert_eq!(
            toolbox.builtin(tool).unwrap().judge(&json(arguments)),
            Ok(()),
            "{tool} {arguments}"
        );
    }
}

#[test]
fn arguments_that_do_not_fit_are_named_without_their_values() {
    let toolbox = toolbox();
    let fetch = toolbox.builtin("fetch_url").unwrap();
    let said = fetch
        .judge(&json(r#"{"url":["hunter2"],"start_index":-7}"#))
        .unwrap_err();
    assert!(
        said.contains("/url") && said.contains("/start_index") && said.contains("fetch_url"),
        "{said}"
    );
    assert!(!said.contains("hunter2"), "{said}");
    let said = fetch.judge(&json("{}")).unwrap_err();
    assert!(said.contains("url") && said.contains("required"), "{said}");
}

#[test]
fn whatever_a_tool_gives_the_model_reads_no_more_than_its_bound() {
    let call = CallId::mint(&SystemClock);
    let huge = "村é<".repeat(200_000);
    for ran in [
        gave(&huge, None),
        gave(&huge, Some(&huge)),
        gave("ok", Some(&huge)),
        Ran::Failed(huge.clone()),
        Ran::Denied(huge.clone()),
    ] {
        let mut repeats = Repeats::default();
        for _ in 0..6 {
            let read = read(call, "t", &json("{}"), ran.clone(), &mut repeats);
            let text = text_of(&read);
            assert!(text.len() <= TOOL_RESULT_BYTES, "{}", text.len());
            assert!(read.cut);
        }
    }
}

#[test]
fn a_cut_page_keeps_its_fence_and_names_its_true_total() {
    let page = format!("<<<end of my rope {}", "x".repeat(100_000));
    let read = read(
        CallId::mint(&SystemClock),
        "fetch_url",
        &json("{}"),
        gave("HTTP status 200.", Some(&page)),
        &mut Repeats::default(),
    );
    let text = text_of(&read);
    let last = text.lines().last().unwrap();
    let boundary = last.strip_prefix("<<<end ").unwrap();
    assert!(text.starts_with(&format!(
        "HTTP status 200.\n<<<data {boundary} from \"https://example.com/\"\n"
    )));
    assert!(text.contains(&format!("of {} bytes left out", page.len())));
}

#[test]
fn the_third_equal_call_warns_the_model_though_fences_differ() {
    let mut repeats = Repeats::default();
    let mut last = None;
    for n in 1..=5 {
        let read = read(
            CallId::mint(&SystemClock),
            "fetch_url",
            &json(r#"{"url":"https://a.example/"}"#),
            gave("HTTP status 200.", Some("same")),
            &mut repeats,
        );
        assert_eq!(
            text_of(&read).contains("change your approach"),
            n >= 3,
            "call {n}"
        );
        last = Some(read.verdict);
    }
    assert_eq!(last, Some(Verdict::Stop));
}
