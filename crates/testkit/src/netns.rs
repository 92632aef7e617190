//! Network namespaces: networks that a test makes for itself, and that end with it.
//!
//! A guard that refuses every address of its own machine cannot be shown to work on loopback. In a namespace a test owns all
//! addresses: it can put a server at a public one, and another at a private one that a mistake would really reach.
//!
//! Needs root (`CAP_SYS_ADMIN` and `CAP_NET_ADMIN`) and iproute2. A test that lacks them fails and says so.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test's network that cannot be made must fail the test at once"
)]

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::AsFd as _,
    panic::resume_unwind,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::runtime::{Builder, Runtime};

/// Where iproute2 keeps the namespaces that have names.
const FOLDER: &str = "/run/netns";
/// Begins the name of every namespace of a test; the process's id and a number follow.
const PREFIX: &str = "avt-";
const NEEDED: &str = "network namespaces need root (CAP_SYS_ADMIN and CAP_NET_ADMIN) and iproute2: run the tests as root, after `apt-get install iproute2`";

/// A network of its own, with nothing in it but loopback. It is removed when dropped, also after a panic; what a killed test left
/// is removed by the next one.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    /// Its threads were born inside. None only while it is dropped.
    runtime: Option<Runtime>,
}

impl Namespace {
    /// A namespace with a name that no other has, and loopback up.
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        remove_orphans();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{count}", std::process::id());
        run_ip(["netns", "add", &name], "");
        let mut namespace = Self {
            name,
            runtime: None,
        };
        namespace.ip("link set lo up");
        // A thread is born into the namespace of the one that makes it.
        let runtime = namespace.run(|| {
            Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
        });
        namespace.runtime = Some(runtime.expect("a runtime"));
        namespace
    }

    /// Its name, as `ip netns` shows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs commands of iproute2's `ip` inside, one a line: `address add 192.0.2.1/32 dev lo`.
    pub fn ip(&self, commands: &str) {
        run_ip(["-n", &self.name, "-batch", "-"], commands);
    }

    /// Runs a closure on a thread inside. What panics there panics here.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let path = Path::new(FOLDER).join(&self.name);
        let inside = || {
            let file = File::open(&path).expect("the namespace is there");
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .unwrap_or_else(|problem| panic!("{NEEDED}: {problem}"));
            work()
        };
        thread::scope(|scope| scope.spawn(inside).join())
            .unwrap_or_else(|panicked| resume_unwind(panicked))
    }

    /// Runs a future to its end on a runtime of its own inside. Sockets that it opens, and processes that it starts, are inside.
    pub fn block_on<F>(&self, make: impl FnOnce() -> F + Send) -> F::Output
    where
        F: Future,
        F::Output: Send,
    {
        self.run(|| {
            let runtime = Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(make())
        })
    }

    /// Runs a future on the namespace's own runtime, where what it spawns lives until the namespace is dropped: servers, mostly.
    pub async fn spawn<F>(&self, future: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        let runtime = self.runtime.as_ref().expect("it is not dropped yet");
        match runtime.spawn(future).await {
            Ok(output) => output,
            Err(problem) => resume_unwind(problem.into_panic()),
        }
    }

    /// Starts a process inside.
    pub fn start(&self, command: &mut Command) -> io::Result<Child> {
        self.run(|| command.spawn())
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // It may be dropped within another runtime, which must not wait.
            runtime.shutdown_background();
        }
        remove(&self.name);
    }
}

/// A Village's machine, and the rest of the world behind one wire.
///
/// The world holds **every** address of both families that is not the Village's own: whatever is connected to is accepted by a
/// listener of the world on that port, whose end of the connection tells which address was meant. So a test sees each
/// connection that leaves, and not only those that it thought of. To the Village none of them is on-link: its own addresses
/// stand alone, and all else is behind a gateway.
#[derive(Debug)]
pub struct Internet {
    /// Where the Village runs.
    pub village: Namespace,
    /// Where everybody else is.
    pub world: Namespace,
}

