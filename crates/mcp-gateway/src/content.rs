//! What a Tool gave: a result of `tools/call`, read leniently and within budgets. What is not known is described and loses nothing else.

#[cfg(test)]
mod tests;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use kernel::{JsonText, floor_char_boundary, limits::RPC_MESSAGE_BYTES};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{Config, Failure, names::shown};

/// Pieces of one result that are read; further ones are counted as left out.
const MAX_PIECES: usize = 256;
/// Bytes of an address, a name or a media type that are kept.
const LABEL_BYTES: usize = 2_048;
/// Bytes of a message that are not content: what stands around it.
const AROUND: usize = 256 * 1_024;

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallEnd {
    /// The Tool gave a result.
    Ok(Given),
    /// The Tool says that it failed, and this is what it says.
    ToolError(Given),
    /// The server answered what is no result: what, in a sentence.
    BadAnswer(String),
    /// No result came, and why. [`Failure::reached`] says whether the call may have been begun.
    Failed(Failure),
    /// The server is gone: deleted, disabled or hidden since the turn began.
    ServerRemoved,
}

/// What a Tool gave. Untrusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    /// The pieces, in order.
    pub pieces: Vec<Piece>,
    /// Structured content, digit for digit.
    pub structured: Option<JsonText>,
    /// Bytes that did not fit and were left out.
    pub left_out_bytes: u64,
}

/// One piece of what a Tool gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text.
    Text(String),
    /// Bytes with a type.
    Media(Media),
    /// A resource that is linked and was not read.
    Link {
        /// Its address.
        uri: String,
        /// Its name.
        name: String,
        /// Its media type, or empty.
        media_type: String,
        /// Its description, or empty.
        description: String,
    },
    /// A resource's text.
    Resource {
        /// Its address.
        uri: String,
        /// Its media type, or empty.
        media_type: String,
        /// The text.
        text: String,
    },
    /// Something that this release does not know, or that is broken: what it says it is.
    Unknown(String),
}

/// Bytes with a type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_field_names,
    reason = "a media type is called that (RFC 6838)"
)]
pub struct Media {
    /// What it is.
    pub kind: MediaKind,
    /// Its media type, as the server says.
    pub media_type: String,
    /// The bytes; empty when they did not fit.
    pub data: Bytes,
    /// How many bytes there are.
    pub bytes: u64,
    /// The resource's address; empty for an image or a sound.
    pub uri: String,
}

/// Kinds of media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaKind {
    /// An image.
    Image,
    /// A sound.
    Audio,
    /// A resource's bytes.
    Resource,
}

impl MediaKind {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Audio => "audio",
            Self::Resource => "resource",
        }
    }
}

/// A result as it came: everything may be anything.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawResult<'r> {
    #[serde(borrow, default)]
    content: Option<&'r RawValue>,
    #[serde(borrow, default)]
    structured_content: Option<&'r RawValue>,
    #[serde(borrow, default)]
    is_error: Option<&'r RawValue>,
    #[serde(borrow, default)]
    result_type: Option<&'r RawValue>,
    #[serde(borrow, default)]
    task: Option<&'r RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawPiece<'r> {
    #[serde(borrow)]
    r#type: Option<&'r RawValue>,
    #[serde(borrow)]
    text: Option<&'r RawValue>,
    #[serde(borrow)]
    data: Option<&'r RawValue>,
    #[serde(borrow)]
    blob: Option<&'r RawValue>,
    #[serde(borrow)]
    mime_type: Option<&'r RawValue>,
    #[serde(borrow)]
    uri: Option<&'r RawValue>,
    #[serde(borrow)]
    name: Option<&'r RawValue>,
    #[serde(borrow)]
    description: Option<&'r RawValue>,
    #[serde(borrow)]
    resource: Option<&'r RawValue>,
}

/// Reads a result.
pub(crate) fn read(config: &Config, result: &JsonText) -> CallEnd {
    let raw = serde_json::from_str::<RawResult<'_>>(result.as_str());
    let (true, Ok(raw)) = (result.is_object(), raw) else {
        return CallEnd::BadAnswer("The server's answer is no result of a Tool.".to_owned());
    };
    match text(raw.result_type).as_deref() {
        None | Some("complete") => {}
        Some("input_required") => {
            return CallEnd::BadAnswer(
                "The server asks for input from a person, and nobody is there to give it."
                    .to_owned(),
            );
        }
        Some(other) => {
            return CallEnd::BadAnswer(format!(
                "The server's answer is of a kind that is not known here: \"{}\".",
                shown(other)
            ));
        }
    }
    if raw.task.is_some_and(|task| task.get() != "null") && raw.content.is_none() {
        return CallEnd::BadAnswer(
            "The server answers with a task to be asked for later, which is not supported."
                .to_owned(),
        );
    }
    let given = Budget::new(config).read(&raw);
    if raw
        .is_error
        .is_some_and(|is_error| is_error.get() == "true")
    {
        CallEnd::ToolError(given)
    } else {
        CallEnd::Ok(given)
    }
}

