//! Tools of MCP Servers, called through the mcp-gateway.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use kernel::{CallId, JsonText, McpServerId};
use proto::mcp::v1::{CallEnd, CallResult, Content, content::Kind};
use tokio::time::Instant;

use super::{Context, Data, Given, GivenMedia, Ran};
use crate::{
    limits::{one_line, thousands},
    parts::{MediaKind, media_type},
    peers::{CALL_DEADLINE, Called, NO_GATEWAY, Wanted, end_sentence},
};

/// Bytes of an address, a name or a description in a result that are shown.
const WORD_BYTES: usize = 500;
/// Bytes of a sentence of the gateway's.
const SENTENCE_BYTES: usize = 600;
/// Pieces of one result that are looked at.
const PIECES: usize = 1_000;

/// A Tool of an MCP Server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct McpTool {
    /// The server.
    pub(crate) server: McpServerId,
    /// Its name.
    pub(crate) server_name: String,
    /// Its slug.
    pub(crate) slug: String,
    /// The generation that listed the Tool.
    pub(crate) generation: u64,
    /// The Tool's name at the server.
    pub(crate) tool: String,
}

/// Calls the Tool. Dropping the future ends the call at the server.
pub(super) async fn run(
    owner: &McpTool,
    call: CallId,
    arguments: &JsonText,
    context: &Context,
) -> Ran {
    let Some(gateway) = &context.gateway else {
        return Ran::Failed(NO_GATEWAY.to_owned());
    };
    let left = context.ends_at.saturating_duration_since(Instant::now());
    let wanted = Wanted {
        server: owner.server,
        generation: owner.generation,
        tool: &owner.tool,
        arguments,
        call,
        player: context.player,
        deadline: left.min(CALL_DEADLINE),
    };
    match gateway.call(&wanted).await {
        Called::Result(result) => render(owner, *result),
        Called::Failed(sentence) => Ran::Failed(sentence),
        Called::Denied(sentence) => Ran::Denied(sentence),
    }
}

/// A result for the model. What the server wrote stands inside the fence.
fn render(owner: &McpTool, result: CallResult) -> Ran {
    let end = result.end();
    let left_out = result.left_out_bytes;
    if let Some(ours) = end_sentence(end) {
        let said = one_line(&result.sentence, SENTENCE_BYTES);
        // What the gateway knows more of comes with what this means.
        return Ran::Failed(if said.is_empty() {
            ours
        } else {
            format!("{ours} ({said})")
        });
    }
    let (mut text, media) = read(result.content);
    structured(&mut text, &result.structured_json);
    let said = one_line(&result.sentence, SENTENCE_BYTES);
    let has_failed = end == CallEnd::ToolError;
    let lead = match (has_failed, text.is_empty()) {
        (true, false) => "the Tool says that it failed:",
        (true, true) if said.is_empty() => "the Tool says that it failed, and not why.",
        (true, true) => &said,
        (false, true) if media.is_empty() => "Done; the Tool gave nothing back.",
        (false, _) => "Done.",
    };
    let mut lead = lead.to_owned();
    if left_out > 0 {
        let _infallible = write!(
            lead,
            " {} bytes of the result did not fit and were left out.",
            thousands(left_out)
        );
    }
    let given = Given {
        lead,
        data: (!text.is_empty()).then(|| Data {
            source: format!("{} / {}", owner.server_name, owner.tool),
            text,
            stamp: String::new(),
        }),
        media,
        notes: String::new(),
    };
    if has_failed {
        Ran::Erred(given)
    } else {
        Ran::Gave(given)
    }
}

/// Pieces as one text, and what is none. What cannot be shown is described in its place.
fn read(content: Vec<Content>) -> (String, Vec<GivenMedia>) {
    let (mut text, mut media) = (String::new(), Vec::new());
    let count = content.len();
    for piece in content.into_iter().take(PIECES) {
        let Some(kind) = piece.kind else { continue };
        match kind {
            Kind::Text(more) => add(&mut text, &more),
            Kind::Media(given) => {
                if !given.uri.is_empty() {
                    let uri = one_line(&given.uri, WORD_BYTES);
                    add(
                        &mut text,
                        &format!("[{}: {uri}]", MediaKind::of(&given.kind).as_str()),
                    );
                }
                media.push(GivenMedia {
                    kind: MediaKind::of(&given.kind),
                    media_type: media_type(&given.media_type),
                    bytes: given.bytes.max(given.data.len() as u64),
                    data: (!given.data.is_empty() || given.bytes == 0).then_some(given.data),
                });
            }
            Kind::Link(link) => {
                let words = [&link.name, &link.uri, &link.media_type, &link.description];
                let words: Vec<String> = words
                    .into_iter()
                    .map(|word| one_line(word, WORD_BYTES))
                    .filter(|word| !word.is_empty())
                    .collect();
                add(
                    &mut text,
                    &format!("[link to a resource: {}]", words.join(", ")),
                );
            }
            Kind::Resource(resource) => {
                let uri = one_line(&resource.uri, WORD_BYTES);
                let kind = one_line(&resource.media_type, WORD_BYTES);
                add(&mut text, &format!("[resource {uri} {kind}]"));
                add(&mut text, &resource.text);
            }
            Kind::Unknown(kind) => {
                let kind = one_line(&kind, WORD_BYTES);
                add(
                    &mut text,
                    &format!("[content of a kind that cannot be shown: {kind}]"),
                );
            }
        }
    }
    if count > PIECES {
        add(&mut text, &format!("[{} more pieces]", count - PIECES));
    }
    (kernel::clean_text(&text).into_owned(), media)
}

fn add(text: &mut String, more: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(more);
}

/// Adds structured content, unless the text is the same: servers give both for old clients' sake (revision 2025-06-18, Tools §5.2).
fn structured(text: &mut String, structured: &str) {
    let Ok(structured) = JsonText::parse(structured) else {
        return;
    };
    let same = JsonText::parse(text).is_ok_and(|text| text.canonical() == structured.canonical());
    if same || structured == JsonText::null() {
        return;
    }
    if !text.is_empty() {
        add(text, "[structured content]\n");
    }
    text.push_str(structured.as_str());
}
