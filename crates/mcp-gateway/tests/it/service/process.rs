//! The binary alone, and what it needs.

use std::process::{Command, Output};

fn start(settings: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mcp-gateway"))
        .env_clear()
        .env("AGENTSVILLE__GRPC__LISTEN", "127.0.0.1:0")
        .env("AGENTSVILLE__ADMIN__LISTEN", "127.0.0.1:0")
        .envs(settings.iter().copied())
        .output()
        .expect("the binary starts")
}

#[test]
fn what_it_cannot_start_with_is_said() {
    let data = tempfile::tempdir().expect("a folder");
    let data = data.path().to_str().expect("UTF-8");
    let dir = ("AGENTSVILLE__DATA_DIR", data);
    let secret = ("BETTER_AUTH_SECRET", "a root secret of 32 bytes, at least");
    let peer = ("AGENTSVILLE__PEERS__TOOL_REGISTRY", "http://127.0.0.1:1");
    for (settings, words) in [
        (vec![dir, peer], "BETTER_AUTH_SECRET"),
        (
            vec![dir, peer, ("BETTER_AUTH_SECRET", "short")],
            "at least 32 are needed",
        ),
        (vec![dir, secret], "AGENTSVILLE__PEERS__TOOL_REGISTRY"),
        (
            vec![dir, secret, peer, ("AGENTSVILLE__MCP__CALL_SECONDS", "0")],
            "mcp.call_seconds is 0; set it to 1 to 3600",
        ),
        (
            vec![dir, secret, peer, ("AGENTSVILLE__MCP__CALL_SECOND", "1")],
            "AGENTSVILLE__MCP__CALL_SECONDS",
        ),
    ] {
        let output = start(&settings);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(words), "{said}");
    }
    let made = std::fs::read_dir(data).expect("the folder").count();
    assert_eq!(made, 0, "it makes no secret of its own");
}
