//! What goes wrong between here and a server on the network.

use http::{HeaderMap, StatusCode, header};
use outbound::{Error, Phase, Rule};
use url::Url;
use vault::UnsealError;

use super::{Failure, FailureCode, Redactor};

const CHECK_URL: &str = "Check the URL.";
const ASK_OWNER: &str = "Look into the server's own log, or ask who runs it.";

impl Failure {
    /// No connection, or no answer over it.
    pub(crate) fn of_connection(error: &Error) -> Self {
        let sentence = format!("{}.", capitalised(&error.to_string()));
        let (code, next_step) = match error {
            Error::Refused(refusal) if is_about_the_text(refusal.rule) => {
                (FailureCode::BadUrl, CHECK_URL)
            }
            Error::Refused(_) => (
                FailureCode::PrivateAddress,
                "Use an address outside of the Village's own network; the Operator can open one with outbound.allow.",
            ),
            Error::Unresolvable { .. } => (
                FailureCode::Unresolvable,
                "Check the host in the URL, and whether its name resolves from here.",
            ),
            Error::Unreachable { .. } => (
                FailureCode::Unreachable,
                "Check host and port, and whether the server runs.",
            ),
            Error::Tls { .. } => (
                FailureCode::Tls,
                "Check the server's certificate, and that the port speaks TLS.",
            ),
            Error::Http { .. } => (
                FailureCode::ProtocolError,
                "Check the port: something else may listen there, or the server ended while it answered.",
            ),
            Error::Unsendable { .. } => (FailureCode::ProtocolError, CHECK_URL),
            Error::TimedOut { .. } => (
                FailureCode::TimedOut,
                "Check whether the server runs and is not overloaded, and try again.",
            ),
        };
        let failure = Self::new(code, sentence, next_step);
        match error {
            Error::Refused(_)
            | Error::Unresolvable { .. }
            | Error::Unreachable { .. }
            | Error::Tls { .. }
            | Error::Unsendable { .. }
            | Error::TimedOut {
                phase: Phase::Resolving | Phase::Connecting,
                ..
            } => failure,
            Error::Http { .. }
            | Error::TimedOut {
                phase: Phase::Answering | Phase::Reading,
                ..
            } => failure.after_sending(),
        }
    }

    /// The credentials cannot be opened.
    pub(crate) fn of_unsealing(_error: &UnsealError) -> Self {
        Self::new(
            FailureCode::CredentialsUnreadable,
            "Credentials unreadable: the root secret was changed since they were saved.",
            "Enter them again.",
        )
    }

    /// A header that cannot be sent. Its value is not told.
    pub(crate) fn bad_header(name: &str) -> Self {
        let name = Redactor::default().quote(name);
        Self::new(
            FailureCode::BadUrl,
            format_args!(
                "The header {name:?} cannot be sent: its name or value has characters that headers cannot have."
            ),
            "Enter it again, without line breaks.",
        )
    }

    /// It redirects to where it is not followed.
    pub(crate) fn redirects(status: StatusCode, to: Option<&Url>, secrets: &Redactor) -> Self {
        let Some(to) = to else {
            return Self::new(
                FailureCode::Redirects,
                format_args!("This URL redirects (HTTP {}) to nowhere.", status.as_u16()),
                CHECK_URL,
            );
        };
        let shown = secrets.quote(&without_query(to));
        Self::new(
            FailureCode::Redirects,
            format_args!("This URL redirects to {shown}."),
            format_args!("Use that URL, if you trust it: {shown}"),
        )
    }

    /// It redirects within itself, again and again.
    pub(crate) fn redirects_in_circles() -> Self {
        Self::new(
            FailureCode::Redirects,
            "This URL redirects again and again.",
            CHECK_URL,
        )
    }

    /// A web page.
    pub(crate) fn html(status: StatusCode) -> Self {
        Self::new(
            FailureCode::Html,
            format_args!(
                "A web page answers (HTTP {}) instead of an MCP Server.",
                status.as_u16()
            ),
            "Check the path: MCP Servers are often at /mcp or /sse. A page for signing in answers where a token is missing.",
        )
        .after_sending()
    }

