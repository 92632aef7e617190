//! The programs of this build, as processes that end with the test.

use std::{
    fs::{self, File},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// One of this build's programs, with an empty environment.
pub(crate) fn program(name: &str) -> Command {
    let this = std::env::current_exe().unwrap();
    let path = this.parent().and_then(Path::parent).unwrap().join(name);
    assert!(
        path.exists(),
        "{} is missing: run `cargo build --workspace --bins`, or scripts/test",
        path.display()
    );
    let mut command = Command::new(path);
    command.env_clear().stdin(Stdio::null());
    command
}

/// A service that runs until it is dropped. What it logs is shown when the test fails.
pub(crate) struct Service {
    child: Child,
    log: PathBuf,
}

impl Service {
    pub(crate) fn start(mut command: Command, log: PathBuf) -> Self {
        let file = File::create(&log).unwrap();
        let child = command
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Self { child, log }
    }

    /// Fails the test when the process has ended.
    pub(crate) fn assert_running(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("{}: {status}\n{}", self.log.display(), self.logged());
        }
    }

    /// Where it serves gRPC, once it says so.
    pub(crate) async fn grpc_address(&mut self) -> String {
        loop {
            let log = self.logged();
            let listening = log
                .lines()
                .find(|line| line.contains("gRPC is listening") && line.ends_with('}'));
            if let Some(line) = listening {
                let record: serde_json::Value = serde_json::from_str(line).unwrap();
                let address = record
                    .get("address")
                    .or_else(|| record.pointer("/fields/address"));
                return address.unwrap().as_str().unwrap().to_owned();
            }
            self.assert_running();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) fn logged(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            let log = self.logged();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(40)..].join("\n");
            println!("---- {}\n{tail}", self.log.display());
        }
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}