impl Internet {
    /// The Village's address on the wire.
    pub const VILLAGE_V4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
    /// The Village's IPv6 address on the wire.
    pub const VILLAGE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
    /// The gateway, and where a DNS server can bind.
    pub const GATEWAY_V4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
    /// The gateway's IPv6 address.
    pub const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 2);

    /// Two namespaces and a wire.
    pub fn new() -> Self {
        let (village, world) = (Namespace::new(), Namespace::new());
        let (v4, v6) = (Self::VILLAGE_V4, Self::VILLAGE_V6);
        let (gateway_v4, gateway_v6) = (Self::GATEWAY_V4, Self::GATEWAY_V6);
        let (inside, outside) = (village.name(), world.name());
        run_ip(
            ["-batch", "-"],
            &format!("link add name wire netns {inside} type veth peer name wire netns {outside}"),
        );
        // Without duplicate address detection, which would take a second: nobody else is on this wire.
        village.ip(&format!(
            "address add {v4}/32 dev wire
             address add {v6}/128 dev wire nodad
             link set wire up"
        ));
        // The table of local addresses is asked first: the way back must stand in it beside the route that makes all else local.
        world.ip(&format!(
            "address add {gateway_v4}/32 dev wire
             address add {gateway_v6}/128 dev wire nodad
             link set wire up
             route add {v4}/32 dev wire table local
             route add local 0.0.0.0/0 dev lo table local
             route add {v6}/128 dev wire table local
             route add local ::/0 dev lo table local"
        ));
        village.ip(&format!(
            "route add default via {gateway_v4} dev wire onlink
             route add default via {gateway_v6} dev wire onlink"
        ));
        Self { village, world }
    }

    /// The addresses that are the Village's own, loopback included.
    pub fn own_addresses() -> [IpAddr; 4] {
        [
            IpAddr::V4(Self::VILLAGE_V4),
            IpAddr::V6(Self::VILLAGE_V6),
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ]
    }
}

impl Default for Internet {
    fn default() -> Self {
        Self::new()
    }
}

/// A command that runs a program which sees another file in place of one of the machine's, such as `/etc/hosts`: in a mount
/// namespace of its own, so that nobody else does.
pub fn with_file_in_place_of(
    machines: impl AsRef<OsStr>,
    file: &Path,
    program: impl AsRef<OsStr>,
) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--", "/bin/sh", "-c"])
        .arg(r#"mount --bind "$1" "$2" && shift 2 && exec "$@""#)
        .arg("sh")
        .arg(file)
        .arg(machines)
        .arg(program);
    command
}

/// Runs `ip`, with lines for its standard input.
fn run_ip<const N: usize>(arguments: [&str; N], lines: &str) {
    let mut child = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|problem| panic!("{NEEDED}: {problem}"));
    let mut stdin = child.stdin.take().expect("a pipe");
    for line in lines.lines() {
        // It may have ended already; why is in what it said.
        writeln!(stdin, "{}", line.trim()).ok();
    }
    drop(stdin);
    let output = child.wait_with_output().expect("ip runs");
    assert!(
        output.status.success(),
        "{NEEDED}. ip {arguments:?} said: {}; it was to do: {lines}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn remove(name: &str) {
    // A namespace that is gone already is what is wanted.
    drop(
        Command::new("ip")
            .args(["netns", "delete", name])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status(),
    );
}

/// Removes the namespaces of test processes that are gone.
fn remove_orphans() {
    let Ok(entries) = fs::read_dir(FOLDER) else {
        return;
    };
    for name in entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().into_string().ok())
    {
        let is_orphan = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('-'))
            .is_some_and(|(pid, _count)| !PathBuf::from(format!("/proc/{pid}")).exists());
        if is_orphan {
            remove(&name);
        }
    }
}

#[cfg(test)]
mod tests;
