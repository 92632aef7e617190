//! Runs a command under a supervisor of its own, so that nothing of the command outlives whoever started it.
//!
//! The supervisor is the starter's own program in another role ([`child_main`]): a small process between the starter and the command.
//! It adopts whatever the command's processes leave behind (`PR_SET_CHILD_SUBREAPER`), and ends all of it when the command ends, when
//! it is told to, and when the starter dies, however it dies: they are connected by a socket, and its end is all that it waits for.
//!
//! ```text
//! starter ──control socket── supervisor ── command ── … ── …
//!    └───────── stdin, stdout, stderr ────────┘
//! ```
//!
//! **Architecture invariants:** Linux only, no asynchronous runtime. The supervisor is started with an empty environment and no
//! descriptor but the socket; what the command is given travels through the socket and shows in the environment of the command alone.
//! The supervisor keeps no end of the command's streams. It cannot be looked into (`PR_SET_DUMPABLE` is 0), and it ends only when no
//! process of the command is left.
//!
//! `PR_SET_PDEATHSIG` is not used: it tells of the end of the *thread* that started a process (prctl(2)), and threads of a runtime end
//! early; and it would end the supervisor, who is the one process that must not end.
//!
//! **What it does not protect from:** a command is a program of the same user. It can kill its supervisor, or ask some other daemon of
//! that user to start something.

mod child;
mod control;
mod lookup;
mod report;
mod spec;
mod tree;

use std::process::ExitCode;

pub use control::{hand_over, supervisor};
pub use report::{Refusal, Report, Status};
pub use spec::{MAX_BYTES, Spec, SpecError};

/// The whole life of a supervisor, if this process was started as one; None in every other process.
///
/// The first line of each `main` whose program is given to [`supervisor`], before anything reads arguments, opens a file or starts a
/// thread.
pub fn child_main() -> Option<ExitCode> {
    child::main()
}
