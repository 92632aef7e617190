//! What a Tool gave that is no text.
//!
//! **Invariant:** a browser never runs it. It comes as an attachment, under a type that shows or plays and does nothing else, and
//! sandboxed for whoever opens it all the same.

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{
    HeaderValue,
    header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE},
};
use proto::turn::v1::GetMediaRequest;

use super::required;
use crate::{
    auth::Authenticated,
    body::Named,
    problem::{Failure, Problem},
    routes::App,
};

/// Types that only show or play, and the endings of their files. SVG is none of them: it runs scripts.
const HARMLESS: [(&str, &str); 14] = [
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("image/avif", "avif"),
    ("image/bmp", "bmp"),
    ("audio/mpeg", "mp3"),
    ("audio/wav", "wav"),
    ("audio/x-wav", "wav"),
    ("audio/ogg", "ogg"),
    ("audio/webm", "weba"),
    ("audio/mp4", "m4a"),
    ("audio/aac", "aac"),
    ("audio/flac", "flac"),
];
/// Everything else: bytes.
const BYTES: (&str, &str) = ("application/octet-stream", "bin");

/// Reads what a Tool gave that is no text: bytes to be kept, for whoever may read its Conversation. An image or a sound of a common
/// type has that type; everything else is `application/octet-stream`.
#[utoipa::path(get, operation_id = "getMedia", path = "/v1/media/{id}", tag = "Conversations", params(("id" = String, Path, description = "Its id")), responses(
    (status = 200, description = "The bytes, as an attachment", content_type = "application/octet-stream", body = Vec<u8>),
    Failure,
))]
pub(crate) async fn show(
    State(app): State<App>,
    who: Authenticated,
    Named(media_id): Named,
) -> Result<Response, Problem> {
    let mut conversations = app.turns.conversations(&who.caller);
    let answer = conversations
        .get_media(GetMediaRequest { media_id })
        .await?
        .into_inner();
    let media = required(answer.media, "media")?;
    let (content_type, ending) = safe_type(&media.media_type);
    // Ids are UUIDs; whatever else a peer may say does not get into a header.
    let disposition = HeaderValue::from_str(&format!(
        "attachment; filename=\"{}.{ending}\"",
        media
            .id
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
            .collect::<String>()
    ))
    .unwrap_or(HeaderValue::from_static("attachment"));
    let mut response = Body::from(answer.data).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CONTENT_DISPOSITION, disposition);
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; sandbox"),
    );
    Ok(response)
}

/// The type under which bytes are handed out that a Tool's server calls `said`, and the ending of their file.
fn safe_type(said: &str) -> (&'static str, &'static str) {
    let essence = said.split(';').next().unwrap_or_default().trim();
    HARMLESS
        .into_iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(essence))
        .unwrap_or(BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_shows_or_plays_keeps_its_type() {
        assert_eq!(safe_type("image/png"), ("image/png", "png"));
        assert_eq!(safe_type(" Audio/MPEG; q=1"), ("audio/mpeg", "mp3"));
        for dangerous in [
            "image/svg+xml",
            "text/html",
            "application/pdf",
            "application/javascript",
            "multipart/x-mixed-replace",
            "image/png\r\nx: y",
            "",
        ] {
            assert_eq!(safe_type(dangerous), BYTES, "{dangerous}");
        }
    }
}