    /// A status that is no success, with what was said, already quoted.
    pub(crate) fn of_status(
        status: StatusCode,
        headers: &HeaderMap,
        said: &str,
        credentials: Credentials,
    ) -> Self {
        let number = status.as_u16();
        let says = if said.is_empty() {
            String::new()
        } else {
            format!(" It says: \"{said}\"")
        };
        let (code, sentence, next_step): (_, String, &str) = match (number, credentials) {
            (401, Credentials::None) => (
                FailureCode::NeedsSignIn,
                format!("The server wants a sign-in or a token, and has none (HTTP 401).{says}"),
                "Add a header with a token, such as \"Authorization: Bearer …\", or use a Connector for this service.",
            ),
            (401, Credentials::Given) => (
                FailureCode::TokenRejected,
                format!(
                    "The server does not take the token or key that it was given (HTTP 401).{says}"
                ),
                "Enter a valid token; this one may have expired.",
            ),
            (403, _) => (
                FailureCode::Forbidden,
                format!("The server refuses access (HTTP 403).{says}"),
                "Check what the token may do, and whether the server lets in clients from here.",
            ),
            (404, _) => (
                FailureCode::HttpError,
                format!("There is nothing at this URL (HTTP 404).{says}"),
                "Check the path: MCP Servers are often at /mcp or /sse.",
            ),
            (429, _) => (
                FailureCode::HttpError,
                format!(
                    "The server asks to be left alone for a while (HTTP 429).{}{says}",
                    patience(headers)
                ),
                "Try again later.",
            ),
            (500..=599, _) => (
                FailureCode::HttpError,
                format!(
                    "The server failed (HTTP {number}).{}{says}",
                    patience(headers)
                ),
                ASK_OWNER,
            ),
            _ => (
                FailureCode::HttpError,
                format!("The server refuses the request (HTTP {number}).{says}"),
                "Check the URL and the transport.",
            ),
        };
        Self::new(code, sentence, next_step).after_sending()
    }

    /// A content type that no MCP Server answers with.
    pub(crate) fn content_type(shown: &str) -> Self {
        let what = if shown.is_empty() {
            "without a content type".to_owned()
        } else {
            format!("with content type \"{shown}\"")
        };
        Self::protocol(format_args!(
            "What answers does not speak MCP: it answered {what} instead of application/json or text/event-stream."
        ))
    }

    /// Something that the protocol does not have.
    pub(crate) fn protocol(sentence: impl std::fmt::Display) -> Self {
        Self::new(FailureCode::ProtocolError, sentence, ASK_OWNER).after_sending()
    }

    /// An answer that is longer than the setting allows.
    pub(crate) fn too_long(limit: usize) -> Self {
        Self::new(
            FailureCode::ProtocolError,
            format_args!("The server's answer is longer than {limit} bytes."),
            "Ask the Tool for less; the Operator can raise mcp.answer_bytes.",
        )
        .after_sending()
    }

    /// An answer that stops in its middle.
    pub(crate) fn broke_off() -> Self {
        Self::new(
            FailureCode::ProtocolError,
            "The server broke off in the middle of its answer.",
            ASK_OWNER,
        )
        .after_sending()
    }
}

/// Whether a server was given anything that could be a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// Headers, or values in the URL's query.
    Given,
    /// Nothing.
    None,
}

/// Rules that are about how a URL is written.
fn is_about_the_text(rule: Rule) -> bool {
    match rule {
        Rule::Malformed
        | Rule::UrlTooLong
        | Rule::Scheme
        | Rule::Userinfo
        | Rule::Port
        | Rule::EmptyLabel
        | Rule::NameTooLong => true,
        Rule::ThisNetwork
        | Rule::Loopback
        | Rule::Private
        | Rule::Shared
        | Rule::LinkLocal
        | Rule::Metadata
        | Rule::ProtocolAssignments
        | Rule::Documentation
        | Rule::Benchmarking
        | Rule::SixToFourRelay
        | Rule::Multicast
        | Rule::Reserved
        | Rule::UniqueLocal
        | Rule::SiteLocal
        | Rule::Discard
        | Rule::SegmentRouting
        | Rule::Ipv4Compatible
        | Rule::LocalTranslation
        | Rule::SixToFour
        | Rule::Teredo
        | Rule::NotGlobalUnicast
        | Rule::OwnAddress
        | Rule::OwnNetwork
        | Rule::OwnListener
        | Rule::SingleLabel
        | Rule::LocalName
        | Rule::MetadataName => false,
    }
}

