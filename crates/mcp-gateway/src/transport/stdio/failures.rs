//! What goes wrong with a process, in words that a person can act on.

use std::io;

use reaper::{Refusal, SpecError, Status};

use crate::{Failure, FailureCode, names::shown};

const RUN_BY_HAND: &str = "Run the command by hand where the gateway runs, as the gateway's user, and check its arguments and environment.";

impl Failure {
    /// The supervisor did not run the command.
    pub(super) fn of_refusal(refusal: Refusal, command: &str, folder: &str) -> Self {
        let why = |errno: i32| io::Error::from_raw_os_error(errno);
        let (sentence, next_step) = match refusal {
            Refusal::Folder(_) if folder.is_empty() => (
                "No folder could be made for the command to run in.".to_owned(),
                "Check that TMPDIR names a folder that the gateway's user can write to, or give the server a working directory.",
            ),
            Refusal::Folder(errno) => (
                format!(
                    "The working directory {} cannot be entered: {}.",
                    shown(folder),
                    why(errno)
                ),
                "Check the path; it is one of the machine that the gateway runs on.",
            ),
            Refusal::NotFound(_) if command.contains('/') => (
                format!("There is no file {}.", shown(command)),
                "Check the path; it is one of the machine that the gateway runs on.",
            ),
            Refusal::NotFound(_) => (
                format!("The command {} was not found.", shown(command)),
                "Install it where the gateway runs, give its whole path, or set PATH in the server's environment.",
            ),
            Refusal::NotExecutable(errno) => (
                format!("{} cannot be executed: {}.", shown(command), why(errno)),
                "Make the file executable for the gateway's user, or give the program that runs it as the command and the file as an argument.",
            ),
            // The file itself was found, so what is missing is what it names.
            Refusal::NotStarted(2) => (
                format!(
                    "{} cannot be started: the interpreter that its first line names does not exist.",
                    shown(command)
                ),
                "Install the interpreter where the gateway runs.",
            ),
            Refusal::NotStarted(errno) => (
                format!("{} cannot be started: {}.", shown(command), why(errno)),
                RUN_BY_HAND,
            ),
        };
        Self::new(FailureCode::CommandNotFound, sentence, next_step)
    }

    /// What is saved cannot be given to a process.
    pub(super) fn of_spec(error: &SpecError) -> Self {
        Self::new(
            FailureCode::CommandNotFound,
            format_args!("The command cannot be started: {error}."),
            "Edit the server.",
        )
    }

    /// The supervisor itself does not work.
    pub(super) fn of_supervisor(error: &io::Error) -> Self {
        tracing::error!(%error, "commands cannot be started");
        Self::new(
            FailureCode::CommandNotFound,
            "The gateway could not start a process.",
            "Look into the gateway's log; the machine may be out of processes, descriptors or memory.",
        )
    }

    /// The process ended.
    pub(super) fn exited(command: &str, status: Status, last_words: &str) -> Self {
        let how = match status {
            Status::Exited(code) => format!("exited with status {code}"),
            Status::Signalled(9) => {
                "was killed (SIGKILL), as it happens when memory runs out".to_owned()
            }
            Status::Signalled(signal) => format!("was ended by {}", signal_name(signal)),
        };
        let words = if last_words.is_empty() {
            " without a word of why.".to_owned()
        } else {
            format!("; it last wrote: {last_words}")
        };
        Self::new(
            FailureCode::Exited,
            format_args!("{} {how}{words}", shown(command)),
            RUN_BY_HAND,
        )
        .after_sending()
    }

    /// The process goes on, and can say nothing any more.
    pub(super) fn closed_its_output(command: &str, last_words: &str) -> Self {
        let words = if last_words.is_empty() {
            ".".to_owned()
        } else {
            format!("; it last wrote: {last_words}")
        };
        Self::new(
            FailureCode::Exited,
            format_args!("{} closed its output, and was ended{words}", shown(command)),
            RUN_BY_HAND,
        )
        .after_sending()
    }
}

/// The process takes nothing any more.
pub(super) fn closed_its_input() -> Failure {
    Failure::new(
        FailureCode::Exited,
        "The server closed its input, and hears nothing any more.",
        RUN_BY_HAND,
    )
}

/// The process does not read.
pub(super) fn does_not_read(seconds: u64) -> Failure {
    Failure::new(
        FailureCode::TimedOut,
        format_args!(
            "The server did not read what it was sent for {seconds} seconds, and was ended."
        ),
        "Try again; if it stays so, the server hangs: look into its own log.",
    )
}

/// The connection was closed on this side.
pub(super) fn closed() -> Failure {
    Failure::new(
        FailureCode::Exited,
        "The connection was closed.",
        "Try again.",
    )
}

/// `rmcp` made what cannot be written down.
pub(super) fn unsendable() -> Failure {
    Failure::new(
        FailureCode::ProtocolError,
        "The request cannot be written as JSON.",
        "Check the arguments.",
    )
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}
