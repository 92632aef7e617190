//! `guard check`.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
};

use serde_json::json;

use crate::support::Person;

#[test]
fn lines_are_answered_in_order_untrimmed_and_blank_ones_count() {
    let run = Person::new()
        .run_with_input(
            &["guard", "check", "--stdin", "--offline", "--json"],
            b"1.1.1.1\n\n 1.1.1.1\n169.254.169.254\nhttps://127.1/\nhttp://example.com/\nhttps://example.com/",
        )
        .ok();
    let said: Vec<_> = run
        .json_lines()
        .iter()
        .map(|line| (line["input"].clone(), line["verdict"].clone()))
        .collect();
    assert_eq!(
        said,
        [
            (json!("1.1.1.1"), json!("allow")),
            (json!(""), json!("error")),
            (json!(" 1.1.1.1"), json!("error")),
            (json!("169.254.169.254"), json!("block")),
            (json!("https://127.1/"), json!("block")),
            (json!("http://example.com/"), json!("block")),
            (json!("https://example.com/"), json!("allow")),
        ]
    );
}

/// A row's input, without its C-style escapes.
fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let (escape, after) = rest[at + 1..].split_at(1);
        let (character, used) = match escape {
            "t" => ('\t', 0),
            "n" => ('\n', 0),
            "r" => ('\r', 0),
            "x" => (char::from(u8::from_str_radix(&after[..2], 16).unwrap()), 2),
            "u" => {
                let end = after.find('}').unwrap();
                let code = u32::from_str_radix(&after[1..end], 16).unwrap();
                (char::from_u32(code).unwrap(), end + 1)
            }
            other => (other.chars().next().unwrap(), 0),
        };
        plain.push(character);
        rest = &after[used..];
    }
    plain + rest
}

#[test]
fn the_whole_corpus_of_addresses_and_urls_is_judged_line_by_line() {
    let corpus = include_str!("../../../outbound/tests/it/guard.tsv");
    let rows: Vec<(String, &str)> = corpus
        .lines()
        .filter_map(|line| {
            let mut columns = line.split('\t');
            let (input, kind, expected) = (columns.next()?, columns.next()?, columns.next()?);
            // A line cannot hold a newline.
            let judged = matches!(kind, "ip" | "url") && !unescaped(input).contains('\n');
            judged.then(|| (unescaped(input), expected))
        })
        .collect();
    assert!(rows.len() > 500, "{}", rows.len());
    let input: String = rows
        .iter()
        .fold(String::new(), |all, (input, _)| all + input + "\n");
    let run = Person::new()
        .run_with_input(
            &["guard", "check", "--stdin", "--offline", "--json"],
            input.as_bytes(),
        )
        .ok();
    let answers = run.json_lines();
    assert_eq!(answers.len(), rows.len());
    let wrong: Vec<_> = rows
        .iter()
        .zip(&answers)
        .filter(|((input, expected), answer)| {
            answer["input"] != **input || answer["verdict"] != **expected
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_line_says_rule_and_address() {
    let run = Person::new().run(&[
        "guard",
        "check",
        "--offline",
        "--json",
        "https://[::ffff:10.0.0.1]/",
    ]);
    assert_eq!(run.code, Some(1));
    let said = run.json();
    assert_eq!(said["verdict"], "block");
    assert!(said["rule"].is_string(), "{said}");
    assert!(said["address"].is_string(), "{said}");
    assert_eq!(said.as_object().unwrap().len(), 4, "{said}");
    assert_eq!(run.err, "");
}

#[test]
fn one_check_fails_unless_allowed_and_stdin_never_does() {
    let person = Person::new();
    assert_eq!(
        person.run(&["guard", "check", "--offline", "8.8.8.8"]).code,
        Some(0)
    );
    assert_eq!(
        person
            .run(&["guard", "check", "--offline", "10.0.0.1"])
            .code,
        Some(1)
    );
    assert_eq!(
        person.run(&["guard", "check", "--offline", ""]).code,
        Some(1)
    );
    let run = person.run_with_input(&["guard", "check", "--stdin", "--offline"], b"10.0.0.1\n");
    assert_eq!(run.code, Some(0));
    assert_eq!(person.run(&["guard", "check"]).code, Some(2));
    assert_eq!(
        person.run(&["guard", "check", "--stdin", "8.8.8.8"]).code,
        Some(2)
    );
}

#[test]
fn bytes_that_are_no_text_and_endless_lines_are_errors_and_the_rest_goes_on() {
    let mut input = b"https://\xff\xfe/\n".to_vec();
    input.extend(vec![b'a'; 3_000_000]);
    input.extend(b"\n\x1b[2J\n1.1.1.1\n");
    let run = Person::new()
        .run_with_input(
            &["guard", "check", "--stdin", "--offline", "--json"],
            &input,
        )
        .ok();
    assert!(run.out.len() < 200_000, "{}", run.out.len());
    assert!(!run.out.contains('\u{1b}'));
    let verdicts: Vec<_> = run
        .json_lines()
        .iter()
        .map(|line| line["verdict"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(verdicts, ["error", "error", "error", "allow"]);
}

#[test]
fn a_line_is_answered_before_the_next_one_comes() {
    let mut child = Person::new()
        .command(&["guard", "check", "--stdin", "--offline", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for line in ["8.8.8.8", "10.0.0.1"] {
        writeln!(input, "{line}").unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        assert!(
            answer.contains(&format!("\"input\":\"{line}\"")),
            "{answer}"
        );
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_this_machine_is_counts_unless_offline() {
    // Loopback is refused both ways; what is judged online needs no Village and no name server for an address.
    let person = Person::new();
    assert_eq!(person.run(&["guard", "check", "127.0.0.1"]).code, Some(1));
    assert_eq!(person.run(&["guard", "check", "1.1.1.1"]).code, Some(0));
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let mut child = Person::new()
        .command(&["guard", "check", "--stdin", "--offline"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    // The program may be gone before all is written.
    drop(input.write_all(&b"1.1.1.1\n".repeat(1_000)));
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}
