//! Asks a server for all its Tools, page by page.

use std::{collections::HashSet, time::Duration};

use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult};
use tokio::time::Instant;

use super::{
    Era,
    client::Client,
    request::{Request, Wrong, silent, sort, words},
};
use crate::{
    Config, Failure, FailureCode, Listing,
    listing::{Page, Reader},
};

/// The longest time for which a server may say that its list holds.
const MAX_FRESH: Duration = Duration::from_hours(1);

/// A list, and for how long it holds.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) listing: Listing,
    pub(super) fresh: Duration,
}

/// Reads the whole list. What fails after the first page costs the rest of the list and is said; what fails before, the list.
pub(super) async fn fetch(
    client: &Client,
    config: &Config,
    slug: &str,
) -> Result<Fetched, Failure> {
    let limit = Duration::from_secs(config.list_seconds);
    let deadline = Instant::now() + limit;
    let mut reader = Reader::new(config, slug);
    let mut fresh = Duration::from_secs(config.list_fresh_seconds);
    let mut seen = HashSet::new();
    let mut cursor = None;
    for number in 1.. {
        let asked = page(client, cursor.take());
        let asked = tokio::time::timeout_at(deadline, asked).await;
        let page = match asked.unwrap_or_else(|_elapsed| Err(silent("tools/list", limit))) {
            Ok(page) => page,
            Err(failure) if number == 1 => return Err(failure),
            Err(failure) => {
                reader.cut(format!(
                    "Page {number} of its list could not be read: {}",
                    failure.sentence
                ));
                break;
            }
        };
        if let Some(millis) = page.ttl_ms() {
            fresh = Duration::from_millis(millis).min(MAX_FRESH);
        }
        if !reader.add(&page) {
            break;
        }
        let Some(next) = page.next_cursor() else {
            break;
        };
        if !seen.insert(next.clone()) {
            reader.cut("Its list repeats itself; what came until then is offered.");
            break;
        }
        if number == config.max_pages {
            reader.cut(format!(
                "Its list has more than {} pages; the rest was not read.",
                config.max_pages
            ));
            break;
        }
        cursor = Some(next);
    }
    Ok(Fetched {
        listing: reader.finish(),
        fresh,
    })
}

async fn page(client: &Client, cursor: Option<String>) -> Result<Page, Failure> {
    let params = cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
    let request = ListToolsRequest {
        params,
        ..ListToolsRequest::default()
    };
    let failed = |wrong| match wrong {
        Wrong::Failed(failure) => failure,
        Wrong::Refused(error) => Failure::new(
            FailureCode::ProtocolError,
            format_args!(
                "The server refuses to list its Tools: {}.",
                words(client, &error)
            ),
            "Look into the server's own log, or whether the token may list Tools.",
        ),
    };
    let mut request = Request::send(client, ClientRequest::ListToolsRequest(request))
        .await
        .map_err(|error| failed(sort(client, error)))?;
    let id = request.id();
    let answer = request.answer().await;
    let list = id.and_then(|id| client.connection().answers().take_list(&id));
    let read = answer.map_err(|error| failed(sort(client, error)))?;
    let page = list
        .ok_or_else(|| "its answer to tools/list cannot be read".to_owned())
        .and_then(|list| Page::parse(&list));
    let mut page = page.map_err(|problem| {
        Failure::new(
            FailureCode::ProtocolError,
            format_args!("What answers is no MCP Server that works: {problem}."),
            "Look into the server's own log, or ask who runs it.",
        )
    })?;
    if client.facts().era == Era::Modern
        && let ServerResult::ListToolsResult(kept) = read
    {
        page.kept(kept.tools.into_iter().map(|tool| tool.name.into_owned()));
    }
    Ok(page)
}
