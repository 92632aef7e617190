//! Servers that test processes share when `scripts/test` has not started any: the first test that needs one starts it, and a
//! watchdog ends it ten minutes after the last test that used it.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "what a test stands on fails by panicking, which fails the test"
)]

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{ErrorKind, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::port::HeldPort;

/// How long a server may take to answer for the first time, on a machine under load.
const START_TIME: Duration = Duration::from_mins(1);

/// Starts the server that the arguments after the first describe, and ends it when `used` has not been touched for ten minutes.
const WATCHDOG: &str = r#"
dir=$1; shift
"$@" & pid=$!
while kill -0 "$pid" 2>/dev/null; do
    sleep 5
    [ -n "$(find "$dir/used" -mmin -10 2>/dev/null)" ] || kill -INT "$pid"
done
wait "$pid"
rm -rf "$dir"
"#;

/// What to start.
pub(crate) struct Server<'s> {
    /// Its name in the directory of servers.
    pub(crate) name: &'static str,
    /// Prepares its empty directory, and says the command that runs it in the foreground on a port.
    pub(crate) command: &'s dyn Fn(&Path, u16) -> Vec<String>,
    /// Whether it answers on a port.
    pub(crate) answers: &'s dyn Fn(u16) -> bool,
}

impl Server<'_> {
    /// The port of the running server; it is started when none runs.
    pub(crate) fn port(&self) -> u16 {
        let base = directory();
        let _lock = lock(self.name);
        let known = base.join(format!("{}.address", self.name));
        if let Ok(address) = fs::read_to_string(&known)
            && let Some((port, dir)) = address.split_once(' ')
            && let Ok(port) = port.parse()
            && touch(Path::new(dir))
            && (self.answers)(port)
        {
            return port;
        }
        let held = HeldPort::new();
        let port = held.number();
        let dir = base.join(format!("{}-{}-{port}", self.name, std::process::id()));
        self.start(&dir, port);
        // From here on the server itself keeps others out.
        drop(held);
        fs::write(&known, format!("{port} {}", dir.display())).expect("the address is written");
        port
    }

    fn start(&self, dir: &Path, port: u16) {
        DirBuilder::new()
            .mode(0o755)
            .create(dir)
            .expect("a directory for the server");
        assert!(touch(dir), "{} is writable", dir.display());
        let command = (self.command)(dir, port);
        let log = File::create(dir.join("log")).expect("a log for the server");
        Command::new("setsid")
            .args(["--fork", "sh", "-c", WATCHDOG, "watchdog"])
            .arg(dir)
            .args(command)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle to the log"))
            .stderr(log)
            .status()
            .expect("setsid runs; install it with apt-get install util-linux");
        let begun = Instant::now();
        while !(self.answers)(port) {
            assert!(
                begun.elapsed() < START_TIME,
                "{} did not start on port {port}: {}",
                self.name,
                fs::read_to_string(dir.join("log")).unwrap_or_default()
            );
            thread::sleep(Duration::from_millis(25));
        }
    }
}

/// The directory of servers: one a user, and only that user can write to it.
pub(crate) fn directory() -> PathBuf {
    let user = fs::metadata("/proc/self").expect("procfs is mounted").uid();
    let directory = std::env::temp_dir().join(format!("agentsville-test-{user}"));
    match DirBuilder::new().mode(0o755).create(&directory) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => panic!("{} cannot be made: {error}", directory.display()),
    }
    let found = fs::symlink_metadata(&directory).expect("the directory exists");
    assert!(
        found.is_dir() && found.uid() == user,
        "{} belongs to somebody else; remove it, or set another TMPDIR",
        directory.display()
    );
    directory
}

/// Waits for a lock that test processes share. It is free again when the file is dropped.
pub(crate) fn lock(name: &str) -> File {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(directory().join(format!("{name}.lock")))
        .expect("a lock file");
    file.lock().expect("the lock is taken");
    file
}

/// Runs a program to its end. A failure says what to install when it is missing.
#[cfg(feature = "database")]
pub(crate) fn run(program: &str, arguments: &[&str], package: &str) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| {
            panic!("{program} cannot be run ({error}); apt-get install {package}")
        });
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// A setting that `scripts/test` makes.
#[expect(
    clippy::disallowed_methods,
    reason = "tests have no configuration but their environment"
)]
pub(crate) fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn touch(dir: &Path) -> bool {
    File::create(dir.join("used"))
        .and_then(|mut file| file.write_all(b"by a test\n"))
        .is_ok()
}
