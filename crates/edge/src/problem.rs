//! What a client gets when something fails: problem details (RFC 9457).

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{
    HeaderValue, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};
use kernel::ErrorCode;
use serde::Serialize;
use utoipa::{IntoResponses, ToSchema};

/// When to try again while a service is away.
const AWAY: Duration = Duration::from_secs(2);

/// A failure as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) code: ErrorCode,
    pub(crate) detail: String,
    pub(crate) field: Option<String>,
    pub(crate) retry_after: Option<Duration>,
}

/// The body of a failure: problem details (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody {
    /// Always `about:blank`: the code says the rest.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The HTTP status in words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What failed, with which value, and what to do.
    detail: String,
    /// The class of the failure: `not_found`, `invalid_argument`, …
    code: &'static str,
    /// The field or header that is wrong, if one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
}

/// Any failure, for the description of the API.
#[derive(IntoResponses)]
#[response(
    status = "default",
    description = "A failure",
    content_type = "application/problem+json"
)]
#[expect(dead_code, reason = "it documents what every handler may answer")]
pub(crate) struct Failure(ProblemBody);

impl Problem {
    /// A failure of a class, with the status that goes with it.
    pub(crate) fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self {
            status: StatusCode::from_u16(code.http_status())
                .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            code,
            detail: detail.into(),
            field: None,
            retry_after: None,
        }
    }

    /// A field of the request that is wrong.
    pub(crate) fn field(field: &str, detail: impl Into<String>) -> Self {
        Self {
            field: Some(field.to_owned()),
            ..Self::new(ErrorCode::InvalidArgument, detail)
        }
    }

    /// The same with a status that says it more exactly.
    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// A rate that was exceeded.
    pub(crate) fn too_many(detail: impl Into<String>, retry_after: Duration) -> Self {
        Self {
            retry_after: Some(retry_after),
            ..Self::new(ErrorCode::ResourceExhausted, detail)
        }
    }
}

impl From<tonic::Status> for Problem {
    fn from(status: tonic::Status) -> Self {
        let runtime::status::Problem {
            code,
            sentence,
            field,
        } = runtime::status::problem(&status);
        // The edge's own token was refused: nothing that the client could mend, and not its token.
        if code == ErrorCode::Unauthenticated {
            tracing::error!(
                error = sentence,
                "a peer refused the edge's caller token; see its keys.trust"
            );
            return Self::new(
                ErrorCode::Internal,
                "the services of this Village do not trust each other's keys; its Operator finds the reason in the log",
            );
        }
        // What a service says of its peers names their addresses: that is for the Operator.
        if code == ErrorCode::Unavailable {
            tracing::warn!(error = sentence, "a service is away");
            return Self {
                retry_after: Some(AWAY),
                ..Self::new(
                    code,
                    "a service of this Village is away or restarts; try again in a moment",
                )
            };
        }
        let Some(field) = field else {
            return Self::new(code, sentence);
        };
        // The contracts write `fetch_hosts` where the API writes `fetchHosts`; sentences begin with the field.
        let shown = camel_case(&field);
        let sentence = match sentence.strip_prefix(field.as_str()) {
            Some(rest) if rest.starts_with([':', ' ']) => format!("{shown}{rest}"),
            Some(_) | None => sentence,
        };
        Self {
            field: Some(shown),
            ..Self::new(code, sentence)
        }
    }
}

fn camel_case(field: &str) -> String {
    let mut words = field.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = ProblemBody {
            kind: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: self.detail,
            code: self.code.as_str(),
            field: self.field,
        };
        // Plain texts always serialize.
        let json = serde_json::to_string(&body).unwrap_or_default();
        let mut response = (self.status, json).into_response();
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(
                WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"agentsville\""),
            );
        }
        if let Some(after) = self.retry_after {
            // Whole seconds (RFC 9110 §10.2.3), rounded up.
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("fetch_hosts: \"x y\" is no host")]
    struct Wrong;

    #[test]
    fn a_field_is_named_as_the_api_writes_it() {
        let status =
            runtime::status::from_error(&Wrong, ErrorCode::InvalidArgument, Some("fetch_hosts"));
        let problem = Problem::from(status);
        assert_eq!(problem.status, 400);
        assert_eq!(problem.field.as_deref(), Some("fetchHosts"));
        assert_eq!(problem.detail, "fetchHosts: \"x y\" is no host");
    }

    #[test]
    fn a_refusal_of_the_edge_itself_is_no_refusal_of_the_client() {
        let status = runtime::status::new(ErrorCode::Unauthenticated, "not accepted");
        let problem = Problem::from(status);
        assert_eq!(problem.status, 500);
        assert!(problem.detail.contains("do not trust each other"));
    }
}
