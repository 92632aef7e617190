//! What a body is, by what it is called and what it looks like.
//!
//! In the spirit of WHATWG MIME Sniffing, with one difference: nothing here runs a page, so that a type is believed less and the
//! bytes more. Three things are decided by the type alone: HTML that is served as plain text is somebody's source and stays as it
//! is, an image is an image also where its format is text (SVG), and what is served as HTML is HTML unless it is JSON, a feed, or
//! has no tag at all.

use crate::charset;

/// What is looked at to tell text from other things (WHATWG MIME Sniffing section 5.2 takes 1,445 bytes).
const SNIFFED_BYTES: usize = 1_445;

/// How a body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Html,
    Xml,
    Json,
    Text,
    Pdf,
    /// Not text.
    Other,
}

/// How a body is read, and its media type in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sniffed {
    pub(crate) kind: Kind,
    pub(crate) media_type: String,
}

fn sniffed(kind: Kind, media_type: &str) -> Sniffed {
    Sniffed {
        kind,
        media_type: media_type.to_owned(),
    }
}

/// Signatures of files that are not text.
const SIGNATURES: [(&[u8], &str); 24] = [
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"\0\0\x01\0", "image/x-icon"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\0", "application/x-xz"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"\x7fELF", "application/x-elf"),
    (b"\0asm", "application/wasm"),
    (b"OggS\0", "application/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"wOF2", "font/woff2"),
    (b"\x1a\x45\xdf\xa3", "video/webm"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
];

/// What the body is.
pub(crate) fn sniff(bytes: &[u8], content_type: &str) -> Sniffed {
    let said = essence(content_type);
    let looks_binary = looks_binary(bytes);
    // A text may begin with the letters of a signature.
    if let Some(media_type) = signature(bytes)
        && (looks_binary || media_type == "application/pdf" || !is_text_type(&said))
    {
        let kind = if media_type == "application/pdf" {
            Kind::Pdf
        } else {
            Kind::Other
        };
        // A document of an office, a package or a book is an archive, too, and its own name says more.
        let is_named = media_type == "application/zip" && !said.is_empty() && !is_unsaid(&said);
        return sniffed(kind, if is_named { &said } else { media_type });
    }
    match said.as_str() {
        // A page with odd bytes in it is still a page.
        "text/html" if looks_binary && !start_of(bytes).starts_with(b"<") => {
            sniffed(Kind::Other, "application/octet-stream")
        }
        "text/html" => html(bytes),
        "application/xhtml+xml" => sniffed(Kind::Html, &said),
        _ if is_unsaid(&said) => unsaid(bytes),
        _ if is_text_type(&said) && looks_binary => {
            sniffed(Kind::Other, "application/octet-stream")
        }
        _ if is_json_type(&said) => sniffed(Kind::Json, &said),
        _ if is_xml_type(&said) => xml(bytes, &said),
        _ if is_text_type(&said) => sniffed(Kind::Text, &said),
        // A page that says what went wrong with an image is a page.
        _ if !looks_binary && !said.starts_with("image/svg") && !bytes.is_empty() => unsaid(bytes),
        _ => sniffed(Kind::Other, &said),
    }
}

/// A media type without parameters; empty if there is none that could be one.
pub(crate) fn essence(content_type: &str) -> String {
    let essence = content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let is_type = essence.len() <= 127
        && essence.split('/').count() == 2
        && essence.split('/').all(|part| !part.is_empty())
        && essence
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"/+.-_*!#$&^".contains(&byte));
    if is_type { essence } else { String::new() }
}

/// Types that say nothing.
fn is_unsaid(said: &str) -> bool {
    matches!(
        said,
        "" | "application/octet-stream"
            | "binary/octet-stream"
            | "application/unknown"
            | "unknown/unknown"
            | "*/*"
            | "application/x-unknown"
    )
}

fn is_json_type(said: &str) -> bool {
    said.ends_with("+json") || matches!(said, "application/json" | "text/json")
}

fn is_xml_type(said: &str) -> bool {
    (said.ends_with("+xml") || matches!(said, "application/xml" | "text/xml"))
        && !said.starts_with("image/")
}

fn is_text_type(said: &str) -> bool {
    said.starts_with("text/")
        || is_json_type(said)
        || is_xml_type(said)
        || said.ends_with("+yaml")
        || matches!(
            said,
            "application/x-ndjson"
                | "application/jsonl"
                | "application/yaml"
                | "application/x-yaml"
                | "application/toml"
                | "application/javascript"
                | "application/x-javascript"
                | "application/ecmascript"
                | "application/typescript"
                | "application/sql"
                | "application/graphql"
                | "application/x-sh"
                | "application/x-www-form-urlencoded"
                | "application/x-tex"
                | "application/x-subrip"
                | "application/mbox"
                | "message/rfc822"
        )
}

/// The type that the first bytes stand for.
fn signature(bytes: &[u8]) -> Option<&'static str> {
    let bytes = bytes.trim_ascii_start();
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if let Some((_, media_type)) = SIGNATURES
        .iter()
        .find(|(start, _)| bytes.starts_with(start))
    {
        return Some(media_type);
    }
    match (bytes.get(..4), bytes.get(4..12)) {
        (Some(b"RIFF"), Some(rest)) => match &rest[4..] {
            b"WEBP" => Some("image/webp"),
            b"WAVE" => Some("audio/wav"),
            b"AVI " => Some("video/avi"),
            _ => None,
        },
        (_, Some(rest)) if rest.starts_with(b"ftypavif") => Some("image/avif"),
        (_, Some(rest)) if rest.starts_with(b"ftyp") => Some("video/mp4"),
        _ => None,
    }
}

