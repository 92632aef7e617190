//! `guard check`: what the guard says of a URL or address. Needs no Village.

use std::io::{self, BufRead};

use futures::StreamExt as _;
use outbound::{Check, CheckVerdict, Config, Connector};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::TaskTracker;

use crate::{
    app::App,
    cli::{GuardCheckArgs, GuardCommand},
    failure::Failure,
    output::Format,
};

/// Bytes of a line that are read: far past the longest URL that is judged, so that only the bound differs.
const LINE_BYTES: usize = 64 * 1_024;
/// Lines whose names are looked up at the same time; answers keep the order.
const AT_ONCE: usize = 16;

/// With what lines are judged.
#[derive(Debug, Clone)]
enum Judge {
    Offline,
    Online(Connector),
}

impl Judge {
    async fn check(&self, line: Line) -> Check {
        match (line, self) {
            (Line::Text(text), Self::Offline) => outbound::check_offline(&text),
            (Line::Text(text), Self::Online(connector)) => outbound::check(connector, &text).await,
            (Line::NotUtf8(shown), _) => refused(shown, "not-utf-8", "the text is not UTF-8"),
            (Line::TooLong(shown), _) => refused(
                shown,
                "too-long",
                "the line is longer than 65536 bytes; what is shown is its start",
            ),
        }
    }
}

/// A line as it came in, without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    Text(String),
    /// With U+FFFD in place of what is not UTF-8.
    NotUtf8(String),
    /// The start of it.
    TooLong(String),
}

fn refused(input: String, rule: &'static str, sentence: &str) -> Check {
    Check {
        input,
        verdict: CheckVerdict::Error,
        rule: Some(rule),
        address: None,
        sentence: sentence.to_owned(),
    }
}

pub(crate) async fn run(app: &App, command: &GuardCommand) -> Result<(), Failure> {
    let GuardCommand::Check(arguments) = command;
    let judge = judge(app, arguments)?;
    match &arguments.target {
        Some(target) => {
            let line = match target.to_str() {
                Some(text) => Line::Text(text.to_owned()),
                None => Line::NotUtf8(target.to_string_lossy().into_owned()),
            };
            let check = judge.check(line).await;
            say(app, &check)?;
            match check.verdict {
                CheckVerdict::Allow => Ok(()),
                CheckVerdict::Block | CheckVerdict::Error => Err(Failure::Said),
            }
        }
        None => lines(app, &judge).await,
    }
}

fn judge(app: &App, arguments: &GuardCheckArgs) -> Result<Judge, Failure> {
    if arguments.offline {
        return Ok(Judge::Offline);
    }
    let config: Config = app
        .settings()?
        .section("outbound")
        .map_err(Failure::precondition)?;
    let connector = Connector::new(&config, TaskTracker::new()).map_err(Failure::precondition)?;
    Ok(Judge::Online(connector))
}

/// Answers each line of standard input. A thread reads, so that a line is answered although the next has not come yet.
async fn lines(app: &App, judge: &Judge) -> Result<(), Failure> {
    let (sender, receiver) = tokio::sync::mpsc::channel(AT_ONCE);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        while let Some(line) = read_line(&mut input).transpose() {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    let mut checks = ReceiverStream::new(receiver)
        .map(|line| async move {
            match line {
                Ok(line) => Ok(judge.check(line).await),
                Err(error) => Err(error),
            }
        })
        .boxed_local()
        .buffered(AT_ONCE);
    while let Some(check) = checks.next().await {
        let check = check.map_err(|error| {
            Failure::precondition(format!("cannot read standard input: {error}"))
        })?;
        say(app, &check)?;
    }
    drop(checks);
    Ok(())
}

/// One line without its `\n`, and nothing else taken off; `None` at the end. A longer one is read to its end and cut.
fn read_line(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut bytes = Vec::new();
    let mut too_long = false;
    let mut began = false;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            break;
        }
        began = true;
        let end = memchr::memchr(b'\n', available);
        let part = &available[..end.unwrap_or(available.len())];
        let room = LINE_BYTES - bytes.len();
        too_long |= part.len() > room;
        bytes.extend_from_slice(&part[..part.len().min(room)]);
        let used = end.map_or(available.len(), |at| at + 1);
        input.consume(used);
        if end.is_some() {
            break;
        }
    }
    if !began {
        return Ok(None);
    }
    if too_long {
        return Ok(Some(Line::TooLong(
            String::from_utf8_lossy(&bytes).into_owned(),
        )));
    }
    Ok(Some(match String::from_utf8(bytes) {
        Ok(text) => Line::Text(text),
        Err(error) => Line::NotUtf8(String::from_utf8_lossy(error.as_bytes()).into_owned()),
    }))
}

fn say(app: &App, check: &Check) -> Result<(), Failure> {
    if app.output.format() == Format::Json {
        return Ok(app.output.json_of(check)?);
    }
    let verdict = match check.verdict {
        CheckVerdict::Allow => "allow",
        CheckVerdict::Block => "block",
        CheckVerdict::Error => "error",
    };
    let input = kernel::strip_control(&check.input).replace(['\n', '\t'], " ");
    let shown: String = input.chars().take(200).collect();
    let rule = check
        .rule
        .map(|rule| format!(" [{rule}]"))
        .unwrap_or_default();
    app.output
        .line(&format!("{verdict}  {shown}{rule}  {}", check.sentence))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(bytes: &[u8], buffer: usize) -> Vec<Line> {
        let mut input = io::BufReader::with_capacity(buffer, bytes);
        std::iter::from_fn(|| read_line(&mut input).unwrap()).collect()
    }

    #[test]
    fn only_the_line_end_is_taken_off_and_blank_lines_count() {
        let text = |line: &str| Line::Text(line.to_owned());
        for buffer in [1, 2, 7, 4_096] {
            assert_eq!(
                lines_of(b" 1.1.1.1 \n\n\t\nx\r\nlast", buffer),
                [
                    text(" 1.1.1.1 "),
                    text(""),
                    text("\t"),
                    text("x\r"),
                    text("last")
                ]
            );
        }
        assert_eq!(lines_of(b"", 8), []);
        assert_eq!(lines_of(b"\n", 8), [text("")]);
    }

    #[test]
    fn a_huge_line_costs_a_bounded_amount_of_memory_and_the_next_is_read() {
        let mut bytes = vec![b'a'; LINE_BYTES + 1];
        bytes.extend_from_slice(b"\n1.1.1.1\n");
        let lines = lines_of(&bytes, 4_096);
        assert!(matches!(&lines[0], Line::TooLong(start) if start.len() == LINE_BYTES));
        assert_eq!(lines[1], Line::Text("1.1.1.1".to_owned()));
        let mut fits = vec![b'a'; LINE_BYTES];
        fits.push(b'\n');
        assert!(matches!(&lines_of(&fits, 4_096)[..], [Line::Text(_)]));
    }

    #[test]
    fn what_is_not_utf_8_is_an_error_and_not_a_crash() {
        assert_eq!(
            lines_of(b"https://\xff/\nok", 8),
            [
                Line::NotUtf8("https://\u{FFFD}/".to_owned()),
                Line::Text("ok".to_owned())
            ]
        );
    }
}
