//! stdio: a command on this host, a line of JSON for each message.
//!
//! The command runs under a supervisor (crate `reaper`), which ends its whole tree when the connection ends, when it is dropped, and
//! when this process dies. What the command is given is opened for its start alone; its environment has the names of its record and
//! PATH, HOME, LANG and TMPDIR, and nothing else of this process.
//!
//! **Invariants:** what a command does or leaves undone costs its own connection and nothing else: a line has a bound, what is no
//! message is skipped, input that nobody takes ends the connection after a while, and errors are read for ever and forgotten but for
//! the last of them.

mod environment;
mod failures;
mod last_words;
mod lines;
mod process;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::{path::Path, time::Duration};

use rmcp::{
    RoleClient,
    model::JsonRpcMessage,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, timeout},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{Trouble, inbound::Inbound};
use crate::{Config, Failure, Reached, StdioEndpoint, failure::Redactor};
use last_words::LastWords;
use process::{Graces, Life, Process};
use read::Reading;
use write::{Letter, Unwritten, Writing};

/// Messages that wait to be read; then the server waits.
const QUEUED: usize = 64;
/// Messages that wait to be written; then those who send wait.
const UNWRITTEN: usize = 64;
/// How long somebody who could not write waits to be told why.
const VERDICT_TIME: Duration = Duration::from_secs(3);

/// One connection to one process. Dropping it ends the process and all of its tree; [`Transport::close`] waits for that.
pub(crate) struct StdioTransport {
    letters: mpsc::Sender<Letter>,
    inbox: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
    inbound: Inbound,
    trouble: Trouble,
    life: watch::Receiver<Life>,
    closing: CancellationToken,
    _guard: DropGuard,
}

/// What a start works with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start<'s> {
    /// The program that supervises commands: one whose `main` begins with [`reaper::child_main`].
    pub(crate) program: &'s Path,
    /// The settings.
    pub(crate) config: &'s Config,
    /// What hears the server's messages.
    pub(crate) inbound: &'s Inbound,
    /// Where the transport notes what went wrong.
    pub(crate) trouble: &'s Trouble,
    /// Where its tasks run. They end with the connection.
    pub(crate) tracker: &'s TaskTracker,
}

/// Starts a command. It runs when this returns; whether it speaks the protocol is another matter. The caller bounds the wait for its
/// first words, which may be long: `npx` and `uvx` install what they run.
///
/// # Errors
/// There is no such command or folder, or its environment cannot be opened.
pub(crate) async fn start(
    endpoint: &StdioEndpoint,
    with: Start<'_>,
) -> Result<StdioTransport, Failure> {
    start_within(endpoint, with, Graces::default()).await
}

/// What knows the values of an environment, to take them out of what a server says.
pub(crate) fn redactor(endpoint: &StdioEndpoint) -> Redactor {
    last_words::redactor(&endpoint.environment).0
}

async fn start_within(
    endpoint: &StdioEndpoint,
    with: Start<'_>,
    graces: Graces,
) -> Result<StdioTransport, Failure> {
    let spec = environment::spec(endpoint, graces.terminated)?;
    let deadline = Instant::now() + with.config.connect();
    let Process {
        input,
        output,
        errors,
        keeping,
    } = process::start(with.program, &spec, deadline).await?;
    drop(spec);
    let closing = CancellationToken::new();
    let (alive, life) = watch::channel(Life::default());
    let (letters, unwritten) = mpsc::channel(UNWRITTEN);
    let (outbox, inbox) = mpsc::channel(QUEUED);
    let last_words = LastWords::default();
    let writing = Writing {
        input,
        letters: unwritten,
        patience: with.config.connect(),
        trouble: with.trouble.clone(),
        closing: closing.clone(),
    };
    let reading = Reading {
        limit: with.config.answer_bytes,
        inbound: with.inbound.clone(),
        trouble: with.trouble.clone(),
        outbox,
        life: life.clone(),
        last_words: last_words.clone(),
        endpoint: endpoint.clone(),
        closing: closing.clone(),
    };
    with.tracker.spawn(last_words.listen(errors));
    with.tracker
        .spawn(keeping.keep(alive, closing.clone(), graces));
    let writing = closing.clone().run_until_cancelled_owned(writing.write());
    let reading = closing
        .clone()
        .run_until_cancelled_owned(reading.read(output));
    with.tracker
        .spawn(async move { writing.await.unwrap_or_default() });
    with.tracker
        .spawn(async move { reading.await.unwrap_or_default() });
    Ok(StdioTransport {
        letters,
        inbox,
        inbound: with.inbound.clone(),
        trouble: with.trouble.clone(),
        life,
        _guard: closing.clone().drop_guard(),
        closing,
    })
}

impl Transport<RoleClient> for StdioTransport {
    type Error = Failure;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Failure>> + Send + 'static {
        let answers = self.inbound.answers().clone();
        let trouble = self.trouble.clone();
        let closing = self.closing.clone();
        let letters = self.letters.clone();
        let line = serde_json::to_vec(&message);
        answers.sent(&message);
        let id = match message {
            JsonRpcMessage::Request(request) => Some(request.id),
            JsonRpcMessage::Response(_)
            | JsonRpcMessage::Notification(_)
            | JsonRpcMessage::Error(_) => None,
        };
        async move {
            let sent = match line {
                Ok(line) => post(letters, line, &trouble, &closing).await,
                Err(_never) => Err(failures::unsendable()),
            };
            sent.inspect_err(|_failure| {
                if let Some(id) = &id {
                    answers.forget(id);
                }
            })
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.inbox.recv().await
    }

    async fn close(&mut self) -> Result<(), Failure> {
        self.closing.cancel();
        self.inbox.close();
        // It is always gone in the end, or its keeper is.
        self.life
            .wait_for(|life| life.is_gone)
            .await
            .map(drop)
            .unwrap_or_default();
        Ok(())
    }
}

/// Waits until a message was taken by the pipe. A message that was not is surely not begun: its line has no end.
async fn post(
    letters: mpsc::Sender<Letter>,
    line: Vec<u8>,
    trouble: &Trouble,
    closing: &CancellationToken,
) -> Result<(), Failure> {
    let (written, outcome) = oneshot::channel();
    let outcome = match letters.send(Letter { line, written }).await {
        Ok(()) => outcome.await.unwrap_or(Err(Unwritten)),
        Err(_closed) => Err(Unwritten),
    };
    let Err(Unwritten) = outcome else {
        return Ok(());
    };
    // Who reads finds out more than who writes: an end has a status, and last words.
    let verdict = timeout(VERDICT_TIME, closing.cancelled()).await;
    let failure = trouble.last().unwrap_or_else(|| match verdict {
        Ok(()) => failures::closed(),
        Err(_elapsed) => failures::closed_its_input(),
    });
    Err(Failure {
        reached: Reached::Never,
        ..failure
    })
}
