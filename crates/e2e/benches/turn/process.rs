//! The processes of the benchmark. Each ends when it is dropped.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;
use testkit::port::listener_in_log;

/// A child that is killed when it is dropped.
pub(crate) struct Process(Child);

impl Process {
    /// Time that the process has spent on processors, in user and kernel mode (proc(5), fields 14 and 15, in ticks of 10 ms).
    pub(crate) fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        // The second field is the program's name in brackets, and may hold spaces.
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .collect();
        let ticks = |field: usize| fields[field - 3].parse::<u64>().unwrap();
        Duration::from_millis((ticks(14) + ticks(15)) * 10)
    }

    /// The most memory that was resident at any time, in bytes.
    pub(crate) fn peak_memory(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmHWM:"))
            .unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<usize>()
            .unwrap()
            * 1_024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The folder that this build's programs are in.
fn programs() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    this.parent().and_then(Path::parent).unwrap().to_owned()
}

fn program(name: &str) -> Command {
    let path = programs().join(name);
    assert!(
        path.exists(),
        "{} is missing: run this through `just bench turn`",
        path.display()
    );
    let mut command = Command::new(path);
    command
        .env_clear()
        .stdin(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// The scripted Provider.
pub(crate) struct Provider {
    /// Where it is, with `/v1`.
    pub(crate) base_url: String,
    _process: Process,
}

impl Provider {
    pub(crate) fn start() -> Self {
        let mut child = program("scripted-provider")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut base_url = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut base_url)
            .unwrap();
        Self {
            base_url: base_url.trim().to_owned(),
            _process: Process(child),
        }
    }
}

/// A Village with an empty data directory.
pub(crate) struct Village {
    /// Where its edge is.
    pub(crate) url: String,
    process: Process,
    folder: TempDir,
}

impl Village {
    pub(crate) fn start(provider: &Provider) -> Self {
        let folder = TempDir::new().unwrap();
        let log = folder.path().join("log");
        let mut child = program("agentsville")
            .arg("serve")
            .env("AGENTSVILLE__DATA_DIR", folder.path().join("data"))
            .env("AGENTSVILLE__EDGE__LISTEN", "127.0.0.1:0")
            .env("AGENTSVILLE__GRPC__LISTEN", "127.0.0.1:0")
            .env("AGENTSVILLE__ADMIN__LISTEN", "127.0.0.1:0")
            .env("AGENTSVILLE__EGRESS__LISTEN", "127.0.0.1:0")
            .env("AGENTSVILLE__EDGE__REQUESTS_PER_MINUTE", "100000000")
            .env("AGENTSVILLE__EDGE__STREAMS_PER_TOKEN", "1000")
            .env("AGENTSVILLE__TURN__AT_ONCE_PER_PLAYER", "1000")
            .env("OPENAI_BASE_URL", &provider.base_url)
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let edge = loop {
            let logged = fs::read_to_string(&log).unwrap();
            if let Some(address) = listener_in_log(&logged, "HTTP listens") {
                break address;
            }
            assert!(child.try_wait().unwrap().is_none(), "{logged}");
            std::thread::sleep(Duration::from_millis(10));
        };
        Self {
            url: format!("http://{edge}"),
            process: Process(child),
            folder,
        }
    }

    pub(crate) fn cpu(&self) -> Duration {
        self.process.cpu()
    }

    pub(crate) fn peak_memory(&self) -> usize {
        self.process.peak_memory()
    }

    /// The Operator's token, once the Village has made it.
    pub(crate) fn operator_token(&self) -> Option<String> {
        let token = fs::read_to_string(self.folder.path().join("data/operator.token")).ok()?;
        (!token.trim().is_empty()).then(|| token.trim().to_owned())
    }
}
