//! What a supervisor tells of its command, a line each.

use std::fmt;

/// What a supervisor tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// The command runs.
    Started {
        /// Its process, which leads a process group of the same number.
        process: i32,
    },
    /// The command does not run, and there is nothing to end.
    Refused(Refusal),
    /// The command itself ended; what it left behind is being ended.
    Ended(Status),
}

/// Why a command was not run. Each has the error number (`errno`) of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The folder that it should run in does not exist, or cannot be entered or made.
    Folder(i32),
    /// There is no such file, or none of that name in PATH.
    NotFound(i32),
    /// There is such a file, but it cannot be executed.
    NotExecutable(i32),
    /// The system did not start it: what its first line names is missing, it is no program for this machine, too much is running.
    NotStarted(i32),
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
}

/// The line, without its end.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, number) = match *self {
            Self::Started { process } => ("started", process),
            Self::Refused(Refusal::Folder(errno)) => ("no-folder", errno),
            Self::Refused(Refusal::NotFound(errno)) => ("not-found", errno),
            Self::Refused(Refusal::NotExecutable(errno)) => ("not-executable", errno),
            Self::Refused(Refusal::NotStarted(errno)) => ("not-started", errno),
            Self::Ended(Status::Exited(code)) => ("exited", code),
            Self::Ended(Status::Signalled(signal)) => ("signalled", signal),
        };
        write!(f, "{word} {number}")
    }
}

impl Report {
    /// The most bytes of a line, its end included.
    pub const MAX_BYTES: usize = 64;

    /// Reads a line; None if it is none.
    pub fn parse(line: &str) -> Option<Self> {
        let (word, number) = line.trim_end().split_once(' ')?;
        let number = number.parse().ok()?;
        Some(match word {
            "started" => Self::Started { process: number },
            "no-folder" => Self::Refused(Refusal::Folder(number)),
            "not-found" => Self::Refused(Refusal::NotFound(number)),
            "not-executable" => Self::Refused(Refusal::NotExecutable(number)),
            "not-started" => Self::Refused(Refusal::NotStarted(number)),
            "exited" => Self::Ended(Status::Exited(number)),
            "signalled" => Self::Ended(Status::Signalled(number)),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_as_it_was_written() {
        for report in [
            Report::Started { process: 7 },
            Report::Refused(Refusal::Folder(2)),
            Report::Refused(Refusal::NotFound(2)),
            Report::Refused(Refusal::NotExecutable(13)),
            Report::Refused(Refusal::NotStarted(8)),
            Report::Ended(Status::Exited(1)),
            Report::Ended(Status::Signalled(9)),
        ] {
            let line = format!("{report}\n");
            assert!(line.len() <= Report::MAX_BYTES);
            assert_eq!(Report::parse(&line), Some(report));
        }
        for line in ["", "started", "started x", "finished 1"] {
            assert_eq!(Report::parse(line), None);
        }
    }
}
