//! How a body's characters are written.
//!
//! The order is that of browsers (WHATWG HTML section 13.2.3.2): byte order mark, `Content-Type`, what the document says of itself
//! in its first 1,024 bytes, a look at the bytes, windows-1252. A label that the bytes disprove is not believed.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};
use memchr::memmem;
use url::Url;

/// Where a document says how it is written (WHATWG HTML section 4.2.5.4).
const PRESCAN_BYTES: usize = 1_024;
/// What is looked at to guess.
const GUESS_BYTES: usize = 512 * 1_024;

/// What a document can say of its own encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Markup {
    /// `<meta charset>` and `<meta http-equiv>`; XHTML has an XML declaration besides.
    Html,
    /// `<?xml encoding?>`.
    Xml,
    /// Nothing; it is UTF-8 (RFC 8259 section 8.1).
    Json,
    /// Nothing.
    Plain,
}

/// The encoding of a body.
pub(crate) fn detect(
    bytes: &[u8],
    content_type: &str,
    markup: Markup,
    url: &Url,
) -> &'static Encoding {
    if let Some((encoding, _)) = Encoding::for_bom(bytes) {
        return encoding;
    }
    if let Some(encoding) = wide(bytes) {
        return encoding;
    }
    let looked_at = &bytes[..bytes.len().min(GUESS_BYTES)];
    let is_shifted = has_shifts(looked_at);
    let said = [label_of(content_type), said_inside(bytes, markup)];
    for encoding in said.into_iter().flatten() {
        if !is_disproved(encoding, looked_at) {
            return encoding;
        }
    }
    if (is_utf8(looked_at) && !is_shifted) || markup == Markup::Json {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(looked_at, true);
    let domain = url.domain().and_then(|domain| {
        let last = domain.trim_end_matches('.').rsplit('.').next()?;
        let is_plain = last
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        is_plain.then_some(last.as_bytes())
    });
    detector.guess(domain, Utf8Detection::Allow)
}

/// The encoding that a `Content-Type` names.
pub(crate) fn label_of(content_type: &str) -> Option<&'static Encoding> {
    content_type
        .split(';')
        .skip(1)
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))
        .and_then(|(_, label)| for_label(label.trim_matches([' ', '\t', '"', '\''])))
}

/// The encoding of that label. One that browsers read nothing of (Encoding Standard section 14.1, "replacement") is as good as none.
fn for_label(label: &str) -> Option<&'static Encoding> {
    Encoding::for_label_no_replacement(label.as_bytes()).map(|encoding| {
        if encoding == X_USER_DEFINED {
            WINDOWS_1252
        } else {
            encoding
        }
    })
}

/// UTF-16 without a byte order mark: text in it has a zero in every second byte wherever it has ASCII.
pub(crate) fn wide(bytes: &[u8]) -> Option<&'static Encoding> {
    let sample = &bytes[..bytes.len().min(PRESCAN_BYTES)];
    let pairs = sample.len() / 2;
    if pairs < 4 {
        return None;
    }
    let zeros = |at: usize| {
        sample
            .iter()
            .skip(at)
            .step_by(2)
            .filter(|&&b| b == 0)
            .count()
    };
    let (even, odd) = (zeros(0), zeros(1));
    if even == 0 && odd * 10 > pairs * 4 {
        Some(UTF_16LE)
    } else if odd == 0 && even * 10 > pairs * 4 {
        Some(UTF_16BE)
    } else {
        None
    }
}

/// Whether the bytes are ASCII that escapes to Japanese characters, as in ISO-2022-JP (RFC 1468).
fn has_shifts(bytes: &[u8]) -> bool {
    bytes.is_ascii()
        && memmem::find_iter(bytes, b"\x1b$")
            .any(|at| matches!(bytes.get(at + 2), Some(b'@' | b'B')))
}

/// Whether the bytes are UTF-8, but for a character that the end has cut.
fn is_utf8(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        // An accented letter at the end of a text in Latin-1 looks like that, too.
        Err(error) => error.error_len().is_none() && !bytes[..error.valid_up_to()].is_ascii(),
    }
}

/// Whether the bytes cannot be what the label says: not UTF-8 where it says so and they hardly ever are, or UTF-8 where a server
/// says Latin-1 of everything.
fn is_disproved(encoding: &'static Encoding, bytes: &[u8]) -> bool {
    if encoding == UTF_8 {
        let (mut right, mut wrong) = (0_usize, 0_usize);
        for chunk in bytes.utf8_chunks() {
            right += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
            wrong += usize::from(!chunk.invalid().is_empty());
        }
        return wrong > 1 && wrong > right;
    }
    if encoding == WINDOWS_1252 {
        return !bytes.is_ascii() && is_utf8(bytes);
    }
    // The bytes are no wide characters, or they would have been found.
    encoding == UTF_16LE || encoding == UTF_16BE
}

fn said_inside(bytes: &[u8], markup: Markup) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(PRESCAN_BYTES)];
    let encoding = match markup {
        Markup::Html => xml_declaration(head).or_else(|| meta(head)),
        Markup::Xml => xml_declaration(head),
        Markup::Json | Markup::Plain => None,
    }?;
    // It could not have been read if it were wide (WHATWG HTML section 13.2.3.2).
    Some(if encoding == UTF_16LE || encoding == UTF_16BE {
        UTF_8
    } else {
        encoding
    })
}

fn xml_declaration(head: &[u8]) -> Option<&'static Encoding> {
    let rest = head.trim_ascii_start().strip_prefix(b"<?xml")?;
    let end = memmem::find(rest, b"?>")?;
    value_after(&rest[..end], b"encoding")
}

