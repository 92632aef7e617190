//! Answers in one piece, and what a request's headers say.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::ReplyBody;
use crate::mcp::script::MODERN;

/// What a modern request's headers lack.
pub(super) fn misses_a_header(headers: &HeaderMap, message: &Value) -> Option<&'static str> {
    if header(headers, "mcp-protocol-version") != Some(MODERN) {
        return Some("MCP-Protocol-Version does not match");
    }
    if header(headers, "mcp-method") != message["method"].as_str() {
        return Some("Mcp-Method does not match");
    }
    let named = header(headers, "mcp-name").and_then(plain);
    let calls = message["method"] == "tools/call";
    if calls && named.as_deref() != message["params"]["name"].as_str() {
        return Some("Mcp-Name does not match");
    }
    None
}

/// A value that could not stand in a header as it was is in base64 there (2026-07-28, Transports, "Value Encoding").
fn plain(value: &str) -> Option<String> {
    let encoded = value
        .strip_prefix("=?base64?")
        .and_then(|value| value.strip_suffix("?="));
    match encoded {
        Some(encoded) => String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

pub(super) fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

pub(super) fn rpc_error(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

pub(super) fn json_reply(status: u16, message: &Value) -> Response<ReplyBody> {
    let headers = [("content-type", "application/json".to_owned())];
    reply(status, &headers, &message.to_string())
}

pub(super) fn reply(
    status: u16,
    headers: &[(&'static str, String)],
    body: &str,
) -> Response<ReplyBody> {
    let mut response = Response::builder()
        .status(StatusCode::from_u16(status).expect("a status that was scripted well"));
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    let body = http_body_util::Full::new(Bytes::copy_from_slice(body.as_bytes()));
    response
        .body(body.map_err(|never| match never {}).boxed())
        .expect("a reply that was scripted well")
}
