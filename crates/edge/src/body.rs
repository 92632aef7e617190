//! Reading requests: bodies, paths and queries, each bounded, each refused with the name of what is wrong.

mod fields;
mod secrets;

use std::time::Duration;

use axum::{
    body::Body,
    extract::{
        FromRequest, FromRequestParts, Path, RawPathParams, Request, rejection::PathRejection,
    },
};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header::CONTENT_LENGTH, header::CONTENT_TYPE, request::Parts};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kernel::{
    ErrorCode, JsonText,
    limits::{CLIENT_ID_CHARS, HTTP_BODY_BYTES},
    nearest,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub(crate) use secrets::Secrets;

use crate::{problem::Problem, routes::App};

/// A JSON object whose fields are all known.
pub(crate) struct Strict<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Strict<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let bytes = read(request, app.config.timeouts.body).await?;
        strict(object(&bytes)?).map(Self)
    }
}

/// A JSON object that may have fields which nobody here knows.
pub(crate) struct Tolerant(pub(crate) Map<String, Value>);

impl FromRequest<App> for Tolerant {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let bytes = read(request, app.config.timeouts.body).await?;
        object(&bytes).map(Self)
    }
}

/// One piece of the path: a name or an id. It names a row and nothing else; no path of any file system is made of it. Where the path
/// has no place for one, its last piece is a name that is also a word of ours.
pub(crate) struct Named(pub(crate) String);

impl FromRequestParts<App> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let unreadable = |reason: String| {
            Problem::new(
                ErrorCode::InvalidArgument,
                format!("the path cannot be read: {reason}"),
            )
        };
        let places = RawPathParams::from_request_parts(parts, app)
            .await
            .map_err(|rejection| unreadable(rejection.body_text()))?;
        let name = if places.iter().next().is_none() {
            let path = parts.uri.path();
            path.rsplit('/').next().unwrap_or_default().to_owned()
        } else {
            let Path(name) = Path::<String>::from_request_parts(parts, app)
                .await
                .map_err(|rejection: PathRejection| unreadable(rejection.body_text()))?;
            name
        };
        if name.chars().count() > CLIENT_ID_CHARS {
            return Err(Problem::new(
                ErrorCode::InvalidArgument,
                format!("the name or id in the path is longer than {CLIENT_ID_CHARS} characters"),
            ));
        }
        Ok(Self(name))
    }
}

/// The query, each key one of those that the handler knows.
pub(crate) struct Query(Vec<(String, String)>);

impl FromRequestParts<App> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, Problem> {
        let axum::extract::Query(pairs) =
            axum::extract::Query::try_from_uri(&parts.uri).map_err(|_unreadable| {
                Problem::new(
                    ErrorCode::InvalidArgument,
                    "the query cannot be read; write ?key=value&key=value, percent-encoded",
                )
            })?;
        Ok(Self(pairs))
    }
}

impl Query {
    /// The values of the known keys, in their order; of a key that is given twice, the last.
    pub(crate) fn take<const N: usize>(
        self,
        known: [&'static str; N],
    ) -> Result<[Option<String>; N], Problem> {
        let mut values = [const { None }; N];
        for (key, value) in self.0 {
            match known.iter().position(|name| *name == key) {
                Some(index) => values[index] = Some(value),
                None => return Err(unknown("query parameter", &key, known)),
            }
        }
        Ok(values)
    }

    /// `pageSize` and `pageToken`.
    pub(crate) fn page(self) -> Result<PageQuery, Problem> {
        let [size, token] = self.take(["pageSize", "pageToken"])?;
        let size = match size {
            None => 0,
            Some(text) => text.parse().map_err(|_not_a_number| {
                Problem::field(
                    "pageSize",
                    format!(
                        "pageSize is {}, not a whole number from 1 to 200",
                        quoted(&text)
                    ),
                )
            })?,
        };
        Ok(PageQuery {
            size,
            token: token.unwrap_or_default(),
        })
    }
}

/// Which page of a list is wanted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PageQuery {
    /// Rows wanted; 0 for the most.
    pub(crate) size: u32,
    /// From the page before; empty for the first.
    pub(crate) token: String,
}