/// A URL without what may be secret in it.
fn without_query(url: &Url) -> String {
    let mut shown = url.clone();
    let had_query = shown.query().is_some();
    shown.set_query(None);
    shown.set_fragment(None);
    // They can be set for every URL that has a host.
    shown.set_password(None).unwrap_or_default();
    shown.set_username("").unwrap_or_default();
    if had_query {
        format!("{shown}?…")
    } else {
        shown.to_string()
    }
}

/// For how long a server asks to be left alone, if it says so in seconds.
fn patience(headers: &HeaderMap) -> String {
    headers
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.trim().parse::<u32>().ok())
        .map(|seconds| format!(" It asks for {seconds} seconds."))
        .unwrap_or_default()
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map(|first| first.to_uppercase().chain(characters).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reached;

    fn status(number: u16, credentials: Credentials) -> FailureCode {
        let status = StatusCode::from_u16(number).expect("a status");
        Failure::of_status(status, &HeaderMap::new(), "", credentials).code
    }

    #[test]
    fn each_status_has_its_code() {
        for (number, credentials, code) in [
            (401, Credentials::None, FailureCode::NeedsSignIn),
            (401, Credentials::Given, FailureCode::TokenRejected),
            (403, Credentials::Given, FailureCode::Forbidden),
            (404, Credentials::Given, FailureCode::HttpError),
            (429, Credentials::None, FailureCode::HttpError),
            (503, Credentials::None, FailureCode::HttpError),
            (418, Credentials::None, FailureCode::HttpError),
        ] {
            assert_eq!(status(number, credentials), code, "{number}");
        }
    }

    #[test]
    fn a_server_that_asks_for_patience_is_quoted_in_seconds_only() {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, "30".parse().expect("a value"));
        let failure = Failure::of_status(
            StatusCode::TOO_MANY_REQUESTS,
            &headers,
            "",
            Credentials::None,
        );
        assert_eq!(
            failure.sentence,
            "The server asks to be left alone for a while (HTTP 429). It asks for 30 seconds."
        );
        headers.insert(header::RETRY_AFTER, "soon".parse().expect("a value"));
        assert_eq!(patience(&headers), "");
    }

    #[test]
    fn a_redirect_is_told_without_what_may_be_secret_in_it() {
        let to = Url::parse("https://u:pw@other.example/mcp?token=abcdef#x").expect("a URL");
        let failure = Failure::redirects(StatusCode::FOUND, Some(&to), &Redactor::default());
        assert_eq!(
            failure.sentence,
            "This URL redirects to https://other.example/mcp?…."
        );
        assert_eq!(failure.code, FailureCode::Redirects);
    }

    #[test]
    fn only_what_was_surely_not_sent_never_reached_the_server() {
        let host = || "example.com".to_owned();
        let why = || "x".to_owned();
        for (error, reached) in [
            (
                Error::Unreachable {
                    host: host(),
                    why: why(),
                },
                Reached::Never,
            ),
            (
                Error::Tls {
                    host: host(),
                    why: why(),
                },
                Reached::Never,
            ),
            (
                Error::Http {
                    host: host(),
                    why: why(),
                },
                Reached::Maybe,
            ),
            (
                Error::TimedOut {
                    host: host(),
                    phase: Phase::Connecting,
                },
                Reached::Never,
            ),
            (
                Error::TimedOut {
                    host: host(),
                    phase: Phase::Answering,
                },
                Reached::Maybe,
            ),
        ] {
            assert_eq!(Failure::of_connection(&error).reached, reached, "{error}");
        }
    }
}
