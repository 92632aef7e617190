//! What the gateway found, as contracts have it.

use proto::{
    mcp::v1::{
        CallEnd as WireEnd, CallProgress, CallResult, CallToolResponse, Content, McpTool,
        Media as WireMedia, ResourceLink, ServerTools, TestServerResponse, TextResource,
        WithheldTool, call_tool_response::Item, content::Kind,
    },
    registry::v1::McpTestResult,
};

use super::fit;
use crate::{
    CallEnd, Failure, Given, Piece, Progress, Reached, Tool, Withheld,
    peers::test_result,
    service::{Called, Offer, Unavailable, Wanted, in_words},
    test_server::TestReport,
};

/// The Tools of one server, or why there are none.
pub(super) fn offer((wanted, offer): (&Wanted, &Result<Offer, Unavailable>)) -> ServerTools {
    let server_id = wanted.id.to_string();
    match offer {
        Ok(offer) => ServerTools {
            server_id,
            tools: offer.tools().map(tool).collect(),
            unavailable: String::new(),
            instructions: offer.facts.instructions.clone(),
            withheld: offer.withheld.iter().map(withheld).collect(),
            beyond_limit: u32::try_from(offer.beyond_limit).unwrap_or(u32::MAX),
            code: String::new(),
            generation: offer.generation,
            cached: offer.cached,
        },
        Err(unavailable) => ServerTools {
            server_id,
            unavailable: unavailable.sentence.clone(),
            code: unavailable.code.as_str().to_owned(),
            ..ServerTools::default()
        },
    }
}

/// How a test went.
pub(super) fn test(report: &TestReport) -> TestServerResponse {
    let result: McpTestResult = test_result(report);
    let Ok(listed) = &report.tested.outcome else {
        return TestServerResponse {
            result: Some(result),
            ..TestServerResponse::default()
        };
    };
    let listing = &listed.listing;
    let rest = (!listing.cut.is_empty()).then(|| WithheldTool {
        name: "the rest of its list".to_owned(),
        sentence: listing.cut.clone(),
    });
    let fitted = fit::into_one_answer(vec![ServerTools {
        tools: listing.tools.iter().map(tool).collect(),
        instructions: listed.facts.instructions.clone(),
        withheld: rest
            .into_iter()
            .chain(listing.withheld.iter().map(withheld))
            .collect(),
        ..ServerTools::default()
    }]);
    let fitted = fitted.into_iter().next().unwrap_or_default();
    TestServerResponse {
        result: Some(result),
        tools: fitted.tools,
        instructions: fitted.instructions,
        withheld: fitted.withheld,
        server_info: listed.facts.server_info.clone(),
    }
}

/// How far a call is.
pub(super) fn progress(step: Progress) -> CallToolResponse {
    CallToolResponse {
        item: Some(Item::Progress(CallProgress {
            progress: step.done,
            total: step.total.unwrap_or_default(),
            message: step.message,
        })),
    }
}

/// How a call ended.
pub(super) fn result(called: Called) -> CallResult {
    match called.end {
        CallEnd::Ok(given) => gave(WireEnd::Ok, given),
        CallEnd::ToolError(given) => gave(WireEnd::ToolError, given),
        CallEnd::BadAnswer(sentence) => ended(WireEnd::BadAnswer, sentence),
        CallEnd::ServerRemoved => ended(WireEnd::ServerRemoved, called.sentence),
        CallEnd::Failed(failure) => failed(&failure),
    }
}

fn failed(failure: &Failure) -> CallResult {
    let end = match failure.reached {
        Reached::Never => WireEnd::NotSent,
        Reached::Maybe => WireEnd::NoAnswer,
    };
    CallResult {
        code: failure.code.as_str().to_owned(),
        ..ended(end, in_words(failure))
    }
}

fn ended(end: WireEnd, sentence: String) -> CallResult {
    CallResult {
        end: end.into(),
        sentence,
        ..CallResult::default()
    }
}

fn gave(end: WireEnd, given: Given) -> CallResult {
    CallResult {
        end: end.into(),
        content: given.pieces.into_iter().map(piece).collect(),
        structured_json: given
            .structured
            .map(|json| json.as_str().to_owned())
            .unwrap_or_default(),
        left_out_bytes: given.left_out_bytes,
        ..CallResult::default()
    }
}

fn piece(piece: Piece) -> Content {
    let kind = match piece {
        Piece::Text(text) => Kind::Text(text),
        Piece::Media(media) => Kind::Media(WireMedia {
            kind: media.kind.as_str().to_owned(),
            media_type: media.media_type,
            data: media.data,
            bytes: media.bytes,
            uri: media.uri,
        }),
        Piece::Link {
            uri,
            name,
            media_type,
            description,
        } => Kind::Link(ResourceLink {
            uri,
            name,
            media_type,
            description,
        }),
        Piece::Resource {
            uri,
            media_type,
            text,
        } => Kind::Resource(TextResource {
            uri,
            media_type,
            text,
        }),
        Piece::Unknown(what) => Kind::Unknown(what),
    };
    Content { kind: Some(kind) }
}

fn tool(tool: &Tool) -> McpTool {
    let definition = &tool.definition;
    McpTool {
        name: definition.name.clone(),
        full_name: tool.full_name.clone(),
        description: definition.description.clone(),
        input_schema_json: definition.input_schema.as_str().to_owned(),
        annotations_json: definition
            .annotations
            .as_ref()
            .map(|json| json.as_str().to_owned())
            .unwrap_or_default(),
        definition_hash: tool.hash.clone(),
    }
}

fn withheld(withheld: &Withheld) -> WithheldTool {
    WithheldTool {
        name: withheld.name.clone(),
        sentence: withheld.sentence.clone(),
    }
}
