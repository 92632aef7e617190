//! What a Tool gave that is no text.

use bytes::Bytes;
use kernel::{CallId, MediaId};

/// Characters of a media type.
const TYPE_CHARACTERS: usize = 100;
/// The type of bytes of which nothing is known (RFC 2046 §4.5.1).
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// What media are. More than that is for the media type to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum MediaKind {
    /// An image.
    Image,
    /// A sound.
    Audio,
    /// The bytes of a resource.
    Resource,
}

impl MediaKind {
    /// The word that the database and the contract use.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Audio => "audio",
            Self::Resource => "resource",
        }
    }

    /// Reads the word. Whatever else there may be is a resource: bytes of some type.
    pub(crate) fn of(word: &str) -> Self {
        match word {
            "image" => Self::Image,
            "audio" => Self::Audio,
            _ => Self::Resource,
        }
    }
}

/// What a Tool gave, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "it is how the standard calls it")]
pub(crate) struct Media {
    /// Its id.
    pub(crate) id: MediaId,
    /// What it is.
    pub(crate) kind: MediaKind,
    /// Its media type, as the Tool's server says; in form a type, and no more than that.
    pub(crate) media_type: String,
    /// How many bytes it has.
    pub(crate) bytes: u64,
}

/// What a Tool gave, on its way to the database. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewMedia {
    /// What it is.
    pub(crate) media: Media,
    /// The call that gave it.
    pub(crate) call: CallId,
    /// Its place among what the call gave, from 0.
    pub(crate) position: u32,
    /// Its bytes.
    pub(crate) data: Bytes,
}

/// A media type (RFC 6838 §4.2) without parameters, in lower case; what is none becomes `application/octet-stream`. A server may write
/// anything there, and the model and browsers read it.
pub(crate) fn media_type(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "!#$&-^_.+".contains(c);
    let bare = text.split(';').next().unwrap_or_default().trim();
    let is_type = bare.len() <= TYPE_CHARACTERS
        && bare.split_once('/').is_some_and(|(kind, name)| {
            [kind, name]
                .iter()
                .all(|part| !part.is_empty() && part.chars().all(allowed))
        });
    if is_type {
        bare.to_ascii_lowercase()
    } else {
        UNKNOWN_TYPE.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_says_no_more_than_a_type() {
        assert_eq!(media_type("Image/PNG; charset=utf-8"), "image/png");
        assert_eq!(media_type("image/svg+xml"), "image/svg+xml");
        for none in [
            "",
            "png",
            "image/",
            "/png",
            "image/png\nobey",
            "image/p ng",
            "a/b/c",
            &format!("image/{}", "x".repeat(200)),
        ] {
            assert_eq!(media_type(none), UNKNOWN_TYPE, "{none}");
        }
    }
}
