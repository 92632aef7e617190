//! The Tools of a scripted MCP Server.

use std::time::Duration;

use serde_json::{Value, json};

use super::script::Act;

/// One pixel, a PNG.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// The list of them.
pub fn all() -> Vec<Value> {
    vec![
        tool(
            "echo",
            "Says what it is told.",
            &json!({"text": {"type": "string"}}),
            &["text"],
        ),
        tool(
            "add",
            "Adds two numbers.",
            &json!({"a": {"type": "number"}, "b": {"type": "number"}}),
            &["a", "b"],
        ),
        tool(
            "slow",
            "Takes its time, and tells how far it is.",
            &json!({"steps": {"type": "integer"}, "step_milliseconds": {"type": "integer"}}),
            &[],
        ),
        plain("fail"),
        plain("count"),
        plain("image"),
        plain("audio"),
        plain("resource"),
        plain("link"),
        plain("unknown"),
        plain("structured"),
    ]
}

/// A Tool that takes nothing.
pub fn plain(name: &str) -> Value {
    tool(name, "A Tool of a test.", &json!({}), &[])
}

fn tool(name: &str, description: &str, properties: &Value, required: &[&str]) -> Value {
    json!({
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties, "required": required}
    })
}

/// What a call gives; `calls` counts those of the conversation, this one included.
pub(crate) fn call(params: &Value, calls: usize) -> Result<Value, (i64, String)> {
    let arguments = &params["arguments"];
    let name = params["name"].as_str().unwrap_or_default();
    let one = |content: Value| Ok(json!({"content": [content]}));
    let text = |text: String| one(json!({"type": "text", "text": text}));
    match name {
        "echo" => text(arguments["text"].as_str().unwrap_or_default().to_owned()),
        "add" => {
            let number = |key: &str| arguments[key].as_f64().unwrap_or_default();
            text((number("a") + number("b")).to_string())
        }
        "slow" => text("done".to_owned()),
        "count" => text(calls.to_string()),
        "fail" => Ok(json!({
            "isError": true,
            "content": [{"type": "text", "text": "it failed, as it was told to"}]
        })),
        "image" => one(json!({"type": "image", "data": PIXEL, "mimeType": "image/png"})),
        "audio" => one(json!({"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"})),
        "resource" => one(json!({
            "type": "resource",
            "resource": {"uri": "test://a", "mimeType": "text/plain", "text": "what is in it"}
        })),
        "link" => one(json!({
            "type": "resource_link", "uri": "test://b", "name": "b", "description": "another"
        })),
        "unknown" => one(json!({"type": "hologram", "data": {"depth": 3}})),
        "structured" => Ok(json!({
            "content": [{"type": "text", "text": "structured"}],
            "structuredContent": {"answer": 42}
        })),
        _ if name.starts_with("tool_") => text(name.to_owned()),
        _ => Err((-32_602, format!("Unknown tool: {name}"))),
    }
}

/// What happens before a call gives something.
pub(crate) fn meanwhile(message: &Value) -> Vec<Act> {
    let params = &message["params"];
    if params["name"] != "slow" {
        return Vec::new();
    }
    let number = |key: &str, usual: u64| params["arguments"][key].as_u64().unwrap_or(usual);
    let steps = number("steps", 3);
    let pause = Duration::from_millis(number("step_milliseconds", 10));
    let token = &params["_meta"]["progressToken"];
    (1..=steps)
        .flat_map(|step| {
            let progress = (!token.is_null()).then(|| {
                Act::Say(json!({
                    "jsonrpc": "2.0", "method": "notifications/progress",
                    "params": {
                        "progressToken": token, "progress": step, "total": steps,
                        "message": format!("step {step}")
                    }
                }))
            });
            [Some(Act::Pause(pause)), progress]
        })
        .flatten()
        .collect()
}
