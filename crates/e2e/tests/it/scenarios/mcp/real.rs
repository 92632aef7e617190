//! Real servers over each transport that they have: registered, tested before anybody has them, granted, and called in a turn.

use serde_json::{Value, json};
use testkit::provider::Step;

use crate::{
    real_mcp::{FASTMCP, Listening, folder, node, npm_server, python, repository},
    scenarios::in_both_shapes,
    village::{Options, Shape, Village},
};

in_both_shapes!(
    everything_over_stdio,
    everything_over_streamable_http,
    everything_over_sse,
    the_filesystem_over_stdio,
    memory_over_stdio,
    time_over_stdio,
    git_over_stdio,
    fastmcp_over_stdio,
    fastmcp_over_streamable_http,
    fastmcp_over_sse,
);

/// A Tool of a server, what it is asked, and what is in its answer.
struct Trial<'t> {
    /// What `mcp add` takes after the name.
    add: &'t [&'t str],
    tool: &'t str,
    arguments: Value,
    expected: &'t str,
}

/// Registers the server as "Peer", tests it, grants it, and has a turn call its Tool.
async fn works(shape: Shape, trial: Trial<'_>) {
    let village = Village::start_with(
        shape,
        Options {
            settings: vec![(
                "AGENTSVILLE__OUTBOUND__ALLOW",
                r#"["127.0.0.0/8"]"#.to_owned(),
            )],
        },
    )
    .await;
    village.npc("keeper", "openai/scripted");
    village.cli_json(&[&["mcp", "add", "Peer"], trial.add].concat());

    // Nobody has it, and its Tools can be read.
    let tested = village.cli_json(&["mcp", "test", "Peer"]);
    assert_eq!(tested["ok"], true, "{tested:#}");
    let full_name = format!("peer__{}", trial.tool);
    let listed = tested["tools"].as_array().unwrap();
    assert!(
        listed
            .iter()
            .any(|tool| tool["fullName"] == full_name.as_str()),
        "{tested:#}"
    );
    assert_eq!(
        village.cli_json(&["npc", "tools", "keeper"])["tools"],
        json!([])
    );

    village.cli_json(&["grant", "add", "keeper", "mcp:Peer"]);
    // On a busy machine a command may need longer to start than a turn waits.
    village.until_offered("keeper", &full_name).await;
    village.chat_completions.script([
        Step::new().call(&full_name, &trial.arguments),
        Step::new().text("Done."),
    ]);
    village.chat("keeper", "c", "Use it.").await;

    let first = &village.chat_completions.requests()[0];
    assert!(
        first.tools().contains(&full_name.as_str()),
        "{:?}",
        first.tools()
    );
    let shown = village.conversation("c").await;
    let parts = shown["messages"][1]["parts"].as_array().unwrap();
    let call = parts
        .iter()
        .find(|part| part["type"] == "dynamic-tool")
        .unwrap_or_else(|| panic!("{shown:#}"));
    assert_eq!(call["state"], "output-available", "{call:#}");
    assert!(
        call["output"].as_str().unwrap().contains(trial.expected),
        "{call:#}"
    );
    village.finish().await;
}

async fn everything_over_stdio(shape: Shape) {
    let trial = Trial {
        add: &[
            "stdio",
            "--",
            &node(),
            &npm_server("server-everything"),
            "stdio",
        ],
        tool: "echo",
        arguments: json!({"message": "over stdio"}),
        expected: "over stdio",
    };
    works(shape, trial).await;
}

async fn everything_over_streamable_http(shape: Shape) {
    let server = Listening::everything("streamableHttp");
    let trial = Trial {
        add: &["http", &server.url("/mcp")],
        tool: "echo",
        arguments: json!({"message": "over http"}),
        expected: "over http",
    };
    works(shape, trial).await;
}

async fn everything_over_sse(shape: Shape) {
    let server = Listening::everything("sse");
    let trial = Trial {
        add: &["sse", &server.url("/sse")],
        tool: "echo",
        arguments: json!({"message": "over sse"}),
        expected: "over sse",
    };
    works(shape, trial).await;
}

async fn the_filesystem_over_stdio(shape: Shape) {
    let folder = folder();
    let root = folder.path().to_str().unwrap();
    let trial = Trial {
        add: &[
            "stdio",
            "--",
            &node(),
            &npm_server("server-filesystem"),
            root,
        ],
        tool: "read_text_file",
        arguments: json!({"path": folder.path().join("note.txt")}),
        expected: "The well is deep.",
    };
    works(shape, trial).await;
}

async fn memory_over_stdio(shape: Shape) {
    let folder = folder();
    let file = format!(
        "MEMORY_FILE_PATH={}",
        folder.path().join("memory.json").display()
    );
    let trial = Trial {
        add: &[
            "stdio",
            "--env",
            &file,
            "--",
            &node(),
            &npm_server("server-memory"),
        ],
        tool: "create_entities",
        arguments: json!({"entities": [{"name": "Anna", "entityType": "person", "observations": ["keeps bees"]}]}),
        expected: "keeps bees",
    };
    works(shape, trial).await;
}

async fn time_over_stdio(shape: Shape) {
    let trial = Trial {
        add: &["stdio", "--", &python("mcp-server-time")],
        tool: "get_current_time",
        arguments: json!({"timezone": "Etc/UTC"}),
        expected: "Etc/UTC",
    };
    works(shape, trial).await;
}

async fn git_over_stdio(shape: Shape) {
    let repository = repository();
    let path = repository.path().to_str().unwrap();
    let trial = Trial {
        add: &[
            "stdio",
            "--",
            &python("mcp-server-git"),
            "--repository",
            path,
        ],
        tool: "git_log",
        arguments: json!({"repo_path": path}),
        expected: "Hang the bell",
    };
    works(shape, trial).await;
}

async fn fastmcp_over_stdio(shape: Shape) {
    let trial = Trial {
        add: &["stdio", "--", &python("python"), "-c", FASTMCP],
        tool: "add",
        arguments: json!({"a": 19, "b": 23}),
        expected: "42",
    };
    works(shape, trial).await;
}

async fn fastmcp_over_streamable_http(shape: Shape) {
    let server = Listening::fastmcp("http");
    let trial = Trial {
        add: &["http", &server.url("/mcp")],
        tool: "add",
        arguments: json!({"a": 19, "b": 23}),
        expected: "42",
    };
    works(shape, trial).await;
}

async fn fastmcp_over_sse(shape: Shape) {
    let server = Listening::fastmcp("sse");
    let trial = Trial {
        add: &["sse", &server.url("/sse")],
        tool: "add",
        arguments: json!({"a": 19, "b": 23}),
        expected: "42",
    };
    works(shape, trial).await;
}
