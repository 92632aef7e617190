//! Writes messages, one after the other.

use std::{io, time::Duration};

use tokio::{
    io::AsyncWriteExt as _,
    net::unix::pipe,
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::failures;
use crate::transport::Trouble;

/// A message on its way.
#[derive(Debug)]
pub(super) struct Letter {
    /// The message, without the end of its line.
    pub(super) line: Vec<u8>,
    /// Who waits until it is written.
    pub(super) written: oneshot::Sender<Result<(), Unwritten>>,
}

/// A message was not written to its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unwritten;

/// The way into a process.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) input: pipe::Sender,
    pub(super) letters: mpsc::Receiver<Letter>,
    /// How long a process may take none of what it is sent.
    pub(super) patience: Duration,
    pub(super) trouble: Trouble,
    pub(super) closing: CancellationToken,
}

impl Writing {
    /// Writes until nobody sends any more. Then the process sees the end of its input.
    pub(super) async fn write(mut self) {
        while let Some(Letter { mut line, written }) = self.letters.recv().await {
            // Nobody waits for it any more, and the process has not seen it.
            if written.is_closed() {
                continue;
            }
            line.push(b'\n');
            match self.put(&line).await {
                // Whoever does not wait need not know.
                Ok(()) => written.send(Ok(())).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    self.trouble
                        .note(failures::does_not_read(self.patience.as_secs()));
                    // Its line has no end, and would swallow the beginning of the next.
                    self.closing.cancel();
                    return;
                }
                // What is read tells more of why.
                Err(_closed) => written.send(Err(Unwritten)).unwrap_or_default(),
            }
        }
    }

    /// Writes all of it, as long as some of it is taken again and again.
    async fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let writing = timeout(self.patience, self.input.write(bytes));
            let taken = writing
                .await
                .map_err(|_elapsed| io::Error::from(io::ErrorKind::TimedOut))??;
            bytes = &bytes[taken..];
        }
        Ok(())
    }
}
