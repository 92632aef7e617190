//! Messages of a Conversation as they are stored.

use std::io::{self, Write};

use kernel::JsonText;
use serde::Deserialize;

use super::{Bounds, Ink, Screen, Style, excerpt, json_excerpt, one_line};

/// A `UIMessage`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Message {
    role: String,
    #[serde(default)]
    parts: Vec<Part>,
}

// Flat for the same reason as a chunk: digits survive only where serde does not buffer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    r#type: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    tool_name: String,
    #[serde(default)]
    state: String,
    input: Option<JsonText>,
    output: Option<JsonText>,
    error_text: Option<String>,
    data: Option<JsonText>,
    #[serde(default)]
    url: String,
    #[serde(default)]
    media_type: String,
}

#[derive(Debug, Deserialize)]
struct Notice {
    text: String,
}

/// Writes Messages as a transcript.
pub fn write<W: Write>(out: W, style: Style, messages: &[Message]) -> io::Result<()> {
    let mut screen = Screen::new(out, style, None);
    for message in messages {
        let speaker = if message.role == "user" { "you" } else { "NPC" };
        for part in &message.parts {
            write_part(&mut screen, style, speaker, part)?;
        }
    }
    screen.gap()
}

fn write_part<W: Write>(
    screen: &mut Screen<W>,
    style: Style,
    speaker: &str,
    part: &Part,
) -> io::Result<()> {
    match part.r#type.as_str() {
        "text" => {
            section(screen, &style.paint(Ink::Speaker, speaker))?;
            screen.flow(&part.text)?;
            screen.end_flow()
        }
        "reasoning" => {
            section(
                screen,
                &style.paint(Ink::Quiet, &format!("{speaker} thinks")),
            )?;
            screen.flow(&part.text)?;
            screen.end_flow()
        }
        "dynamic-tool" => tool(screen, style, part),
        "file" => {
            section(screen, &style.paint(Ink::Quiet, "file"))?;
            let text = format!("{} at {}", one_line(&part.media_type), one_line(&part.url));
            screen.indented(&text, None)
        }
        "data-notice" => {
            section(screen, &style.paint(Ink::Notice, "notice"))?;
            let text = part
                .data
                .as_ref()
                .and_then(|data| serde_json::from_str::<Notice>(data.as_str()).ok())
                .map(|notice| notice.text)
                .unwrap_or_default();
            lines(screen, &excerpt(&text, Bounds::TOOL), None)
        }
        _ => Ok(()),
    }
}

fn tool<W: Write>(screen: &mut Screen<W>, style: Style, part: &Part) -> io::Result<()> {
    let verdict = match part.state.as_str() {
        "output-available" => style.paint(Ink::Good, "came back"),
        "output-error" => style.paint(Ink::Bad, "FAILED"),
        "output-denied" => style.paint(Ink::Bad, "denied"),
        "input-streaming" => style.paint(Ink::Notice, "is being written"),
        _ => style.paint(Ink::Notice, "in flight"),
    };
    let name: String = kernel::strip_control(&part.tool_name)
        .chars()
        .filter(|c| !c.is_whitespace())
        .take(80)
        .collect();
    section(
        screen,
        &format!(
            "{}  {verdict}",
            style.paint(Ink::Tool, &format!("tool {name}"))
        ),
    )?;
    if let Some(input) = part.input.as_ref().filter(|input| input.as_str() != "{}") {
        let mut sent = json_excerpt(input, Bounds::TOOL);
        if let Some(first) = sent.first_mut() {
            first.insert_str(0, "sent ");
        }
        lines(screen, &sent, Some(Ink::Quiet))?;
    }
    if let Some(sentence) = &part.error_text {
        lines(screen, &excerpt(sentence, Bounds::TOOL), Some(Ink::Bad))?;
    }
    match &part.output {
        Some(output) => lines(screen, &json_excerpt(output, Bounds::TOOL), None),
        None => Ok(()),
    }
}

fn section<W: Write>(screen: &mut Screen<W>, heading: &str) -> io::Result<()> {
    screen.gap()?;
    screen.heading(heading)
}

fn lines<W: Write>(screen: &mut Screen<W>, lines: &[String], ink: Option<Ink>) -> io::Result<()> {
    lines.iter().try_for_each(|line| screen.indented(line, ink))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_messages_read_like_the_live_transcript() {
        let messages: Vec<Message> = serde_json::from_str(
            r#"[
            {"id":"1","role":"user","parts":[{"type":"text","text":"Hello"}]},
            {"id":"2","role":"assistant","parts":[
                {"type":"step-start"},
                {"type":"text","text":"Let me\u001b[2J see.","state":"done"},
                {"type":"dynamic-tool","toolName":"current_time","toolCallId":"a","state":"output-available","input":{},"output":"noon"},
                {"type":"dynamic-tool","toolName":"fetch_url","toolCallId":"b","state":"output-error","input":{"n":12345678901234567890123},"errorText":"blocked"},
                {"type":"file","mediaType":"image/png","url":"/v1/media/1"},
                {"type":"dynamic-tool","toolName":"x\ndone","toolCallId":"c","state":"input-available","input":{}},
                {"type":"data-notice","data":{"code":"limit","text":"enough"}}]}]"#,
        )
        .unwrap();
        let mut out = Vec::new();
        write(&mut out, Style::Plain, &messages).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "you\n  Hello\n\nNPC\n  Let me[2J see.\n\ntool current_time  came back\n  noon\n\ntool fetch_url  FAILED\n  sent {\"n\":12345678901234567890123}\n  blocked\n\nfile\n  image/png at /v1/media/1\n\ntool xdone  in flight\n\nnotice\n  enough\n\n"
        );
    }
}