async fn read(request: Request<Body>, within: Duration) -> Result<Bytes, Problem> {
    json_only(request.headers())?;
    let declared = request
        .headers()
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<u64>().ok());
    if declared.is_some_and(|length| length > HTTP_BODY_BYTES as u64) {
        return Err(too_large());
    }
    let body = Limited::new(request.into_body(), HTTP_BODY_BYTES);
    match tokio::time::timeout(within, body.collect()).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_broken)) => Err(Problem::new(
            ErrorCode::InvalidArgument,
            "the request's body broke off; send it again",
        )),
        Err(_elapsed) => Err(Problem::new(
            ErrorCode::DeadlineExceeded,
            format!(
                "the request's body did not arrive within {} seconds",
                within.as_secs()
            ),
        )
        .with_status(StatusCode::REQUEST_TIMEOUT)),
    }
}

fn too_large() -> Problem {
    Problem::new(
        ErrorCode::ResourceExhausted,
        format!(
            "the request's body is larger than {HTTP_BODY_BYTES} bytes; a chat needs only its last Message (see prepareSendMessagesRequest of `ai`)"
        ),
    )
    .with_status(StatusCode::PAYLOAD_TOO_LARGE)
}

/// Also keeps pages of other sites from posting without being asked first: JSON is no "simple" content type (Fetch standard).
fn json_only(headers: &HeaderMap) -> Result<(), Problem> {
    let essence = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .map(|essence| essence.trim().to_ascii_lowercase());
    if essence.as_deref() == Some("application/json") {
        return Ok(());
    }
    Err(Problem {
        field: Some("content-type".to_owned()),
        ..Problem::new(
            ErrorCode::InvalidArgument,
            "the body must be JSON: send the header content-type: application/json",
        )
        .with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)
    })
}

fn object(bytes: &[u8]) -> Result<Map<String, Value>, Problem> {
    match serde_json::from_slice(bytes).or_else(|error| mended(bytes).ok_or(error)) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_other) => Err(Problem::new(
            ErrorCode::InvalidArgument,
            "the body is JSON, but not an object: write {\"field\": …}",
        )),
        // serde_json's errors give a place and never the text.
        Err(error) => Err(Problem::new(
            ErrorCode::InvalidArgument,
            format!("the body is not JSON: {error}"),
        )),
    }
}

/// A body with half a character in it, which browsers send of a text that was cut in the middle of one (`"\ud83d"`) and `serde_json`
/// does not read: it becomes U+FFFD, as everywhere in the Village.
fn mended(bytes: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(bytes).ok()?;
    JsonText::parse(text).ok()?.to_value().ok()
}

fn strict<T: DeserializeOwned>(map: Map<String, Value>) -> Result<T, Problem> {
    let known = fields::of::<T>();
    for key in map.keys() {
        if !known.contains(&key.as_str()) {
            return Err(unknown("field", key, known.iter().copied()));
        }
    }
    serde_path_to_error::deserialize(Value::Object(map)).map_err(|error| {
        let path = error.path().to_string();
        let problem = error.into_inner().to_string();
        if path == "." {
            return Problem::new(ErrorCode::InvalidArgument, problem);
        }
        Problem::field(&path, format!("{path}: {problem}"))
    })
}

fn unknown(
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'static str> + Clone,
) -> Problem {
    let hint = nearest(name, known.clone()).map_or_else(
        || {
            let all: Vec<_> = known.into_iter().collect();
            format!("there are {}", all.join(", "))
        },
        |nearest| format!("did you mean {nearest}?"),
    );
    let shown: String = name.chars().take(64).collect();
    Problem::field(&shown, format!("there is no {what} {shown:?}; {hint}"))
}

/// A value from outside, as a sentence may repeat it.
pub(crate) fn quoted(text: &str) -> String {
    let shown: String = text.chars().take(64).collect();
    format!("{shown:?}")
}

#[cfg(test)]
mod tests;
