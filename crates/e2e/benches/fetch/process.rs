//! Other processes of the benchmark, and what this one costs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command},
    time::Duration,
};

/// A child that is killed when it is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// This program in another role.
pub(crate) fn this_program() -> Command {
    Command::new(std::env::current_exe().unwrap())
}

/// A program of this build, with an empty environment.
pub(crate) fn program(name: &str) -> Command {
    let this = std::env::current_exe().unwrap();
    let path = this.parent().and_then(Path::parent).unwrap().join(name);
    assert!(
        path.exists(),
        "{} is missing: run this through `just bench fetch`",
        path.display()
    );
    let mut command = Command::new(path);
    command.env_clear();
    command
}

/// The workspace's folder.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Processor time of this process so far, all threads (proc(5), /proc/self/schedstat would count one only).
pub(crate) fn own_cpu() -> Duration {
    let mut nanos = 0;
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let stat = fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap_or_default();
        nanos += stat
            .split_whitespace()
            .next()
            .and_then(|first| first.parse::<u64>().ok())
            .unwrap_or(0);
    }
    Duration::from_nanos(nanos)
}

/// The most memory of this process that was resident at any time, in bytes.
pub(crate) fn own_peak_memory() -> usize {
    own_status("VmHWM:")
}

/// Memory of this process that is resident, in bytes.
pub(crate) fn own_memory() -> usize {
    own_status("VmRSS:")
}

fn own_status(line: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|found| found.starts_with(line))
        .unwrap();
    let kilobytes: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes * 1_024
}
