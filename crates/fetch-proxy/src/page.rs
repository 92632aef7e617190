//! Bodies to text, and text to pages.

use kernel::{clean_text, limits::TOOL_RESULT_BYTES};
use outbound::End;

/// Bytes of one page: what a model is shown of a result, less room for what is said about the page.
const PAGE_BYTES: usize = TOOL_RESULT_BYTES - 2 * 1_024;
/// How much of a body is looked at to tell text from other things (WHATWG MIME Sniffing section 4 takes 1,445 bytes).
const SNIFFED_BYTES: usize = 1_024;
/// A page ends at the end of a line if one is in its last part: one in this many.
const LAST_PART: usize = 5;

/// Signatures of files that are not text, whatever their server calls them.
const SIGNATURES: [&[u8]; 9] = [
    b"%PDF-",
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"GIF8",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"\x7fELF",
    b"RIFF",
];

/// What a server says a body is, before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text, to be believed once it looks like it.
    Text,
    /// Nothing said: it is text if it looks like it.
    Unsaid,
    /// Not text. It is described, not read.
    Other,
}

/// The kind that a content type stands for.
pub(crate) fn kind_of(content_type: &str) -> Kind {
    let essence = essence(content_type);
    let Some((top, sub)) = essence.split_once('/') else {
        return Kind::Unsaid;
    };
    let is_text = top == "text"
        || sub.ends_with("+json")
        || sub.ends_with("+xml")
        || sub.ends_with("+yaml")
        || (top == "application"
            && matches!(
                sub,
                "json"
                    | "ld+json"
                    | "x-ndjson"
                    | "jsonl"
                    | "xml"
                    | "yaml"
                    | "x-yaml"
                    | "toml"
                    | "javascript"
                    | "x-javascript"
                    | "ecmascript"
                    | "sql"
                    | "graphql"
                    | "x-sh"
                    | "x-www-form-urlencoded"
            ));
    // An SVG is XML, and an image to those who ask for it.
    if is_text && top != "image" {
        Kind::Text
    } else {
        Kind::Other
    }
}

fn essence(content_type: &str) -> String {
    content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

/// The body as text: UTF-8, with what is not replaced, and without the character that a cut has split. None if it is not text
/// after all.
pub(crate) fn read(body: &[u8], end: End) -> Option<String> {
    let sniffed = &body[..body.len().min(SNIFFED_BYTES)];
    let is_binary = sniffed.contains(&0)
        || SIGNATURES
            .iter()
            .any(|signature| sniffed.starts_with(signature));
    if is_binary {
        return None;
    }
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let text = String::from_utf8_lossy(body);
    let text = match end {
        End::Complete => &text,
        End::Cut | End::Broken => text.trim_end_matches(char::REPLACEMENT_CHARACTER),
    };
    Some(clean_text(text).into_owned())
}

/// What is said of a body that is not text.
pub(crate) fn describe(content_type: &str, bytes: Option<u64>) -> String {
    // A server may write anything into the header; no more than a type is told on.
    let mut shown: String = essence(content_type)
        .chars()
        .take_while(|&character| character.is_ascii_alphanumeric() || "/+.-".contains(character))
        .take(100)
        .collect();
    if shown.is_empty() {
        shown.push_str("a file of an unknown type");
    }
    let size = match bytes {
        Some(1) => "1 byte".to_owned(),
        Some(bytes) => format!("{bytes} bytes"),
        None => "of unknown size".to_owned(),
    };
    format!(
        "[This is not text: {shown}, {size}. fetch_url reads text only; a Sandbox can download such a file and work with it.]"
    )
}

/// One page of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) text: String,
    /// Where it starts, in characters.
    pub(crate) start: u64,
    /// Where the next one starts; None at the end.
    pub(crate) next: Option<u64>,
    /// Characters of the whole text.
    pub(crate) total: u64,
}

impl Page {
    /// A text of ours, which needs no cutting.
    pub(crate) fn whole(text: String) -> Self {
        Self {
            total: count(&text),
            text,
            start: 0,
            next: None,
        }
    }
}

