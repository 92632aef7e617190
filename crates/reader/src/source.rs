//! What there is to read.

use bytes::Bytes;
use url::Url;

/// A body as it arrived, and what was said about it.
#[derive(Debug, Clone)]
pub struct Source {
    /// The body without transfer and content codings.
    pub bytes: Bytes,
    /// The value of `Content-Type`; empty if there was none.
    pub content_type: String,
    /// Where the body came from in the end; links are made absolute against it.
    pub url: Url,
    /// The name that `Content-Disposition` gave, if any.
    pub file_name: Option<String>,
    /// Whether `bytes` is the whole body, neither cut nor broken off.
    pub complete: bool,
    /// The size that was announced, if any; said of files that are not read.
    pub announced_bytes: Option<u64>,
}
