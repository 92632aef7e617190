//! A small MCP Server over standard input and output: JSON-RPC 2.0, one message a line
//! (<https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio>).
//!
//! It keeps a village's ledger, by heart.

use std::io::{self, BufRead, Read as _, Write};

use serde_json::{Value, json};

/// Its name in the demo's Village, and what its Tool is called there.
pub(crate) const SERVER: &str = "Ledger";
pub(crate) const TOOL: &str = "ledger__balance";
/// An account, and what is in it.
pub(crate) const ACCOUNT: &str = "lantern fund";
const BALANCES: [(&str, &str); 2] = [
    (ACCOUNT, "128 crowns, 3 of them foreign"),
    ("roof", "1,040 crowns"),
];
/// Versions of the protocol with a handshake, the newest first.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// The longest line that is read.
const LINE_BYTES: u64 = 1_024 * 1_024;
/// JSON-RPC's codes (<https://www.jsonrpc.org/specification#error_object>).
const PARSE_ERROR: i32 = -32_700;
const NO_SUCH_METHOD: i32 = -32_601;
const WRONG_PARAMETERS: i32 = -32_602;

/// Answers until the input ends.
///
/// # Errors
/// Reading or writing failed, or a line is longer than 1 MiB.
pub(crate) fn serve(mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    loop {
        let mut line = Vec::new();
        let read = (&mut input).take(LINE_BYTES).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        if read as u64 == LINE_BYTES && !line.ends_with(b"\n") {
            return Err(io::Error::other("a message is longer than 1 MiB"));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        if let Some(answer) = answer(&line) {
            writeln!(output, "{answer}")?;
            output.flush()?;
        }
    }
}

/// The answer to a request; nothing to a notification.
fn answer(line: &[u8]) -> Option<Value> {
    let Ok(request) = serde_json::from_slice::<Value>(line) else {
        return Some(
            json!({ "jsonrpc": "2.0", "id": null, "error": { "code": PARSE_ERROR, "message": "this is not JSON" } }),
        );
    };
    let id = request.get("id")?.clone();
    let method = request["method"].as_str().unwrap_or_default();
    Some(match result(method, &request["params"]) {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err((code, message)) => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
        }
    })
}

fn result(method: &str, params: &Value) -> Result<Value, (i32, String)> {
    match method {
        "initialize" => Ok(json!({
            "protocolVersion": version(params["protocolVersion"].as_str()),
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "village-ledger", "version": env!("CARGO_PKG_VERSION") },
        })),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({ "tools": [{
            "name": "balance",
            "description": "Says what is in an account of the village: \"lantern fund\" or \"roof\".",
            "inputSchema": {
                "type": "object",
                "properties": { "account": { "type": "string", "description": "The account's name" } },
                "required": ["account"],
            },
            "annotations": { "readOnlyHint": true },
        }] })),
        "tools/call" if params["name"] == "balance" => Ok(balance(&params["arguments"])),
        "tools/call" => Err((WRONG_PARAMETERS, "there is no such Tool".to_owned())),
        _ => Err((NO_SUCH_METHOD, "there is no such method".to_owned())),
    }
}

/// The version that is spoken: the client's, if it is known here, else the newest.
fn version(wanted: Option<&str>) -> &'static str {
    VERSIONS
        .into_iter()
        .find(|known| Some(*known) == wanted)
        .unwrap_or(VERSIONS[0])
}

fn balance(arguments: &Value) -> Value {
    let account = arguments["account"].as_str().unwrap_or_default();
    let found = BALANCES
        .into_iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(account));
    match found {
        Some((name, amount)) => {
            json!({ "content": [{ "type": "text", "text": format!("{name}: {amount}") }], "isError": false })
        }
        None => {
            json!({ "content": [{ "type": "text", "text": "there is no such account; there are lantern fund and roof" }], "isError": true })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &str) -> Vec<Value> {
        let mut out = Vec::new();
        serve(lines.as_bytes(), &mut out).unwrap();
        String::from_utf8(out)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn a_client_shakes_hands_lists_and_calls() {
        let said = said(
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":"two","method":"tools/list"}

{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"balance","arguments":{"account":"Roof"}}}
{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"balance","arguments":{"account":"moon"}}}
"#,
        );
        assert_eq!(said.len(), 4);
        assert_eq!(said[0]["result"]["protocolVersion"], "2025-06-18");
        assert_eq!(said[1]["id"], "two");
        assert_eq!(said[1]["result"]["tools"][0]["name"], "balance");
        assert_eq!(
            said[2]["result"]["content"][0]["text"],
            "roof: 1,040 crowns"
        );
        assert_eq!(said[3]["result"]["isError"], true);
    }

    #[test]
    fn what_it_does_not_know_is_an_error_and_not_the_end() {
        let said = said(
            "no JSON\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n",
        );
        assert_eq!(said[0]["error"]["code"], PARSE_ERROR);
        assert_eq!(said[1]["error"]["code"], NO_SUCH_METHOD);
        assert_eq!(said[2]["result"], json!({}));
    }

    #[test]
    fn an_endless_line_ends_it() {
        let endless = vec![b'x'; 2 * 1_024 * 1_024];
        assert!(serve(endless.as_slice(), io::sink()).is_err());
    }
}
