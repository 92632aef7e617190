//! The resources of the Village as JSON.
//!
//! Each module holds the views of one resource and its handlers: read the request, call the service as the client, render.

pub(crate) mod audit;
pub(crate) mod conversations;
pub(crate) mod grants;
pub(crate) mod mcp_servers;
pub(crate) mod media;
pub(crate) mod npcs;
pub(crate) mod players;
pub(crate) mod secrets;
pub(crate) mod turns;

use kernel::{ErrorCode, Timestamp, nearest};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use crate::{body::quoted, problem::Problem};

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page<T> {
    /// Newest first.
    items: Vec<T>,
    /// For the next page, as `pageToken`; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_page_token: Option<String>,
}

impl<T> Page<T> {
    /// Renders a page of rows.
    fn of<R>(rows: Vec<R>, next_page_token: String, view: impl Fn(R) -> T) -> Self {
        Self {
            items: rows.into_iter().map(view).collect(),
            next_page_token: Some(next_page_token).filter(|token| !token.is_empty()),
        }
    }
}

/// Which page of a list.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it documents what `body::Query::page` reads")]
pub(crate) struct PageParams {
    /// Rows wanted, 1 to 200; 200 unless given.
    #[param(rename = "pageSize", minimum = 1, maximum = 200)]
    page_size: Option<u32>,
    /// `nextPageToken` of the page before.
    #[param(rename = "pageToken")]
    page_token: Option<String>,
}

/// Something that is gone.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Gone {
    /// Its id.
    id: String,
}

/// RFC 3339 in UTC.
fn time(micros: i64) -> String {
    Timestamp::from_micros(micros).to_string()
}

/// What a peer must have put into its answer.
fn required<T>(part: Option<T>, what: &'static str) -> Result<T, Problem> {
    part.ok_or_else(|| {
        tracing::error!(what, "a peer's answer lacks what it must have");
        Problem::new(
            ErrorCode::Internal,
            "internal error; the Village's log has the reason",
        )
    })
}

/// A text, unless it is empty.
fn said(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// A word of a request that is not one of those that there are.
fn no_such_word(field: &str, word: &str, words: [&str; 3]) -> Problem {
    let hint = nearest(word, words)
        .map(|nearest| format!("; did you mean {nearest}?"))
        .unwrap_or_default();
    let [first, second, third] = words;
    Problem::field(
        field,
        format!(
            "{field} is {}, and not one of {first}, {second}, {third}{hint}",
            quoted(word)
        ),
    )
}