/// Whether the bytes are no text in any encoding but a wide one (WHATWG MIME Sniffing section 3, "binary data byte"). One in fifty
/// may be: manuals strike over, terminals' logs have colours.
fn looks_binary(bytes: &[u8]) -> bool {
    if encoding_rs::Encoding::for_bom(bytes).is_some() || charset::wide(bytes).is_some() {
        return false;
    }
    let sample = &bytes[..bytes.len().min(SNIFFED_BYTES)];
    let control = |byte: &&u8| matches!(byte, 1..=8 | 0x0B | 0x0E..=0x1A | 0x1C..=0x1F | 0x7F);
    // Some archives and drawings begin with a text about themselves.
    let zeros = memchr::memchr_iter(0, bytes).count();
    sample.contains(&0)
        || zeros * 1_000 > bytes.len()
        || sample.iter().filter(control).count() * 50 > sample.len()
}

/// What is served as HTML.
fn html(bytes: &[u8]) -> Sniffed {
    let start = start_of(bytes);
    if is_json(bytes) {
        return sniffed(Kind::Json, "application/json");
    }
    if start.starts_with(b"<?xml") || start.starts_with(b"<rss") || start.starts_with(b"<feed") {
        let root = xml(bytes, "application/xml");
        if root.media_type != "application/xml" || root.kind == Kind::Html {
            return root;
        }
    }
    let has_tag = charset::wide(bytes).is_some()
        || encoding_rs::Encoding::for_bom(bytes).is_some()
        || memchr::memchr_iter(b'<', bytes).any(|at| {
            bytes
                .get(at + 1)
                .is_some_and(|&next| next.is_ascii_alphabetic() || b"!/?".contains(&next))
        });
    if has_tag || bytes.is_empty() {
        sniffed(Kind::Html, "text/html")
    } else {
        sniffed(Kind::Text, "text/plain")
    }
}

/// XML of a kind that its root tells.
fn xml(bytes: &[u8], said: &str) -> Sniffed {
    let head = &bytes[..bytes.len().min(SNIFFED_BYTES)];
    let has = |tag: &[u8]| memchr::memmem::find(head, tag).is_some();
    if has(b"<rss") {
        sniffed(Kind::Xml, "application/rss+xml")
    } else if has(b"<feed") && has(b"http://www.w3.org/2005/Atom") {
        sniffed(Kind::Xml, "application/atom+xml")
    } else if has(b"<html") && has(b"http://www.w3.org/1999/xhtml") {
        sniffed(Kind::Html, "application/xhtml+xml")
    } else {
        sniffed(Kind::Xml, said)
    }
}

