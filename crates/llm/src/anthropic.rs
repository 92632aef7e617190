//! Anthropic Messages.
//!
//! The API is strict where Chat Completions is loose: thinking comes first and unchanged, calls last, all results in the one
//! message that follows. The order is made here, whatever the order in which things were shown.

mod decoder;
mod request;

pub(crate) use decoder::Decoder;
pub(crate) use request::{Dialect, SendThinking, body};

use kernel::JsonText;
use serde::{Deserialize, Serialize};

/// Version of the API that we speak (header `anthropic-version`).
pub(crate) const VERSION: &str = "2023-06-01";

/// What we keep with thinking: the whole block, as the API wants it back. Its text and signature are one value, so that no
/// store can tear them apart: a signed block with another text is refused for as long as the Conversation lives
/// (claude-code#63269).
#[derive(Debug, Serialize, Deserialize)]
struct ThinkingMeta {
    provider: String,
    block: JsonText,
}
