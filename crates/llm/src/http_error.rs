//! Makes a sentence of what an endpoint answers instead of a stream.

use std::borrow::Cow;

use http::{HeaderMap, StatusCode};
use kernel::{Secret, strip_control};
use serde::Deserialize;

use crate::{ErrorKind, loose::Loose, outbox::Fault, retry::asked_wait};

/// Bytes of an error's body that are read.
pub(crate) const ERROR_BODY_BYTES: usize = 64 * 1_024;

/// Characters of a Provider's words that a sentence quotes.
const EXCERPT_CHARS: usize = 300;

/// An error as a Provider words it, in any of the shapes in use.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Words {
    /// The message; empty if there is none.
    pub(crate) message: String,
    /// `code` and `type`, as far as they are words.
    pub(crate) codes: Vec<String>,
    /// A `code` that is a number: an HTTP status, mostly.
    pub(crate) number: Option<u16>,
}

#[derive(Deserialize)]
struct Object<'j> {
    #[serde(borrow)]
    error: Option<Loose<'j>>,
    #[serde(borrow)]
    message: Option<Loose<'j>>,
    #[serde(borrow)]
    detail: Option<Loose<'j>>,
    #[serde(borrow)]
    code: Option<Loose<'j>>,
    #[serde(borrow)]
    status: Option<Loose<'j>>,
    #[serde(borrow, rename = "type")]
    kind: Option<Loose<'j>>,
}

impl Words {
    /// Reads `{"error": {"message", "type", "code"}}`, `{"error": "…"}`, `{"message"}`, `{"detail"}`, or the first of an array
    /// of these (Gemini).
    pub(crate) fn read(json: &str) -> Self {
        let mut words = Self::default();
        words.take(json, 0);
        words
    }

    fn take(&mut self, json: &str, depth: u8) {
        if depth > 3 {
            return;
        }
        let json = json.trim_start();
        if json.starts_with('[') {
            let items: Vec<Loose<'_>> = serde_json::from_str(json).unwrap_or_default();
            if let Some(first) = items.first() {
                self.take(first.0.get(), depth + 1);
            }
            return;
        }
        let Ok(object) = serde_json::from_str::<Object<'_>>(json) else {
            return;
        };
        for word in [object.code, object.kind, object.status]
            .into_iter()
            .flatten()
        {
            if let Some(number) = word.number() {
                self.number = self.number.or(u16::try_from(number).ok());
            } else if let Some(text) = word.word() {
                self.codes.push(text.into_owned());
            }
        }
        if let Some(error) = object.error {
            match error.text() {
                Some(text) => self.say(&text),
                None => self.take(error.0.get(), depth + 1),
            }
        }
        for said in [object.message, object.detail].into_iter().flatten() {
            if let Some(text) = said.text() {
                self.say(&text);
            }
        }
    }

    fn say(&mut self, text: &str) {
        if self.message.is_empty() {
            text.clone_into(&mut self.message);
        }
    }

    fn mentions(&self, words: &[&str]) -> bool {
        let message = self.message.to_lowercase();
        words
            .iter()
            .any(|word| message.contains(word) || self.codes.iter().any(|code| code.contains(word)))
    }

    /// Whether the history is too long for the model.
    fn too_long(&self) -> bool {
        self.mentions(&[
            "context_length_exceeded",
            "maximum context length",
            "prompt is too long",
            "context window",
            "input is too long",
        ])
    }

    /// Whether the account has run dry, which OpenAI says with the status of a rate limit.
    fn out_of_credit(&self) -> bool {
        self.mentions(&["insufficient_quota", "credit balance", "billing_hard_limit"])
    }

    /// The message as a sentence may quote it: one bounded line, no control characters, nothing that looks like a key.
    pub(crate) fn excerpt(&self, key: &Secret) -> Option<String> {
        let message = if key.expose().len() >= 4 {
            Cow::Owned(self.message.replace(key.expose(), "…"))
        } else {
            Cow::Borrowed(self.message.as_str())
        };
        if message.trim_start().starts_with('<') {
            return None;
        }
        let mut line = String::new();
        for word in strip_control(&message).split_whitespace() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(if looks_like_a_key(word) { "…" } else { word });
            if line.len() > 4 * EXCERPT_CHARS {
                break;
            }
        }
        if line.chars().count() > EXCERPT_CHARS {
            line = line.chars().take(EXCERPT_CHARS).collect();
            line.push('…');
        }
        Some(line).filter(|line| !line.is_empty())
    }
}

