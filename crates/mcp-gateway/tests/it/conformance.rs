//! The protocol's official conformance suite against the pool and the client layer, in both eras. What is about authorization is not run:
//! it comes with what asks for it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// Scenarios that each revision scores, those of authorization left out.
const MODERN: [&str; 7] = [
    "tools_call",
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
];
const LEGACY: [&str; 4] = [
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
];

fn tools() -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/mcp/node_modules");
    assert!(
        tools.join(".bin/conformance").exists(),
        "the conformance suite is missing: run scripts/setup-mcp"
    );
    tools.canonicalize().expect("a folder")
}

/// The client under test, which is an example of this crate.
fn client() -> PathBuf {
    let this = std::env::current_exe().expect("a path");
    let target = this.parent().and_then(Path::parent).expect("a folder");
    let client = target.join("examples/conformance");
    assert!(
        client.exists(),
        "{} is missing: run `cargo build --package mcp-gateway --examples`",
        client.display()
    );
    client
}

fn passes(revision: &str, scenario: &str) {
    let (tools, results) = (tools(), TempDir::new().expect("a folder"));
    let outcome = Command::new(tools.join(".bin/node"))
        .arg(tools.join("@modelcontextprotocol/conformance/dist/index.js"))
        .args(["client", "--scenario", scenario, "--spec-version", revision])
        .args(["--timeout", "60000", "--command"])
        .arg(client())
        .arg("--output-dir")
        .arg(results.path())
        .output()
        .expect("node runs");
    // It says what it found on either.
    let said = [outcome.stdout, outcome.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let has_passed = outcome.status.success() && said.contains("OVERALL: PASSED");
    assert!(
        has_passed && said.contains("0 failed, 0 warnings"),
        "{said}"
    );
}

macro_rules! scenarios {
    ($module:ident, $revision:literal, $($test:ident: $scenario:literal,)+) => {
        mod $module {
            $(
                #[test]
                fn $test() {
                    super::passes($revision, $scenario);
                }
            )+
        }
    };
}

scenarios!(
    modern, "2026-07-28",
    tools_are_called: "tools_call",
    every_request_carries_its_metadata: "request-metadata",
    a_request_state_is_echoed_and_kept_apart: "sep-2322-client-request-state",
    standard_headers_are_sent: "http-standard-headers",
    annotated_arguments_are_sent_as_headers: "http-custom-headers",
    tools_with_forbidden_annotations_are_not_called: "http-invalid-tool-headers",
    references_to_the_network_are_not_followed: "json-schema-ref-no-deref",
);

scenarios!(
    legacy, "2025-11-25",
    the_handshake: "initialize",
    tools_are_called: "tools_call",
    questions_are_answered_with_defaults: "elicitation-sep1034-client-defaults",
    a_stream_that_ends_is_resumed: "sse-retry",
);

#[test]
fn every_scored_scenario_is_run() {
    for (revision, run) in [("2026-07-28", &MODERN[..]), ("2025-11-25", &LEGACY[..])] {
        let file = format!("@modelcontextprotocol/conformance/requirements/{revision}.yaml");
        let text = fs::read_to_string(tools().join(file)).expect("the suite's requirements");
        let (_, scored) = text.split_once("\nclient:\n").expect("a list for clients");
        let scored: Vec<&str> = scored
            .lines()
            .take_while(|line| line.is_empty() || line.starts_with([' ', '#']))
            .filter_map(|line| line.strip_prefix("  - "))
            .filter(|scenario| !scenario.starts_with("auth/"))
            .collect();
        let (mut scored, mut run) = (scored, run.to_vec());
        scored.sort_unstable();
        run.sort_unstable();
        assert_eq!(scored, run, "{revision}");
    }
}
