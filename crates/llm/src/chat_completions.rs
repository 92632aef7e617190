//! OpenAI Chat Completions, and the many endpoints that call themselves compatible.
//!
//! What goes out is the narrowest form of it: the fields that all of them take. What comes in is read as loosely as they
//! differ; see the tests for whose quirk is whose.

mod decoder;
mod request;
mod think;

pub(crate) use decoder::Decoder;
pub(crate) use request::{AskForUsage, Dialect, OutputLimit, body};

use kernel::JsonText;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What we keep with reasoning to hand it back, and to whom. Meta of another Provider is never sent.
#[derive(Debug, Serialize, Deserialize)]
struct ReasoningMeta {
    provider: String,
    /// The field of the message that it came in.
    field: String,
    /// The value of `reasoning_details` (`OpenRouter`); for other fields the text is the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    details: Option<JsonText>,
}

/// What we keep with a call: Gemini's thought signature travels in `extra_content`.
#[derive(Debug, Serialize, Deserialize)]
struct CallMeta {
    provider: String,
    extra_content: Box<RawValue>,
}
