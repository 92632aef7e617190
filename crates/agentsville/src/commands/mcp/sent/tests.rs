use std::fs;

use clap::Parser as _;
use kernel::JsonText;

use super::*;
use crate::cli::{Cli, Command, McpCommand};

fn command(words: &[&str]) -> McpCommand {
    let line = ["agentsville", "mcp"].iter().chain(words);
    match Cli::try_parse_from(line).unwrap().command {
        Some(Command::Mcp(command)) => command,
        other => panic!("{other:?}"),
    }
}

fn added(words: &[&str]) -> Result<String, String> {
    let McpCommand::Add(arguments) = command(words) else {
        panic!("not mcp add");
    };
    new_server(&arguments)
        .map(|body| JsonText::of(&body).as_str().to_owned())
        .map_err(|failure| said(&failure))
}

fn edited(words: &[&str]) -> Result<String, String> {
    let line = [&["edit", "Docs"], words].concat();
    let McpCommand::Edit(arguments) = command(&line) else {
        panic!("not mcp edit");
    };
    changes(&arguments)
        .map(|body| JsonText::of(&body).as_str().to_owned())
        .map_err(|failure| said(&failure))
}

fn said(failure: &Failure) -> String {
    failure.problem().unwrap().detail.clone()
}

#[test]
fn a_remote_server_is_a_url_and_headers() {
    assert_eq!(
        added(&[
            "add",
            "Docs",
            "http",
            "https://docs.example/mcp",
            "--header",
            "authorization:  Bearer a:b ",
            "--private",
        ]),
        Ok(
            r#"{"name":"Docs","transport":"http","url":"https://docs.example/mcp","headers":{"authorization":"Bearer a:b"},"private":true}"#
                .to_owned()
        )
    );
}

#[test]
fn a_command_stands_after_the_dashes_word_for_word() {
    assert_eq!(
        added(&[
            "add", "Files", "stdio", "--env", "K= v=w ", "--cwd", "/srv", "--", "npx", "-y", "--json",
            "a b"
        ]),
        Ok(
            r#"{"name":"Files","transport":"stdio","command":"npx","arguments":["-y","--json","a b"],"environment":{"K":" v=w "},"workingDirectory":"/srv"}"#
                .to_owned()
        )
    );
}

#[test]
fn what_does_not_go_together_says_what_would() {
    for (words, sentence) in [
        (&["add", "D", "http"][..], "say where the server is"),
        (
            &["add", "D", "http", "https://x.example", "--", "run"],
            "a command, --env and --cwd are for stdio",
        ),
        (
            &["add", "D", "sse", "https://x.example", "--env", "A=b"],
            "a command, --env and --cwd are for stdio",
        ),
        (&["add", "D", "stdio"], "say which command to run"),
        (
            &["add", "D", "stdio", "npx"],
            "write the command after --, as in: stdio -- npx",
        ),
        (
            &["add", "D", "stdio", "--header", "a: b", "--", "run"],
            "stdio takes --env",
        ),
    ] {
        let refusal = added(words).unwrap_err();
        assert!(refusal.contains(sentence), "{refusal}");
    }
}

#[test]
fn a_secret_that_is_written_wrongly_is_not_repeated() {
    for words in [
        &[
            "add",
            "D",
            "http",
            "https://x.example",
            "--header",
            "8675309",
        ][..],
        &[
            "add",
            "D",
            "http",
            "https://x.example",
            "--header",
            ": 8675309",
        ],
        &["add", "D", "stdio", "--env", "8675309", "--", "run"],
        &[
            "add",
            "D",
            "http",
            "https://x.example",
            "--header",
            "a: 8675309",
            "--header",
            "a: 8675309",
        ],
    ] {
        let refusal = added(words).unwrap_err();
        assert!(refusal.starts_with("--"), "{refusal}");
        assert!(!refusal.contains("8675309"), "{refusal}");
    }
}

#[test]
fn secrets_come_from_files_that_no_list_of_processes_shows() {
    let folder = tempfile::tempdir().unwrap();
    let headers = folder.path().join("headers");
    fs::write(&headers, "# Docs\n\nauthorization: Bearer x\r\nx-key:k\n").unwrap();
    let path = headers.to_str().unwrap();
    assert_eq!(
        added(&["add", "D", "http", "https://x.example", "--header-file", path, "--header", "x-more: m"]),
        Ok(
            r#"{"name":"D","transport":"http","url":"https://x.example","headers":{"authorization":"Bearer x","x-key":"k","x-more":"m"}}"#
                .to_owned()
        )
    );
    let variables = folder.path().join("variables");
    fs::write(&variables, "A=1\nB\n").unwrap();
    let path = variables.to_str().unwrap();
    let refusal = added(&["add", "D", "stdio", "--env-file", path, "--", "run"]).unwrap_err();
    assert_eq!(refusal, format!("line 2 of {path} is not written as K=V"));
    let nowhere = [
        "add",
        "D",
        "stdio",
        "--env-file",
        "/nowhere/at/all",
        "--",
        "run",
    ];
    assert!(added(&nowhere).unwrap_err().contains("/nowhere/at/all"));
}

#[test]
fn an_edit_keeps_replaces_or_clears() {
    assert_eq!(
        edited(&["--enable", "--public", "--pinning", "off"]),
        Ok(r#"{"enabled":true,"private":false,"pinning":"off"}"#.to_owned())
    );
    assert_eq!(
        edited(&["--clear-headers", "--env", "A=b"]),
        Ok(r#"{"headers":{},"environment":{"A":"b"}}"#.to_owned())
    );
    assert!(
        edited(&[])
            .unwrap_err()
            .contains("needs something to change")
    );
    for words in [
        ["--enable", "--disable"],
        ["--private", "--public"],
        ["--clear-headers", "--header=a: b"],
        ["--clear-env", "--env=A=b"],
    ] {
        let line = ["agentsville", "mcp", "edit", "Docs"].iter().chain(&words);
        assert!(Cli::try_parse_from(line).is_err(), "{words:?}");
    }
}
