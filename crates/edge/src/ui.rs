//! From the house's words to the `ai` package's: events and snapshots of a turn become chunks of the UI message stream, and
//! stored Messages become `UIMessage`s.
//!
//! Pure: nothing here awaits, logs or fails. The stream is version 1 as `ai` 7.0.173 and 6.0.326 read it; only chunk types that
//! both know are used, since a client throws on a type it does not know.
//!
//! **Architecture invariant:** a client is never told that a Message is over while one of its Parts is not. `ai` leaves such a
//! Part spinning for good, on `abort`, on `error` and at the end of the stream alike.

mod chunk;
mod message;
#[cfg(test)]
mod tests;
mod translator;
mod words;

pub use chunk::{Chunk, EndMetadata, StartMetadata, UsageView};
pub use message::{
    DynamicToolPart, NoticeData, UiMessage, UiMetadata, UiPart, ui_message, ui_messages,
};
pub use translator::{Gap, Translator};
pub(crate) use words::raw_json;
pub use words::turn_status;
