//! Proxies that others run, in front of the same upstream: `scripts/setup-mcp-peers` installs them.

use std::{
    net::TcpStream,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use testkit::port::HeldPort;

use crate::{
    client::Way,
    process::{Process, Usage, workspace},
    upstream::{Era, Upstream},
};

/// A proxy of `FastMCP`: streamable HTTP on both sides.
const PROGRAM: &str = "import sys; from fastmcp.server import create_proxy; \
    create_proxy(sys.argv[1]).run(transport='http', host='127.0.0.1', port=int(sys.argv[2]), show_banner=False, log_level='ERROR')";

/// The proxy of `FastMCP`, in a process of its own.
pub(crate) struct FastMcp {
    process: Process,
    port: HeldPort,
}

impl FastMcp {
    pub(crate) async fn start(upstream: &Upstream) -> Self {
        let port = HeldPort::new();
        let child = Command::new(installed("fastmcp/bin/python"))
            .args(["-c", PROGRAM, &upstream.url(Era::Legacy, 1)])
            .arg(port.number().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut process = Process(child);
        while TcpStream::connect(port.on_loopback()).is_err() {
            assert!(process.0.try_wait().unwrap().is_none(), "FastMCP ended");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Self { process, port }
    }

    pub(crate) fn way(&self) -> Way {
        Way::Http {
            url: format!("http://{}/mcp", self.port.on_loopback()),
            era: Era::Legacy,
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        self.process.usage()
    }
}

/// mcp-proxy, started by its client: stdio on this side, streamable HTTP on the other.
pub(crate) fn mcp_proxy(upstream: &Upstream) -> Way {
    let program = installed("mcp-proxy/bin/mcp-proxy");
    Way::Stdio {
        command: vec![
            program.to_str().unwrap().to_owned(),
            "--transport".to_owned(),
            "streamablehttp".to_owned(),
            upstream.url(Era::Legacy, 1),
        ],
    }
}

fn installed(program: &str) -> PathBuf {
    let path = workspace().join(".tools/mcp-peers").join(program);
    assert!(
        path.exists(),
        "{} is missing: run scripts/setup-mcp-peers",
        path.display()
    );
    path
}
