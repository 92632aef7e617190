//! Other processes of the benchmark, and what they cost.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command},
    time::Duration,
};

use testkit::port::listener_in_log;

/// A child that is killed when it is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn usage(&self) -> Usage {
        Usage::of(self.0.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// What a process has taken so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// Time on processors, in user and kernel mode (proc(5), `stat`, in ticks of 10 ms).
    pub(crate) cpu: Duration,
    /// Bytes of memory that are resident.
    pub(crate) resident: usize,
    /// The most of them at any time.
    pub(crate) peak: usize,
}

impl Usage {
    pub(crate) fn of(pid: u32) -> Self {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
        let (stat, status) = (read("stat"), read("status"));
        // The second field is the program's name in brackets, and may hold spaces.
        let after_name = stat.rsplit_once(')').unwrap().1;
        let ticks: u64 = after_name
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|field| field.parse::<u64>().unwrap())
            .sum();
        let bytes = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            let kilobytes: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
            kilobytes * 1_024
        };
        Self {
            cpu: Duration::from_millis(ticks * 10),
            resident: bytes("VmRSS:"),
            peak: bytes("VmHWM:"),
        }
    }

    pub(crate) fn own() -> Self {
        Self::of(std::process::id())
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
        "{} is missing: run this through `just bench mcp`",
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

/// Where one of our programs listens, once its log has this message.
pub(crate) async fn address_in_log(process: &mut Process, log: &Path, message: &str) -> String {
    loop {
        let logged = fs::read_to_string(log).unwrap();
        if let Some(address) = listener_in_log(&logged, message) {
            return address.to_string();
        }
        assert!(process.0.try_wait().unwrap().is_none(), "{logged}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