/// Whether a word of an error may be (part of) a key: OpenAI quotes rejected keys with the middle starred out.
fn looks_like_a_key(word: &str) -> bool {
    let word = word.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    word.contains("***")
        || ["sk-", "gsk_", "xai-", "AIza", "pk-"]
            .iter()
            .any(|prefix| word.starts_with(prefix))
}

/// The failure that an answer other than 2xx is.
pub(crate) fn refusal(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    asked_of: &Asked<'_>,
) -> (Fault, Words) {
    let text = String::from_utf8_lossy(body);
    let words = Words::read(&text);
    let says = match words.excerpt(asked_of.key) {
        Some(excerpt) => format!(": {excerpt}"),
        None if is_html(headers, body) => {
            " with an HTML page, so something other than the API is answering there".to_owned()
        }
        None if body.iter().all(u8::is_ascii_whitespace) => " without a word".to_owned(),
        None => String::new(),
    };
    let retry_after = asked_wait(headers);
    let (kind, advice) = judge(status, &words, retry_after, asked_of);
    let fault = Fault {
        kind,
        status: Some(status.as_u16()),
        what: format!("answered {}{says}{advice}", status.as_u16()),
    };
    (fault, words)
}

/// What a sentence says of the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) model: &'a str,
    pub(crate) key: &'a Secret,
}

fn judge(
    status: StatusCode,
    words: &Words,
    retry_after: Option<std::time::Duration>,
    asked_of: &Asked<'_>,
) -> (ErrorKind, String) {
    let wait = retry_after.map_or(String::new(), |wait| {
        format!(" (it asks to wait {} s)", wait.as_secs_f64().ceil())
    });
    match status.as_u16() {
        401 | 403 if asked_of.key.is_empty() => (
            ErrorKind::Auth,
            "; no key is set, so set the Provider's key".to_owned(),
        ),
        401 | 403 => (
            ErrorKind::Auth,
            "; check the Provider's key and what it may use".to_owned(),
        ),
        402 => (
            ErrorKind::OutOfCredit,
            "; add credit to the Provider's account".to_owned(),
        ),
        429 if words.out_of_credit() => (
            ErrorKind::OutOfCredit,
            "; add credit to the Provider's account".to_owned(),
        ),
        404 => (
            ErrorKind::NotFound,
            format!(
                "; check that it has the model {:?}, and that base_url is right",
                asked_of.model
            ),
        ),
        413 => (
            ErrorKind::ContentTooLarge,
            "; start a new Conversation".to_owned(),
        ),
        429 => (
            ErrorKind::RateLimited { retry_after },
            format!("{wait}; try again later"),
        ),
        408 => (ErrorKind::Timeout, "; try again".to_owned()),
        300..=399 => (
            ErrorKind::BadRequest,
            ", a redirect, and these are not followed with a key; set base_url to the final address"
                .to_owned(),
        ),
        400..=499 if words.too_long() => (
            ErrorKind::ContentTooLarge,
            "; start a new Conversation, or use a model with a longer context".to_owned(),
        ),
        400..=499 => (ErrorKind::BadRequest, String::new()),
        _ => (
            ErrorKind::Overloaded { retry_after },
            format!("{wait}; try again later"),
        ),
    }
}

/// The failure that an error inside a stream is, which began with 200.
pub(crate) fn stream_error(words: &Words, key: &Secret) -> Fault {
    let says = words.excerpt(key).map_or_else(
        || " and did not say why".to_owned(),
        |excerpt| format!(": {excerpt}"),
    );
    let code = |names: &[&str]| {
        words
            .codes
            .iter()
            .any(|code| names.contains(&code.as_str()))
    };
    let kind = if words.too_long() {
        ErrorKind::ContentTooLarge
    } else if words.out_of_credit() {
        ErrorKind::OutOfCredit
    } else if code(&["rate_limit_error", "rate_limit_exceeded"]) || words.number == Some(429) {
        ErrorKind::RateLimited { retry_after: None }
    } else if code(&[
        "authentication_error",
        "permission_error",
        "invalid_api_key",
    ]) || matches!(words.number, Some(401 | 403))
    {
        ErrorKind::Auth
    } else if code(&["not_found_error", "model_not_found"]) || words.number == Some(404) {
        ErrorKind::NotFound
    } else if code(&["invalid_request_error"]) || matches!(words.number, Some(400 | 422)) {
        ErrorKind::BadRequest
    } else {
        // Whatever else breaks a stream that had begun is a fault over there.
        ErrorKind::Overloaded { retry_after: None }
    };
    Fault {
        kind,
        status: words.number.filter(|number| (400..600).contains(number)),
        what: format!("failed in the middle of its answer{says}"),
    }
}

