//! Starting a child, feeding it, and believing none of what it says.

use std::{path::Path, process::Stdio, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::{Instant, timeout_at},
};

use crate::{
    child::ARGUMENT,
    frame::{HEAD_BYTES, Head, LENGTHS_BYTES, Order, Request, Unread, request_bytes},
    reading::{Cost, TITLE_CHARACTERS, Truncated},
    visible::line,
};

/// How long a child that was killed may take to be gone. It takes a millisecond unless the machine is in trouble.
const REAP_TIME: Duration = Duration::from_secs(2);
/// How often a child may answer; a page or a document's page is one answer.
const ANSWERS: usize = 1_000;

/// What a child said before it ended.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) text: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) truncated: Option<Truncated>,
    pub(crate) failure: Option<Unread>,
    pub(crate) cost: Option<Cost>,
    /// Whether the text is longer than it may be.
    pub(crate) is_cut: bool,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It said all that it had to say.
    Done,
    /// It ended before: a bound on memory or time, or a fault.
    Died,
    /// It was ended at the deadline.
    TooSlow,
}

/// Runs a child over one body. What it said until it ended is kept, however it ended.
///
/// Dropping the future kills the child.
pub(crate) async fn run(
    program: &Path,
    request: &Request,
    body: Bytes,
    deadline: Instant,
) -> std::io::Result<(Answer, Outcome)> {
    let head = request_bytes(request)?;
    let mut child = Command::new(program)
        .arg(ARGUMENT)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let pipes = child.stdin.take().zip(child.stdout.take());
    let Some((stdin, stdout)) = pipes else {
        return Err(std::io::Error::other("the child has no pipes"));
    };
    let mut answer = Answer::default();
    let exchange = async {
        // Writing ends early when the child has read enough; that is no fault.
        let feed = feed(stdin, &head, &body);
        let listen = listen(stdout, &mut answer, request.text_bytes);
        tokio::pin!(feed);
        tokio::pin!(listen);
        let mut is_fed = false;
        loop {
            tokio::select! {
                outcome = &mut listen => return outcome,
                () = &mut feed, if !is_fed => is_fed = true,
            }
        }
    };
    let outcome = timeout_at(deadline, exchange)
        .await
        .unwrap_or(Outcome::TooSlow);
    end(child, outcome, deadline).await;
    Ok((answer, outcome))
}

async fn feed(mut stdin: ChildStdin, head: &[u8], body: &[u8]) {
    // A child that does not read to the end has its reasons, and says them.
    // Dropping the pipe is the end of the body.
    if let Err(error) = async {
        stdin.write_all(head).await?;
        stdin.write_all(body).await
    }
    .await
    {
        tracing::debug!(%error, "a child that reads a page took only a part of it");
    }
}

/// Takes answers until the last one.
async fn listen(mut stdout: ChildStdout, answer: &mut Answer, text_bytes: usize) -> Outcome {
    for _ in 0..ANSWERS {
        match next(&mut stdout, text_bytes).await {
            Some((head, _)) if head.order == Order::End => {
                answer.cost = head.cost;
                return Outcome::Done;
            }
            Some((head, text)) => take(answer, head, text, text_bytes),
            None => return Outcome::Died,
        }
    }
    Outcome::Died
}

/// One answer; None at the end, and for what is not one.
async fn next(stdout: &mut ChildStdout, text_bytes: usize) -> Option<(Head, String)> {
    let mut lengths = [0; LENGTHS_BYTES];
    stdout.read_exact(&mut lengths).await.ok()?;
    let length = |at: usize| {
        let bytes = [
            lengths[at],
            lengths[at + 1],
            lengths[at + 2],
            lengths[at + 3],
        ];
        usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX)
    };
    let (head, text) = (length(0), length(4));
    // A text may have a heading and a note beyond what was asked for.
    if head > HEAD_BYTES || text > text_bytes + HEAD_BYTES {
        return None;
    }
    let mut head = vec![0; head];
    stdout.read_exact(&mut head).await.ok()?;
    let mut bytes = Vec::new();
    let most = u64::try_from(text).ok()?;
    stdout.take(most).read_to_end(&mut bytes).await.ok()?;
    if bytes.len() != text {
        return None;
    }
    Some((
        serde_json::from_slice(&head).ok()?,
        String::from_utf8(bytes).ok()?,
    ))
}

fn take(answer: &mut Answer, head: Head, said: String, text_bytes: usize) {
    let mut text = match head.order {
        Order::After => {
            let mut text = answer.text.take().unwrap_or_default();
            text.push_str(&said);
            text
        }
        Order::Instead | Order::End => {
            answer.is_cut = false;
            said
        }
    };
    if text.len() > text_bytes {
        text.truncate(kernel::floor_char_boundary(&text, text_bytes));
        answer.is_cut = true;
    }
    answer.text = Some(text);
    answer.title = head.title.map(|title| line(&title, TITLE_CHARACTERS));
    answer.truncated = head.truncated;
    answer.failure = head.failure;
}

/// Ends the child if it has not ended, and waits until it is gone.
async fn end(mut child: Child, outcome: Outcome, deadline: Instant) {
    let status = if outcome == Outcome::Died {
        // It has closed its pipe, so it is about to be gone by itself, and how says what happened. One that lies may stay.
        let until = deadline.min(Instant::now() + REAP_TIME);
        timeout_at(until, child.wait()).await.ok()
    } else {
        None
    };
    if let Some(Ok(status)) = status {
        tracing::info!(%status, "a child that read a page ended before it was done");
        return;
    }
    match tokio::time::timeout(REAP_TIME, child.kill()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "a child that read a page could not be ended"),
        Err(_) => tracing::warn!("a child that read a page is still there after it was killed"),
    }
}
