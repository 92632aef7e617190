//! What is answered instead of a connection: a status, a rule for programs, and a sentence.
//!
//! **Architecture invariant:** nothing here repeats a token, or an address that a name stands for inside.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use kernel::ErrorCode;
use outbound::{Phase, Refusal, Rule, Target};
use runtime::Outcome;

use super::exchange::Reply;

/// The header that carries the rule.
pub(super) const REFUSAL: HeaderName = HeaderName::from_static("x-agentsville-refusal");

/// How soon somebody may try again for whom there was no place, in seconds.
const RETRY_AFTER: &str = "1";
/// The schemes that an identity may come by (RFC 9110 section 11.7.1).
const SCHEMES: [&str; 2] = [
    "Bearer realm=\"agentsville\"",
    "Basic realm=\"agentsville\", charset=\"UTF-8\"",
];

/// Why a request is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Denial {
    /// The status.
    pub(super) status: StatusCode,
    /// The rule, stable.
    pub(super) rule: &'static str,
    /// The host that was asked for, if the request came so far.
    pub(super) host: Option<String>,
    /// What a person is told.
    pub(super) sentence: String,
}

impl Denial {
    pub(super) fn new(status: StatusCode, rule: &'static str, sentence: impl Into<String>) -> Self {
        Self {
            status,
            rule,
            host: None,
            sentence: sentence.into(),
        }
    }

    /// The request is not one that a proxy can be asked.
    pub(super) fn malformed(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Rule::Malformed.as_str(), sentence)
    }

    /// A head did not come in its time.
    pub(super) fn too_slow(time: Duration) -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "timeout",
            format!(
                "the head of the request did not come within {} seconds",
                time.as_secs()
            ),
        )
    }

    /// Nobody says who is asking, or nobody who may.
    pub(super) fn identity(rule: &'static str, sentence: &str) -> Self {
        Self::new(StatusCode::PROXY_AUTHENTICATION_REQUIRED, rule, sentence)
    }

    /// The policy of the pass leaves the host out.
    pub(super) fn host_not_allowed(target: &Target) -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "host-not-allowed",
            "it is not among the hosts that this Sandbox may reach",
        )
        .at(target)
    }

    /// There is no place in the process.
    pub(super) fn busy() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "busy",
            "as many tunnels are open as egress.tunnels allows; try again later",
        )
    }

    /// There is no place for this NPC and Player.
    pub(super) fn too_many() -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too-many-tunnels",
            "this NPC has as many tunnels open as egress.tunnels_per_npc allows; close one",
        )
    }

    /// A body is longer than may go through.
    pub(super) fn too_many_bytes(status: StatusCode) -> Self {
        Self::new(
            status,
            "too-many-bytes",
            "the body is longer than egress.tunnel_bytes allows",
        )
    }

    /// What the guard said of a text that is no target yet.
    pub(super) fn unreadable(refusal: &Refusal) -> Self {
        let is_text = matches!(
            refusal.rule,
            Rule::Malformed
                | Rule::UrlTooLong
                | Rule::EmptyLabel
                | Rule::NameTooLong
                | Rule::Scheme
                | Rule::Userinfo
        );
        let status = if is_text {
            StatusCode::BAD_REQUEST
        } else {
            StatusCode::FORBIDDEN
        };
        Self {
            host: refusal.host.clone(),
            ..Self::new(status, refusal.rule.as_str(), advice(refusal.rule))
        }
    }

    /// What the way out said. The sentences of a refusal, or of a host that cannot be reached, name addresses: these are others.
    pub(super) fn of(error: &outbound::Error, target: &Target) -> Self {
        use outbound::Error;
        let (status, rule, sentence) = match error {
            Error::Refused(refusal) => (
                StatusCode::FORBIDDEN,
                refusal.rule.as_str(),
                advice(refusal.rule),
            ),
            Error::Unresolvable { .. } => (
                StatusCode::BAD_GATEWAY,
                "unresolvable",
                "the name has no address that is known for certain; check its spelling",
            ),
            Error::Unreachable { .. } => (
                StatusCode::BAD_GATEWAY,
                "unreachable",
                "it does not take the connection; try again later",
            ),
            Error::Tls { .. } => (
                StatusCode::BAD_GATEWAY,
                "tls",
                "it cannot prove that it is the host",
            ),
            Error::Http { .. } => (
                StatusCode::BAD_GATEWAY,
                "bad-response",
                "it did not answer in proper HTTP",
            ),
            Error::Unsendable { .. } => (
                StatusCode::BAD_REQUEST,
                Rule::Malformed.as_str(),
                "the request cannot be sent as it is",
            ),
            Error::TimedOut { phase, .. } => (
                StatusCode::GATEWAY_TIMEOUT,
                "timeout",
                match phase {
                    Phase::Resolving => "the name took too long to resolve",
                    Phase::Connecting => "it took too long to connect",
                    Phase::Answering | Phase::Reading => "it took too long to answer",
                },
            ),
        };
        Self::new(status, rule, sentence).at(target)
    }

    /// The same with the host that it is about.
    pub(super) fn at(mut self, target: &Target) -> Self {
        self.host = Some(target.host().to_string());
        self
    }

    /// How it is recorded.
    pub(super) fn outcome(&self) -> Outcome {
        match self.status {
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => Outcome::Error(ErrorCode::Unauthenticated),
            StatusCode::FORBIDDEN => Outcome::Denied,
            StatusCode::BAD_GATEWAY => Outcome::Error(ErrorCode::Unavailable),
            StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT => {
                Outcome::Error(ErrorCode::DeadlineExceeded)
            }
            StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::PAYLOAD_TOO_LARGE => Outcome::Error(ErrorCode::ResourceExhausted),
            _ => Outcome::Error(ErrorCode::InvalidArgument),
        }
    }

    /// The answer.
    pub(super) fn response(&self) -> Response<Reply> {
        self.answer().map(|body| {
            Full::new(body)
                .map_err(|never| match never {})
                .boxed_unsync()
        })
    }

    /// The answer as bytes, for what comes before there is anybody to answer by. It says that the connection ends.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let (head, body) = self.answer().into_parts();
        let mut text = format!(
            "HTTP/1.1 {}\r\nconnection: close\r\ncontent-length: {}\r\n",
            head.status,
            body.len()
        )
        .into_bytes();
        for (name, value) in &head.headers {
            text.extend_from_slice(name.as_str().as_bytes());
            text.extend_from_slice(b": ");
            text.extend_from_slice(value.as_bytes());
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"\r\n");
        text.extend_from_slice(&body);
        text
    }

    fn answer(&self) -> Response<Bytes> {
        let problem = serde_json::json!({
            "title": self.status.canonical_reason().unwrap_or("Refused"),
            "status": self.status.as_u16(),
            "detail": self.sentence,
            "rule": self.rule,
            "host": self.host,
        });
        let mut response = Response::new(Bytes::from(format!("{problem}\n")));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        headers.insert(REFUSAL, HeaderValue::from_static(self.rule));
        if self.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
            for scheme in SCHEMES {
                headers.append(header::PROXY_AUTHENTICATE, HeaderValue::from_static(scheme));
            }
        }
        if matches!(
            self.status,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS
        ) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        response
    }
}

