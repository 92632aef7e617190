//! The process between a starter and its command.

use std::{
    fs,
    io::{self, PipeReader, PipeWriter, Read as _, Write as _},
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::CommandExt as _},
    },
    process::{Command, ExitCode},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, fcntl_dupfd_cloexec},
    process::{
        DumpableBehavior, Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group,
        set_child_subreaper, set_dumpable_behavior, setsid, wait,
    },
    stdio::stdin,
};

use crate::{
    Refusal, Report, Spec, Status,
    control::{ARGUMENT, receive},
    lookup::{self, Folder, errno},
    tree,
};

/// The first descriptor that is none of the three that every process has.
const FIRST_OWN: i32 = 3;
/// How long killed processes are waited for before it is looked again what is left.
const FIRST_LOOK: Duration = Duration::from_millis(2);
/// The same when there was something left again and again: a process that the kernel cannot end yet, or may not.
const LAST_LOOK: Duration = Duration::from_millis(500);

/// See [`crate::child_main`].
pub(crate) fn main() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let is_child = arguments.next().is_some_and(|first| first == ARGUMENT);
    if !is_child || arguments.next().is_some() {
        return None;
    }
    Some(match supervise() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

fn supervise() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // A terminal's interrupt is for the starter, who says what ends and when. Whoever leads a group already has no terminal to fear.
    setsid().map(drop).unwrap_or_default();
    set_child_subreaper(Some(getpid()))?;
    let control = UnixStream::from(fcntl_dupfd_cloexec(stdin(), FIRST_OWN)?);
    let (streams, spec) = receive(&control)?;
    let folder = match lookup::folder(&spec) {
        Ok(folder) => folder,
        Err(refusal) => return tell(&control, Report::Refused(refusal)),
    };
    let outcome = run(&control, spec, &folder, streams);
    if let Folder::Fresh(path) = folder {
        // What cannot be removed is the temporary folder's to keep.
        fs::remove_dir_all(path).unwrap_or_default();
    }
    outcome
}

/// Starts the command, which gets the streams; this process keeps none of them.
fn start(spec: &Spec, folder: &Folder, streams: [OwnedFd; 3]) -> Result<Pid, Refusal> {
    let path = lookup::command(spec, folder.path())?;
    let [input, output, errors] = streams;
    let mut command = Command::new(path);
    command
        .arg0(&spec.command)
        .args(&spec.arguments)
        .env_clear()
        .envs(spec.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(folder.path())
        .stdin(input)
        .stdout(output)
        .stderr(errors)
        .process_group(0);
    let child = command
        .spawn()
        .map_err(|error| Refusal::NotStarted(errno(&error)))?;
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    process.ok_or(Refusal::NotStarted(Errno::SRCH.raw_os_error()))
}

/// Runs the command until no process of it is left.
fn run(control: &UnixStream, spec: Spec, folder: &Folder, streams: [OwnedFd; 3]) -> io::Result<()> {
    let grace = spec.grace;
    let (ends, last_end) = io::pipe()?;
    let teller = control.try_clone()?;
    let (command, commands) = mpsc::sync_channel(1);
    // It is there before the command is: a command that nobody waits for would never be found to have ended.
    let reaping = thread::Builder::new().spawn(move || {
        if let Ok(process) = commands.recv() {
            reap(process, &teller, last_end);
        }
    });
    let started = reaping
        .map_err(|error| Refusal::NotStarted(errno(&error)))
        .and_then(|_reaping| start(&spec, folder, streams));
    // What the command was given need not lie here for as long as it runs.
    drop(spec);
    let process = match started {
        Ok(process) => process,
        Err(refusal) => return tell(control, Report::Refused(refusal)),
    };
    // Told before anything is waited for, so that the lines have their order. A starter that is gone is found gone below.
    let started = Report::Started {
        process: process.as_raw_pid(),
    };
    tell(control, started).unwrap_or_default();
    if command.send(process).is_ok() {
        watch(control, &ends);
    }
    end_tree(&ends, process, grace);
    Ok(())
}

/// Takes the end of every process that is this one's child or was left to it, until there is none. `end` gets one byte when the command
/// ends, and is closed when all have.
fn reap(process: Pid, control: &UnixStream, mut end: PipeWriter) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == process => {
                tell(control, Report::Ended(status_of(status))).unwrap_or_default();
                end.write_all(&[0]).unwrap_or_default();
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_no_child) => return,
        }
    }
}

fn status_of(status: WaitStatus) -> Status {
    status.terminating_signal().map_or_else(
        || Status::Exited(status.exit_status().unwrap_or_default()),
        Status::Signalled,
    )
}

/// Returns when the command ended, or when it shall.
fn watch(mut control: &UnixStream, ends: &PipeReader) {
    loop {
        let mut waited_for = [
            PollFd::new(control, PollFlags::IN),
            PollFd::new(ends, PollFlags::IN),
        ];
        match poll(&mut waited_for, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_broken) => return,
        }
        let [said, ended] = waited_for.map(|one| !one.revents().is_empty());
        // Nothing is ever said; the end of the socket is what counts.
        if ended || (said && !matches!(control.read(&mut [0; 64]), Ok(1..))) {
            return;
        }
    }
}

/// Ends every process of the command: it asks, waits, and kills until the kernel says that there is none.
fn end_tree(mut ends: &PipeReader, process: Pid, grace: Duration) {
    signal(process, Signal::TERM);
    let until = Instant::now() + grace;
    if has_ended(&mut ends, until) {
        return;
    }
    let mut pause = FIRST_LOOK;
    loop {
        if tree::kill().is_err() {
            kill_process_group(process, Signal::KILL).unwrap_or_default();
        }
        if has_ended(&mut ends, Instant::now() + pause) {
            return;
        }
        pause = (pause * 2).min(LAST_LOOK);
    }
}

/// To all of them; where processes cannot be listed, to the command's own group.
fn signal(process: Pid, signal: Signal) {
    if tree::signal(signal).is_err() {
        kill_process_group(process, signal).unwrap_or_default();
    }
}

/// Whether no process is left, at a time or before.
fn has_ended(ends: &mut &PipeReader, until: Instant) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or_default();
        let mut waited_for = [PollFd::new(&**ends, PollFlags::IN)];
        match poll(&mut waited_for, Some(&left)) {
            Ok(0) => return false,
            Err(Errno::INTR) => continue,
            Ok(_) | Err(_) => {}
        }
        match ends.read(&mut [0; 1]) {
            Ok(1..) => {}
            Ok(0) | Err(_) => return true,
        }
    }
}

fn tell(mut control: &UnixStream, report: Report) -> io::Result<()> {
    control.write_all(format!("{report}\n").as_bytes())
}
