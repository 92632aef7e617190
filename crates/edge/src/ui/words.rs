//! Enumerations of the contracts as words.

use kernel::JsonText;
use proto::turn::v1::{FinishReason, Limit, MediaReference, Outcome, TurnStatus};
use serde_json::value::RawValue;

/// How a turn stands, as clients read it.
pub const fn turn_status(status: TurnStatus) -> &'static str {
    match status {
        TurnStatus::Unspecified | TurnStatus::Running => "running",
        TurnStatus::Finished => "finished",
        TurnStatus::Aborted => "aborted",
        TurnStatus::Failed => "failed",
        TurnStatus::Interrupted => "interrupted",
    }
}

/// A limit, as `finish` names it.
pub(super) const fn limit(limit: Limit) -> &'static str {
    match limit {
        Limit::Unspecified => "unknown",
        Limit::Steps => "steps",
        Limit::CallsPerStep => "calls-per-step",
        Limit::Calls => "calls",
        Limit::Time => "time",
        Limit::Depth => "depth",
        Limit::Repeats => "repeats",
    }
}

/// A finish reason, out of those that `ai` 6 knows.
pub(super) const fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::ContentFilter => "content-filter",
        FinishReason::ToolCalls => "tool-calls",
        FinishReason::Error => "error",
        FinishReason::Unspecified | FinishReason::Other => "other",
    }
}

/// What a failed call says: its sentence, or, if it has none, how it ended.
///
/// A denied call is told as a failed one: `ai` 6 takes the state `output-denied` only together with an approval, which a
/// Village has no use for.
pub(super) fn failure(outcome: Outcome, sentence: String) -> String {
    if !sentence.is_empty() {
        return sentence;
    }
    let word = match outcome {
        Outcome::Denied => "the call was denied",
        Outcome::Interrupted => "the call was interrupted before it had a result",
        Outcome::Unspecified | Outcome::Ok | Outcome::Error => "the call failed",
    };
    word.to_owned()
}

/// JSON as one line, digit for digit. What is not JSON becomes a JSON string of itself, so that nothing breaks the framing.
pub(crate) fn raw_json(text: &str) -> Box<RawValue> {
    let json = JsonText::parse(text).unwrap_or_else(|_not_json| JsonText::of(&text));
    json.as_raw().to_owned()
}

/// Where a client reads what a Tool gave that is no text.
pub(super) fn media_url(media: &MediaReference) -> String {
    format!("/v1/media/{}", media.id)
}

/// The media type of what a Tool gave; a client takes an empty one for a broken Part.
pub(super) fn media_type(media: MediaReference) -> String {
    if media.media_type.is_empty() {
        "application/octet-stream".to_owned()
    } else {
        media.media_type
    }
}
