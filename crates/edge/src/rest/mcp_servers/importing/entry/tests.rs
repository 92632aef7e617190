use serde_json::json;

use super::*;

fn read(entry: Value) -> Result<Entry, String> {
    Entry::read("Docs", entry)
}

fn refusal(entry: Value) -> String {
    read(entry).err().unwrap()
}

fn secret(name: &str, value: &str) -> NamedSecret {
    NamedSecret {
        name: name.to_owned(),
        value: value.to_owned(),
    }
}

#[test]
fn an_entry_of_claude_desktop_is_a_command() {
    let entry = read(json!({
        "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"],
        "env": {"TOKEN": "t", "DEPTH": 3, "QUIET": true}, "cwd": "/srv",
    }))
    .unwrap();
    assert_eq!(
        entry.request,
        CreateMcpServerRequest {
            name: "Docs".to_owned(),
            transport: McpTransport::Stdio.into(),
            command: "npx".to_owned(),
            arguments: ["-y", "@modelcontextprotocol/server-filesystem", "/srv"]
                .map(str::to_owned)
                .to_vec(),
            // `serde_json` keeps a map by name.
            environment: vec![
                secret("DEPTH", "3"),
                secret("QUIET", "true"),
                secret("TOKEN", "t"),
            ],
            working_directory: "/srv".to_owned(),
            ..CreateMcpServerRequest::default()
        }
    );
    assert!(!entry.disabled && entry.ignored.is_empty());
}

#[test]
fn an_entry_with_a_url_is_http_unless_its_type_says_more() {
    for (kind, transport) in [
        (json!(null), McpTransport::Http),
        (json!("http"), McpTransport::Http),
        (json!("streamable-http"), McpTransport::Http),
        (json!("streamableHttp"), McpTransport::Http),
        (json!("SSE"), McpTransport::Sse),
    ] {
        for field in ["type", "transport"] {
            let entry = read(json!({
                "url": "https://docs.example/mcp", field: kind, "headers": {"x-key": "k"},
            }))
            .unwrap();
            assert_eq!(entry.request.transport(), transport);
            assert_eq!(entry.request.headers, [secret("x-key", "k")]);
        }
    }
}

#[test]
fn disabled_is_kept_and_what_means_nothing_here_is_named() {
    let entry = read(json!({
        "url": "https://docs.example/mcp", "disabled": true, "autoApprove": ["x"], "timeout": 5,
    }))
    .unwrap();
    assert!(entry.disabled);
    assert_eq!(entry.ignored, ["\"autoApprove\"", "\"timeout\""]);
    let entry = read(json!({"command": "x", "enabled": false})).unwrap();
    assert!(entry.disabled);
}

#[test]
fn a_placeholder_is_refused_wherever_it_stands() {
    for entry in [
        json!({"url": "https://x.example/${input:path}"}),
        json!({"url": "https://x.example/", "headers": {"authorization": "Bearer ${env:TOKEN}"}}),
        json!({"command": "${workspaceFolder}/run"}),
        json!({"command": "run", "args": ["--key", "${input:key}"]}),
        json!({"command": "run", "env": {"KEY": "${KEY}"}}),
        json!({"command": "run", "cwd": "${workspaceFolder}"}),
    ] {
        let sentence = refusal(entry);
        assert!(sentence.contains("the placeholder ${"), "{sentence}");
    }
    let shells = read(json!({"command": "run", "args": ["$HOME", "{x}", "$", "${"]}));
    assert!(shells.is_ok());
}

#[test]
fn a_refusal_names_the_field_and_never_the_value() {
    for (entry, sentence) in [
        (json!("8675309"), "it is no object"),
        (json!({}), "it has neither a command nor a url"),
        (
            json!({"type": "stdio", "url": "https://8675309.example"}),
            "needs a command",
        ),
        (json!({"type": "sse", "command": "8675309"}), "needs a url"),
        (
            json!({"type": "ws", "url": "x"}),
            "not one of http, streamable-http, sse, stdio",
        ),
        (json!({"command": ["8675309"]}), "command is no text"),
        (
            json!({"command": "x", "args": "8675309"}),
            "args is no list of texts",
        ),
        (
            json!({"command": "x", "args": [8_675_309]}),
            "args is no list of texts",
        ),
        (
            json!({"command": "x", "env": {"KEY": ["8675309"]}}),
            "env.KEY is no text",
        ),
        (
            json!({"command": "x", "env": "8675309"}),
            "env is no object",
        ),
        (
            json!({"url": "https://x.example", "headers": {"authorization": "8675309 ${x}"}}),
            "headers.authorization holds the placeholder ${x}",
        ),
        (
            json!({"command": "x", "envFile": "8675309"}),
            "envFile is a file",
        ),
        (
            json!({"command": "x", "disabled": "8675309"}),
            "disabled is neither true nor false",
        ),
    ] {
        let said = refusal(entry);
        assert!(said.contains(sentence), "{said}");
        assert!(!said.contains("8675309"), "{said}");
    }
}