/// Whether an answer is a page for people.
pub(crate) fn is_html(headers: &HeaderMap, body: &[u8]) -> bool {
    content_type_is(headers, "text/html") || body.trim_ascii_start().starts_with(b"<")
}

/// Whether the answer's content type is this one, parameters aside.
pub(crate) fn content_type_is(headers: &HeaderMap, wanted: &str) -> bool {
    headers
        .get(http::header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|value| value.trim().eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(status: u16, body: &str) -> (ErrorKind, String) {
        let key = Secret::new("topsecret1");
        let asked_of = Asked {
            model: "m",
            key: &key,
        };
        let status = StatusCode::from_u16(status).unwrap();
        let (fault, _) = refusal(status, &HeaderMap::new(), body.as_bytes(), &asked_of);
        let error = fault.of("p");
        (error.kind, error.sentence)
    }

    #[test]
    fn errors_are_read_in_every_shape_in_use() {
        for body in [
            r#"{"error":{"message":"no","type":"x","code":7}}"#,
            r#"{"error":"no"}"#,
            r#"{"message":"no"}"#,
            r#"{"detail":"no"}"#,
            r#"[{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}]"#,
            r#"{"type":"error","error":{"type":"x","message":"no"}}"#,
        ] {
            assert_eq!(Words::read(body).message, "no", "{body}");
        }
        assert_eq!(Words::read("nonsense"), Words::default());
        assert_eq!(Words::read(&"[".repeat(100_000)), Words::default());
    }

    #[test]
    fn neither_the_key_nor_what_looks_like_one_is_quoted() {
        let body = r#"{"error":{"message":"Incorrect API key provided: sk-abc*****xyz, topsecret1 (sk-proj-1)."}}"#;
        let (kind, sentence) = sentence(401, body);
        assert_eq!(kind, ErrorKind::Auth);
        assert_eq!(
            sentence,
            "Provider p answered 401: Incorrect API key provided: … … …; check the Provider's key and what it may use"
        );
    }

    #[test]
    fn a_page_is_never_quoted() {
        let (kind, sentence) = sentence(502, "<html><body>Bad gateway</body></html>");
        assert_eq!(kind, ErrorKind::Overloaded { retry_after: None });
        assert_eq!(
            sentence,
            "Provider p answered 502 with an HTML page, so something other than the API is answering there; try again later"
        );
        let wrapped = r#"{"error":{"message":"<html>oops</html>"}}"#;
        assert!(!self::sentence(500, wrapped).1.contains("oops"));
    }

    #[test]
    fn words_are_cut_to_one_line_without_terminal_sequences() {
        let message = format!("a\\u001b[31m\\nb {}", "word ".repeat(10_000));
        let (_, sentence) = sentence(400, &format!(r#"{{"error":"{message}"}}"#));
        assert!(sentence.starts_with("Provider p answered 400: a[31m b word"));
        assert!(sentence.chars().count() < 350 && !sentence.contains('\n'));
    }

    #[test]
    fn statuses_have_their_kinds() {
        let kind = |status, body: &str| sentence(status, body).0;
        assert_eq!(kind(404, ""), ErrorKind::NotFound);
        assert_eq!(kind(402, ""), ErrorKind::OutOfCredit);
        assert_eq!(
            kind(
                429,
                r#"{"error":{"code":"insufficient_quota","message":"x"}}"#
            ),
            ErrorKind::OutOfCredit
        );
        assert_eq!(kind(429, ""), ErrorKind::RateLimited { retry_after: None });
        assert_eq!(kind(529, ""), ErrorKind::Overloaded { retry_after: None });
        assert_eq!(
            kind(
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192"}}"#
            ),
            ErrorKind::ContentTooLarge
        );
        assert_eq!(kind(307, ""), ErrorKind::BadRequest);
    }
}