/// The page that starts at a character and has at most so many.
pub(crate) fn cut(text: &str, start: u64, characters: usize) -> Page {
    let total = count(text);
    if start >= total && start > 0 {
        return Page {
            text: format!(
                "[There is nothing at character {start}: the text has {total} characters.]"
            ),
            start,
            next: None,
            total,
        };
    }
    let skipped = usize::try_from(start).unwrap_or(usize::MAX);
    let from = text
        .char_indices()
        .nth(skipped)
        .map_or(text.len(), |(index, _)| index);
    let rest = &text[from..];
    let by_characters = rest
        .char_indices()
        .nth(characters)
        .map_or(rest.len(), |(index, _)| index);
    let end = by_characters.min(kernel::floor_char_boundary(rest, PAGE_BYTES));
    let page = if end < rest.len() {
        &rest[..at_line_end(&rest[..end])]
    } else {
        rest
    };
    let next = start + count(page);
    Page {
        text: page.to_owned(),
        start,
        next: (next < total).then_some(next),
        total,
    }
}

/// Where to end a full page: after the last line that ends in its last part, so that lines stay whole where they are short.
fn at_line_end(page: &str) -> usize {
    let earliest = page.len() - page.len() / LAST_PART;
    match page.rfind('\n') {
        Some(index) if index + 1 >= earliest => index + 1,
        Some(_) | None => page.len(),
    }
}

fn count(text: &str) -> u64 {
    u64::try_from(text.chars().count()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_join_to_the_whole_text_and_never_split_a_character() {
        let mut pieces: Vec<String> = (0..500).map(|n| format!("line {n} é 村 𝄞\n")).collect();
        pieces.push("no line ends here ".repeat(200));
        let text = pieces.concat();
        let (mut joined, mut start, mut pages) = (String::new(), 0, 0);
        loop {
            let page = cut(&text, start, 333);
            assert!(page.text.chars().count() <= 333);
            joined.push_str(&page.text);
            pages += 1;
            match page.next {
                Some(next) => start = next,
                None => break,
            }
        }
        assert_eq!(joined, text);
        assert!(pages > 20);
    }

    #[test]
    fn a_page_is_no_longer_than_a_model_is_shown() {
        let text = "村".repeat(20_000);
        let page = cut(&text, 0, 12_000);
        assert!(page.text.len() <= PAGE_BYTES);
        assert_eq!((page.next, page.total), (Some(count(&page.text)), 20_000));
    }

    #[test]
    fn a_start_beyond_the_end_is_said_and_an_empty_text_is_empty() {
        assert_eq!(
            cut("abc", 3, 10).text,
            "[There is nothing at character 3: the text has 3 characters.]"
        );
        assert_eq!(cut("abc", u64::MAX, 10).next, None);
        assert_eq!(cut("", 0, 10).text, "");
    }

    #[test]
    fn what_a_server_calls_text_is_text_only_if_it_looks_like_it() {
        assert_eq!(read(b"hello", End::Complete), Some("hello".to_owned()));
        assert_eq!(
            read(b"\xef\xbb\xbfhello", End::Complete),
            Some("hello".to_owned())
        );
        assert_eq!(
            read(b"caf\xe9", End::Complete),
            Some("caf\u{fffd}".to_owned())
        );
        assert_eq!(read(b"%PDF-1.7 ...", End::Complete), None);
        assert_eq!(read(b"\x89PNG\r\n", End::Complete), None);
        assert_eq!(read(b"a\0b", End::Complete), None);
        assert_eq!(read(b"caf\xc3", End::Cut), Some("caf".to_owned()));
        let late_nul = [vec![b'a'; 2_000], vec![0]].concat();
        assert!(read(&late_nul, End::Complete).is_some_and(|text| text.ends_with('\u{fffd}')));
    }

    #[test]
    fn content_types_are_sorted_by_what_can_be_read() {
        for text in [
            "text/html; charset=utf-8",
            "TEXT/PLAIN",
            "application/json",
            "application/problem+json",
            "application/atom+xml",
            "text/csv",
        ] {
            assert_eq!(kind_of(text), Kind::Text, "{text}");
        }
        for other in [
            "image/png",
            "image/svg+xml",
            "application/pdf",
            "application/octet-stream",
            "application/zip",
            "audio/mpeg",
        ] {
            assert_eq!(kind_of(other), Kind::Other, "{other}");
        }
        assert_eq!(kind_of(""), Kind::Unsaid);
    }
}
