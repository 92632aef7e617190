//! Redis for tests: one server that tests share by namespaces, or one of a test's own that it may stop.

#![expect(
    clippy::expect_used,
    reason = "what a test stands on fails by panicking, which fails the test"
)]

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{
    port::HeldPort,
    shared_server::{Server, setting},
};

const INSTALL: &str = "redis-server cannot be run; apt-get install redis-server";

/// The address of the shared server: `AGENTSVILLE_TEST_REDIS`, else one that is started.
pub fn url() -> String {
    if let Some(url) = setting("AGENTSVILLE_TEST_REDIS") {
        return url;
    }
    let server = Server {
        name: "redis",
        command: &|dir, port| {
            let mut command = vec!["redis-server".to_owned()];
            command.extend(arguments(port));
            command.extend(["--dir".to_owned(), dir.display().to_string()]);
            command
        },
        answers: &answers,
    };
    assert!(is_installed(), "{INSTALL}");
    format!("redis://127.0.0.1:{}", server.port())
}

/// A namespace that no other test uses.
pub fn namespace() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let at = kernel::Clock::now(&kernel::SystemClock).as_micros();
    format!("test-{}-{at}-{count}", std::process::id())
}

/// A server of this test alone. It ends when dropped.
#[derive(Debug)]
pub struct OwnRedis {
    /// Its own also while it is stopped.
    port: HeldPort,
    directory: TempDir,
    process: Option<Child>,
}

impl OwnRedis {
    /// Starts one.
    pub fn start() -> Self {
        let mut server = Self {
            port: HeldPort::new(),
            directory: TempDir::new().expect("a temporary directory"),
            process: None,
        };
        server.restart();
        server
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("redis://{}", self.port.on_loopback())
    }

    /// Kills it: connections break, and what it held is lost.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("redis-server is killed");
            process.wait().expect("redis-server ends");
        }
    }

    /// Starts it again on the same port, empty.
    pub fn restart(&mut self) {
        self.stop();
        let process = Command::new("redis-server")
            .args(arguments(self.port.number()))
            .arg("--dir")
            .arg(self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.process = Some(process.expect(INSTALL));
        let begun = Instant::now();
        while !answers(self.port.number()) {
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "redis-server did not start on port {}",
                self.port.number()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for OwnRedis {
    fn drop(&mut self) {
        self.stop();
    }
}

fn arguments(port: u16) -> [String; 8] {
    [
        "--port",
        &port.to_string(),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
    ]
    .map(str::to_owned)
}

fn is_installed() -> bool {
    Command::new("redis-server")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn answers(port: u16) -> bool {
    let ping = || {
        let mut connection = TcpStream::connect(("127.0.0.1", port))?;
        connection.set_read_timeout(Some(Duration::from_secs(1)))?;
        connection.write_all(b"PING\r\n")?;
        let mut answer = [0; 7];
        connection.read_exact(&mut answer)?;
        std::io::Result::Ok(&answer == b"+PONG\r\n")
    };
    ping().unwrap_or(false)
}