/// What is served as nothing in particular.
fn unsaid(bytes: &[u8]) -> Sniffed {
    const TAGS: [&[u8]; 18] = [
        b"<!doctype html",
        b"<html",
        b"<head",
        b"<script",
        b"<iframe",
        b"<h1",
        b"<div",
        b"<font",
        b"<table",
        b"<a",
        b"<style",
        b"<title",
        b"<b",
        b"<body",
        b"<br",
        b"<p",
        b"<meta",
        b"<!--",
    ];
    if looks_binary(bytes) {
        return sniffed(Kind::Other, "application/octet-stream");
    }
    let start = start_of(bytes);
    let is_tag = |tag: &&[u8]| {
        let head = start.get(..tag.len());
        let after = start.get(tag.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(tag))
            && (**tag == *b"<!--"
                || after.is_none_or(|&after| after == b'>' || after.is_ascii_whitespace()))
    };
    if TAGS.iter().any(is_tag) {
        sniffed(Kind::Html, "text/html")
    } else if start.starts_with(b"<?xml") || start.starts_with(b"<rss") {
        xml(bytes, "application/xml")
    } else if is_json(bytes) {
        sniffed(Kind::Json, "application/json")
    } else {
        sniffed(Kind::Text, "text/plain")
    }
}

fn start_of(bytes: &[u8]) -> &[u8] {
    bytes
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(bytes)
        .trim_ascii_start()
}

/// Whether the whole is an object or an array.
fn is_json(bytes: &[u8]) -> bool {
    let start = start_of(bytes);
    matches!(start.first(), Some(b'{' | b'['))
        && serde_json::from_slice::<serde::de::IgnoredAny>(start).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_told_by_their_bytes_where_the_type_lies_or_is_missing() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice();
        let late = [b"words ".repeat(500), b"\0\x01\xff".repeat(500)].concat();
        let cases: [(&[u8], &str, Kind, &str); 25] = [
            (b"<!DOCTYPE html><p>x", "", Kind::Html, "text/html"),
            (
                b"\n <HTML>",
                "application/octet-stream",
                Kind::Html,
                "text/html",
            ),
            (b"<p>x", "text/html; charset=utf-8", Kind::Html, "text/html"),
            (b"<p>source</p>", "text/plain", Kind::Text, "text/plain"),
            (b"{\"a\": 1}", "text/html", Kind::Json, "application/json"),
            (b"{\"a\": 1} <b>x</b>", "text/html", Kind::Html, "text/html"),
            (
                b"just words\nin lines",
                "text/html",
                Kind::Text,
                "text/plain",
            ),
            (
                b"<rss version='2.0'>",
                "text/html",
                Kind::Xml,
                "application/rss+xml",
            ),
            (
                b"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'>",
                "text/xml",
                Kind::Html,
                "application/xhtml+xml",
            ),
            (
                b"<a/>",
                "application/soap+xml",
                Kind::Xml,
                "application/soap+xml",
            ),
            (
                b"{}",
                "application/ld+json",
                Kind::Json,
                "application/ld+json",
            ),
            (b"a,b\n1,2", "text/csv", Kind::Text, "text/csv"),
            (b"words", "", Kind::Text, "text/plain"),
            (b"[1]", "", Kind::Json, "application/json"),
            (b"%PDF-1.7", "text/plain", Kind::Pdf, "application/pdf"),
            (b"not a pdf", "application/pdf", Kind::Text, "text/plain"),
            (png, "text/html", Kind::Other, "image/png"),
            (png, "image/jpeg", Kind::Other, "image/png"),
            (b"<html>404", "image/png", Kind::Html, "text/html"),
            (
                b"PK\x03\x04\0\0",
                "application/vnd.oasis.opendocument.text",
                Kind::Other,
                "application/vnd.oasis.opendocument.text",
            ),
            (
                b"a\0b",
                "text/plain",
                Kind::Other,
                "application/octet-stream",
            ),
            (&late, "", Kind::Other, "application/octet-stream"),
            (
                b"BZh is how the file begins",
                "text/plain",
                Kind::Text,
                "text/plain",
            ),
            (
                b"<svg xmlns='x'>",
                "image/svg+xml",
                Kind::Other,
                "image/svg+xml",
            ),
            (b"x", "nonsense header", Kind::Text, "text/plain"),
        ];
        for (bytes, content_type, kind, media_type) in cases {
            assert_eq!(
                sniff(bytes, content_type),
                sniffed(kind, media_type),
                "{} as {content_type:?}",
                String::from_utf8_lossy(bytes)
            );
        }
    }

    #[test]
    fn wide_text_is_text() {
        let wide: Vec<u8> = "<html><p>Hello</p>"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(sniff(&wide, "text/html").kind, Kind::Html);
        assert_eq!(sniff(&wide, "text/plain").kind, Kind::Text);
    }
}
