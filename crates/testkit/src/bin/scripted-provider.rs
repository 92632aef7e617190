//! A scripted Provider in a process of its own, for benches: it answers what the model's name describes
//! (`scripted-<steps>x<calls>`, see `testkit::provider::rehearsed`).
//!
//! ```text
//! scripted-provider [--wire chat-completions|anthropic] [--listen ADDRESS:PORT]
//! ```
//!
//! It prints its base URL as the one line of its output, and ends on SIGTERM or when its input ends.

use std::{
    error::Error,
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr},
};

use testkit::provider::{Manner, ScriptedProvider, Wire};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (wire, address) = arguments(std::env::args().skip(1))?;
    let provider = ScriptedProvider::listen(wire, Manner::Forgetful, address).await?;
    writeln!(io::stdout(), "{}", provider.base_url())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let input = CancellationToken::new();
    let ended = input.clone();
    // Reading blocks, and must not keep the process from ending.
    std::thread::spawn(move || {
        // Whatever is written here is of no interest, and an error is an end too.
        io::stdin().read_to_end(&mut Vec::new()).unwrap_or_default();
        ended.cancel();
    });
    tokio::select! {
        _ = terminated.recv() => {}
        () = input.cancelled() => {}
    }
    Ok(())
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<(Wire, SocketAddr), String> {
    let mut wire = Wire::ChatCompletions;
    let mut address: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    while let Some(flag) = words.next() {
        let value = words.next().unwrap_or_default();
        match (flag.as_str(), value.as_str()) {
            ("--wire", "chat-completions") => wire = Wire::ChatCompletions,
            ("--wire", "anthropic") => wire = Wire::Anthropic,
            ("--listen", text) => {
                address = text
                    .parse()
                    .map_err(|error| format!("--listen {text}: {error}"))?;
            }
            (_, _) => {
                return Err(format!(
                    "{flag} {value}: write --wire chat-completions|anthropic or --listen ADDRESS:PORT"
                ));
            }
        }
    }
    Ok((wire, address))
}
