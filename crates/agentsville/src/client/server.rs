//! Which Village, and with what right.

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

/// The token for a Village: `AGENTSVILLE_TOKEN`, else, for a Village on this machine, the Operator's: from the settings, or from the
/// data directory that they name.
pub fn token(
    server: &Server,
    from_environment: Option<&str>,
    settings: impl FnOnce() -> Result<Settings, Failure>,
) -> Result<Secret, Failure> {
    if let Some(token) = from_environment
        .map(str::trim)
        .filter(|token| !token.is_empty())
    {
        return Ok(Secret::new(token));
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
        return Ok(set);
    }
    let data_dir = settings.data_dir().map_err(Failure::precondition)?;
    let path = data_dir.join(tool_registry::OPERATOR_TOKEN_FILE);
    read_token(&path).map_err(|error| {
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

#[cfg(test)]
mod tests {
    use runtime::Sources;

    use super::*;

    fn server(text: &str) -> Server {
        Server::parse(text).unwrap()
    }

    #[test]
    fn a_name_never_leaves_its_place_in_the_path() {
        let village = server("http://127.0.0.1:8080");
        let url = |segment| village.url(&["npcs", segment], &[]).unwrap().to_string();
        assert_eq!(
            url("Old Keeper"),
            "http://127.0.0.1:8080/v1/npcs/Old%20Keeper"
        );
        assert_eq!(
            url("../players"),
            "http://127.0.0.1:8080/v1/npcs/..%2Fplayers"
        );
        assert_eq!(url("a?b#c"), "http://127.0.0.1:8080/v1/npcs/a%3Fb%23c");
        for unusable in ["", ".", ".."] {
            assert!(village.url(&["npcs", unusable], &[]).is_err());
        }
    }

    #[test]
    fn a_village_may_stand_under_a_path() {
        let url = server("https://host/village/")
            .url(&["me"], &[("a b", "c&d")])
            .unwrap();
        assert_eq!(url.as_str(), "https://host/village/v1/me?a+b=c%26d");
    }

    #[test]
    fn the_operators_token_is_only_for_this_machine() {
        for (text, here) in [
            ("http://127.0.0.1:8080", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:8080", true),
            ("http://localhost:8080", true),
            ("http://LOCALHOST", true),
            ("http://localhost.evil.example", false),
            ("http://127.0.0.1.evil.example", false),
            ("http://0.0.0.0:8080", false),
            ("http://10.0.0.1", false),
            ("https://village.example", false),
        ] {
            assert_eq!(server(text).is_loopback(), here, "{text}");
        }
        let refused = token(&server("https://village.example"), None, || {
            unreachable!("the settings are not even looked at")
        });
        assert!(matches!(refused, Err(Failure::Failed(problem))
            if problem.code == ErrorCode::Unauthenticated && problem.detail.contains("AGENTSVILLE_TOKEN")));
    }

    #[test]
    fn a_server_that_is_none_is_wrong_usage() {
        for text in [
            "",
            "127.0.0.1:8080",
            "ftp://x",
            "http://u:p@x",
            "http://127.0.0.1@evil.example",
            "http://x?y",
        ] {
            assert!(
                matches!(Server::parse(text), Err(Failure::Usage(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn a_token_is_read_from_the_environment_first_then_from_the_settings_then_from_the_file() {
        let here = server("http://127.0.0.1:1");
        let directory = tempfile::tempdir().unwrap();
        let settings = |operator_token: &str| {
            let data_dir = directory.path().display().to_string();
            Settings::load(Sources {
                file: None,
                environment: vec![
                    ("AGENTSVILLE__DATA_DIR".to_owned(), data_dir),
                    (
                        "AGENTSVILLE__OPERATOR_TOKEN".to_owned(),
                        operator_token.to_owned(),
                    ),
                ],
            })
            .map_err(Failure::precondition)
        };
        assert!(token(&here, None, || settings("")).is_err());
        std::fs::write(directory.path().join("operator.token"), "from-file\n").unwrap();
        for (given, set, found) in [
            (Some(" "), "", "from-file"),
            (None, "from-settings", "from-settings"),
            (Some("given"), "from-settings", "given"),
        ] {
            assert_eq!(
                token(&here, given, || settings(set)).unwrap().expose(),
                found
            );
        }
    }
}
