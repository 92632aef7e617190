//! Which Village, and with what right.

#[cfg(test)]
mod tests;

use std::{fmt, io::Read as _, net::IpAddr, path::Path};

use kernel::{ErrorCode, Secret};
use runtime::Settings;
use url::{Host, Url};

use crate::failure::{Failure, Problem};

/// Bytes of a token that are read.
const TOKEN_BYTES: u64 = 4_096;

/// A Village's HTTP address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server(Url);

impl Server {
    /// Reads `--server`.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = |problem: &str| {
            let shown: String = text.chars().take(200).collect();
            Failure::Usage(
                Problem::new(
                    ErrorCode::InvalidArgument,
                    format!("--server {shown:?} {problem}; write it like http://127.0.0.1:8080"),
                )
                .with_field("server"),
            )
        };
        let url = Url::parse(text).map_err(|error| wrong(&format!("is no URL ({error})")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("is neither http nor https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong(
                "holds a name or password, which a Village does not take",
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("has a query or fragment"));
        }
        Ok(Self(url))
    }

    /// Whether it is this machine, by its name: only then may the Operator's token from the data directory be sent.
    pub fn is_loopback(&self) -> bool {
        match self.0.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
            Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        }
    }

    /// The URL of a path under `/v1`. Every segment is text from a person and stays one segment.
    pub(super) fn url(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Url, Failure> {
        let mut url = self.0.clone();
        if let Some(&unusable) = path
            .iter()
            .find(|segment| matches!(**segment, "" | "." | ".."))
        {
            return Err(Failure::of(
                ErrorCode::NotFound,
                format!("there is nothing called {unusable:?}; give a name or an id"),
            ));
        }
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("v1").extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

/// A bearer token.
#[derive(Debug, Clone)]
pub struct Token {
    /// The token itself.
    pub text: Secret,
    /// Where it was found, for a sentence: `AGENTSVILLE_TOKEN`, or a file.
    pub origin: String,
}

/// The token for a Village: `AGENTSVILLE_TOKEN`, else, for a Village on this machine, the Operator's: from the settings, or from the
/// data directory that they name.
pub fn token(
    server: &Server,
    from_environment: Option<&str>,
    settings: impl FnOnce() -> Result<Settings, Failure>,
) -> Result<Token, Failure> {
    let from = |text: Secret, origin: String| Token { text, origin };
    if let Some(token) = from_environment
        .map(str::trim)
        .filter(|token| !token.is_empty())
    {
        return Ok(from(Secret::new(token), "AGENTSVILLE_TOKEN".to_owned()));
    }
    if !server.is_loopback() {
        return Err(Failure::of(
            ErrorCode::Unauthenticated,
            format!(
                "no token for {server}: set AGENTSVILLE_TOKEN to the one that its Operator gave you"
            ),
        ));
    }
    let settings = settings()?;
    let set: Secret = settings
        .value("operator_token")
        .map_err(Failure::precondition)?;
    if !set.is_empty() {
        return Ok(from(set, "the setting operator_token".to_owned()));
    }
    let data_dir = settings.data_dir().map_err(Failure::precondition)?;
    let path = data_dir.join(tool_registry::OPERATOR_TOKEN_FILE);
    let origin = path.display().to_string();
    let read = read_token(&path).map(|text| from(text, origin));
    read.map_err(|error| {
        Failure::of(
            ErrorCode::Unauthenticated,
            format!(
                "no token for {server}: AGENTSVILLE_TOKEN is not set, and {} cannot be read ({error}); start the Village with `agentsville`, or name its data directory in AGENTSVILLE__DATA_DIR",
                path.display()
            ),
        )
    })
}

fn read_token(path: &Path) -> std::io::Result<Secret> {
    let mut text = String::new();
    std::fs::File::open(path)?
        .take(TOKEN_BYTES)
        .read_to_string(&mut text)?;
    let token = text.trim();
    if token.is_empty() {
        return Err(std::io::Error::other("it is empty"));
    }
    Ok(Secret::new(token))
}