/// What a person in a Sandbox can do about it.
fn advice(rule: Rule) -> &'static str {
    if rule == Rule::Port {
        "a Sandbox may connect to the ports of egress.ports, by default 80 and 443, and to those of exemptions"
    } else if matches!(rule, Rule::EmptyLabel | Rule::NameTooLong) {
        "it is not a name that DNS can have"
    } else if rule == Rule::Malformed {
        "the host cannot be read; write HOST:PORT, an IPv6 address in brackets"
    } else {
        "a Sandbox reaches public hosts only, and another spelling will not help; an Operator can open a host with outbound.allow for \"egress\""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_by_hand_is_what_is_said_otherwise() {
        let text = String::from_utf8(Denial::malformed("it is no request").bytes()).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        let problem: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
        assert!(head.contains("x-agentsville-refusal: malformed"), "{head}");
        assert!(
            head.contains(&format!("content-length: {}", body.len())),
            "{head}"
        );
        assert_eq!(problem["rule"], "malformed");
        assert_eq!(problem["detail"], "it is no request");
    }

    #[test]
    fn whoever_has_no_identity_is_told_how_to_show_one() {
        let response = Denial::identity("token-missing", "who is asking?").answer();
        let schemes: Vec<_> = response
            .headers()
            .get_all(header::PROXY_AUTHENTICATE)
            .iter()
            .collect();
        assert_eq!(schemes, SCHEMES);
    }
}
