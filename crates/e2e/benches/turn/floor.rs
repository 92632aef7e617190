//! The floor: a bare client that makes the same requests of the Provider, reads the answers, and keeps nothing.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::process::Provider;

/// Runs the floor in a process of its own, so that its processor time is its alone.
pub(crate) fn measure(
    provider: &Provider,
    model: &str,
    turns: usize,
    at_once: usize,
) -> (Duration, Duration) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "floor",
            &provider.base_url,
            model,
            &turns.to_string(),
            &at_once.to_string(),
        ])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let mut numbers = text
        .split_whitespace()
        .map(|number| Duration::from_micros(number.parse().unwrap()));
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// The child's side: prints wall time and processor time in microseconds.
pub(crate) async fn run(arguments: &[String]) {
    let [base_url, model, turns, at_once] = arguments else {
        panic!("floor BASE_URL MODEL TURNS AT_ONCE")
    };
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{base_url}/chat/completions");
    let (turns, at_once): (usize, usize) = (turns.parse().unwrap(), at_once.parse().unwrap());
    let before = own_cpu();
    let start = Instant::now();
    stream::iter(0..turns)
        .for_each_concurrent(at_once, |_| turn(&client, &url, model))
        .await;
    println!(
        "{} {}",
        start.elapsed().as_micros(),
        own_cpu().saturating_sub(before).as_micros()
    );
}

/// Processor time of this process so far (proc(5), /proc/self/schedstat would count one thread only).
fn own_cpu() -> Duration {
    let mut nanos = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let stat =
            std::fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap_or_default();
        nanos += stat
            .split_whitespace()
            .next()
            .and_then(|first| first.parse::<u64>().ok())
            .unwrap_or(0);
    }
    Duration::from_nanos(nanos)
}

async fn turn(client: &reqwest::Client, url: &str, model: &str) {
    let tool = json!({"type": "function", "function": {"name": "current_time", "description": "The time.", "parameters": {"type": "object"}}});
    let mut messages = vec![json!({"role": "user", "content": "What time is it?"})];
    loop {
        let body = json!({"model": model, "stream": true, "messages": messages, "tools": [tool]});
        let response = client.post(url).json(&body).send().await.unwrap();
        let (text, calls) = read(response).await;
        if calls.is_empty() {
            return;
        }
        messages.push(json!({"role": "assistant", "content": text, "tool_calls": calls}));
        for call in &calls {
            messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "2026-01-01T00:00:00Z"}));
        }
    }
}

async fn read(response: reqwest::Response) -> (String, Vec<Value>) {
    let mut body = response.bytes_stream();
    let (mut buffer, mut text, mut calls) = (Vec::new(), String::new(), Vec::<Value>::new());
    while let Some(bytes) = body.next().await {
        buffer.extend_from_slice(&bytes.unwrap());
        while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
            let frame: Vec<u8> = buffer.drain(..end + 2).collect();
            let Some(data) = frame.strip_prefix(b"data: ") else {
                continue;
            };
            let Ok(chunk) = serde_json::from_slice::<Value>(data) else {
                continue;
            };
            let delta = &chunk["choices"][0]["delta"];
            text.push_str(delta["content"].as_str().unwrap_or_default());
            for piece in delta["tool_calls"].as_array().into_iter().flatten() {
                add(&mut calls, piece);
            }
        }
    }
    (text, calls)
}

fn add(calls: &mut Vec<Value>, piece: &Value) {
    let index = usize::try_from(piece["index"].as_u64().unwrap_or(0)).unwrap();
    if calls.len() <= index {
        calls.push(json!({"id": piece["id"], "type": "function", "function": {"name": piece["function"]["name"], "arguments": ""}}));
    }
    let arguments = piece["function"]["arguments"].as_str().unwrap_or_default();
    if let Some(Value::String(so_far)) = calls[index]["function"].get_mut("arguments") {
        so_far.push_str(arguments);
    }
}
