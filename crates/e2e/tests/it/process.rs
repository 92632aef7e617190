//! The programs of this build, as processes that end with the test.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use testkit::port::listener_in_log;

/// A process that does not listen by then never will.
const START: Duration = Duration::from_mins(1);

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
        self.address("gRPC is listening").await
    }

    /// Where it listens, once it has logged this message.
    pub(crate) async fn address(&mut self, message: &str) -> String {
        let logged = async {
            loop {
                if let Some(address) = listener_in_log(&self.logged(), message) {
                    return address.to_string();
                }
                self.assert_running();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(START, logged)
            .await
            .unwrap_or_else(|_elapsed| panic!("it has not logged {message:?}"))
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
