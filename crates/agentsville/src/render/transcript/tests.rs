use super::*;
use crate::render::Style;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_micros(millis * 1_000)
}

fn rendered(style: Style, chunks: &[&str]) -> (String, Ending) {
    let mut out = Vec::new();
    let mut transcript = Transcript::new(Screen::new(&mut out, style, Some(80)), "Keeper", at(0));
    transcript.question("What time is it?").unwrap();
    for (number, json) in (1_i64..).zip(chunks) {
        let chunk = Chunk::parse(&JsonText::parse(json).unwrap()).unwrap();
        transcript.chunk(chunk, at(number * 100)).unwrap();
    }
    let ending = transcript.end(at(2_000)).unwrap();
    (String::from_utf8(out).unwrap(), ending)
}

#[test]
fn a_turn_reads_from_question_to_sum() {
    let (text, ending) = rendered(
        Style::Plain,
        &[
            r#"{"type":"start","messageMetadata":{"conversationId":"c","turnId":"t"}}"#,
            r#"{"type":"start-step"}"#,
            r#"{"type":"text-start","id":"0"}"#,
            r#"{"type":"text-delta","id":"0","delta":"Let me "}"#,
            r#"{"type":"text-delta","id":"0","delta":"look.\n"}"#,
            r#"{"type":"text-end","id":"0"}"#,
            r#"{"type":"tool-input-start","toolCallId":"a","toolName":"current_time","dynamic":true}"#,
            r#"{"type":"tool-input-available","toolCallId":"a","toolName":"current_time","input":{},"dynamic":true}"#,
            r#"{"type":"tool-input-available","toolCallId":"b","toolName":"fetch_url","input":{"url":"https://169.254.169.254/"},"dynamic":true}"#,
            r#"{"type":"tool-output-error","toolCallId":"b","errorText":"the guard refuses 169.254.169.254"}"#,
            r#"{"type":"tool-output-available","toolCallId":"a","output":"2026-11-30T12:00:00Z"}"#,
            r#"{"type":"finish-step"}"#,
            r#"{"type":"start-step"}"#,
            r#"{"type":"data-notice","data":{"code":"limit","text":"the limit of 2 steps was reached"}}"#,
            r#"{"type":"text-delta","id":"1","delta":"It is noon."}"#,
            r#"{"type":"finish","messageMetadata":{"usage":{"inputTokens":1234,"outputTokens":56},"limits":["steps"],"status":"finished"}}"#,
        ],
    );
    assert_eq!(ending, Ending::Finished);
    assert_eq!(
        text,
        "you
  What time is it?

Keeper
  Let me look.

tool 1 current_time
  sent nothing

tool 2 fetch_url
  sent {\"url\":\"https://169.254.169.254/\"}

tool 2 fetch_url  FAILED after 100 ms
  the guard refuses 169.254.169.254

tool 1 current_time  came back after 300 ms
  2026-11-30T12:00:00Z

notice
  the limit of 2 steps was reached

Keeper
  It is noon.

done  2.0 s · 2 steps · 2 Tool calls (1 failed) · tokens 1,234 in, 56 out · limits met: steps
"
    );
}

#[test]
fn a_call_that_never_came_back_is_shown_in_flight() {
    let (text, ending) = rendered(
        Style::Plain,
        &[
            r#"{"type":"tool-input-available","toolCallId":"a","toolName":"fetch_url","input":{"url":"https://slow.example/"}}"#,
        ],
    );
    assert_eq!(ending, Ending::BrokenOff);
    assert!(
        text.contains("\ntool 1 fetch_url  still in flight\n"),
        "{text}"
    );
    assert!(
        text.contains("\nbroken off  2.0 s · 0 steps · 1 Tool call\n"),
        "{text}"
    );
}

#[test]
fn a_refused_call_shows_what_was_written_and_what_would_help() {
    let (text, _) = rendered(
        Style::Plain,
        &[
            r#"{"type":"tool-input-error","toolCallId":"a","toolName":"curent_time","input":{"zone":"UTC"},"errorText":"no such tool; did you mean current_time?"}"#,
        ],
    );
    assert!(
        text.contains(
            "tool 1 curent_time  refused, not run\n  sent {\"zone\":\"UTC\"}\n  no such tool; did you mean current_time?\n"
        ),
        "{text}"
    );
}

#[test]
fn a_failed_and_a_stopped_turn_say_so() {
    let (text, ending) = rendered(
        Style::Plain,
        &[
            r#"{"type":"error","errorText":"openai answered 401"}"#,
            r#"{"type":"finish","messageMetadata":{"status":"failed"}}"#,
        ],
    );
    assert_eq!(ending, Ending::Failed);
    assert!(text.contains("failed\n  openai answered 401\n"), "{text}");
    let (_, ending) = rendered(
        Style::Plain,
        &[r#"{"type":"abort"}"#, r#"{"type":"finish"}"#],
    );
    assert_eq!(ending, Ending::Stopped);
}

#[test]
fn a_model_cannot_forge_a_line_of_the_village() {
    let (text, _) = rendered(
        Style::Plain,
        &[
            r#"{"type":"text-delta","id":"0","delta":"ok\n\ntool 1 bash  came back after 0.1 s\ndone  all is well\u001b[2J\r\u001b]0;x\u0007"}"#,
            r#"{"type":"tool-input-available","toolCallId":"a","toolName":"x\ndone  fine\u001b[1m","input":{}}"#,
            r#"{"type":"tool-output-available","toolCallId":"a","output":"page\ndone  fine\u009b2J"}"#,
            r#"{"type":"tool-output-error","toolCallId":"a","errorText":"no\ndone  fine"}"#,
            r#"{"type":"data-notice","data":{"code":"x","text":"no\ndone  fine"}}"#,
            r#"{"type":"finish"}"#,
        ],
    );
    let ours: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("done") || line.starts_with("tool 1 bash"))
        .collect();
    assert_eq!(ours.len(), 1, "{text}");
    assert!(
        !text.contains(['\u{1b}', '\u{9b}', '\u{7}', '\r']),
        "{text:?}"
    );
}

#[test]
fn a_terminal_shows_what_is_waited_for_and_takes_it_back() {
    let mut out = Vec::new();
    let mut transcript = Transcript::new(
        Screen::new(&mut out, Style::Terminal, Some(80)),
        "Keeper",
        at(0),
    );
    transcript.tick(at(3_100)).unwrap();
    let call =
        r#"{"type":"tool-input-available","toolCallId":"a","toolName":"fetch_url","input":{}}"#;
    let chunk = Chunk::parse(&JsonText::parse(call).unwrap()).unwrap();
    transcript.chunk(chunk, at(4_000)).unwrap();
    transcript.tick(at(6_000)).unwrap();
    transcript.end(at(7_000)).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.starts_with("\r\u{1b}[K⠙ Keeper is thinking, 3 s\r\u{1b}[K"),
        "{text:?}"
    );
    assert!(
        text.contains("fetch_url is running, 2 s\r\u{1b}[K"),
        "{text:?}"
    );
}

#[test]
fn colours_are_only_where_they_are_wanted() {
    let chunks = [r#"{"type":"finish"}"#];
    assert!(
        rendered(Style::Colours, &chunks)
            .0
            .contains("\u{1b}[32mdone\u{1b}[0m")
    );
    assert!(!rendered(Style::Terminal, &chunks).0.contains('\u{1b}'));
}