fn meta(head: &[u8]) -> Option<&'static Encoding> {
    let head = head.to_ascii_lowercase();
    let mut rest = head.as_slice();
    while let Some(at) = memchr::memchr(b'<', rest) {
        rest = &rest[at..];
        if rest.starts_with(b"<!--") {
            rest = &rest[memmem::find(rest, b"-->")? + 3..];
            continue;
        }
        if rest.starts_with(b"<meta") {
            let end = memchr::memchr(b'>', rest).unwrap_or(rest.len());
            if let Some(encoding) = value_after(&rest[5..end], b"charset") {
                return Some(encoding);
            }
        }
        rest = &rest[1..];
    }
    None
}

/// The encoding that stands after `name` and an equals sign, with or without quotes.
fn value_after(text: &[u8], name: &[u8]) -> Option<&'static Encoding> {
    memmem::find_iter(text, name).find_map(|at| {
        let rest = text[at + name.len()..].trim_ascii_start();
        let rest = rest.strip_prefix(b"=")?.trim_ascii_start();
        let rest = rest
            .strip_prefix(b"\"")
            .or_else(|| rest.strip_prefix(b"'"))
            .unwrap_or(rest);
        let end = rest
            .iter()
            .position(|&byte| byte.is_ascii_whitespace() || b"\"';>/".contains(&byte))
            .unwrap_or(rest.len());
        for_label(std::str::from_utf8(&rest[..end]).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use encoding_rs::{EUC_JP, SHIFT_JIS, WINDOWS_1251};

    use super::*;

    fn detected(bytes: &[u8], content_type: &str, markup: Markup) -> &'static str {
        let url = Url::parse("https://example.com/").unwrap();
        detect(bytes, content_type, markup, &url).name()
    }

    #[test]
    fn the_order_is_mark_then_header_then_page_then_guess() {
        let page = b"<html><meta charset=shift_jis>\x83\x81";
        let html = |bytes, content_type| detected(bytes, content_type, Markup::Html);
        assert_eq!(
            html(b"\xef\xbb\xbf<p>", "text/html; charset=euc-jp"),
            "UTF-8"
        );
        assert_eq!(html(page, "text/html; charset=\"EUC-JP\""), "EUC-JP");
        assert_eq!(html(page, "text/html"), "Shift_JIS");
        assert_eq!(html(page, "text/html; charset=nonsense"), "Shift_JIS");
        assert_eq!(html(b"caf\xe9", "text/html"), "windows-1252");
        assert_eq!(html("café".as_bytes(), ""), "UTF-8");
    }

    #[test]
    fn what_a_page_says_of_itself_is_found_in_all_spellings() {
        for page in [
            "<META http-equiv=Content-Type content='text/html; charset=windows-1251'>",
            "<?xml version='1.0' encoding='windows-1251'?><html>",
            "<!-- <meta charset=utf-8> --><meta charset = \"windows-1251\" />",
        ] {
            assert_eq!(
                detected(page.as_bytes(), "text/html", Markup::Html),
                "windows-1251"
            );
        }
        let late = format!("{}<meta charset=windows-1251>", " ".repeat(1_024));
        assert_eq!(detected(late.as_bytes(), "", Markup::Html), "UTF-8");
    }

    #[test]
    fn a_label_that_the_bytes_disprove_is_not_believed() {
        let (russian, _, _) = WINDOWS_1251.encode("Съешь же ещё этих мягких французских булок");
        let plain = |bytes, content_type| detected(bytes, content_type, Markup::Plain);
        assert_eq!(plain(&russian, "text/plain; charset=utf-8"), "windows-1251");
        assert_eq!(
            plain("naïve café".as_bytes(), "text/plain; charset=iso-8859-1"),
            "UTF-8"
        );
        assert_eq!(plain(b"plain", "text/plain; charset=utf-16"), "UTF-8");
        // One broken character does not disprove the rest.
        assert_eq!(
            plain("é\u{fffd}ü".as_bytes(), "text/plain; charset=utf-8"),
            "UTF-8"
        );
    }

    #[test]
    fn japanese_without_a_label_is_told_apart() {
        let text = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。";
        for encoding in [SHIFT_JIS, EUC_JP] {
            let (bytes, _, _) = encoding.encode(text);
            assert_eq!(detected(&bytes, "", Markup::Plain), encoding.name());
        }
    }

    #[test]
    fn japanese_that_is_written_in_ascii_is_found() {
        let text = b"<p>\x1b$BEl5~$G2q5D$,3+$+$l!\"B?$/$N?M$,;22C$7$?!#\x1b(B";
        assert_eq!(detected(text, "text/html", Markup::Html), "ISO-2022-JP");
        assert_eq!(detected(b"\x1b[31mred", "", Markup::Plain), "UTF-8");
    }

    #[test]
    fn a_label_of_which_browsers_read_nothing_hides_no_page() {
        for label in ["hz-gb-2312", "iso-2022-kr", "replacement"] {
            let page = format!("<meta charset={label}><p>plain words");
            assert_eq!(
                detected(
                    page.as_bytes(),
                    &format!("text/html; charset={label}"),
                    Markup::Html
                ),
                "UTF-8"
            );
        }
    }

    #[test]
    fn wide_characters_are_found_without_a_mark() {
        let wide: Vec<u8> = "<html><p>Hello"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(detected(&wide, "text/html", Markup::Html), "UTF-16LE");
        let wide: Vec<u8> = "<html><p>Hello"
            .encode_utf16()
            .flat_map(u16::to_be_bytes)
            .collect();
        assert_eq!(
            detected(&wide, "text/html; charset=utf-8", Markup::Html),
            "UTF-16BE"
        );
    }
}
