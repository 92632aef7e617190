//! `healthcheck`: for images and orchestrators, which have no other program to ask with.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use kernel::ErrorCode;
use runtime::{admin::AdminSettings, host::parse_listen};
use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{app::App, failure::Failure, output::Format};

/// The longest wait for the whole answer.
const TIME: Duration = Duration::from_secs(5);
/// Bytes of an answer that are read.
const ANSWER_BYTES: u64 = 64 * 1_024;

#[derive(Debug, Deserialize)]
struct Readiness {
    #[serde(default)]
    pending: Vec<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

pub(crate) async fn run(app: &App) -> Result<(), Failure> {
    let admin: AdminSettings = app
        .settings()?
        .section("admin")
        .map_err(Failure::precondition)?;
    if admin.listen.is_empty() {
        return Err(Failure::precondition(
            "admin.listen is empty, so the Village has no admin listener to ask; set AGENTSVILLE__ADMIN__LISTEN",
        ));
    }
    let address = parse_listen("admin.listen", &admin.listen).map_err(Failure::precondition)?;
    let (status, body) = match tokio::time::timeout(TIME, ask(reachable(address))).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            return Err(Failure::of(
                ErrorCode::Unavailable,
                format!(
                    "no Village answers at {address} ({error}); admin.listen says where it is asked"
                ),
            ));
        }
        Err(_elapsed) => {
            return Err(Failure::of(
                ErrorCode::DeadlineExceeded,
                format!(
                    "the Village at {address} did not answer within {} s",
                    TIME.as_secs()
                ),
            ));
        }
    };
    let readiness: Readiness = serde_json::from_str(&body).unwrap_or(Readiness {
        pending: Vec::new(),
        warnings: Vec::new(),
    });
    if status != 200 {
        let waiting = match readiness.pending.as_slice() {
            [] => format!("it answered {status}"),
            pending => format!("it waits for {}", pending.join(", ")),
        };
        return Err(Failure::of(
            ErrorCode::Unavailable,
            format!("the Village at {address} is not ready: {waiting}"),
        ));
    }
    match app.output.format() {
        Format::Json => app.output.json_of(&serde_json::json!({
            "ready": true, "warnings": readiness.warnings,
        }))?,
        Format::Text => {
            app.output.line("ready")?;
            for warning in &readiness.warnings {
                app.output.line(&format!("warning  {warning}"))?;
            }
        }
    }
    Ok(())
}

/// Who listens on every address is asked on this machine's own.
fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    match address {
        SocketAddr::V4(_) => (Ipv4Addr::LOCALHOST, address.port()).into(),
        SocketAddr::V6(_) => (Ipv6Addr::LOCALHOST, address.port()).into(),
    }
}

/// One request of HTTP/1.0, whose answer ends with the connection (RFC 1945): nothing else is needed for a yes or a no.
async fn ask(address: SocketAddr) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /readyz HTTP/1.0\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES).read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .ok_or_else(|| std::io::Error::other("what answers there does not speak HTTP"))?;
    let body = answer
        .split_once("\r\n\r\n")
        .map_or("", |(_head, body)| body);
    Ok((status, body.to_owned()))
}
