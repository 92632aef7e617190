//! The process and its supervisor, from its start until nothing is left of it.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
    time::Duration,
};

use bytes::{Buf as _, BytesMut};
use reaper::{Report, Spec, Status};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixStream, unix::pipe},
    process::{Child, Command},
    sync::watch,
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{Failure, FailureCode};

/// How long a supervisor may take when everything was killed. It takes a millisecond, unless the kernel itself cannot end a process.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// How long a server may take to end when its connection is closed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Graces {
    /// After the end of its input.
    pub(super) end_of_input: Duration,
    /// After SIGTERM.
    pub(super) terminated: Duration,
}

impl Default for Graces {
    fn default() -> Self {
        Self {
            end_of_input: Duration::from_secs(2),
            terminated: Duration::from_secs(2),
        }
    }
}

/// What is known of a process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Life {
    /// How it ended.
    pub(super) status: Option<Status>,
    /// Whether nothing of its tree is left.
    pub(super) is_gone: bool,
}

/// A process that runs.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) input: pipe::Sender,
    pub(super) output: pipe::Receiver,
    pub(super) errors: pipe::Receiver,
    pub(super) keeping: Keeping,
}

/// Keeps a process: dropping this ends it.
#[derive(Debug)]
pub(super) struct Keeping {
    control: Control,
    supervisor: Child,
}

/// The socket to the supervisor.
#[derive(Debug)]
struct Control {
    socket: UnixStream,
    heard: BytesMut,
}

/// Starts the command of a spec.
pub(super) async fn start(
    program: &Path,
    spec: &Spec,
    deadline: Instant,
) -> Result<Process, Failure> {
    let message = spec.encode().map_err(|error| Failure::of_spec(&error))?;
    let broken = |error: io::Error| Failure::of_supervisor(&error);
    let mut process = spawn(program).map_err(broken)?;
    let control = &mut process.keeping.control;
    let started = async {
        control.socket.write_all(&message).await?;
        control.report().await
    };
    let refusal = match timeout_at(deadline, started).await {
        Ok(Ok(Some(Report::Started { .. }))) => return Ok(process),
        Ok(Ok(Some(Report::Refused(refusal)))) => refusal,
        Ok(Ok(Some(Report::Ended(_)) | None)) => {
            return Err(broken(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(Err(error)) => return Err(broken(error)),
        Err(_elapsed) => {
            return Err(Failure::new(
                FailureCode::TimedOut,
                "The command was not started in time.",
                "Check whether the machine is overloaded, and try again.",
            ));
        }
    };
    let folder = spec.directory.as_deref().unwrap_or_default();
    Err(Failure::of_refusal(refusal, &spec.command, folder))
}

/// A supervisor that has the streams of a command, and waits for the command.
fn spawn(program: &Path) -> io::Result<Process> {
    let (command, control) = reaper::supervisor(program)?;
    let (its_input, input) = io::pipe()?;
    let (output, its_output) = io::pipe()?;
    let (errors, its_errors) = io::pipe()?;
    // The socket holds them until the supervisor takes them; then they are the command's alone.
    let streams = [its_input.as_fd(), its_output.as_fd(), its_errors.as_fd()];
    reaper::hand_over(&control, streams)?;
    let supervisor = Command::from(command).spawn()?;
    control.set_nonblocking(true)?;
    Ok(Process {
        input: pipe::Sender::from_owned_fd(OwnedFd::from(input))?,
        output: pipe::Receiver::from_owned_fd(OwnedFd::from(output))?,
        errors: pipe::Receiver::from_owned_fd(OwnedFd::from(errors))?,
        keeping: Keeping {
            control: Control {
                socket: UnixStream::from_std(control)?,
                heard: BytesMut::new(),
            },
            supervisor,
        },
    })
}

impl Control {
    /// The next thing that the supervisor tells; None when it is gone. Whoever stops waiting loses nothing.
    async fn report(&mut self) -> io::Result<Option<Report>> {
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line = self.heard.split_to(end);
                self.heard.advance(1);
                let report = std::str::from_utf8(&line).ok().and_then(Report::parse);
                return report
                    .map(Some)
                    .ok_or_else(|| io::ErrorKind::InvalidData.into());
            }
            if self.heard.len() > Report::MAX_BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if self.socket.read_buf(&mut self.heard).await? == 0 {
                return Ok(None);
            }
        }
    }
}

/// How far the end of a process is.
enum Ending {
    /// Nobody asked for it.
    No,
    /// Its input ended; until then it may end by itself.
    InputEnded(Instant),
    /// Its supervisor ends it; until then that may take.
    Told(Instant),
}

impl Keeping {
    /// Watches the process until nothing of it is left. When `closing` is cancelled its input was closed, and its time runs.
    pub(super) async fn keep(
        mut self,
        alive: watch::Sender<Life>,
        closing: CancellationToken,
        graces: Graces,
    ) {
        let mut ending = Ending::No;
        loop {
            let wake_at = match ending {
                Ending::No => None,
                Ending::InputEnded(at) | Ending::Told(at) => Some(at),
            };
            tokio::select! {
                report = self.control.report() => match report {
                    Ok(Some(Report::Ended(status))) => {
                        alive.send_modify(|life| life.status = Some(status));
                    }
                    Ok(Some(Report::Started { .. } | Report::Refused(_))) => {}
                    Ok(None) | Err(_) => break,
                },
                () = closing.cancelled(), if wake_at.is_none() => {
                    ending = Ending::InputEnded(Instant::now() + graces.end_of_input);
                }
                () = sleep_until(wake_at.unwrap_or_else(Instant::now)), if wake_at.is_some() => {
                    if matches!(ending, Ending::Told(_)) {
                        tracing::error!("a process of an MCP Server cannot be ended; its supervisor goes on trying");
                        break;
                    }
                    // One that is gone needs not be told.
                    self.control.socket.shutdown().await.unwrap_or_default();
                    ending = Ending::Told(Instant::now() + graces.terminated + LAST_WAIT);
                }
            }
        }
        drop(self.control);
        alive.send_modify(|life| life.is_gone = true);
        // It ends by itself; when it does not in time, the runtime takes its end.
        let until = Instant::now() + LAST_WAIT;
        drop(timeout_at(until, self.supervisor.wait()).await);
    }
}
