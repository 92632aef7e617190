//! The one place that turns errors into gRPC statuses, and statuses back into what a person can be told.

use std::error::Error;

use kernel::{ErrorCode, floor_char_boundary};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};
use uuid::Uuid;

/// `ErrorInfo.domain` of every status of ours.
pub const DOMAIN: &str = "agentsville";
/// Bytes of the sentence of a status: it travels in a header.
const SENTENCE_BYTES: usize = 2_048;
/// What is sent of a fault of ours.
const INTERNAL: &str = "internal error";

/// A failure as it is told on: to a Player through the edge, or to the caller of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Its class.
    pub code: ErrorCode,
    /// What failed, with which value, and what to do.
    pub sentence: String,
    /// The field of the request that is wrong, if one is.
    pub field: Option<String>,
}

/// A status for an error. Of [`ErrorCode::Internal`] only a reference is sent, and the error and its causes are logged under it, here
/// and once. Of the others, the error's own sentence is sent (at most 2 KiB of it), and its causes are not; those of
/// [`ErrorCode::Unavailable`] are logged, as nobody else would learn which peer or database is away, and why.
pub fn from_error(error: &dyn Error, code: ErrorCode, field: Option<&str>) -> Status {
    if code == ErrorCode::Internal {
        return internal(&chain(error));
    }
    if code == ErrorCode::Unavailable && error.source().is_some() {
        tracing::warn!(error = chain(error), "unavailable");
    }
    let mut details = ErrorDetails::new();
    details.set_error_info(code.as_str(), DOMAIN, std::collections::HashMap::new());
    let sentence = clip(&error.to_string());
    if let Some(field) = field {
        details.add_bad_request_violation(field, sentence.clone());
    }
    Status::with_error_details(to_grpc(code), sentence, details)
}

/// A status for a failure that has no error type of its own.
pub fn new(code: ErrorCode, sentence: &str) -> Status {
    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Said(String);
    from_error(&Said(sentence.to_owned()), code, None)
}

/// Logs a fault of ours and gives a status that says only how to find it in the log.
pub fn internal(cause: &str) -> Status {
    let reference = Uuid::new_v4().simple().to_string();
    tracing::error!(%reference, error = cause, "internal error");
    let mut details = ErrorDetails::new();
    details.set_error_info(
        ErrorCode::Internal.as_str(),
        DOMAIN,
        std::collections::HashMap::new(),
    );
    details.set_request_info(reference.clone(), String::new());
    Status::with_error_details(
        Code::Internal,
        format!("{INTERNAL}; the log has it under the reference {reference}"),
        details,
    )
}

/// What a status from a peer says. Statuses that are not ours keep their class, and of internal ones nothing else is kept.
pub fn problem(status: &Status) -> Problem {
    let details = status.get_error_details();
    let ours = details
        .error_info()
        .is_some_and(|info| info.domain == DOMAIN);
    let code = from_grpc(status.code());
    let field = details
        .bad_request()
        .and_then(|bad| bad.field_violations.first())
        .map(|violation| violation.field.clone())
        .filter(|field| !field.is_empty());
    let sentence = if status.code() == Code::Unimplemented {
        "the service does not know this call; it may be of another release".to_owned()
    } else if code == ErrorCode::Internal && !ours {
        INTERNAL.to_owned()
    } else if status.message().is_empty() {
        code.as_str().replace('_', " ")
    } else {
        clip(status.message())
    };
    Problem {
        code,
        sentence,
        field,
    }
}

/// An error and its causes in one line.
pub fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Many errors repeat their cause's text in their own.
        if !line.ends_with(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    line
}

fn clip(text: &str) -> String {
    text[..floor_char_boundary(text, SENTENCE_BYTES)].to_owned()
}

/// The gRPC code of a class.
pub const fn to_grpc(code: ErrorCode) -> Code {
    match code {
        ErrorCode::InvalidArgument => Code::InvalidArgument,
        ErrorCode::Unauthenticated => Code::Unauthenticated,
        ErrorCode::PermissionDenied => Code::PermissionDenied,
        ErrorCode::NotFound => Code::NotFound,
        ErrorCode::AlreadyExists => Code::AlreadyExists,
        ErrorCode::FailedPrecondition => Code::FailedPrecondition,
        ErrorCode::ResourceExhausted => Code::ResourceExhausted,
        ErrorCode::Aborted => Code::Aborted,
        ErrorCode::Unavailable => Code::Unavailable,
        ErrorCode::DeadlineExceeded => Code::DeadlineExceeded,
        ErrorCode::Internal => Code::Internal,
    }
}

/// The class of a gRPC code. tonic reports a message beyond its limit as out of range.
pub const fn from_grpc(code: Code) -> ErrorCode {
    match code {
        Code::InvalidArgument => ErrorCode::InvalidArgument,
        Code::Unauthenticated => ErrorCode::Unauthenticated,
        Code::PermissionDenied => ErrorCode::PermissionDenied,
        Code::NotFound => ErrorCode::NotFound,
        Code::AlreadyExists => ErrorCode::AlreadyExists,
        Code::FailedPrecondition | Code::Unimplemented => ErrorCode::FailedPrecondition,
        Code::ResourceExhausted | Code::OutOfRange => ErrorCode::ResourceExhausted,
        Code::Aborted | Code::Cancelled => ErrorCode::Aborted,
        Code::Unavailable => ErrorCode::Unavailable,
        Code::DeadlineExceeded => ErrorCode::DeadlineExceeded,
        Code::Internal | Code::Unknown | Code::DataLoss | Code::Ok => ErrorCode::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the name {0:?} is taken")]
    struct Taken(&'static str, #[source] std::io::Error);

    #[test]
    fn a_sentence_code_and_field_come_back_as_they_went() {
        for code in ErrorCode::ALL {
            let error = Taken("Docs", std::io::Error::other("row 7"));
            let told = problem(&from_error(&error, code, Some("name")));
            assert_eq!(told.code, code);
            if code != ErrorCode::Internal {
                assert_eq!(told.sentence, "the name \"Docs\" is taken");
                assert_eq!(told.field.as_deref(), Some("name"));
            }
        }
    }

    #[test]
    fn a_fault_of_ours_and_causes_are_never_sent() {
        let error = Taken("Docs", std::io::Error::other("password=hunter2"));
        for code in ErrorCode::ALL {
            let status = from_error(&error, code, None);
            assert!(!format!("{status:?}").contains("hunter2"), "{code}");
        }
        let status = from_error(&error, ErrorCode::Internal, Some("name"));
        assert!(!format!("{status:?}").contains("Docs"));
        assert!(
            status
                .message()
                .starts_with("internal error; the log has it")
        );
    }

    #[test]
    fn a_foreign_internal_error_is_not_passed_on() {
        assert_eq!(
            problem(&Status::internal("SELECT * FROM secrets")),
            Problem {
                code: ErrorCode::Internal,
                sentence: "internal error".to_owned(),
                field: None
            }
        );
    }

    #[test]
    fn an_endless_sentence_still_fits_a_header() {
        let status = new(ErrorCode::NotFound, &"é".repeat(1_000_000));
        assert_eq!(status.message().len(), SENTENCE_BYTES);
    }

    #[test]
    fn causes_are_named_once() {
        let error = Taken("Docs", std::io::Error::other("row 7"));
        assert_eq!(chain(&error), "the name \"Docs\" is taken: row 7");
    }
}