/// What is left to be kept of one result.
#[derive(Debug)]
struct Budget {
    text: usize,
    media: usize,
    one_media: usize,
    left_out: u64,
}

impl Budget {
    fn new(config: &Config) -> Self {
        let text = config.result_bytes;
        Self {
            text,
            media: config
                .result_media_bytes
                .min(RPC_MESSAGE_BYTES.saturating_sub(text + AROUND)),
            one_media: config.media_bytes,
            left_out: 0,
        }
    }

    fn read(mut self, raw: &RawResult<'_>) -> Given {
        let pieces = self.pieces(raw.content);
        let structured = raw
            .structured_content
            .filter(|json| json.get() != "null")
            .and_then(|json| self.structured(json.get()));
        Given {
            pieces,
            structured,
            left_out_bytes: self.left_out,
        }
    }

    fn pieces(&mut self, content: Option<&RawValue>) -> Vec<Piece> {
        let Some(content) = content.filter(|json| json.get() != "null") else {
            return Vec::new();
        };
        let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(content.get()) else {
            return vec![Piece::Unknown("content that is no list".to_owned())];
        };
        for beyond in items.iter().skip(MAX_PIECES) {
            self.left_out += beyond.get().len() as u64;
        }
        items
            .iter()
            .take(MAX_PIECES)
            .map(|item| self.piece(item))
            .collect()
    }

    fn piece(&mut self, item: &RawValue) -> Piece {
        let raw: RawPiece<'_> = members(item).unwrap_or_default();
        let kind = text(raw.r#type).unwrap_or_default();
        match kind.as_str() {
            "text" => match text(raw.text) {
                Some(text) => Piece::Text(self.kept(text)),
                None => Piece::Unknown("text without text".to_owned()),
            },
            "image" => self.media(MediaKind::Image, &raw, raw.data, ""),
            "audio" => self.media(MediaKind::Audio, &raw, raw.data, ""),
            "resource_link" => Piece::Link {
                uri: label(raw.uri),
                name: label(raw.name),
                media_type: label(raw.mime_type),
                description: label(raw.description),
            },
            "resource" => self.resource(raw.resource),
            "" => Piece::Unknown("a piece without a type".to_owned()),
            other => Piece::Unknown(shown(other)),
        }
    }

    fn resource(&mut self, resource: Option<&RawValue>) -> Piece {
        let Some(raw) = resource.and_then(members) else {
            return Piece::Unknown("a resource that is none".to_owned());
        };
        if let Some(text) = text(raw.text) {
            return Piece::Resource {
                uri: label(raw.uri),
                media_type: label(raw.mime_type),
                text: self.kept(text),
            };
        }
        self.media(MediaKind::Resource, &raw, raw.blob, &label(raw.uri))
    }

    fn media(
        &mut self,
        kind: MediaKind,
        raw: &RawPiece<'_>,
        data: Option<&RawValue>,
        uri: &str,
    ) -> Piece {
        let Some(data) = text(data) else {
            return Piece::Unknown(format!("{} without data", kind.as_str()));
        };
        let bytes = data.trim_end_matches('=').len() * 3 / 4;
        let media = |data: Bytes, bytes: u64| {
            Piece::Media(Media {
                kind,
                media_type: label(raw.mime_type),
                data,
                bytes,
                uri: uri.to_owned(),
            })
        };
        if bytes > self.one_media || bytes > self.media {
            self.left_out += bytes as u64;
            return media(Bytes::new(), bytes as u64);
        }
        match BASE64_STANDARD.decode(data.as_bytes()) {
            Ok(decoded) => {
                self.media -= decoded.len().min(self.media);
                let bytes = decoded.len() as u64;
                media(decoded.into(), bytes)
            }
            Err(_not_base64) => {
                Piece::Unknown(format!("{} whose data is not base64", kind.as_str()))
            }
        }
    }

    fn structured(&mut self, json: &str) -> Option<JsonText> {
        if json.len() > self.text {
            self.left_out += json.len() as u64;
            return None;
        }
        self.text -= json.len();
        JsonText::parse(json).ok()
    }

    /// As much of a text as still fits.
    fn kept(&mut self, mut text: String) -> String {
        let end = floor_char_boundary(&text, self.text);
        self.left_out += (text.len() - end) as u64;
        text.truncate(end);
        self.text -= text.len();
        text
    }
}

/// The members of a JSON object; `None` for what is none. (`serde` would read a list in their place.)
fn members(json: &RawValue) -> Option<RawPiece<'_>> {
    let text = json.get();
    text.starts_with('{')
        .then(|| serde_json::from_str(text).ok())?
}

/// A text in JSON, with the odd values in it made harmless; `None` for what is no text.
fn text(json: Option<&RawValue>) -> Option<String> {
    let json = json?.get();
    if !json.starts_with('"') {
        return None;
    }
    let normal = JsonText::parse(json).ok()?;
    serde_json::from_str(normal.as_str()).ok()
}

/// A short text; empty for what is none.
fn label(json: Option<&RawValue>) -> String {
    let mut text = text(json).unwrap_or_default();
    text.truncate(floor_char_boundary(&text, LABEL_BYTES));
    text
}
