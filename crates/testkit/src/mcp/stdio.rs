//! A scripted MCP Server as a process: it reads messages from its stdin and writes to its stdout, a line each.

use std::{io, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Stdout},
    sync::Mutex,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::script::{Act, Conversation, Eras, Fault, Script};

/// Methods that faults can be about.
const METHODS: [&str; 5] = [
    "initialize",
    "server/discover",
    "tools/list",
    "tools/call",
    "ping",
];

/// Plays a script over this process's own streams, until its input ends or it breaks off.
///
/// # Errors
/// Its input cannot be read.
pub async fn speak(script: &Arc<Script>) -> io::Result<()> {
    let conversation = Arc::new(script.conversation());
    let output = Arc::new(Mutex::new(tokio::io::stdout()));
    let broken_off = CancellationToken::new();
    let tasks = TaskTracker::new();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line?,
            () = broken_off.cancelled() => return Ok(()),
        };
        let Some(line) = line else {
            return Ok(());
        };
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        let acts = conversation.receive(&message);
        let play = play(
            acts,
            Arc::clone(&conversation),
            Arc::clone(&output),
            broken_off.clone(),
        );
        tasks.spawn(play);
    }
}

async fn play(
    acts: Vec<Act>,
    conversation: Arc<Conversation>,
    output: Arc<Mutex<Stdout>>,
    broken_off: CancellationToken,
) {
    for act in acts {
        let said = match act {
            Act::Say(message) => message.to_string(),
            Act::SayText(text) => text,
            Act::Pause(time) => {
                tokio::time::sleep(time).await;
                continue;
            }
            Act::Await(id) => {
                conversation.answered(&id).await;
                continue;
            }
            Act::Hang => return,
            Act::BreakOff => {
                broken_off.cancel();
                return;
            }
        };
        let mut output = output.lock().await;
        let line = format!("{said}\n");
        // Whoever does not listen any more ends this process otherwise.
        output.write_all(line.as_bytes()).await.unwrap_or_default();
        output.flush().await.unwrap_or_default();
    }
}

/// A script that is described by words: `legacy`, `modern` or `both`, and faults such as `breaks-off=tools/call`.
///
/// # Errors
/// The word that is none.
pub fn script(words: impl Iterator<Item = String>) -> Result<Arc<Script>, String> {
    let mut eras = Eras::Both;
    let mut faults = Vec::new();
    for word in words {
        match word.as_str() {
            "legacy" => eras = Eras::Legacy,
            "modern" => eras = Eras::Modern,
            "both" => eras = Eras::Both,
            _ => faults.push(fault(&word).ok_or_else(|| format!("{word} is no fault"))?),
        }
    }
    Ok(Script::with(eras, faults))
}

fn fault(word: &str) -> Option<Fault> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let method = |text: &str| METHODS.into_iter().find(|method| *method == text);
    let with_method = || {
        let (of, rest) = value.split_once(':')?;
        Some((method(of)?, rest))
    };
    let number = || value.parse().ok();
    Some(match name {
        "never-answers" => Fault::NeverAnswers(method(value)?),
        "breaks-off" => Fault::BreaksOff(method(value)?),
        "answers-for-another" => Fault::AnswersForAnother(method(value)?),
        "answers-after" => {
            let (method, milliseconds) = with_method()?;
            Fault::AnswersAfter(method, Duration::from_millis(milliseconds.parse().ok()?))
        }
        "says-instead" => {
            let (method, text) = with_method()?;
            let text = text.to_owned();
            Fault::SaysInstead { method, text }
        }
        "says-before" => Fault::SaysBefore(value.to_owned()),
        "lists-too" => Fault::ListsToo(serde_json::from_str(value).ok()?),
        "result-is" => Fault::ResultIs(serde_json::from_str(value).ok()?),
        "huge-result" => Fault::HugeResult(number()?),
        "flood" => Fault::FloodOfNotifications(number()?),
        "many-tools" => Fault::ManyTools(number()?),
        "pages-of" => Fault::PagesOf(number()?),
        "cursor-never-advances" => Fault::CursorNeverAdvances,
        "notifies-first" => Fault::NotifiesBeforeInitialize,
        "list-changes" => Fault::ListChangesAfterCalls,
        "asks-often" => Fault::AsksOften(number()?),
        "asks-for-words" => Fault::AsksFirst("elicitation/create", json!({})),
        _ => return None,
    })
}

/// The whole life of a scripted server whose arguments are the words of its script.
///
/// # Errors
/// The words are none, or the input cannot be read.
pub fn run(words: impl Iterator<Item = String>) -> Result<(), Box<dyn std::error::Error>> {
    let script = script(words)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let spoken = runtime.block_on(speak(&script));
    // Reading blocks a thread, which must not keep a process that broke off.
    runtime.shutdown_background();
    Ok(spoken?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_described_by_words() {
        let words = [
            "legacy",
            "breaks-off=tools/call",
            "says-before=[info] a=b: c",
            "answers-after=ping:5",
        ];
        let script = script(words.into_iter().map(str::to_owned)).unwrap();
        assert_eq!(script.eras(), Eras::Legacy);
        assert_eq!(
            script.faults(),
            [
                Fault::BreaksOff("tools/call"),
                Fault::SaysBefore("[info] a=b: c".to_owned()),
                Fault::AnswersAfter("ping", Duration::from_millis(5)),
            ]
        );
    }

    #[test]
    fn a_word_that_is_no_fault_is_named() {
        for word in ["breaks-of=tools/call", "breaks-off=tools", "pages-of=x"] {
            let error = script([word.to_owned()].into_iter()).unwrap_err();
            assert_eq!(error, format!("{word} is no fault"));
        }
    }
}
