//! The processes below this one, and how they are ended.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    path::PathBuf,
};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal},
};

/// Looks at the whole tree that freezing takes at most. Each finds what was forked since the last one; a fork storm ends when the
/// user's own bound on processes is reached, since what is stopped makes no room.
const LOOKS: usize = 10_000;

/// A process. Numbers are used again; together with the time of its start they are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Process {
    id: i32,
    started: u64,
}

/// What is told of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    process: Process,
    parent: i32,
    has_ended: bool,
}

/// Sends a signal to every process below this one.
///
/// # Errors
/// Processes cannot be listed.
pub(crate) fn signal(signal: Signal) -> io::Result<()> {
    for process in below()? {
        send(process, signal);
    }
    Ok(())
}

/// Kills every process below this one that is there now. They are stopped first: what is stopped cannot fork away.
///
/// # Errors
/// Processes cannot be listed.
pub(crate) fn kill() -> io::Result<()> {
    let mut stopped = HashSet::new();
    for _ in 0..LOOKS {
        let mut is_news = false;
        for process in below()? {
            if stopped.insert(process) {
                is_news = true;
                send(process, Signal::STOP);
            }
        }
        if !is_news {
            break;
        }
    }
    signal(Signal::KILL)
}

/// The processes below this one that have not ended.
fn below() -> io::Result<Vec<Process>> {
    let mut children: HashMap<i32, Vec<Told>> = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let id = name.to_str().and_then(|name| name.parse().ok());
        // One that ended since has no file any more.
        if let Some(told) = id.and_then(look) {
            children.entry(told.parent).or_default().push(told);
        }
    }
    let mut found = Vec::new();
    let mut parents = vec![getpid().as_raw_pid()];
    while let Some(parent) = parents.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            parents.push(child.process.id);
            if !child.has_ended {
                found.push(child.process);
            }
        }
    }
    Ok(found)
}

fn look(id: i32) -> Option<Told> {
    let path: PathBuf = format!("/proc/{id}/stat").into();
    read(id, &fs::read(path).ok()?)
}

/// Reads `/proc/ID/stat` (proc(5)). The name in it is the process's own choice, so all is read after the last parenthesis.
fn read(id: i32, stat: &[u8]) -> Option<Told> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    // The 22nd of all; the state is the third.
    let started = fields.nth(17)?.parse().ok()?;
    Some(Told {
        process: Process { id, started },
        parent,
        has_ended: matches!(state, "Z" | "X" | "x"),
    })
}

/// Sends a signal to this very process, not to one that has its number since. What ended meanwhile needs none, and what may not be
/// signalled runs as somebody else.
fn send(process: Process, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.id) else {
        return;
    };
    let handle = pidfd_open(pid, PidfdFlags::empty());
    if look(process.id).is_none_or(|told| told.process != process) {
        return;
    }
    let sent = match handle {
        Ok(handle) => pidfd_send_signal(handle, signal),
        // Linux before 5.3.
        Err(Errno::NOSYS) => kill_process(pid, signal),
        Err(error) => Err(error),
    };
    sent.unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_cannot_lie_about_its_parent_by_its_name() {
        let stat = b"42 (a) Z 1 (b) S 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 1\n";
        let told = read(42, stat).unwrap();
        assert_eq!(
            told,
            Told {
                process: Process {
                    id: 42,
                    started: 12_345
                },
                parent: 7,
                has_ended: false,
            }
        );
    }

    #[test]
    fn what_is_no_line_of_a_process_is_none() {
        for stat in [
            &b""[..],
            b"42 (a",
            b"42 (a) S",
            b"42 (a) S x 1",
            b"42 (a) S 7 1 1",
        ] {
            assert_eq!(read(42, stat), None);
        }
    }

    #[test]
    fn this_process_is_found_with_its_parent() {
        let id = i32::try_from(std::process::id()).unwrap();
        let parent = rustix::process::getppid().map(Pid::as_raw_pid);
        assert_eq!(look(id).map(|told| told.parent), parent);
    }
}
