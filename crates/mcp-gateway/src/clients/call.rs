//! One call of a Tool on one client.

use std::time::Duration;

use kernel::JsonText;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, InputResponses, JsonObject,
};
use tokio::time::Instant;

use super::{
    Call, Progress,
    client::{Client, Retired},
    request::{Request, Wrong, silent, sort, words},
};
use crate::{CallEnd, Config, Failure, FailureCode, Handling, connect::responses, content};

/// Times that a server may ask before it gives a result.
const MAX_ROUNDS: usize = 8;

/// Runs a call to its end: an answer, silence for too long, the hard limit, or the end of its client.
pub(super) async fn run(
    client: &Client,
    config: &Config,
    server: &str,
    call: &Call,
    progress: &(dyn Fn(Progress) + Send + Sync),
) -> CallEnd {
    let Some(arguments) = arguments(&call.arguments) else {
        return CallEnd::BadAnswer(
            "The arguments hold a number that cannot be carried digit for digit; pass it as text."
                .to_owned(),
        );
    };
    let silence = Duration::from_secs(config.call_seconds);
    let total = Duration::from_secs(config.call_total_seconds);
    let end = call.deadline.min(Instant::now() + total);
    let slot = tokio::time::timeout_at(end, client.slot()).await;
    let Ok(_slot) = slot else {
        return CallEnd::Failed(busy(server));
    };
    let mut params = CallToolRequestParams::new(call.tool.clone()).with_arguments(arguments);
    for _round in 0..MAX_ROUNDS {
        let result = match one(
            client,
            server,
            call,
            params.clone(),
            (silence, end),
            progress,
        )
        .await
        {
            Ok(result) => result,
            Err(end) => return end,
        };
        match more(client.connection().handling(), &result) {
            None => return content::read(config, &result),
            Some((responses, state)) => {
                params.input_responses = Some(responses);
                params.request_state = state;
            }
        }
    }
    CallEnd::BadAnswer("The server asks without end before it gives a result.".to_owned())
}

/// Sends one request, and waits for its result.
async fn one(
    client: &Client,
    server: &str,
    call: &Call,
    params: CallToolRequestParams,
    (silence, end): (Duration, Instant),
    progress: &(dyn Fn(Progress) + Send + Sync),
) -> Result<JsonText, CallEnd> {
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let begun = Instant::now();
    let sent = tokio::time::timeout_at(end, Request::send(client, request)).await;
    let mut request = match sent {
        Ok(Ok(request)) => request,
        Ok(Err(error)) => return Err(wrong(client, sort(client, error))),
        Err(_elapsed) => return Err(CallEnd::Failed(silent(&call.tool, begun.elapsed()))),
    };
    let id = request.id();
    let mut told = client.connection().progress(request.progress_token());
    let mut quiet_until = Instant::now() + silence;
    loop {
        tokio::select! {
            biased;
            answer = request.answer() => return match answer {
                Ok(read) => {
                    let answers = client.connection().answers();
                    let result = id.and_then(|id| answers.take_call(&id, &read));
                    result.ok_or_else(|| {
                        CallEnd::BadAnswer("The server's answer is no JSON that can be read.".to_owned())
                    })
                }
                Err(error) => Err(wrong(client, sort(client, error))),
            },
            Some(step) = told.recv() => {
                quiet_until = Instant::now() + silence;
                progress(step);
            }
            retired = client.retired() => return Err(match retired {
                Retired::Removed => CallEnd::ServerRemoved,
                Retired::Changed => CallEnd::Failed(changed(server)),
            }),
            () = tokio::time::sleep_until(quiet_until.min(end)) => {
                let waited = if quiet_until <= end { silence } else { begun.elapsed() };
                return Err(CallEnd::Failed(silent(&call.tool, waited)));
            }
        }
    }
}

/// What a server wants to know before it gives a result, answered, and what it wants back with the answers; `None` when this is its
/// result, or nobody answers.
fn more(handling: Handling, result: &JsonText) -> Option<(InputResponses, Option<String>)> {
    if handling == Handling::Decline {
        return None;
    }
    let result = result.to_value().ok()?;
    if result["resultType"] != "input_required" {
        return None;
    }
    let responses = responses(handling, &result["inputRequests"])?;
    Some((
        responses,
        result["requestState"].as_str().map(str::to_owned),
    ))
}

/// The arguments as `rmcp` carries them, unless it would round a number.
fn arguments(arguments: &JsonText) -> Option<JsonObject> {
    let object: JsonObject = serde_json::from_str(arguments.as_str()).ok()?;
    let carried = JsonText::of(&object);
    same_numbers(arguments.as_str(), carried.as_str()).then_some(object)
}

/// Whether two texts of the same value write the same numbers: as text, since a tree would have rounded both.
fn same_numbers(before: &str, after: &str) -> bool {
    let integers = |text: &str| {
        let mut found = Vec::new();
        let (mut in_string, mut escaped) = (false, false);
        let mut number = String::new();
        for character in text.chars().chain([' ']) {
            let part = !in_string
                && (character.is_ascii_digit() || matches!(character, '-' | '+' | '.' | 'e' | 'E'));
            if part && (!number.is_empty() || character.is_ascii_digit() || character == '-') {
                number.push(character);
                continue;
            }
            if !number.is_empty() {
                let digits = std::mem::take(&mut number);
                if digits.bytes().all(|b| b.is_ascii_digit() || b == b'-') && digits.len() > 15 {
                    found.push(digits);
                }
            }
            match character {
                _ if escaped => escaped = false,
                '\\' if in_string => escaped = true,
                '"' => in_string = !in_string,
                _ => {}
            }
        }
        found.sort();
        found
    };
    integers(before) == integers(after)
}

fn wrong(client: &Client, wrong: Wrong) -> CallEnd {
    match wrong {
        Wrong::Refused(error) => CallEnd::BadAnswer(format!(
            "The server refuses the call: {}.",
            words(client, &error)
        )),
        Wrong::Failed(failure) => CallEnd::Failed(failure),
    }
}

/// No client came about before the call's end.
pub(super) fn late(server: &str) -> Failure {
    Failure::new(
        FailureCode::TimedOut,
        format_args!("{server} could not be connected before the call's time was over."),
        "Try again later.",
    )
}

fn busy(server: &str) -> Failure {
    Failure::new(
        FailureCode::Busy,
        format_args!("{server} has as many calls running as it may have."),
        "Try again later.",
    )
}

fn changed(server: &str) -> Failure {
    Failure::new(
        FailureCode::Busy,
        format_args!("{server} was changed while the call ran, and its connection closed."),
        "Call again if that is right; the first call may have been carried out.",
    )
    .after_sending()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried(text: &str) -> bool {
        arguments(&JsonText::parse(text).unwrap()).is_some()
    }

    #[test]
    fn a_number_that_would_be_rounded_is_not_sent() {
        assert!(carried(
            r#"{"a":1,"b":-9223372036854775808,"c":18446744073709551615}"#
        ));
        assert!(carried(
            r#"{"a":0.1,"b":1e300,"c":"123456789012345678901234567890"}"#
        ));
        assert!(!carried(r#"{"a":123456789012345678901234567890}"#));
        assert!(!carried(r#"{"a":[{"b":-92233720368547758089}]}"#));
    }

    #[test]
    fn what_is_no_object_is_not_sent() {
        assert!(!carried("[]"));
        assert!(!carried("7"));
    }
}
