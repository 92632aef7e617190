//! The socket between a starter and its supervisor, and the streams that travel through it.

use std::{
    io::{self, IoSlice, IoSliceMut, Read as _},
    mem::MaybeUninit,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    process::{Command, Stdio},
};

use rustix::{
    cmsg_space,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};

use crate::spec::{MAX_BYTES, Spec};

/// What makes a program the supervisor.
pub(crate) const ARGUMENT: &str = "reaper-child";
/// This program as it runs, even when the file was replaced since.
const RUNNING_PROGRAM: &str = "/proc/self/exe";
/// A command's streams: stdin, stdout, stderr.
const STREAMS: usize = 3;

/// A command that starts a supervisor, and this side's end of its socket. `program` is one whose `main` begins with
/// [`crate::child_main`]; the running program is started from memory, so that it may be replaced on disk.
///
/// Drop the command when the supervisor was started: it holds the supervisor's end. Then [`hand_over`] the streams and write what
/// [`Spec::encode`] gave. From then on the socket gives lines ([`crate::Report`]), and ends when no process is left. Shutting down this
/// side for writing ends the command; so does closing it.
///
/// # Errors
/// No socket could be made.
pub fn supervisor(program: &Path) -> io::Result<(Command, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let is_this = std::env::current_exe().is_ok_and(|this| this == program);
    let running = Path::new(RUNNING_PROGRAM);
    let program = if is_this && running.exists() {
        running
    } else {
        program
    };
    let mut command = Command::new(program);
    command
        .arg(ARGUMENT)
        .env_clear()
        .current_dir("/")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok((command, ours))
}

/// Gives the supervisor what shall be stdin, stdout and stderr of its command. Close them afterwards: their other ends see the command's
/// end by it. Waits for nothing on a new socket, also one that does not block.
///
/// # Errors
/// The socket's.
pub fn hand_over(control: &UnixStream, streams: [BorrowedFd<'_>; STREAMS]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(STREAMS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&streams)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    sendmsg(
        control,
        &[IoSlice::new(&[0])],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// The supervisor's side: the streams, and what shall run.
pub(crate) fn receive(mut control: &UnixStream) -> io::Result<([OwnedFd; STREAMS], Spec)> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(STREAMS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received = recvmsg(
        control,
        &mut [IoSliceMut::new(&mut byte)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let streams = ancillary
        .drain()
        .filter_map(|message| {
            if let RecvAncillaryMessage::ScmRights(streams) = message {
                return Some(streams);
            }
            None
        })
        .flatten()
        .collect::<Vec<_>>();
    let bad = || io::Error::from(io::ErrorKind::InvalidData);
    let streams = <[OwnedFd; STREAMS]>::try_from(streams).map_err(|_others| bad())?;
    if received.bytes != 1 {
        return Err(bad());
    }
    let mut length = [0; size_of::<u32>()];
    control.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > MAX_BYTES {
        return Err(bad());
    }
    let mut message = vec![0; length];
    control.read_exact(&mut message)?;
    Ok((streams, Spec::decode(&message)?))
}
