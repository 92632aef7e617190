//! MCP Servers as people run them, from npm and `PyPI`, installed by `scripts/setup-mcp`.

use std::{
    fs::{self, File},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use testkit::port::HeldPort;

/// A server that does not listen by then never will. Python imports for seconds on a busy machine.
const START: Duration = Duration::from_mins(1);

fn tools() -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/mcp");
    assert!(
        tools.join("python/installed").exists(),
        "real MCP Servers are missing: run scripts/setup-mcp"
    );
    tools.canonicalize().unwrap()
}

fn path(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Node 22.
pub(crate) fn node() -> String {
    path(&tools().join("node_modules/.bin/node"))
}

/// The script of a server that npm has.
pub(crate) fn npm_server(name: &str) -> String {
    let script = format!("node_modules/@modelcontextprotocol/{name}/dist/index.js");
    path(&tools().join(script))
}

/// A program that pip installed.
pub(crate) fn python(program: &str) -> String {
    path(&tools().join("python/bin").join(program))
}

/// A server that listens, until it is dropped.
pub(crate) struct Listening {
    process: Child,
    port: HeldPort,
    _folder: TempDir,
}

impl Listening {
    /// `server-everything` over `streamableHttp` or `sse`.
    pub(crate) fn everything(transport: &str) -> Self {
        Self::start(|port| {
            let mut command = Command::new(node());
            command
                .args([npm_server("server-everything"), transport.to_owned()])
                .env("PORT", port.to_string());
            command
        })
    }

    /// A server of `FastMCP` over `http` or `sse`.
    pub(crate) fn fastmcp(transport: &str) -> Self {
        Self::start(|port| {
            let mut command = Command::new(python("python"));
            command.args(["-c", FASTMCP, transport, &port.to_string()]);
            command
        })
    }

    fn start(command: impl FnOnce(u16) -> Command) -> Self {
        let port = HeldPort::new();
        let folder = TempDir::new().unwrap();
        let log = folder.path().join("log");
        let file = File::create(&log).unwrap();
        let process = command(port.number())
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        let mut server = Self {
            process,
            port,
            _folder: folder,
        };
        server.wait(&log);
        server
    }

    fn wait(&mut self, log: &Path) {
        let until = Instant::now() + START;
        while TcpStream::connect(self.address()).is_err() {
            let ended = self.process.try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < until,
                "{ended:?}: {}",
                fs::read_to_string(log).unwrap()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn address(&self) -> SocketAddr {
        self.port.on_loopback()
    }

    /// Its URL with this path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A server of `FastMCP` that runs over stdio without arguments, else over the transport and port that it is given.
pub(crate) const FASTMCP: &str = r#"
import sys
from fastmcp import FastMCP

server = FastMCP("Sums")

@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b

if len(sys.argv) > 2:
    server.run(transport=sys.argv[1], host="127.0.0.1", port=int(sys.argv[2]), show_banner=False)
else:
    server.run(show_banner=False)
"#;

/// A repository of Git with one commit, for `mcp-server-git`.
pub(crate) fn repository() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("bell.txt"), "It rings at noon.").unwrap();
    for arguments in [
        &["init", "--quiet"][..],
        &["add", "bell.txt"],
        &[
            "-c",
            "user.name=Keeper",
            "-c",
            "user.email=keeper@village.test",
            "commit",
            "--quiet",
            "--message",
            "Hang the bell",
        ],
    ] {
        let done = Command::new("git")
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    folder
}

/// A folder with one file in it, for `server-filesystem`.
pub(crate) fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("note.txt"), "The well is deep.").unwrap();
    folder
}
